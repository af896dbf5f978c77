"""Finds dataset folders: those that a recipe writes, and those in a person's own folders."""

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from lib.config import paths
from lib.config.schema import MiniBuild, ThesisBuild

BUILT = "built"  # stands for the recipe's folder in a list of data roots
_REMEDY = (
    "set THESIS_DATA, or data_roots in the profile, to the folder that holds <name>/documents.jsonl"
)


def find_roots(
    build: MiniBuild | ThesisBuild | None, data_roots: Sequence[str], artifacts: Path
) -> list[Path]:
    """Return the data roots, the folders that contain dataset folders.

    `data_roots` are "built" and folders relative to the checkout. The recipe's folder comes first.
    With a recipe, `THESIS_DATA` adds a folder before a person's own; without, it replaces them.
    `ValueError` if a root is not a folder, or there is no root at all.
    """
    names = [name for name in data_roots if name != BUILT]
    named = os.environ.get("THESIS_DATA")
    if named and build is None:
        names = [named]
    elif named and (paths.ROOT / named).is_dir():  # else the recipe of thesis will make it
        names.insert(0, named)
    for name in names:
        if not (paths.ROOT / name).is_dir():
            raise ValueError(f"the data root {name!r} is not a folder: {_REMEDY}")
    roots = [paths.ROOT / name for name in names]
    if build is not None and BUILT in data_roots:
        roots.insert(0, find_built(build, artifacts))
    if not roots:
        raise ValueError(f"no data root: the profile needs your own documents: {_REMEDY}")
    return [*{root.resolve(): root for root in roots}.values()]


def find_built(build: MiniBuild | ThesisBuild, artifacts: Path) -> Path:
    """Return the recipe's folder, writing it if it is missing."""
    return importlib.import_module("lib.recipes").write_folders(build, artifacts / "data")


def find_dataset(roots: Sequence[Path], name: str) -> Path:
    """Return the dataset folder of this name; ValueError unless exactly one root contains it."""
    places = [root / name for root in roots if (root / name).is_dir()]
    if len(places) > 1:
        held = " and ".join(str(place.parent) for place in places)
        raise ValueError(f"the dataset folder {name!r} is in {held}; rename or remove one")
    if not places:
        looked = ", ".join(map(str, roots))
        raise ValueError(f"{name}: no such dataset folder in {looked}: {_REMEDY}")
    return places[0]
