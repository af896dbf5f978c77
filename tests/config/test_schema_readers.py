"""Every field of a profile is read by the code that trains or evaluates: a parameter that does nothing is none."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from lib.config import paths, profiles
from lib.config.schema import Profile, Settings
from lib.evaluation import heads
from lib.losses import SoftCCA
from lib.teachers.paragraph_vector import ParagraphVector

SECTIONS = {
    name: field.annotation
    for name, field in Profile.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
}
SECTION_OF_CLASS = {model.__name__: name for name, model in SECTIONS.items()}
# Sections that are handed over as `**section.model_dump()`, and who takes them: a field must be one of its parameters.
TAKERS = {"heads": heads.Settings, "soft_cca": SoftCCA, "contextual_teacher": ParagraphVector.train}
# Rooms and modules: a value that is checked and printed is not yet used.
ONLY_PRINT = {"config", "published", "report", "chapters/hyperparameters.py"}


def modules(folder: Path) -> Iterator[ast.Module]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder)
        if not {place.parts[0], place.as_posix()} & ONLY_PRINT:
            yield ast.parse(path.read_text(encoding="utf-8"))


def section_of(node: ast.AST, names: dict[str, str]) -> str | None:
    """The section that an expression is: `profile.training`, or a name that stands for it."""
    if isinstance(node, ast.Attribute):
        return node.attr if node.attr in SECTIONS else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def names_of_sections(scope: ast.AST) -> dict[str, str]:
    """Names that stand for a section in a scope: `settings = profile.training`, or `settings: TrainingSettings`."""
    names = {}
    if isinstance(scope, ast.FunctionDef):
        for argument in (*scope.args.args, *scope.args.kwonlyargs):
            written = ast.unparse(argument.annotation) if argument.annotation else ""
            names |= dict.fromkeys([argument.arg], SECTION_OF_CLASS.get(written))
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value  # `section, root = profile.corpus, ...` too
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=True) if both else [(target, value)]
            names |= {
                part.id: section_of(given, {})
                for part, given in pairs
                if isinstance(part, ast.Name)
            }
    return names


def dumped(call: ast.Call, section: str, popped: set[str]) -> set[str]:
    """The fields that `section.model_dump(include=..., exclude=...)` hands over; a dump to JSON goes into a key."""
    given = {word.arg: word.value for word in call.keywords}
    if "mode" in given and ast.literal_eval(given["mode"]) == "json":
        return set()
    options = {name: ast.literal_eval(value) for name, value in given.items()}
    fields = set(
        options.get("include")
        or {*SECTIONS[section].model_fields} - set(options.get("exclude", ()))
    )
    if "include" in options:
        return fields
    return (
        fields & ({*inspect.signature(TAKERS[section]).parameters} | popped)
        if section in TAKERS
        else set()
    )


def read(folder: Path) -> set[str]:
    """Dotted keys of the profile that some module below the folder reads."""
    keys = set()
    for module in modules(folder):
        for scope in (
            module,
            *(node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)),
        ):
            names = names_of_sections(scope)
            nodes = list(ast.walk(scope))
            calls = [
                node
                for node in nodes
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            ]
            popped = {
                call.args[0].value
                for call in calls
                if call.func.attr == "pop" and call.args and isinstance(call.args[0], ast.Constant)
            }
            for call in calls:
                if call.func.attr == "model_dump" and (
                    section := section_of(call.func.value, names)
                ):
                    keys |= {f"{section}.{field}" for field in dumped(call, section, popped)}
            for node in nodes:
                if isinstance(node, ast.Attribute):
                    section = section_of(node.value, names)
                    keys.add(f"{section}.{node.attr}" if section else node.attr)
    return keys


def test_every_field_has_a_reader():
    keys = read(paths.ROOT / "lib")
    assert [key for key in profiles.names(Profile) if key not in keys] == []


def test_a_field_without_reader_is_noticed(monkeypatch):
    """In every section, handed over whole or not; a reader of the same field of another section does not count."""
    added = {
        name: SECTIONS["training"].model_fields["accumulation"]
        for name in ("hidden_epochs", "accumulation")
    }
    for model in SECTIONS.values():
        monkeypatch.setattr(model, "__pydantic_fields__", {**model.model_fields, **added})
    wanted = {key for key in profiles.names(Profile) if key.rpartition(".")[2] in added}
    assert len(wanted) == 2 * len(SECTIONS)
    assert wanted & read(paths.ROOT / "lib") == {"training.accumulation", "final.accumulation"}
