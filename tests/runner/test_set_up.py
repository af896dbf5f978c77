"""environment.yml, pyproject.toml and the lock file say the same, and the code imports what they name."""

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

import psutil
import pytest
from ruamel.yaml import YAML

from lib.config import paths
from lib.runner import set_up

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
# Only their commands or their data are used.
NEVER_IMPORTED = {
    "jupyterlab",
    "ipykernel",
    "nbstripout",
    "ruff",
    "codespell",
    "setuptools",
    "mypy",
    "pytest-xdist",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


DIRECT = {normal(name) for name in PROJECT["dependencies"]}
LOCKED = {normal(line.split("==")[0]): line.split("==")[1] for line in LOCK_LINES}


def imported(folder: str) -> set[str]:
    """The top-level names of all absolute imports, at any depth of nesting, below a folder."""
    found: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(node.module.split(".")[0])
    own = {"lib", "tests", *(path.stem for path in (ROOT / "tests" / "benchmarks").glob("*.py"))}
    return {normal(DISTRIBUTIONS.get(name, name)) for name in found - sys.stdlib_module_names - own}


def test_the_lock_pins_every_direct_dependency_and_nothing_twice():
    assert DIRECT <= LOCKED.keys()
    assert len(LOCKED) == len(LOCK_LINES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in LOCK_LINES), (
        "no tags, no hashes"
    )
    assert LOCKED["torch"] == "2.13.0"
    assert not [name for name in LOCKED if name.startswith(("nvidia-", "triton", "pip"))]


def test_every_locked_package_is_needed_by_a_direct_dependency():
    needed, waiting = set(), list(DIRECT)
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # needed on another system only
        waiting += [normal(re.split(r"[^A-Za-z0-9._-]", text)[0]) for text in requirements]
    assert LOCKED.keys() <= needed


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
        if any(
            tuple(map(int, floor.split("."))) > (*oldest, 0)
            for floor in re.findall(r">=\s*([\d.]*\d)", asked)
        ):
            newer[name] = asked
    assert not newer


def test_environment_yml_holds_python_pip_the_lock_and_the_project():
    environment = YAML(typ="safe", pure=True).load(ROOT / "environment.yml")
    assert environment["dependencies"] == [
        "python=3.11",
        "pip",
        {"pip": ["-r requirements.lock", "-e ."]},
    ]


def test_every_import_is_a_direct_dependency():
    """Or of the extra that the person who asks for a cluster has installed."""
    cluster = {normal(name.split("==")[0]) for name in PROJECT["optional-dependencies"]["dask"]}
    assert imported("lib") - DIRECT == {"distributed"} <= cluster
    assert imported("tests") <= DIRECT | cluster


def test_every_direct_dependency_has_a_reason_and_is_used():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in PROJECT["dependencies"]:
        assert re.search(rf'^    "{re.escape(name)}",  # \w.{{5,}}$', text, re.MULTILINE), (
            f"{name}: no reason"
        )
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lib").rglob("*.py"))
    named = {name for name in DIRECT if name in normal(sources)}
    assert DIRECT - imported("lib") - imported("tests") - NEVER_IMPORTED - named == set()


def test_what_must_import_quickly_imports_nothing_heavy():
    heavy = {
        "torch",
        "transformers",
        "gensim",
        "pandas",
        "matplotlib",
        "scipy",
        "sklearn",
        "seaborn",
    }
    for name in (
        "config/profiles",
        "config/paths",
        "config/schema",
        "config/manifest",
        "runner/notebook",
        "store/progress",
    ):
        tree = ast.parse((ROOT / "lib" / f"{name}.py").read_text(encoding="utf-8"))
        at_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {
            alias.name.split(".")[0]
            for node in at_top
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        names |= {node.module.split(".")[0] for node in at_top if isinstance(node, ast.ImportFrom)}
        assert not names & heavy, f"lib.{name}"


@pytest.fixture
def clone(tmp_path):
    """A clone with nothing installed, whose run_all is a stub that tells which Python runs it."""
    for name in (
        "requirements.lock",
        "run_all.sh",
        "lib/__init__.py",
        "lib/runner/set_up.py",
        "lib/runner/set_up.sh",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "lib/runner/__init__.py").touch()
    (tmp_path / "lib/runner/run_all.py").write_text(
        "import lib, sys\nprint('runs', sys.executable, lib.__file__)"
    )
    return tmp_path


def outside(root: Path, **more: str) -> dict[str, str]:
    """A caller's environment with no usable environment active."""
    return {
        **os.environ,
        "VIRTUAL_ENV": str(root / "nowhere"),
        "PIP_CONFIG_FILE": os.devnull,
        "NO_PROXY": "*",
        **more,
    }


def call(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = outside(root, **more)
    return subprocess.run(
        [root / "run_all.sh", *words], env=environment, capture_output=True, text=True, timeout=120
    )


def test_an_environment_that_holds_the_pins_is_used_and_one_that_does_not_is_named(
    clone, monkeypatch
):
    lock = clone / "requirements.lock"
    lock.write_text(f"tqdm=={LOCKED['tqdm']}  # why\n")
    monkeypatch.setattr(set_up, "__file__", str(clone / "lib/runner/set_up.py"))
    python = Path(sys.executable)
    assert set_up.unfit(python) == ""
    lock.write_text("tqdm==1.0\n")
    assert set_up.unfit(python) == f"it has tqdm {LOCKED['tqdm']}, requirements.lock says 1.0"
    lock.write_text("no-such-package==1.0\n")
    assert set_up.unfit(python) == "No package metadata was found for no-such-package"
    assert set_up.unfit(clone / "bin/python") == "it has no Python"


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
    assert (
        refused.returncode == 2
        and refused.stderr.count("\n") == 1
        and not (clone / ".venv").exists()
    )
    done = call(clone, "--setup")
    assert done.returncode == 0 and done.stdout == f"ready: {clone}/.venv/bin/python\n", done.stderr
    assert call(clone).stdout == f"runs {clone}/.venv/bin/python {clone}/lib/__init__.py\n"
    inside = [clone / ".venv/bin/python", "-I", "-c", "import lib; print(lib.__file__)"]
    assert subprocess.check_output(inside, text=True) == f"{clone}/lib/__init__.py\n"
    (clone / ".venv" / set_up.MARK.name).write_text("")  # as a set-up leaves it that was killed
    assert "would set up first" in call(clone, "--dry-run").stdout


def test_lab_opens_jupyterlab_where_its_kernels_find_lib(clone):
    tell = "import os, sys; print(sys.argv[1:], os.environ['PYTHONPATH'].split(os.pathsep)[0])"
    (clone / "jupyterlab.py").write_text(tell)
    opened = call(clone, "--lab", VIRTUAL_ENV=sys.prefix)
    root = f"--ServerApp.root_dir={clone}"  # that of a notebook alone would be its folder, which no link leaves
    assert opened.stdout == f"{[root]} {clone}\n", opened.stderr
    words = ["my notebook.ipynb", "--no-browser"]
    assert (
        call(clone, "--lab", *words, VIRTUAL_ENV=sys.prefix).stdout == f"{[root, *words]} {clone}\n"
    )


def test_somebodys_own_venv_is_never_removed(clone):
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    (clone / ".venv").mkdir()
    (clone / ".venv/precious").write_text("mine")
    done = call(clone)
    assert done.returncode == 1 and "is not ours and cannot be used; remove it" in done.stderr
    assert (clone / ".venv/precious").read_text() == "mine"


@pytest.mark.smoke
def test_a_failed_installation_says_why_and_is_tried_again(clone):
    (clone / "requirements.lock").write_text("tqdm==0.0.0.not-a-version\n")
    done = call(clone, "--setup")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "ERROR: " in done.stderr and done.stderr.splitlines()[-1].startswith(
        "set-up failed: pip says above why"
    )
    (clone / "requirements.lock").write_text("")
    assert call(clone, "--setup").stdout == f"ready: {clone}/.venv/bin/python\n"


@pytest.mark.smoke
@pytest.mark.parametrize("killed", ["set-up", "its script"])
def test_a_set_up_killed_during_pip_leaves_no_process_and_a_clean_next_try(clone, killed):
    """pip waits for an index that never answers; a second set-up waits for the first, and then for pip's end."""
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    with socket.create_server(("127.0.0.1", 0)) as index:
        silent = {"PIP_INDEX_URL": f"http://127.0.0.1:{index.getsockname()[1]}/"}
        call_it = [clone / "run_all.sh", "--setup"]
        if killed == "its script":
            call_it = ["bash", "-c", f"x=$(exec {clone}/run_all.sh --setup); echo $x"]
        first = subprocess.Popen(call_it, env=outside(clone, **silent), stderr=subprocess.DEVNULL)
        index.settimeout(60)
        connection, _ = index.accept()  # pip is at work
        below = psutil.Process(first.pid).children(recursive=True)
        assert any("pip" in process.cmdline() for process in below)
        (clone / "requirements.lock").write_text("")
        second = subprocess.Popen(
            [clone / "run_all.sh", "--setup"],
            env=outside(clone),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while "waiting" not in (line := second.stderr.readline()):
            assert line
        assert second.poll() is None
        first.kill()
        first.wait()
        gone, alive = psutil.wait_procs(below, timeout=5)
        assert not alive
        out, _ = second.communicate(timeout=60)
        assert out == f"ready: {clone}/.venv/bin/python\n"
        connection.close()
