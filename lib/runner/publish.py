"""Copy executed notebooks to `docs/notebooks` for the site: `python -m lib.runner.publish mini`."""

import argparse
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import nbformat

from lib.config import paths, profiles
from lib.config.console import escape_unprintable
from lib.store import write_text

FOLDER = paths.ROOT / "docs" / "notebooks"
INJECTED = "injected-parameters"  # the cell that papermill adds, under a new name in every run
WIDGETS = "application/vnd.jupyter"  # live views, such as progress bars, are dead in a copy
# A link in a text cell to another file. It moves, because docs/notebooks is one folder deeper.
LINK = re.compile(r"\]\((\.\./[^)\s]+|\w+\.ipynb)")
ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")  # of an object in memory


def publish(executed: Path, folder: Path = FOLDER) -> list[Path]:
    """Write clean copies of executed notebooks; ValueError without any, or if one failed."""
    sources = sorted(executed.glob("*.ipynb"))
    if not sources:
        raise ValueError(f"{executed}: no executed notebooks; run them first")
    names = {source.name for source in sources}
    contents = {folder / source.name: clean(source, names) for source in sources}
    for path, content in contents.items():
        write_text(path, content)
    return list(contents)


def clean(path: Path, copied: Collection[str] = ()) -> str:
    """Clean an executed notebook, so that its copy depends only on its cells and their results.

    Its links to notebooks lead to those that are `copied` with it, or back to `notebooks`.
    ValueError if a cell failed or did not run.
    """

    def move_link(match: re.Match[str]) -> str:
        target = match[1] if match[1].startswith("../") else f"../notebooks/{match[1]}"
        return match[0] if match[1] in copied else f"](../{target}"

    notebook = nbformat.read(path, 4)
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags")
        cell.metadata = {} if tags is None else {"tags": tags}
        if INJECTED in (tags or ()):
            cell.id = INJECTED
        if cell.cell_type != "code":
            cell.source = LINK.sub(move_link, cell.source)
            continue
        if cell.execution_count is None and cell.source.strip():
            raise ValueError(f"{path}: cell {number} was not executed: run the notebook again")
        cell.execution_count = None
        cell.outputs = [output for output in cell.outputs if _is_result(output)]
    for key in {*notebook.metadata} - {"kernelspec", "language_info"}:
        del notebook.metadata[key]
    notebook.metadata.get("language_info", {}).pop("version", None)
    text = ADDRESS.sub("0x0", nbformat.writes(notebook) + "\n")
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        if len(place) > 1:  # a home may be /
            text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", places[place], text)
    return text


def _is_result(output: Any) -> bool:
    """Whether an output is a result, and no progress or dead widget; ValueError for an error."""
    if output.output_type == "error":
        raise ValueError(f"a cell failed: {output.ename}: {output.evalue}")
    if output.output_type == "stream":
        return output.name == "stdout"
    if "execution_count" in output:  # the notebook format requires the key
        output.execution_count = None
    return not any(kind.startswith(WIDGETS) for kind in output.data)


def main() -> None:
    """Copy the executed notebooks of a profile's last run to docs/notebooks, without times."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="python -m lib.runner.publish", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.list_profiles())
    profile = profiles.load(parser.parse_args().profile)
    try:
        copies = publish(paths.run_folder(profile) / "executed")
    except ValueError as error:
        parser.error(str(error))
    print(f"{len(copies)} notebooks: {FOLDER.relative_to(paths.ROOT)}")


if __name__ == "__main__":
    main()
