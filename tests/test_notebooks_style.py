"""Every numbered notebook opens in the same way; all are committed bare and read like a text with code in it.

One test a rule; what breaks it is listed with the notebook's name. Style and outputs are checked by `tests/run.sh` too.
"""

from __future__ import annotations

import ast
import builtins
import json
import re

from lib.config import manifest, paths, profiles
from lib.runner import notebook

NOTEBOOKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"]
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))
}
NUMBERED = {
    name: cells for name, cells in NOTEBOOKS.items() if name[0].isdigit()
}  # the others are for copying
OWN_PLACES = r"chdir|\.\./|[\"']/(home|tmp|root|usr|Users)|[A-Z]:\\\\|~/"
LONGEST_CELL = 30
IMPORTS = (ast.Import, ast.ImportFrom)
FRAME = 5  # parameters, start, imports, versions, finish: cells that explain themselves
CHAPTERS = {name: cells for name, cells in NUMBERED.items() if "00" <= name[:2] <= "07"}
SECTIONS = ["## What we found", "## You should now know", "## Exercise"]
SAY_NOTHING = ("What the numbers below depend on:", "The parameters are checked;")


def code(cells) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def nodes(cells) -> list[ast.AST]:
    return [node for source in code(cells) for node in ast.walk(ast.parse(source))]


