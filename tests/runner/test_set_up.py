"""Set-up: an environment that fits is used, .venv is made whole, nobody's own is touched."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from lib.config import paths

ROOT = paths.ROOT
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = (ROOT / "requirements.lock").read_text().splitlines()
PINS = [line.split("==") for line in LINES if line and line[0] != "#"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


DIRECT = {normal(each.name): each for each in map(Requirement, PROJECT["dependencies"])}
LOCKED = {normal(name): version for name, version in PINS}


def test_lock_environment_and_citation_agree_with_the_project():
    assert all(each.specifier.contains(LOCKED[name]) for name, each in DIRECT.items())
    assert len(LOCKED) == len(PINS)
    assert not [name for name in LOCKED if name.startswith(("nvidia-", "triton", "pip"))]
    installed = {name: importlib.metadata.version(name).split("+")[0] for name in DIRECT}
    assert installed == {name: LOCKED[name] for name in DIRECT}
    # Debian 12 has Python 3.11.2, on which set-up failed once at a package that asks for 3.11.5.
    asked = [importlib.metadata.metadata(name).get("Requires-Python") or "" for name in DIRECT]
    assert not [text for text in asked if re.search(r">=\s*3\.(11\.[1-9]|1[2-9])", text)]
    read, pip = YAML(typ="safe", pure=True).load, {"pip": ["-r requirements.lock", "-e ."]}
    assert read(ROOT / "environment.yml")["dependencies"] == ["python=3.11", "pip", pip]
    assert read(ROOT / "CITATION.cff")["version"] == PROJECT["version"]


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


def call(root, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Call run_all.sh where no usable environment is active."""
    none = {"VIRTUAL_ENV": str(root / "nowhere"), "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*"}
    options = {"env": os.environ | {"PYTHONPATH": ""} | none | more, "text": True}
    return subprocess.run([root / "run_all.sh", *words], capture_output=True, **options)


def test_an_active_environment_is_used_if_it_holds_the_pins_and_named_if_not(clone):
    lock = clone / "requirements.lock"
    lock.write_text(f"tqdm=={LOCKED['tqdm']}  # why\n")
    ready = call(clone, VIRTUAL_ENV=sys.prefix)
    assert ready.stdout == f"runs {sys.prefix}/bin/python {clone}/lib/__init__.py\n", ready.stderr
    before = sorted(clone.rglob("*"))
    lock.write_text("tqdm==1.0")
    done = call(clone, "mini", "fig4_2", "--dry-run", VIRTUAL_ENV=sys.prefix)
    assert "would set up first" in done.stdout and done.returncode == 0
    assert "not using the active environment" in done.stderr and "tqdm 1.0" in done.stderr
    assert "--setup" in call(clone, "fig4_2", "--help").stdout
    assert sorted(clone.rglob("*")) == before, "neither dry run nor help makes anything"


def test_setup_alone_sets_up_and_what_follows_runs_in_it(clone):
    (clone / "requirements.lock").write_text("")
    done = call(clone, "--setup")
    python = clone / ".venv/bin/python"
    assert done.returncode == 0 and done.stdout == f"ready: {python}\n", done.stderr
    assert call(clone).stdout == f"runs {python} {clone}/lib/__init__.py\n"
    (clone / ".venv/.made_by_run_all").write_text("")  # as a set-up leaves it that was killed
    assert "would set up first" in call(clone, "--dry-run").stdout
    (clone / ".venv/.made_by_run_all").unlink()  # then it is somebody's own, and never removed
    (clone / "requirements.lock").write_text("no-such-package==1.0\n")
    done = call(clone)
    assert done.returncode == 1 and "run_all.sh did not make it; remove it" in done.stderr
    assert python.exists()
