"""Fingerprints of the code that computes a value: what would change the value counts, and nothing else.

Comments, docstrings, annotations and layout do not count, nor does the text of errors and warnings: what stands in
`raise` and `warn`, and variables that are used only there.
"""

import ast
import functools
from collections.abc import Collection, Iterable
from pathlib import Path

from lib.store.files import fingerprint

ROOT = Path(__file__).parents[2]  # modules are read, not imported: importing torch takes seconds
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache  # what a process has imported does not change with the files
def fingerprint_code(modules: tuple[str, ...], stop: tuple[str, ...] = ()) -> dict[str, str]:
    """Fingerprint, by module, the modules and all of lib that they import, directly or not.

    Parameters
    ----------
    modules : tuple of str
        Names such as "lib.losses.cosine".
    stop : tuple of str
        Modules and packages that are not entered, unless `modules` names them.
    """
    return {name: _fingerprint_source(_read(name)) for name in list_imported(modules, stop)}


def fingerprint_module(module: str) -> str | None:
    """The fingerprint of one module alone; None if there is none of that name."""
    path = _path(module)
    return None if path is None else _fingerprint_source(path.read_text(encoding="utf-8"))


def list_imported(modules: Iterable[str], stop: Collection[str] = ()) -> list[str]:
    """The modules and all of lib that they import, sorted; imports for type checkers do not count."""
    ends = tuple(f"{name}." for name in stop)
    reached = list(dict.fromkeys(modules))
    for module in reached:  # grows while it is read
        for name in _imports(_read(module)):
            if name not in reached and not f"{name}.".startswith(ends):
                reached.append(name)
    return sorted(reached)


@functools.cache
def _imports(source: str) -> tuple[str, ...]:
    """The modules of lib that a source imports, also inside functions."""
    names = []
    for node in _walk_code(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:  # `from lib.losses import cosine` means lib.losses.cosine
                submodule = f"{node.module}.{alias.name}"
                names.append(submodule if _path(submodule) else node.module)
    return tuple(dict.fromkeys(name for name in names if _path(name)))


def _walk_code(tree: ast.AST) -> Iterable[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _read(module: str) -> str:
    path = _path(module)
    if path is None:
        raise ValueError(f"no source for module {module!r}: only modules of this project count")
    return path.read_text(encoding="utf-8")


def _path(module: str) -> Path | None:
    """The file of a module of lib, or None for any other name."""
    if module.partition(".")[0] != "lib" or not module.replace(".", "_").isidentifier():
        return None
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


@functools.cache
def _fingerprint_source(source: str) -> str:
    return fingerprint(ast.dump(_Bare().visit(ast.parse(source))))


class _Bare(ast.NodeTransformer):
    """Takes out of a syntax tree what does not change any value that the code computes."""

    def __init__(self) -> None:
        self.only_told: list[set[str]] = []  # by scope: names that only errors and warnings use

    def _visit_scope(self, node: ast.AST) -> ast.AST:
        body = node.body  # type: ignore[attr-defined]
        if ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        self.only_told.append(_names_of_messages(node))
        self.generic_visit(node)
        self.only_told.pop()
        return node

    visit_Module = visit_ClassDef = _visit_scope

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._visit_scope(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self._visit_assignment(node, [node.target])

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._visit_assignment(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._visit_assignment(node, [node.target])

    def _visit_assignment(self, node: ast.AST, targets: list[ast.expr]) -> ast.AST:
        names = {
            part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
        }
        if names and any(names <= told for told in self.only_told[-1:]):
            return _without_text(node)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return _without_text(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return _without_text(node) if _is_warning(node) else self.generic_visit(node)


def _without_text(node: ast.AST) -> ast.AST:
    """The node with every text in it emptied: which error is raised counts, what it says does not."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            part.value = ""
        elif isinstance(part, ast.JoinedStr):
            part.values = []
    return node


def _names_of_messages(scope: ast.AST) -> set[str]:
    """Names that are read in this scope, and only by `raise`, by warnings, or by each other."""
    told, used = set[str](), set[str]()

    def collect(node: ast.AST, inside: set[str]) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            inside.add(node.id)
        message = isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _is_warning(node))
        for child in ast.iter_child_nodes(node):
            collect(child, told if message else inside)

    collect(scope, used)
    return told - used


def _is_warning(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("warn", "warning", "print", "info", "debug")
