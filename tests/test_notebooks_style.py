"""Every notebook opens in the same way, is committed bare, and reads like a text with code in it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest

from lib.config import manifest, paths
from lib.runner import notebook

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
PARAMETERS = 'profile = "mini"\nseeds = None\nonly = ""\noverrides = {}'
FRAME = 5  # parameters, start, imports, versions, finish: cells that explain themselves
pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path):
    return [
        (cell["cell_type"], "".join(cell["source"]), cell)
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]


def code(path):
    return [source for kind, source, _ in cells(path) if kind == "code"]


def test_it_opens_with_title_parameters_start_imports_versions(path):
    kinds = [kind for kind, _, _ in cells(path)]
    first, second = cells(path)[:2]
    assert kinds[0] == "markdown" and re.match(r"# \d\d · \w", first[1])
    assert second[1] == PARAMETERS and second[2]["metadata"]["tags"] == ["parameters"]
    opening = code(path)
    start = f'from lib.runner import notebook\n\nnb = notebook.start("{path.stem}", globals())\nP = nb.profile'
    assert opening[1] == start
    body = ast.parse(opening[2]).body
    assert body and all(isinstance(node, ast.Import | ast.ImportFrom) for node in body), "one import cell"
    assert opening[3] == "nb.versions()"
    assert opening[-1] == "nb.finish()"


def test_it_has_exactly_one_parameters_cell(path):
    tagged = [source for _, source, cell in cells(path) if "parameters" in cell["metadata"].get("tags", [])]
    assert tagged == [PARAMETERS]
    assert notebook.PARAMETERS == tuple(re.findall(r"^(\w+) =", PARAMETERS, re.MULTILINE))


def test_it_is_committed_without_outputs_and_traces_of_a_run(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert "papermill" not in document["metadata"]
    for _, _, cell in cells(path):
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert not {"papermill", "execution"} & cell["metadata"].keys()


def test_imports_stand_in_the_import_cell_alone(path):
    for source in code(path)[3:]:
        tree = ast.parse(source)
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)], source


def test_it_defines_no_classes_and_hardly_a_function(path):
    nodes = [node for source in code(path) for node in ast.walk(ast.parse(source))]
    assert not [node for node in nodes if isinstance(node, ast.ClassDef)]
    assert len([node for node in nodes if isinstance(node, ast.FunctionDef)]) <= 1


def test_it_names_no_place_of_its_own(path):
    for source in code(path):
        assert not re.search(r"chdir|\.\./|[\"']/(home|tmp|root|usr|Users)|[A-Z]:\\\\|~/", source), source


def test_it_reads_like_a_text(path):
    kinds = [kind for kind, _, _ in cells(path)]
    assert kinds.count("markdown") >= 0.8 * (kinds.count("code") - FRAME), "a sentence before each code cell"
    assert max(len(source.splitlines()) for source in code(path)) <= 30


def test_it_asks_for_every_label_that_it_promises(path):
    text = "\n".join(code(path))
    for label in manifest.promised(manifest.load(), path.stem):
        assert f'"{label}"' in text, f"{label} is promised in params/manifest.yaml"


def test_ruff_finds_nothing(path):
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
