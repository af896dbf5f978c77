"""Recipes write dataset folders: mini from files of installed packages, thesis from downloads. The
result of `write(build, root)` depends on `build`, `MODULES`, and the versions of `PACKAGES`.
"""

import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from lib.config import paths
from lib.config.schema import MiniBuild, ThesisBuild
from lib.store import hash_code, hash_value, read_version


def find_roots(build: MiniBuild | ThesisBuild | None, data_roots: Sequence[str]) -> list[Path]:
    """Return the folders that contain dataset folders. `data_roots` are "built", which the recipe
    writes if it is missing, and folders relative to the checkout. With a recipe, `THESIS_DATA` adds
    a folder before a person's own; without, it replaces them.
    """
    roots = [(paths.ROOT / name).resolve() for name in data_roots if name != "built"]
    if named := os.environ.get("THESIS_DATA"):
        roots = [(paths.ROOT / named).resolve(), *(roots if build else [])]
    if build and "built" in data_roots:
        roots.insert(0, write_folders(build, paths.artifacts() / "data"))
    return list(dict.fromkeys(roots))


def write_folders(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """Return the folder `<home>/<recipe>-<key>`, after writing its missing dataset folders."""
    recipe = importlib.import_module(f"{__name__}.{build.builder}")
    versions = [read_version(package) for package in recipe.PACKAGES]
    made_of = [build.model_dump(mode="json"), hash_code((*recipe.MODULES, "data.files")), versions]
    root = home / f"{build.builder}-{hash_value(made_of)}"
    recipe.write(build, root)
    return root
