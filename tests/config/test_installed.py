"""What `pip install` copies suffices for both commands, and nothing is kept among the packages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lib.config import paths

PRINTED = """
from lib.config import paths, profiles
from lib.published import load
from lib.store import provenance

print(profiles.load("mini").name, len(load("tab4_3")), provenance.commit()["commit"])
print(paths.artifacts())
"""
CALL = "import sys; from lib import {0}; sys.argv[0] = '/bin/thesis-companion-{0}'; {0}.main({1})"


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """Run code with the installed packages, somewhere else, inside somebody's repository."""
    place = tmp_path_factory.mktemp("site")
    for name in ("lib", "params", "pyproject.toml", "README.md", "LICENSE"):
        (place / name).symlink_to(paths.ROOT / name)
    build = [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "build"]
    subprocess.run([*build, "--build-base", "built"], cwd=place, check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", place], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    kept |= {"PYTHONPATH": str(place / "built/lib"), "XDG_CACHE_HOME": str(place / "cache")}

    def run(code):
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, cwd=place, env=kept, capture_output=True, text=True)
        return done.stdout + done.stderr

    return run


def test_parameters_are_there_and_no_commit_of_others_is_named(call):
    first, artifacts = call(PRINTED).splitlines()
    assert first.startswith("mini ") and first.endswith(" None")
    assert artifacts.endswith("/cache/thesis-companion/artifacts")


@pytest.mark.parametrize(
    ("module", "given", "problem"),
    [
        ("embed", ["nowhere"], "nowhere: no such file or folder"),
        ("train", ["Cosine", "--out", "x"], "unknown model 'Cosine'; nearest: cosine"),
    ],
)
def test_a_command_calls_itself_by_its_name(call, module, given, problem):
    (line,) = call(CALL.format(module, given)).splitlines()
    assert line.startswith(f"thesis-companion-{module}: ") and line.endswith(problem)
