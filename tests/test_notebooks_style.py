"""What the runner and a reader of a notebook rely on; breaches are listed by notebook."""

from __future__ import annotations

import ast
import json
import re

from lib.config import paths, profiles
from lib.runner import notebook

NOTEBOOKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"]
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))
}
NUMBERED = {name: cells for name, cells in NOTEBOOKS.items() if name[0].isdigit()}
LINES = 30  # of code in a cell, at most


def find_breaches(rule, notebooks=NOTEBOOKS) -> dict:
    """Notebook -> what `rule` finds wrong in its cells of code; empty where nothing is."""
    assert notebooks
    codes = {
        name: [cell for cell in cells if cell["cell_type"] == "code"]
        for name, cells in notebooks.items()
    }
    return {name: wrong for name, cells in codes.items() if (wrong := rule(name, cells))}


def test_the_first_code_cell_alone_is_tagged_and_holds_the_parameters():
    def rule(name, cells):
        tags = [cell["metadata"].get("tags") for cell in cells]
        return tags != [["parameters"], *[None] * (len(tags) - 1)] and tags

    assert find_breaches(rule) == {}


def test_numbered_notebooks_take_the_four_parameters_and_finish():
    def rule(name, cells):
        first, second, *_, last = ("".join(cell["source"]) for cell in cells)
        assigned = tuple(node.targets[0].id for node in ast.parse(first).body)
        starts = f"notebook.start('{name}', globals())" in ast.unparse(ast.parse(second))
        return not (assigned == notebook.PARAMETERS and starts and last == "nb.finish()")

    assert find_breaches(rule, NUMBERED) == {}


def test_parameters_that_a_comment_offers_are_accepted():
    def rule(name, cells):
        comments = "\n".join(re.findall(r"#(.*)", "".join(cells[0]["source"])))
        for override in re.findall(r"{.*?}+", comments):
            profiles.load("mini", overrides=ast.literal_eval(override))

    assert find_breaches(rule, NUMBERED) == {}


def test_cells_fit_a_screen_and_are_committed_without_outputs():
    def rule(name, cells):
        bare = [cell["outputs"] == [] and cell["execution_count"] is None for cell in cells]
        lines = [sum(map(bool, map(str.strip, cell["source"]))) for cell in cells]
        return not all(bare) or max(lines) > LINES

    assert find_breaches(rule) == {}
