"""Where dataset folders are: in what a builder writes, and in folders of a person's own."""

import functools
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from lib.config import paths
from lib.config.schema import MiniBuild, ThesisBuild
from lib.data import builders

BUILT = "built"  # stands for what the builder writes, in a list of data roots
_REMEDY = (
    "set THESIS_DATA, or data_roots in the profile, to the folder that holds <name>/documents.jsonl"
)


def find_roots(
    build: MiniBuild | ThesisBuild | None, data_roots: Sequence[str], artifacts: Path
) -> list[Path]:
    """The folders of dataset folders: what the builder writes, if there is one, and the others.

    With a builder, the environment variable `THESIS_DATA` adds a folder in front of a person's
    own; without one it replaces them. A folder that is named twice, or in two of Unicode's forms,
    is one root.

    Parameters
    ----------
    build : MiniBuild, ThesisBuild or None
        Settings of the builder. With None, "built" stands for nothing.
    data_roots : sequence of str
        "built", and folders relative to the checkout.
    artifacts : Path
        The artifact root, below which the builder writes.

    Raises
    ------
    ValueError
        A root is no folder, or there is none at all.
    """
    names = [name for name in data_roots if name != BUILT]
    if named := os.environ.get("THESIS_DATA"):
        if build is None:
            names = [named]
        elif find_root(named).is_dir():  # thesis makes it when it builds
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
    """The path of this name, relative to the checkout, each folder of it as `find_folder` does."""
    return functools.reduce(find_folder, Path(name).parts, paths.ROOT)


def find_built(build: MiniBuild | ThesisBuild, artifacts: Path) -> Path:
    """The root that the builder writes, once."""
    return builders.folder(build, artifacts / "data")


def find_dataset(roots: Sequence[Path], name: str) -> Path:
    """The dataset folder of this name; `ValueError` unless it is in exactly one of the roots."""
    places = [place for root in roots if (place := find_folder(root, name)).is_dir()]
    if len(places) > 1:
        held = " and ".join(str(place.parent) for place in places)
        raise ValueError(f"the dataset folder {name!r} is in {held}; rename or remove one")
    if not places:
        looked = ", ".join(map(str, roots))
        raise ValueError(f"{name}: no such dataset folder in {looked}: {_REMEDY}")
    return places[0]


def find_folder(parent: Path, name: str) -> Path:
    """The folder of this name, also where the disk holds it in another of Unicode's forms.

    Hidden folders are not searched. If there is none, the path is `parent / name`.
    """
    path = parent / name
    if path.is_dir():
        return path
    wanted = compose_name(name)
    others = (other for other in parent.glob("[!.]*") if compose_name(other.name) == wanted)
    return min(filter(Path.is_dir, others), default=path)


def compose_name(name: str) -> str:
    """A name as it is typed: on a disk from macOS é may be e and an accent."""
    return unicodedata.normalize("NFC", name)
