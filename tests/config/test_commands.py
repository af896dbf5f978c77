"""Commands print on any terminal, and what `pip install` copies suffices for them."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys

import pytest

from lib.config import paths

COMMANDS = {  # and what it prints that ASCII lacks
    "lib.data.check {folder}": r"\u0416",
    "lib.train --help": r"\u03b3",
    "lib.runner.run_all mini Жук": r"\u0416",
}


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_encoding_lacks_is_no_error(command, tmp_path, monkeypatch):
    folder = tmp_path / "ü"
    folder.mkdir()
    row = json.dumps({"id": "Ж", "text": ""}, ensure_ascii=False)
    (folder / "documents.jsonl").write_text(f"{row}\n{row}", encoding="utf-8")
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    words = [word.format(folder=folder) for word in command.split()]
    printed = io.BytesIO()
    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(printed, encoding="ascii", write_through=True)
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(words[0], run_name="__main__")
    told = printed.getvalue().decode("ascii")
    assert ended.value.code == (0 if "--help" in command else 2)
    assert "Traceback" not in told and COMMANDS[command] in told


PRINT = """
from lib.config import paths, profiles, versions
from lib.published import load
print(profiles.load("mini").name, len(load("tab4_3")) > 0, versions.commit()["commit"])
print(paths.artifacts())
"""
CALL = "import sys; from lib import {0}; sys.argv[0] = '/bin/thesis-companion-{0}'; {0}.main({1})"
PRINTED = {
    PRINT: ("mini True None\n", "/cache/thesis-companion/artifacts"),
    CALL.format("embed", ["nowhere"]): ("thesis-companion-embed: ", "no such file or folder"),
    CALL.format("train", ["Cosine"]): ("", "thesis-companion-train: "),
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
