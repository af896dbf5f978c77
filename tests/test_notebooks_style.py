"""Every numbered notebook opens in the same way; all are committed bare and read like a text with code in it.

One test a rule; what breaks it is listed with the notebook's name. Style and outputs are checked by `tests/run.sh` too.
"""

from __future__ import annotations

import ast
import json
import re

from lib.config import manifest, paths
from lib.runner import notebook

NOTEBOOKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))
}
NUMBERED = {name: cells for name, cells in NOTEBOOKS.items() if name[0].isdigit()}  # the others are for copying
OWN_PLACES = r"chdir|\.\./|[\"']/(home|tmp|root|usr|Users)|[A-Z]:\\\\|~/"
LONGEST_CELL = 30
FRAME = 5  # parameters, start, imports, versions, finish: cells that explain themselves


def code(cells) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def nodes(cells) -> list[ast.AST]:
    return [node for source in code(cells) for node in ast.walk(ast.parse(source))]


def breaking(rule, notebooks=NOTEBOOKS) -> dict:
    """Notebook -> what `rule` finds wrong in its cells; empty where nothing is."""
    assert notebooks
    return {name: wrong for name, cells in notebooks.items() if (wrong := rule(name, cells))}


def test_they_open_with_title_parameters_start_imports_and_close_with_finish():
    def rule(name, cells):
        opening = [ast.parse(source) for source in code(cells)]
        assigned = [target.id for node in opening[0].body if isinstance(node, ast.Assign) for target in node.targets]
        calls = [[ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)] for tree in opening]
        fits = {
            "title": cells[0]["cell_type"] == "markdown" and re.match(r"# \d\d · \w", "".join(cells[0]["source"])),
            "parameters": tuple(assigned) == notebook.PARAMETERS,
            "start": calls[1] == [f"notebook.start('{name}', globals())", "globals()"],
            "imports": all(isinstance(node, ast.Import | ast.ImportFrom) for node in opening[2].body),
            "versions": calls[3] == ["nb.versions()"],
            "finish": calls[-1] == ["nb.finish()"],
        }
        return [part for part, good in fits.items() if not good]

    assert breaking(rule, NUMBERED) == {}


def test_one_cell_is_tagged_parameters_and_it_is_the_first():
    def rule(name, cells):
        tagged = [number for number, cell in enumerate(cells) if "parameters" in cell["metadata"].get("tags", [])]
        return tagged != [1] and f"tagged: {tagged}"

    assert breaking(rule) == {}


def test_they_are_committed_without_outputs_and_traces_of_a_run():
    def traces(cell):
        return (
            cell.get("outputs") or cell.get("execution_count") or {"papermill", "execution"} & cell["metadata"].keys()
        )

    assert breaking(lambda name, cells: [cell["id"] for cell in cells if traces(cell)]) == {}


def test_imports_stand_in_the_import_cell_alone():
    def rule(name, cells):
        late = (node for source in code(cells)[3:] for node in ast.walk(ast.parse(source)))
        return [ast.unparse(node) for node in late if isinstance(node, ast.Import | ast.ImportFrom)]

    assert breaking(rule) == {}


def test_they_define_no_classes_and_hardly_a_function():
    def rule(name, cells):
        defined = [node for node in nodes(cells) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        classes = any(isinstance(node, ast.ClassDef) for node in defined)
        return [node.name for node in defined] if classes or len(defined) > 1 else []

    assert breaking(rule) == {}


def test_they_name_no_place_of_their_own():
    assert breaking(lambda name, cells: [source for source in code(cells) if re.search(OWN_PLACES, source)]) == {}


def test_they_read_like_a_text():
    def rule(name, cells):
        long = [source for source in code(cells) if len(source.splitlines()) > LONGEST_CELL]
        texts = sum(cell["cell_type"] == "markdown" for cell in cells)
        few = texts < 0.8 * (len(code(cells)) - FRAME)
        return long or (few and f"{texts} texts for {len(code(cells))} code cells: a sentence before each code cell")

    assert breaking(rule) == {}


def test_they_ask_for_every_label_that_they_promise():
    entries = manifest.load()

    def rule(name, cells):
        texts = {node.value for node in nodes(cells) if isinstance(node, ast.Constant)}
        return [label for label in manifest.promised(entries, name) if label not in texts]

    assert breaking(rule, NUMBERED) == {}
