"""CONTRIBUTING.md is followed to the letter, in a copy of the repository, and what it promises is looked for.

A block named after a file is that file, or for a notebook its last cell but one; a `diff` is applied; `bash` is run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lib.config import paths, profiles

TEXT = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### An? (\w+)\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = {str(paths.ROOT): {".git", ".venv", "artifacts", "figures"}}  # of the repository's root


def follow(recipe: str, root: Path) -> None:
    """Do what the recipe says. Raises AssertionError where it cannot be followed, with the command's output."""
    environment = os.environ | {
        "THESIS_ARTIFACTS": str(root / "artifacts"),
        "PYTHONPATH": str(root),
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for language, name, body in BLOCK.findall(RECIPES[recipe]):
        if language == "bash":
            command = ["bash", "-euo", "pipefail", "-c", body]
            done = subprocess.run(
                command, cwd=root, env=environment, capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, (
                f"{recipe}: {body}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        elif language == "diff":
            change(root / name, body)
        elif name.endswith(".ipynb"):
            insert(root / name, body)
        else:
            assert not (root / name).exists(), f"{recipe}: {name} is there already"
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(body, encoding="utf-8")


def change(path: Path, diff: str) -> None:
    """Replace the lines of a diff without `+` by those without `-`; they must stand in the file once."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    after = "".join(line[1:] for line in lines if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} has {text.count(before)} times:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def insert(path: Path, source: str) -> None:
    """A code cell before the notebook's last one, tagged with the label that it saves."""
    document = json.loads(path.read_text(encoding="utf-8"))
    tags = re.findall(r'figures\.save\(.*"(fig\w+)"', source)
    cell = {
        "cell_type": "code",
        "id": "recipe",
        "metadata": {"tags": tags},
        "execution_count": None,
        "outputs": [],
    }
    document["cells"].insert(-1, cell | {"source": source.rstrip("\n")})
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository, in which the recipes are followed one after another."""
    root = tmp_path_factory.mktemp("contributing") / "repository"
    shutil.copytree(paths.ROOT, root, ignore=lambda folder, names: LEFT_OUT.get(str(folder), ()))
    return root


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("recipe", "label", "column", "value"),
    [
        ("loss", "fig4_3", "model", "huber"),
        ("task", "fig4_2", "task", "KINDS"),
        ("teacher", "fig4_5", "model", "DM;64;stem;2"),
        ("student", "fig4_3", "model", "max-margin;MSE;γ=0.25"),
        ("figure", "figB_9", "model", "Longformer"),
    ],
)
def test_a_recipe_ends_in_a_figure(copy, recipe, label, column, value):
    follow(recipe, copy)
    drawn = [pd.read_csv(path) for path in copy.glob(f"**/figures/smoke*/{label}.csv")]
    assert any(value in set(frame[column]) for frame in drawn), (
        f"{len(drawn)} {label}.csv, none with {value}"
    )


@pytest.mark.smoke
def test_what_the_recipes_write_is_in_style(copy):
    files = sorted(
        {copy / name for text in RECIPES.values() for _, name, _ in BLOCK.findall(text) if name}
    )
    assert files and all(path.is_file() for path in files)
    files = [path for path in files if path.suffix in (".py", ".ipynb")]
    for words in (("check",), ("format", "--check")):
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", *files]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.smoke
def test_the_house_stands_after_all_recipes(copy):
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    command += [
        "tests/test_rooms.py",
        "tests/figures/test_texts.py",
        "tests/published/test_redrawn.py",
    ]
    command += ["tests/report/test_site.py"]
    command += ["-k", "rooms or caption or no_other or no_boxplot"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_diff_fits_the_files_as_they_are(tmp_path):
    for recipe, text in RECIPES.items():
        for language, name, body in BLOCK.findall(text):
            if language == "diff":
                assert (paths.ROOT / name).is_file(), f"{recipe}: {name}"
                shutil.copy(paths.ROOT / name, tmp_path / "file")
                change(tmp_path / "file", body)
            assert language in ("bash", "diff", "python") and (name or language == "bash"), (
                f"{recipe}: {body}"
            )


def test_the_hooks_run_the_commands_of_the_tests():
    tests = (paths.ROOT / "tests" / "run.sh").read_text(encoding="utf-8")
    commands = re.findall(r'"\$python" (-m .+?)(?: "\$.*)?$', tests, re.MULTILINE)
    (repository,) = profiles.read_yaml("../.pre-commit-config.yaml")["repos"]
    hooks = [hook["entry"].removeprefix("python ") for hook in repository["hooks"]]
    others = [command for command in commands if command not in hooks]
    assert sorted(hooks) == sorted(command for command in commands if command in hooks)
    assert sorted(command.split()[1] for command in others) == [
        "mypy",
        "pip",
        "pip",
        *["pytest"] * 4,
    ]


def test_the_workflow_runs_the_tests():
    (job,) = profiles.read_yaml("../.github/workflows/tests.yml")["jobs"].values()
    assert job["steps"][-1] == {"run": "bash tests/run.sh"}
