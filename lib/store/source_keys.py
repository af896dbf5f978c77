"""Names for code: the syntax of a module and of everything of lib that it imports, directly or not.

Comments, docstrings and layout do not count; an operator, a constant or another module behind a name does.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator
from pathlib import Path

from lib.store.files import fingerprint

ROOT = Path(__file__).parents[2]  # of this project; its modules are read, not imported: importing torch takes seconds
_TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@functools.cache
def source_key(*modules: str, stop: tuple[str, ...] = ()) -> str:
    """16 hex digits of the syntax trees of the `closure` of the named modules."""
    return fingerprint({module: without_docstrings(source(module)) for module in closure(*modules, stop=stop)})


def closure(*modules: str, stop: Collection[str] = ()) -> list[str]:
    """The modules and all of lib that they import, directly or not, sorted; `ValueError` for one that is not of lib.

    Every `import` and `from` statement counts, inside functions too, except under `if TYPE_CHECKING:`; so does a text
    that is a module's dotted name, as lazy imports have it. A name that a package only passes on leads to its `home`.
    stop: modules or packages that are not entered, unless they are named themselves.
    """
    ends = tuple(f"{end}." for end in stop)
    reached = list(dict.fromkeys(modules))
    for module in reached:  # grows
        reached += [name for name in imports(module) if name not in reached and not f"{name}.".startswith(ends)]
    return sorted(reached)


@functools.cache
def imports(module: str) -> frozenset[str]:
    """The modules of lib that a module's source names."""
    tree = ast.parse(source(module))
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    unrun = [part for node in checks if ast.unparse(node.test) in _TYPES_ONLY for part in node.body]
    skipped = {inner for part in unrun for inner in ast.walk(part)}
    return frozenset(name for node in ast.walk(tree) if node not in skipped for name in _named(node, module))


@functools.cache
def home(package: str, name: str) -> str:
    """The module behind `from package import name`, as Python binds it: what the package itself binds last, which is
    its own or leads to one of its modules, and only without that a submodule."""
    bindings = [node for node in ast.parse(source(package)).body if {name, "*"} & {*_bound(node)}]
    if not bindings:
        return f"{package}.{name}" if _path(f"{package}.{name}") else package
    last = bindings[-1]
    if isinstance(last, ast.ImportFrom) and last.module and f"{last.module}.".startswith(f"{package}."):
        for alias in last.names:
            if name == (alias.asname or alias.name):
                if last.module != package:
                    return home(last.module, alias.name)
                return f"{package}.{alias.name}" if _path(f"{package}.{alias.name}") else package
    return package


def source(module: str) -> str:
    """The text of a module of this project."""
    path = _path(module)
    if path is None:
        raise ValueError(f"no source for module {module!r}: only modules of this project have a source key")
    return path.read_text(encoding="utf-8")


@functools.cache
def without_docstrings(source: str) -> str:
    """The syntax tree of Python source as text, its docstrings taken out."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:]
    return ast.dump(tree)


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds where it stands, aside from those inside functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _named(node: ast.AST, module: str) -> Iterator[str]:
    """The modules of lib that a node of a module names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _path(alias.name))
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            raise ValueError(f"{module}, line {node.lineno}: relative import; write the full name, lib....")
        if node.module and _path(node.module):
            yield from (home(node.module, alias.name) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("lib."):
        if _path(node.value):
            yield node.value


@functools.cache
def _path(module: str) -> Path | None:
    """The file of a module of lib, or None for any other name."""
    if module.partition(".")[0] != "lib" or not all(part.isidentifier() for part in module.split(".")):
        return None
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None
