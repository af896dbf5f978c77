"""Finds dataset folders: those that a builder writes, and those in a person's own folders."""

import functools
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from lib.config import paths
from lib.config.schema import MiniBuild, ThesisBuild
from lib.data import builders

BUILT = "built"  # stands for the builder's folder in a list of data roots
_REMEDY = (
    "set THESIS_DATA, or data_roots in the profile, to the folder that holds <name>/documents.jsonl"
)


def find_roots(
    build: MiniBuild | ThesisBuild | None, data_roots: Sequence[str], artifacts: Path
) -> list[Path]:
    """Return the data roots, the folders that contain dataset folders.

    `data_roots` are "built" and folders relative to the checkout. The builder's folder comes first.
    With a builder, `THESIS_DATA` adds a folder before a person's own; without, it replaces them.
    `ValueError` if a root is not a folder, or there is no root at all.
    """
    names = [name for name in data_roots if name != BUILT]
    if named := os.environ.get("THESIS_DATA"):
        if build is None:
            names = [named]
        elif find_root(named).is_dir():  # else the builder of thesis will make it
            names.insert(0, named)
    roots = [find_root(name) for name in names]
    for name, root in zip(names, roots, strict=True):
        if not root.is_dir():
            raise ValueError(f"the data root {name!r} is not a folder: {_REMEDY}")
    if build is not None and BUILT in data_roots:
        roots.insert(0, find_built(build, artifacts))
    if not roots:
        raise ValueError(f"no data root: the profile needs your own documents: {_REMEDY}")
    return [*{root.resolve(): root for root in roots}.values()]


def find_root(name: str) -> Path:
    """Return a path relative to the checkout, finding each of its folders with `find_folder`."""
    return functools.reduce(find_folder, Path(name).parts, paths.ROOT)


def find_built(build: MiniBuild | ThesisBuild, artifacts: Path) -> Path:
    """Return the builder's folder, building it if it is missing."""
    return builders.folder(build, artifacts / "data")


def find_dataset(roots: Sequence[Path], name: str) -> Path:
    """Return the dataset folder of this name; ValueError unless exactly one root contains it."""
    places = [place for root in roots if (place := find_folder(root, name)).is_dir()]
    if len(places) > 1:
        held = " and ".join(str(place.parent) for place in places)
        raise ValueError(f"the dataset folder {name!r} is in {held}; rename or remove one")
    if not places:
        looked = ", ".join(map(str, roots))
        raise ValueError(f"{name}: no such dataset folder in {looked}: {_REMEDY}")
    return places[0]


def find_folder(parent: Path, name: str) -> Path:
    """Return the folder of this name in any Unicode form; `parent / name` if there is none."""
    path = parent / name
    if path.is_dir():
        return path
    wanted = compose_name(name)
    others = (other for other in parent.glob("[!.]*") if compose_name(other.name) == wanted)
    return min(filter(Path.is_dir, others), default=path)


def compose_name(name: str) -> str:
    """Compose the characters of a name (NFC). On disks from macOS, é may be an e and an accent."""
    return unicodedata.normalize("NFC", name)