def bound(tree: list[ast.AST]) -> set[str]:
    """The names that a piece of code gives a value."""
    imports = [node for node in tree if isinstance(node, IMPORTS)]
    named = {alias.asname or alias.name.split(".")[0] for node in imports for alias in node.names}
    named |= {node.arg for node in tree if isinstance(node, ast.arg)}
    named |= {node.name for node in tree if isinstance(node, ast.FunctionDef)}
    return named | {
        node.id for node in tree if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def read(tree: list[ast.AST]) -> set[str]:
    return {node.id for node in tree if isinstance(node, ast.Name)}


def text(cells) -> str:
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def code_in_text(cells) -> list[str]:
    """Blocks of Python in the texts, solutions of exercises among them."""
    return re.findall(r"^```python\n(.*?)^```", text(cells), re.MULTILINE | re.DOTALL)


def breaking(rule, notebooks=NOTEBOOKS) -> dict:
    """Notebook -> what `rule` finds wrong in its cells; empty where nothing is."""
    assert notebooks
    return {name: wrong for name, cells in notebooks.items() if (wrong := rule(name, cells))}


def test_they_open_with_title_parameters_start_imports_and_close_with_finish():
    def rule(name, cells):
        opening = [ast.parse(source) for source in code(cells)]
        assigned = [
            target.id
            for node in opening[0].body
            if isinstance(node, ast.Assign)
            for target in node.targets
        ]
        calls = [
            [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
            for tree in opening
        ]
        fits = {
            "title": cells[0]["cell_type"] == "markdown"
            and re.match(r"# \d\d · \w", "".join(cells[0]["source"])),
            "parameters": tuple(assigned) == notebook.PARAMETERS,
            "start": calls[1] == [f"notebook.start('{name}', globals())", "globals()"],
            "imports": all(
                isinstance(node, ast.Import | ast.ImportFrom) for node in opening[2].body
            ),
            "versions": calls[3] == ["nb.versions()"],
            "finish": calls[-1] == ["nb.finish()"],
        }
        return [part for part, good in fits.items() if not good]

    assert breaking(rule, NUMBERED) == {}


def test_one_cell_is_tagged_parameters_and_it_is_the_first():
    def rule(name, cells):
        tagged = [
            number
            for number, cell in enumerate(cells)
            if "parameters" in cell["metadata"].get("tags", [])
        ]
        return tagged != [1] and f"tagged: {tagged}"

    assert breaking(rule) == {}


def test_they_are_committed_without_outputs_and_traces_of_a_run():
    def traces(cell):
        return (
            cell.get("outputs")
            or cell.get("execution_count")
            or {"papermill", "execution"} & cell["metadata"].keys()
        )

    assert breaking(lambda name, cells: [cell["id"] for cell in cells if traces(cell)]) == {}


def test_imports_stand_in_the_import_cell_alone():
    def rule(name, cells):
        late = (node for source in code(cells)[3:] for node in ast.walk(ast.parse(source)))
        return [ast.unparse(node) for node in late if isinstance(node, ast.Import | ast.ImportFrom)]

    assert breaking(rule) == {}


def test_they_define_no_classes_and_hardly_a_function():
    def rule(name, cells):
        defined = [
            node for node in nodes(cells) if isinstance(node, ast.ClassDef | ast.FunctionDef)
        ]
        classes = any(isinstance(node, ast.ClassDef) for node in defined)
        return [node.name for node in defined] if classes or len(defined) > 1 else []

    assert breaking(rule) == {}


def test_they_name_no_place_of_their_own():
    assert (
        breaking(
            lambda name, cells: [source for source in code(cells) if re.search(OWN_PLACES, source)]
        )
        == {}
    )


def test_they_read_like_a_text():
    def rule(name, cells):
        long = [source for source in code(cells) if len(source.splitlines()) > LONGEST_CELL]
        texts = sum(cell["cell_type"] == "markdown" for cell in cells)
        few = texts < 0.8 * (len(code(cells)) - FRAME)
        return long or (
            few
            and f"{texts} texts for {len(code(cells))} code cells: a sentence before each code cell"
        )

    assert breaking(rule) == {}


def test_chapters_end_with_what_was_found_what_to_know_and_an_exercise():
    def rule(name, cells):
        headings = [line for line in text(cells).splitlines() if line.startswith("## ")]
        if headings[-3:] != SECTIONS:
            return f"its last headings are {headings[-3:]}"
        know, exercise = text(cells).split(SECTIONS[1] + "\n")[1].split(SECTIONS[2] + "\n")
        asked, _, hidden = exercise.partition("<details><summary>Solution</summary>\n\n")
        fits = {
            "three to five bullets": 3 <= len(re.findall(r"^\* ", know, re.MULTILINE)) <= 5,
            "a task": asked.strip() and "```" not in asked,
            "a hidden solution": "```python\n" in hidden and hidden.rstrip().endswith("</details>"),
        }
        return [part for part, good in fits.items() if not good]

    assert breaking(rule, CHAPTERS) == {}


def test_code_in_texts_reads_only_names_that_its_notebook_binds():
    def rule(name, cells):
        known = {*dir(builtins), "get_ipython"} | bound(nodes(cells))
        trees = [[*ast.walk(ast.parse(block))] for block in code_in_text(cells)]
        return [missing for tree in trees for missing in read(tree) - known - bound(tree)]

    assert breaking(rule) == {}


def test_no_sentence_says_nothing():
    assert (
        breaking(
            lambda name, cells: [words for words in SAY_NOTHING if words in text(cells)], CHAPTERS
        )
        == {}
    )


def test_the_parameters_cell_names_knobs_that_can_be_turned():
    """Comments show overrides as dictionaries, which are accepted, `only` as a text and `seeds` as a list."""

    def rule(name, cells):
        comments = "\n".join(re.findall(r"#(.*)", code(cells)[0]))
        overrides = re.findall(r"{.*?}+", comments)
        for override in overrides:
            profiles.load("mini", overrides=ast.literal_eval(override))
        others = re.findall(r'"[^"]+"|\[[\d, ]+\]', re.sub(r"{.*?}+", "", comments))
        return (not overrides or len(overrides + others) < 2) and f"{overrides + others}"

    assert breaking(rule, CHAPTERS) == {}


def test_cells_are_tagged_with_the_labels_that_they_make():
    """In batch a tagged cell runs only where one of its labels is asked for; an untagged one always does."""
    entries = manifest.load()

    def rule(name, cells):
        promised, tagged, wrong = manifest.promised(entries, name), set(), []
        for cell in cells:
            tags, source = (
                {*cell["metadata"].get("tags", [])} - {"parameters"},
                "".join(cell["source"]),
            )
            tagged |= tags
            if cell["cell_type"] == "code":
                calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
                saves = [
                    call
                    for call in calls
                    if ast.unparse(call.func).endswith((".save", ".draw", ".write"))
                ]
                texts = {
                    node.value
                    for call in saves
                    for node in ast.walk(call)
                    if isinstance(node, ast.Constant)
                }
                wrong += (
                    [cell["id"]] if {label for label in promised if label in texts} - tags else []
                )
        return [*wrong, *(tagged ^ promised.keys())]

    assert breaking(rule) == {}


def test_what_a_label_needs_runs_when_it_alone_is_asked_for():
    """Every name that a cell reads is bound by an untagged cell, by one tagged with the label, or in the cell."""

    def rule(name, cells):
        wrong = []
        for label in manifest.promised(manifest.load(), name):
            known = {*dir(builtins)}
            for cell in cells:
                tags = {*cell["metadata"].get("tags", [])} - {"parameters"}
                if cell["cell_type"] == "code" and (not tags or label in tags):
                    tree = [*ast.walk(ast.parse("".join(cell["source"])))]
                    known |= bound(tree)
                    wrong += [f"{label}: {missing}" for missing in read(tree) - known]
        return wrong

    assert breaking(rule, NUMBERED) == {}
