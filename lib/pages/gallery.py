"""The page of all figures and tables, docs/figures.md: `python -m lib.pages.gallery mini`.

Notebook 09 writes it too. The links to notebook, numbers and code come from the manifest and the
notebooks, so a new figure needs no change here.
"""

import argparse
import ast
import json
import math
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2

from lib.config import manifest, paths, profiles
from lib.config.console import escape_unprintable
from lib.config.manifest import Entry
from lib.config.schema import Profile
from lib.store import write_text

CHAPTERS = {  # first part of a section in the manifest -> heading, in the order of the page
    "3": "Chapter 3: Distilling qualities of document embeddings",
    "4": "Chapter 4: Experiments",
    "5": "Chapter 5: Evaluation",
    "4-6": "All findings",
    "A": "Further experiments of ours",
    "News": "The second paper: news clustering",
}


def gallery_page(profile: Profile, folder: Path) -> str:
    """The page as Markdown, with the figures and tables that the profile's notebooks have saved.

    Parameters
    ----------
    profile : Profile
    folder : Path
        Where the page will be. Its links are relative to it.
    """
    shown: dict[str, list[Entry]] = {chapter: [] for chapter in CHAPTERS}
    for entry in manifest.load().values():
        if all(file.is_file() for file in entry.paths(profile)):
            shown[entry.section.partition(".")[0]].append(entry)
    chapters = []
    for chapter, entries in shown.items():
        entries.sort(key=_find_place)
        kinds = {
            "figure": [entry for entry in entries if entry.kind != "table"],
            "table": [entry for entry in entries if entry.kind == "table"],
        }
        described = [
            (kind, [_describe(entry, profile, folder) for entry in some])
            for kind, some in kinds.items()
            if some
        ]
        if described:
            chapters.append({"heading": CHAPTERS[chapter], "kinds": described})
    template = Path(__file__).with_name("gallery.md.j2").read_text(encoding="utf-8")
    published = _find_way(paths.PARAMS / "published" / "README.md", folder)
    return jinja2.Template(
        template, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    ).render(profile=profile.name, chapters=chapters, published=published)


def _find_place(entry: Entry) -> tuple[list[int], float]:
    """Sort key within a chapter: by section, then by number; entries without a number last."""
    section = [int(part) for part in entry.section.split(".") if part.isdigit()]
    number = re.search(r"\d+$", entry.label)
    return section, int(number[0]) if number else math.inf


def _describe(entry: Entry, profile: Profile, folder: Path) -> dict[str, str | None]:
    """What the page says about a figure or table: its title, and links relative to `folder`."""
    notebook = paths.NOTEBOOKS / f"{entry.notebook}.ipynb"
    executed = paths.ROOT / "docs" / "notebooks" / notebook.name
    code = find_code(notebook, entry.label)
    full_name = manifest.full_name(entry.label)
    numbered = full_name[-1].isdigit()  # tab_claims has no number
    suffixes = {"numbers": ".csv", "picture": ".svg", "table": ".md", "latex": ".tex"}
    files = {
        kind: _find_way(paths.figures(profile) / f"{entry.label}{suffix}", folder)
        for kind, suffix in suffixes.items()
    }
    return files | {
        "label": entry.label,
        "notebook": notebook.stem,
        "title": f"{full_name}: {entry.title}" if numbered else entry.title,
        "place": _find_way(executed if executed.is_file() else notebook, folder),
        "code": _find_way(code, folder) if code else None,
    }


def _find_way(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def find_code(notebook: Path, label: str) -> Path | None:
    """Find the module of `lib` whose function made what a notebook saves as `label`.

    The first argument of `nb.save` or `nb.save_table` is followed back to the call that made it.
    None if no function of `lib` was called.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    tree = ast.parse("\n".join(sources))
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    made: dict[str, ast.expr] = {}  # variable -> its value so far
    for node in _walk_in_order(tree):
        if isinstance(node, ast.Assign):
            names = (part for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name))
            made |= {name.id: node.value for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("nb.save"):
            saved, name = node.args[:2]
            if isinstance(name, ast.Constant) and name.value == label:
                value = made[saved.id] if isinstance(saved, ast.Name) else saved
                return _find_module(value, imported)
    return None


def _walk_in_order(node: ast.AST) -> Iterator[ast.AST]:
    """All descendants of a node, in the order of the source."""
    for child in ast.iter_child_nodes(node):
        yield child
        yield from _walk_in_order(child)


def _find_module(value: ast.expr, imported: dict[str, str]) -> Path | None:
    """The file of the first function of `lib` that an expression calls; None if it calls none."""
    for node in ast.walk(value):
        root, *names = ast.unparse(node.func).split(".") if isinstance(node, ast.Call) else [""]
        if imported.get(root, "").startswith("lib."):
            function = pkgutil.resolve_name(".".join([imported[root], *names]))
            return Path(str(sys.modules[function.__module__].__file__))
    return None


def main() -> None:
    """Write the page of a profile's figures and tables; for `mini` it is docs/figures.md."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="python -m lib.pages.gallery", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.list_profiles(), nargs="?", default="mini")
    profile = profiles.load(parser.parse_args().profile)
    folder = paths.ROOT / "docs"
    if profile.name != "mini":
        folder = paths.run_folder(profile) / "pages"
    file = folder / "figures.md"
    write_text(file, gallery_page(profile, folder))
    print(file)


if __name__ == "__main__":
    main()
