"""Set-up: an environment that fits is used, .venv is made whole or not at all, nobody's own is
touched."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from lib.config import paths

ROOT = paths.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK_LINES = [
    line
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if line and line[0] != "#"
]
# Import names that differ from the names of their distributions.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "ruamel": "ruamel-yaml",
    "pydantic_core": "pydantic",
    "sentence_transformers": "sentence-transformers",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


DIRECT = {normal(name) for name in PROJECT["dependencies"]}
LOCKED = {normal(line.split("==")[0]): line.split("==")[1] for line in LOCK_LINES}


def list_imports(folder: str) -> set[str]:
    """The distributions of all absolute imports, at any depth of nesting, below a folder."""
    names: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.split(".")[0])
    names -= sys.stdlib_module_names | {"lib", "tests"}
    return {normal(DISTRIBUTIONS.get(name, name)) for name in names}


def test_the_lock_pins_every_direct_dependency_and_nothing_twice():
    assert LOCKED.keys() >= DIRECT
    assert len(LOCKED) == len(LOCK_LINES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in LOCK_LINES)
    assert LOCKED["torch"] == "2.13.0"
    assert not [name for name in LOCKED if name.startswith(("nvidia-", "triton", "pip"))]


def test_the_installed_versions_are_the_locked_ones():
    installed = {name: importlib.metadata.version(name).split("+")[0] for name in DIRECT}
    assert installed == {name: LOCKED[name] for name in DIRECT}


def test_every_locked_package_admits_the_oldest_python_that_the_project_names():
    """Debian 12 has 3.11.2, on which set-up failed once at a package that asks for 3.11.5."""
    oldest = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    newer = {}
    for name in LOCKED:
        try:
            asked = importlib.metadata.metadata(name).get("Requires-Python") or ""
        except importlib.metadata.PackageNotFoundError:
            continue  # needed on another system only
        floors = re.findall(r">=\s*([\d.]*\d)", asked)
        if any(tuple(map(int, floor.split("."))) > (*oldest, 0) for floor in floors):
            newer[name] = asked
    assert not newer


def test_environment_yml_holds_python_pip_the_lock_and_the_project():
    environment = YAML(typ="safe", pure=True).load(ROOT / "environment.yml")
    pip = {"pip": ["-r requirements.lock", "-e ."]}
    assert environment["dependencies"] == ["python=3.11", "pip", pip]


def test_the_citation_and_the_package_have_one_version():
    assert YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")["version"] == PROJECT["version"]


def test_every_import_of_lib_is_a_direct_dependency_or_of_the_extra_for_clusters():
    assert list_imports("lib") - DIRECT <= {"distributed"}


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing installed, whose run_all is a stub that tells which Python runs it."""
    for name in ("requirements.lock", "run_all.sh", "lib/__init__.py", "lib/runner/set_up.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "lib/runner/__init__.py").touch()
    stub = "import lib, sys\nprint('runs', sys.executable, lib.__file__)"
    (tmp_path / "lib/runner/run_all.py").write_text(stub)
    return tmp_path


def clean_environment(root: Path, **more: str) -> dict[str, str]:
    """A caller's environment in which no usable environment is active."""
    none = {"VIRTUAL_ENV": str(root / "nowhere"), "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*"}
    return {**os.environ, "PYTHONPATH": "", **none, **more}


def call(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(root, **more)
    command = [root / "run_all.sh", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_an_active_environment_is_used_if_it_holds_the_pins_and_named_if_not(clone):
    lock = clone / "requirements.lock"
    lock.write_text(f"tqdm=={LOCKED['tqdm']}  # why\n")
    ready = call(clone, VIRTUAL_ENV=sys.prefix)
    assert ready.stdout == f"runs {sys.prefix}/bin/python {clone}/lib/__init__.py\n", ready.stderr
    for line, problem in (
        ("tqdm==1.0", "expected tqdm 1.0 .* found [\\d.]+"),
        ("nope==1.0", "expected nope 1.0 .* found none"),
    ):
        lock.write_text(line)
        done = call(clone, "--dry-run", VIRTUAL_ENV=sys.prefix)
        assert "would set up first" in done.stdout
        assert re.search(f"not using the active environment .*: {problem}", done.stderr)
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("words", [["--dry-run"], ["mini", "fig4_2", "--dry-run"], ["--help"]])
def test_dry_run_and_help_make_nothing(clone, words):
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    before = sorted(clone.rglob("*"))
    done = call(clone, *words)
    assert done.returncode == 0 and "--setup" in done.stdout and "runs" not in done.stdout
    assert sorted(clone.rglob("*")) == before


def test_setup_alone_sets_up_and_what_follows_runs_in_it(clone):
    (clone / "requirements.lock").write_text("")
    refused = call(clone, "--setup", "mini")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert not (clone / ".venv").exists()
    done = call(clone, "--setup")
    python = clone / ".venv/bin/python"
    assert done.returncode == 0 and done.stdout == f"ready: {python}\n", done.stderr
    assert call(clone).stdout == f"runs {python} {clone}/lib/__init__.py\n"
    inside = [python, "-I", "-c", "import lib; print(lib.__file__)"]
    assert subprocess.check_output(inside, text=True) == f"{clone}/lib/__init__.py\n"
    (clone / ".venv/.made_by_run_all").write_text("")  # as a set-up leaves it that was killed
    assert "would set up first" in call(clone, "--dry-run").stdout


def test_lab_opens_jupyterlab_where_its_kernels_find_lib(clone):
    tell = "import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH'].split(os.pathsep)[0])"
    (clone / "jupyterlab.py").write_text(tell)
    words = ["my notebook.ipynb", "--no-browser"]
    opened = call(clone, "--lab", *words, VIRTUAL_ENV=sys.prefix)
    root = f"--ServerApp.root_dir={clone}"
    assert opened.stdout == f"{[root, *words]} {clone}\n", opened.stderr


def test_somebodys_own_venv_is_never_removed(clone):
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    (clone / ".venv").mkdir()
    (clone / ".venv/precious").write_text("mine")
    done = call(clone)
    assert done.returncode == 1 and "run_all.sh did not make it; remove it" in done.stderr
    assert (clone / ".venv/precious").read_text() == "mine"


@pytest.mark.smoke
def test_a_failed_installation_says_why_and_is_tried_again(clone):
    (clone / "requirements.lock").write_text("tqdm==0.0.0.not-a-version\n")
    done = call(clone, "--setup")
    assert done.returncode == 1 and "ERROR: " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("set-up failed: pip's messages above say why")
    (clone / "requirements.lock").write_text("")
    assert call(clone, "--setup").stdout == f"ready: {clone}/.venv/bin/python\n"


@pytest.mark.smoke
def test_a_set_up_killed_during_pip_is_done_again_by_one_that_waits(clone):
    """pip waits for an index that never answers; the second set-up waits for the first one's
    pip."""
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    with socket.create_server(("127.0.0.1", 0)) as index:
        url = f"http://127.0.0.1:{index.getsockname()[1]}/"
        environment = clean_environment(clone, PIP_INDEX_URL=url, PIP_RETRIES="0")
        command = [clone / "run_all.sh", "--setup"]
        first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        connection, _ = index.accept()  # pip is at work
        (clone / "requirements.lock").write_text("")
        first.kill()
        first.wait()
        second = subprocess.Popen(
            command, env=clean_environment(clone), stdout=subprocess.PIPE, text=True
        )
        connection.close()  # and pip ends
    assert second.communicate()[0] == f"ready: {clone}/.venv/bin/python\n"
