"""What a reader of a notebook relies on; what breaks a rule is listed with the notebook's name."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import json
import re

from lib.config import paths, profiles
from lib.runner import notebook

NOTEBOOKS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"]
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))
}
NUMBERED = {name: cells for name, cells in NOTEBOOKS.items() if name[0].isdigit()}
OWN_PLACES = r"chdir|\.\./|[\"']/(home|tmp|root|usr|Users)|[A-Z]:\\\\|~/"


def code(cells) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def find_breaches(rule, notebooks=NOTEBOOKS) -> dict:
    """Notebook -> what `rule` finds wrong in its cells; empty where nothing is."""
    assert notebooks
    return {name: wrong for name, cells in notebooks.items() if (wrong := rule(name, cells))}


def test_the_first_code_cell_alone_is_tagged_and_holds_the_parameters():
    def rule(name, cells):
        tags = [cell["metadata"].get("tags") for cell in cells if cell["cell_type"] == "code"]
        return tags != [["parameters"], *[None] * (len(tags) - 1)] and tags

    assert find_breaches(rule) == {}


def test_numbered_notebooks_take_the_four_parameters_and_finish():
    def rule(name, cells):
        first, second, *_, last = code(cells)
        assigned = [node.targets[0].id for node in ast.parse(first).body]
        starts = f"notebook.start('{name}', globals())" in ast.unparse(ast.parse(second))
        return not (tuple(assigned) == notebook.PARAMETERS and starts and last == "nb.finish()")

    assert find_breaches(rule, NUMBERED) == {}


def test_parameters_that_a_comment_offers_are_accepted():
    def rule(name, cells):
        comments = "\n".join(re.findall(r"#(.*)", code(cells)[0]))
        for override in re.findall(r"{.*?}+", comments):
            profiles.load("mini", overrides=ast.literal_eval(override))

    assert find_breaches(rule, NUMBERED) == {}


def test_they_define_no_classes():
    def rule(name, cells):
        nodes = [node for source in code(cells) for node in ast.walk(ast.parse(source))]
        return [node.name for node in nodes if isinstance(node, ast.ClassDef)]

    assert find_breaches(rule) == {}


def test_they_name_no_place_of_one_machine():
    def rule(name, cells):
        return [source for source in code(cells) if re.search(OWN_PLACES, source)]

    assert find_breaches(rule) == {}


def find_missing_names(source: str) -> list[str]:
    """Names of modules of lib that a source imports or reads, and that are not there."""
    nodes, modules, missing = [*ast.walk(ast.parse(source))], {}, []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lib":
            package = importlib.import_module(node.module)
            for alias in node.names:
                with contextlib.suppress(ImportError):
                    importlib.import_module(f"{node.module}.{alias.name}")
                if (found := getattr(package, alias.name, None)) is None:
                    missing.append(f"{node.module}.{alias.name}")
                elif inspect.ismodule(found):
                    modules[alias.asname or alias.name] = found
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in modules and not hasattr(modules[name], node.attr):
                missing.append(f"{name}.{node.attr}")
    return missing


def test_what_notebooks_and_lib_use_of_lib_is_there():
    def rule(name, cells):
        lines = "\n".join(code(cells)).splitlines()
        return find_missing_names("\n".join(line for line in lines if line[:1] not in "%!"))

    assert find_breaches(rule) == {}
    sources = {path: path.read_text(encoding="utf-8") for path in paths.ROOT.glob("lib/**/*.py")}
    assert {
        path: wrong for path, text in sources.items() if (wrong := find_missing_names(text))
    } == {}
