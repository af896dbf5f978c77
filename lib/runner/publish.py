"""Copy executed notebooks to `docs/notebooks` for the site: `python -m lib.runner.publish mini`."""

import argparse
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lib.config import paths, profiles
from lib.config.console import escape_unprintable
from lib.store import write_text

FOLDER = paths.ROOT / "docs" / "notebooks"
INJECTED = "injected-parameters"  # the cell that papermill adds, under a new name in every run
WIDGETS = "application/vnd.jupyter"  # live views, such as progress bars, are dead in a copy
# A link in a text cell to another file. It moves, because docs/notebooks is one folder deeper.
LINK = re.compile(r"(\]\()(\.\./[^)\s]+|\w+\.ipynb)")
ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")  # of an object in memory


def publish(executed: Path, folder: Path = FOLDER, name: str = "*") -> list[Path]:
    """Write clean copies of executed notebooks; ValueError without any, or if one failed."""
    sources = sorted(executed.glob(f"{name}.ipynb"))
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
        begin, target = match.groups()
        if target.startswith("../"):
            return f"{begin}../{target}"
        return match[0] if target in copied else f"{begin}../../notebooks/{target}"

    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, cell in enumerate(notebook["cells"]):
        tags = cell["metadata"].get("tags")
        cell["metadata"] = {} if tags is None else {"tags": tags}
        if INJECTED in (tags or ()):
            cell["id"] = INJECTED
        if cell["cell_type"] != "code":
            cell["source"] = [LINK.sub(move_link, line) for line in cell["source"]]
            continue
        if cell["execution_count"] is None and "".join(cell["source"]).strip():
            raise ValueError(f"{path}: cell {number} was not executed: run the notebook again")
        cell["execution_count"] = None
        cell["outputs"] = [output for output in cell["outputs"] if _is_result(output)]
    keys = {"kernelspec", "language_info"} & {*notebook["metadata"]}
    notebook["metadata"] = {key: notebook["metadata"][key] for key in keys}
    notebook["metadata"].get("language_info", {}).pop("version", None)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    text = ADDRESS.sub("0x0", text + "\n")
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        if len(place) > 1:  # a home may be /
            text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", places[place], text)
    return text


def _is_result(output: dict[str, Any]) -> bool:
    """Whether an output is a result, and no progress or dead widget; ValueError for an error."""
    if output["output_type"] == "error":
        raise ValueError(f"a cell failed: {output['ename']}: {output['evalue']}")
    if output["output_type"] == "stream":
        return output["name"] == "stdout"
    if "execution_count" in output:  # the notebook format requires the key
        output["execution_count"] = None
    return not any(kind.startswith(WIDGETS) for kind in output["data"])


def main() -> None:
    """Copy the executed notebooks of a profile's last run to docs/notebooks, without times."""
    escape_unprintable()
    parser = argparse.ArgumentParser(prog="python -m lib.runner.publish", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.list_profiles())
    profile = profiles.load(parser.parse_args().profile)
    try:
        copies = publish(paths.run_folder(profile) / "executed", name="*")
    except ValueError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(f"{len(copies)} notebooks: {FOLDER.relative_to(paths.ROOT)}")


if __name__ == "__main__":
    main()
