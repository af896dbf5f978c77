"""Recipes write dataset folders: mini from files of installed packages, thesis from downloads.

A recipe is a module with two functions. `list_inputs()` lists what decides the result besides
settings: code, and versions of what is read. `list_writers(build, home)` returns {dataset folder:
function that fills it}.
"""

import importlib
from pathlib import Path

from lib.config.schema import MiniBuild, ThesisBuild
from lib.data.files import write_once
from lib.store import hash_value


def write_folders(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """Return the folder `<home>/<recipe>-<key>`, after writing its missing dataset folders."""
    recipe = importlib.import_module(f"{__name__}.{build.builder}")
    key = hash_value([build.model_dump(mode="json"), recipe.list_inputs()])
    root = home / f"{build.builder}-{key}"
    for name, write in recipe.list_writers(build, home).items():
        write_once(root / name, write)
    return root
