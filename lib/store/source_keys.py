"""Names for code: the syntax of a module and of everything of lib that it imports, directly or not.

Comments, docstrings and layout do not count; an operator, a constant or another module behind a name does.
"""

import ast
import functools
import symtable
from collections.abc import Collection
from pathlib import Path

from lib.store.files import fingerprint

ROOT = Path(__file__).parents[
    2
]  # of this project; its modules are read, not imported: importing torch takes seconds


@functools.cache
def source_key(*modules: str, stop: tuple[str, ...] = ()) -> str:
    """16 hex digits of the syntax trees of the `closure` of the named modules."""
    return fingerprint(
        {module: without_docstrings(source(module)) for module in closure(*modules, stop=stop)}
    )


def closure(*modules: str, stop: Collection[str] = ()) -> list[str]:
    """The modules and all of lib that they import, directly or not, sorted; inside functions too, but not under `if
    TYPE_CHECKING:`. A name that a package only passes on leads to its `home`. stop: modules or packages that are not
    entered, unless they are named themselves."""
    ends = tuple(f"{end}." for end in stop)
    reached = list(dict.fromkeys(modules))
    for module in reached:  # grows
        reached += [
            name
            for name in imports(module)
            if name not in reached and not f"{name}.".startswith(ends)
        ]
    return sorted(reached)


@functools.cache
def imports(module: str) -> frozenset[str]:
    """The modules of lib that a module's source names."""
    tree = ast.parse(source(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names if _path(alias.name))
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(
                    f"{module}, line {node.lineno}: relative import; write the full name, lib...."
                )
            named.update(
                home(node.module, alias.name) for alias in node.names if _path(node.module)
            )
    return frozenset(named)


@functools.cache
def home(package: str, name: str) -> str:
    """The module behind `from package import name`: the package's own one where that only passes the name on, by a
    single import, or does not bind it; else the package, with all that it imports."""
    text, submodule = source(package), f"{package}.{name}"
    symbols = {
        symbol.get_name(): symbol
        for symbol in symtable.symtable(text, package, "exec").get_symbols()
    }
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = [(node.module, alias) for node in imports for alias in node.names]
    origins = [
        (module, alias.name) for module, alias in names if name == (alias.asname or alias.name)
    ]
    bound = name in symbols and (symbols[name].is_imported() or symbols[name].is_assigned())
    if not bound or origins == [(package, name)]:
        return submodule if _path(submodule) else package
    if (
        symbols[name].is_assigned()
        or len(origins) != 1
        or not f"{origins[0][0]}.".startswith(f"{package}.")
    ):
        return package
    return home(*origins[0])


def source(module: str) -> str:
    """The text of a module of this project; `ValueError` for any other."""
    path = _path(module)
    if path is None:
        raise ValueError(
            f"no source for module {module!r}: only modules of this project have a source key"
        )
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


@functools.cache
def _path(module: str) -> Path | None:
    """The file of a module of lib, or None for any other name."""
    if module.partition(".")[0] != "lib" or not all(
        part.isidentifier() for part in module.split(".")
    ):
        return None
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None
