"""Fingerprints of the code that computes a value, which change only if the value might.

Comments, docstrings, annotations and layout do not count. Neither does the text of errors, warnings
and progress: strings in `raise`, `warn` and `print`, and in variables that are used only there.
"""

import ast
import functools
from collections.abc import Collection, Iterable
from pathlib import Path

from lib.store.files import fingerprint

ROOT = Path(__file__).parents[2]  # modules are read, not imported: importing torch takes seconds
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORDING = {*"join split format str repr len sorted min max map type".split()}


def fingerprint_code(modules: Iterable[str], stop: Iterable[str] = ()) -> dict[str, str]:
    """Fingerprint modules and everything in lib that they import, directly or indirectly.

    Parameters
    ----------
    modules : iterable of str
        Names such as "lib.losses.cosine".
    stop : iterable of str
        Modules and packages to leave out, with what only they import, unless `modules` names them.

    Returns
    -------
    Name of the module -> its fingerprint.
    """
    return dict(_fingerprint_modules(tuple(modules), tuple(stop)))


@functools.cache  # a process keeps the code that it has imported, even if files change
def _fingerprint_modules(modules: tuple[str, ...], stop: tuple[str, ...]) -> dict[str, str]:
    return {name: _fingerprint_source(_read(name)) for name in list_imported(modules, stop)}


def fingerprint_module(module: str) -> str | None:
    """Fingerprint one module alone; None if there is no module of this name."""
    return None if _path(module) is None else _fingerprint_source(_read(module))


def list_imported(modules: Iterable[str], stop: Collection[str] = ()) -> list[str]:
    """List the modules and everything in lib that they import, sorted.

    Imports under `if TYPE_CHECKING:` do not count.
    """
    ends = tuple(f"{name}." for name in stop)
    reached = list(dict.fromkeys(modules))
    for module in reached:  # the list grows during the loop
        for name in _imports(_read(module)):
            if name not in reached and not f"{name}.".startswith(ends):
                reached.append(name)
    return sorted(reached)


@functools.cache
def _imports(source: str) -> tuple[str, ...]:
    """List the modules of lib that a source imports, including imports inside functions."""
    names = []
    for node in _walk_code(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level or not node.module:
                raise ValueError(
                    f"line {node.lineno} is a relative import; write the full name, lib...."
                )
            for alias in node.names:  # `from lib.losses import cosine` means lib.losses.cosine
                submodule = f"{node.module}.{alias.name}"
                names.append(submodule if _path(submodule) else node.module)
    return tuple(dict.fromkeys(name for name in names if _path(name)))


def _walk_code(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield every node except those under `if TYPE_CHECKING:`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def take_snapshot() -> str:
    """Read all of lib as it is now, for all fingerprints of this process, and return a hash of it.

    A process keeps the code that it has imported, even if files change. So it should call this
    first.
    """
    sources = _read_everything().items()
    return fingerprint({path.relative_to(ROOT).as_posix(): text for path, text in sources})


@functools.cache
def _read_everything() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("lib/**/*.py"))}


def _read(module: str) -> str:
    path = _path(module)
    if path is None:
        raise ValueError(f"no source for module {module!r}: only modules of this project count")
    return _read_everything()[path]


def _path(module: str) -> Path | None:
    """The file of a module of lib, or None for any other name."""
    if module.partition(".")[0] != "lib" or not module.replace(".", "_").isidentifier():
        return None
    path = ROOT.joinpath(*module.split("."))
    places = (path / "__init__.py", path.with_suffix(".py"))
    return next((place for place in places if place in _read_everything()), None)


@functools.cache
def _fingerprint_source(source: str) -> str:
    return fingerprint(ast.dump(_Bare().visit(ast.parse(source))))


class _Bare(ast.NodeTransformer):
    """Removes from a syntax tree whatever cannot change a computed value."""

    def __init__(self) -> None:
        self.scopes: list[ast.AST] = []
        self.messages: list[set[str]] = []  # by scope: names that only errors and warnings use

    def _visit_scope(self, node: ast.AST) -> ast.AST:
        body = node.body  # type: ignore[attr-defined]
        if ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        self.scopes.append(node)
        self.messages.append(_names_of_messages(node) if isinstance(node, _FUNCTIONS) else set())
        self.generic_visit(node)
        self.scopes.pop()
        self.messages.pop()
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
        if not isinstance(self.scopes[-1], ast.ClassDef):  # there pydantic and dataclass read it
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
        if names and names <= self.messages[-1] and not _may_compute(node):
            return _without_text(node)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return _without_text(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return _without_text(node) if _is_warning(node) else self.generic_visit(node)


def _without_text(node: ast.AST) -> ast.AST:
    """Empty every string below a node: the type of an error counts, its message does not."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            part.value = ""
        elif isinstance(part, ast.JoinedStr):
            part.values = []
    return node


def _may_compute(node: ast.AST) -> bool:
    """Whether a statement calls functions that may do more than format text."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    names = {
        call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls
    }
    return not names <= _WORDING


def _names_of_messages(scope: ast.AST) -> set[str]:
    """Names that this scope reads only in `raise` statements and warnings."""
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
