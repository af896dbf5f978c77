"""What the runner and a reader of a notebook rely on."""

import ast
import json
import re

import pytest

from lib.config import paths, profiles
from lib.runner import notebook

NOTEBOOKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"]
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))
}
NUMBERED = {name: cells for name, cells in NOTEBOOKS.items() if name[0].isdigit()}
LINES = 30  # of code in a cell, at most


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_cells_fit_a_screen_and_are_committed_without_outputs(name):
    cells = [cell for cell in NOTEBOOKS[name] if cell["cell_type"] == "code"]
    tags = [cell["metadata"].get("tags") for cell in cells]
    assert tags == [["parameters"], *[None] * (len(tags) - 1)], "the first cell alone has them"
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    lines = ["".join(cell["source"]).splitlines() for cell in cells]
    assert max(sum(bool(line.strip()) for line in each) for each in lines) <= LINES


@pytest.mark.parametrize("name", NUMBERED)
def test_numbered_notebooks_take_the_four_parameters_and_finish(name):
    cells = [cell for cell in NUMBERED[name] if cell["cell_type"] == "code"]
    first, second, *_, last = ("".join(cell["source"]) for cell in cells)
    assert tuple(node.targets[0].id for node in ast.parse(first).body) == notebook.PARAMETERS
    assert f"notebook.start('{name}', globals())" in ast.unparse(ast.parse(second))
    assert last == "nb.finish()"
    sources = ["".join(cell["source"]) for cell in cells]
    assert all("getsource" in each for each in sources if "Product(" in each), "a cell is code, too"
    for override in re.findall(r"{.*?}+", "\n".join(re.findall("#(.*)", first))):
        profiles.load("mini", overrides=ast.literal_eval(override))  # as a comment offers it
