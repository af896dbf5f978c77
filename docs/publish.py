"""Copy executed notebooks to `docs/notebooks` for the site: `python docs/publish.py mini`."""

import re
import sys
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor, TagRemovePreprocessor

from lib.config import paths, profiles
from lib.store import write_text

FOLDER = paths.ROOT / "docs" / "notebooks"
STEPS = (
    TagRemovePreprocessor(remove_cell_tags={"injected-parameters"}),  # the cell that papermill adds
    ClearMetadataPreprocessor(preserve_nb_metadata_mask={"kernelspec", "language_info"}),
)


def publish(executed: Path, folder: Path = FOLDER) -> list[Path]:
    """Write clean copies of executed notebooks: all, or none and ValueError if one failed."""
    contents = {folder / path.name: clean(path) for path in sorted(executed.glob("*.ipynb"))}
    for path, content in contents.items():
        write_text(path, content)
    return list(contents)


def clean(path: Path) -> str:
    """Clean an executed notebook, so that its copy depends only on its cells and their results.

    ValueError if a cell failed or did not run.
    """
    notebook = nbformat.read(path, 4)
    for step in STEPS:
        notebook, _ = step.preprocess(notebook, {})
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            # Copies are one folder deeper, and notebooks without a number are not copied.
            text = re.sub(r"\]\((?=\.\./)", "](../", cell.source)
            cell.source = re.sub(r"\]\((?=[a-z]\w*\.ipynb)", "](../../notebooks/", text)
            cell.metadata = {}
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed or cell.execution_count is None:
            raise ValueError(f"{path}: a cell failed or did not run: run the notebook again")
    text = nbformat.writes(notebook) + "\n"
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", places[place], text)
    return text


if __name__ == "__main__":
    run = paths.run_folder(profiles.load(sys.argv[1]))
    print(f"{len(publish(run / 'executed'))} notebooks: {FOLDER.relative_to(paths.ROOT)}")
