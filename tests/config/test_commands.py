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
CALL = """
import contextlib
from lib import embed, train
for command, words in ((embed, ["nowhere"]), (train, ["Cosine", "--out", "nowhere"])):
    with contextlib.suppress(SystemExit):
        command.main(words)
"""
PRINTED = {
    PRINT: ("mini True None\n", "/cache/thesis-companion/artifacts\n"),
    CALL: ("python -m lib.embed: ", "No such file or directory", "\npython -m lib.train: "),
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
    for code, parts in PRINTED.items():
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True)
        told = done.stdout + done.stderr
        assert told.startswith(parts[0]) and all(part in told for part in parts), told
        assert "Traceback" not in told, told
