"""environment.yml, pyproject.toml and the lock file say the same, and the code imports what they name."""

from __future__ import annotations

import ast
import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from lib.config import paths
from lib.runner import set_up

ROOT = paths.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK_LINES = [
    line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
]
# Import names that differ from the names of their distributions.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "ruamel": "ruamel-yaml", "sentence_transformers": "sentence-transformers"}
# Only their commands or their data are used.
NEVER_IMPORTED = {"jupyterlab", "ipykernel", "nbstripout", "ruff", "codespell", "setuptools"}


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
    return {normal(DISTRIBUTIONS.get(name, name)) for name in found - sys.stdlib_module_names - {"lib", "tests"}}


def test_the_lock_pins_every_direct_dependency_and_nothing_twice():
    assert DIRECT <= LOCKED.keys()
    assert len(LOCKED) == len(LOCK_LINES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in LOCK_LINES), "no tags, no hashes"
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


def test_environment_yml_holds_python_pip_the_lock_and_the_project():
    environment = YAML(typ="safe", pure=True).load(ROOT / "environment.yml")
    assert environment["dependencies"] == ["python=3.11", "pip", {"pip": ["-r requirements.lock", "-e ."]}]


def test_every_import_is_a_direct_dependency():
    assert imported("lib") <= DIRECT
    assert imported("tests") <= DIRECT


def test_every_direct_dependency_has_a_reason_and_is_used():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in PROJECT["dependencies"]:
        assert re.search(rf'^    "{re.escape(name)}",  # \w.{{5,}}$', text, re.MULTILINE), f"{name}: no reason"
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lib").rglob("*.py"))
    named = {name for name in DIRECT if name in normal(sources)}
    assert DIRECT - imported("lib") - imported("tests") - NEVER_IMPORTED - named == set()


def test_what_must_import_quickly_imports_nothing_heavy():
    heavy = {"torch", "transformers", "gensim", "pandas", "matplotlib", "scipy", "sklearn", "seaborn"}
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
        names = {alias.name.split(".")[0] for node in at_top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module.split(".")[0] for node in at_top if isinstance(node, ast.ImportFrom)}
        assert not names & heavy, f"lib.{name}"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """The set-up routine looking at an empty clone, with no environment active."""
    for name in ("pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    venv = tmp_path / ".venv"
    places = {"ROOT": tmp_path, "LOCK": tmp_path / "requirements.lock", "VENV": venv}
    for name, value in {**places, "COMPLETE": venv / ".complete", "STARTED": venv / ".started"}.items():
        monkeypatch.setattr(set_up, name, value)
    return tmp_path


def fake_venv(root: Path, runs: str = sys.executable) -> Path:
    """A `.venv` that looks made: its Python is that of the tests, which holds the pinned packages, or another one."""
    (root / ".venv" / "bin").mkdir(parents=True)
    python = root / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {runs} "$@"\n')
    python.chmod(0o755)
    return python


def test_this_environment_is_fit_unless_a_pin_differs(clone):
    def pins_as(name: str, version: str) -> None:
        lock = clone / "requirements.lock"
        lock.write_text(re.sub(rf"^{name}==.*$", f"{name}=={version}", lock.read_text(), flags=re.MULTILINE))

    why = set_up.unfit(Path(sys.executable))
    assert why is None or "another clone" in why
    pins_as("pydantic", "1.0")
    assert "it has pydantic 2" in set_up.unfit(Path(sys.executable))
    assert "does not run" in set_up.unfit(clone / "bin" / "python")


def test_an_environment_whose_lib_is_another_clones_is_refused(clone, monkeypatch):
    other = '{"url": "file:///somewhere/else", "dir_info": {"editable": true}}'
    probe = set_up.PROBE.replace('print(json.dumps({"v', f'origin = {other!r}\nprint(json.dumps({{"v')
    monkeypatch.setattr(set_up, "PROBE", probe)
    assert set_up.unfit(Path(sys.executable)) == "its lib belongs to another clone, /somewhere/else"


def test_a_killed_set_up_is_not_taken_for_a_whole_one(clone, monkeypatch):
    fake_venv(clone)
    monkeypatch.setattr(set_up, "unfit", lambda python: None)
    assert set_up.ready(), "somebody's own .venv that holds everything serves"
    set_up.STARTED.touch()
    assert not set_up.ready(), "begun here and not ended"
    set_up.COMPLETE.write_text(set_up.recipe())
    assert set_up.ready()
    with open(clone / "requirements.lock", "a", encoding="utf-8") as lock:
        lock.write("# another day\n")
    assert not set_up.ready(), "the lock file has changed since"


def test_a_set_up_killed_while_it_clears_the_old_one_is_done_again(clone, monkeypatch):
    fake_venv(clone)
    set_up.STARTED.touch()
    set_up.COMPLETE.write_text("another recipe")
    monkeypatch.setattr(set_up.shutil, "rmtree", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        set_up.make()
    assert set_up.STARTED.exists() and not set_up.COMPLETE.exists()
    assert not set_up.ready()


def test_somebodys_own_venv_is_never_removed(clone):
    precious = clone / ".venv" / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    with pytest.raises(SystemExit, match="was not made by run_all.sh and cannot be used"):
        set_up.make()
    assert precious.read_text() == "mine"


def test_a_failed_installation_is_one_line_with_the_log(clone, monkeypatch):
    monkeypatch.delenv("THESIS_ARTIFACTS", raising=False)
    (clone / "requirements.lock").write_text("PyYAML==0.0.0.not-a-version\n")
    with pytest.raises(SystemExit) as raised:
        set_up.make()
    assert "installing the pinned packages failed" in str(raised.value) and "setup.log" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not set_up.ready()


def test_two_set_ups_wait_for_each_other(clone, monkeypatch):
    """The second process finds the environment made by the first, and does not make it again."""
    (clone / "lib" / "runner").mkdir(parents=True)
    script = clone / "lib" / "runner" / "set_up.py"
    script.write_text((ROOT / "lib" / "runner" / "set_up.py").read_text(encoding="utf-8"))
    (clone / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = []\n')
    (clone / "requirements.lock").write_text("")
    outside = {**os.environ, "PATH": "/nonexistent"}
    outside = {name: value for name, value in outside.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    with open(clone / ".venv.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "-I", str(script)]
        second = subprocess.Popen(command, env=outside, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert second.stderr.readline() == "another set-up is at work, waiting\n"
        assert second.poll() is None
        fake_venv(clone, sys._base_executable)  # where no other clone's lib is installed
        (clone / ".venv" / ".started").touch()
        (clone / ".venv" / ".complete").write_text(set_up.recipe())
    out, _ = second.communicate(timeout=30)
    assert out.strip() == str(clone / ".venv" / "bin" / "python")
