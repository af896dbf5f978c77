"""Recipes write dataset folders: mini from files of installed packages, thesis from downloads. The
result of `write(build, root)` depends on `build`, `MODULES`, and the versions of `PACKAGES`."""

import importlib
from pathlib import Path

from lib.config.schema import MiniBuild, ThesisBuild
from lib.store import hash_code, hash_value, read_version


def write_folders(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """Return the folder `<home>/<recipe>-<key>`, after writing its missing dataset folders."""
    recipe = importlib.import_module(f"{__name__}.{build.builder}")
    versions = [read_version(package) for package in recipe.PACKAGES]
    made_of = [build.model_dump(mode="json"), hash_code((*recipe.MODULES, "data.files")), versions]
    root = home / f"{build.builder}-{hash_value(made_of)}"
    recipe.write(build, root)
    return root
