"""Copy executed notebooks to `docs/notebooks`, without times and other traces of one run.

`python -m lib.runner.publish mini` copies the last run of `mini`, and with `lab` that of `lab`. The
site shows the copies.
"""

import argparse
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lib.config import paths, profiles
from lib.config.terminal import escape_unprintable
from lib.store.files import write_atomically

FOLDER = paths.ROOT / "docs" / "notebooks"
# Metadata that readers of a notebook need. The rest is times, versions and papermill's notes.
NOTEBOOK_KEYS = ("kernelspec", "language_info")
CELL_KEYS = ("tags",)
INJECTED = "injected-parameters"  # the cell that papermill adds, under a new name in every run
WIDGETS = "application/vnd.jupyter"  # live views, such as progress bars, are dead in a copy
# A link in a text cell to another notebook or to another file. It moves, because docs/notebooks is
# one folder deeper than notebooks.
LINK = re.compile(r"(\]\()(\.\./[^)\s]+|\w+\.ipynb)")
ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")  # of an object in memory


def publish(executed: Path, folder: Path = FOLDER, name: str = "*") -> list[Path]:
    """Write a cleaned copy of every notebook that ran to its end.

    Parameters
    ----------
    executed : folder of executed notebooks, such as `artifacts/mini/executed`
    folder : where the copies go, under the same names; other files there are left alone
    name : the notebooks to copy, a pattern without the suffix

    Returns
    -------
    The copies, in the order of their names.

    Raises
    ------
    ValueError
        If there is no executed notebook, or if a cell of one failed or did not run.
    """
    sources = sorted(executed.glob(f"{name}.ipynb"))
    if not sources:
        raise ValueError(f"{executed}: no executed notebooks; run them first")
    names = {source.name for source in sources}
    contents = {folder / source.name: clean(source, names) for source in sources}
    for path, content in contents.items():
        write_atomically(path, content)
    return list(contents)


def clean(path: Path, copied: Collection[str] = ()) -> bytes:
    """Clean an executed notebook, so that its bytes depend only on its cells and their results.

    `copied` are the file names of the notebooks that are copied with it; links to any other lead
    back to `notebooks`. Raises `ValueError` if a cell failed or did not run.
    """

    def move_link(match: re.Match[str]) -> str:
        begin, target = match.groups()
        if target.startswith("../"):
            return f"{begin}../{target}"
        return match[0] if target in copied else f"{begin}../../notebooks/{target}"

    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] = {
            key: value for key, value in cell["metadata"].items() if key in CELL_KEYS
        }
        if INJECTED in cell["metadata"].get("tags", ()):
            cell["id"] = INJECTED
        if cell["cell_type"] != "code":
            cell["source"] = [LINK.sub(move_link, line) for line in cell["source"]]
            continue
        source = "".join(cell["source"])
        if cell["execution_count"] is None and source.strip():
            raise ValueError(f"{path}: cell {number} was not executed: run the notebook again")
        outputs = [_clean_output(output) for output in cell["outputs"] if _is_result(output)]
        cell |= {"execution_count": None, "outputs": outputs}
    notebook["metadata"] = {
        key: notebook["metadata"][key] for key in NOTEBOOK_KEYS if key in notebook["metadata"]
    }
    notebook["metadata"].get("language_info", {}).pop("version", None)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return _without_places(text).encode()


def _is_result(output: dict[str, Any]) -> bool:
    """Whether an output is a result, and not progress on stderr or a dead widget.

    Raises `ValueError` for the output of a cell that failed.
    """
    if output["output_type"] == "error":
        raise ValueError(f"a cell failed: {output['ename']}: {output['evalue']}")
    if output["output_type"] == "stream":
        return output["name"] == "stdout"
    return not any(kind.startswith(WIDGETS) for kind in output["data"])


def _clean_output(output: dict[str, Any]) -> dict[str, Any]:
    """Remove the execution count, the metadata and the addresses of objects from an output."""
    if output["output_type"] == "stream":
        return output
    kept = {key: value for key, value in output.items() if key != "execution_count"}
    kept["data"] = {kind: _without_addresses(value) for kind, value in output["data"].items()}
    if kept["output_type"] == "execute_result":  # the notebook format requires the key
        kept["execution_count"] = None
    return kept


def _without_addresses(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_addresses(line) for line in value]
    return ADDRESS.sub("0x0", value) if isinstance(value, str) else value


def _without_places(text: str) -> str:
    """Replace this machine's folders by names such as `artifacts` and `~`."""
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place, name in sorted(places.items(), key=lambda item: -len(item[0])):
        if len(place) > 1:
            text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", name, text)
    return text


def main() -> None:
    """Copy the executed notebooks of a profile's last run to docs/notebooks, without times."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="python -m lib.runner.publish", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.list_profiles())
    profile = profiles.load(parser.parse_args().profile)
    try:
        copies = publish(paths.run_folder(profile) / "executed", name=profile.notebook or "*")
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    size = sum(path.stat().st_size for path in copies)
    print(f"{len(copies)} notebooks, {size / 1e6:.1f} MB: {FOLDER.relative_to(paths.ROOT)}")


if __name__ == "__main__":
    main()
