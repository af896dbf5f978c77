"""Copy executed notebooks to `docs/notebooks` for the site: `python -m lib.runner.publish mini`."""

import argparse
import re
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor, TagRemovePreprocessor

from lib.config import paths, profiles
from lib.store import write_text

FOLDER = paths.ROOT / "docs" / "notebooks"
WIDGETS = {"application/vnd.jupyter.widget-view+json"}  # such as progress bars: dead in a copy
# A link in a text cell to another file. It moves, because docs/notebooks is one folder deeper.
LINK = re.compile(r"\]\((\.\./[^)\s]+|\w+\.ipynb)")
ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")  # of an object in memory
CLEANERS = (  # the cell that papermill adds goes
    TagRemovePreprocessor(remove_cell_tags={"injected-parameters"}),
    ClearMetadataPreprocessor(
        preserve_nb_metadata_mask={"kernelspec", "language_info"},
        preserve_cell_metadata_mask={"tags"},
    ),
)


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
    for cleaner in CLEANERS:
        notebook, _ = cleaner.preprocess(notebook, {})
    notebook.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            cell.metadata, cell.source = {}, LINK.sub(move_link, cell.source)
            continue
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed or (cell.execution_count is None and cell.source.strip()):
            raise ValueError(f"{path}: cell {number} failed or did not run: run the notebook again")
        cell.execution_count = None
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        cell.outputs = [each for each in cell.outputs if not WIDGETS & {*each.get("data", ())}]
        for output in cell.outputs:
            if "execution_count" in output:  # the notebook format requires the key
                output.execution_count = None
    text = ADDRESS.sub("0x0", nbformat.writes(notebook) + "\n")
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        if len(place) > 1:  # a home may be /
            text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", places[place], text)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lib.runner.publish", description=__doc__)
    parser.add_argument("profile", choices=profiles.list_profiles())
    try:
        run = paths.run_folder(profiles.load(parser.parse_args().profile))
        print(f"{len(publish(run / 'executed'))} notebooks: {FOLDER.relative_to(paths.ROOT)}")
    except ValueError as error:
        parser.error(str(error))
