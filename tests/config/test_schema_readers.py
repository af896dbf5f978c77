"""Every field of a profile is read by some code: a parameter that does nothing is none."""

import ast

from lib.config import paths, profiles
from lib.config.schema import Profile


def names_in_code():
    """Attributes, parameters and fields that lib has outside of the checks of profiles."""
    names = set()
    for path in (paths.ROOT / "lib").rglob("*.py"):
        if path.parent.name == "config":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.arg):  # of a function that takes `**section.model_dump()`
                names.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def test_every_field_has_a_reader():
    names = names_in_code()
    unread = [key for key in profiles.names(Profile) if key.rpartition(".")[2] not in names]
    assert unread == []
