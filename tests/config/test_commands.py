"""What `pip install` copies suffices for the commands."""

import os
import subprocess
import sys

from lib.config import paths

PRINT = """
from lib.config import environment, paths, profiles
from lib.published import load
print(profiles.load("mini").name, len(load("tab4_3")) > 0, environment.commit()["commit"])
print(paths.artifacts())
"""
CALL = "import sys; from lib import {0}; {0}.main({1})"
PRINTED = {
    PRINT: ("mini True None\n", "/cache/thesis-companion/artifacts"),
    CALL.format("embed", ["nowhere"]): ("python -m lib.embed: ", "No such file or directory"),
    CALL.format("train", ["Cosine"]): ("", "python -m lib.train: "),
}


def test_installed_packages_suffice_and_name_no_commit_of_others(tmp_path):
    """Called from somewhere else, inside somebody's repository."""
    for name in ("lib", "params", "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(paths.ROOT / name)
    build = [sys.executable, "-c", "from setuptools import setup; setup()", "-q", "build"]
    subprocess.run([*build, "--build-base", "built"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    kept |= {"PYTHONPATH": str(tmp_path / "built/lib"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for code, (begin, rest) in PRINTED.items():
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True)
        told = done.stdout + done.stderr
        assert told.startswith(begin) and rest in told and "Traceback" not in told, told
