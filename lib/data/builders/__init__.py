"""Builders write dataset folders: mini from files of installed packages, thesis from downloads.

A builder is a module with two functions. `list_inputs()` lists what decides the result besides
settings and code. `list_writers(build, home)` returns {dataset folder: function that fills it}.
"""

import importlib
from pathlib import Path

from lib.config.schema import MiniBuild, ThesisBuild
from lib.data.builders.writing import write_once
from lib.store import hash_code, hash_value


def folder(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """Return the folder `<home>/<builder>-<key>`, after writing its missing dataset folders."""
    builder = importlib.import_module(f"{__name__}.{build.builder}")
    code = hash_code((f"data.builders.{build.builder}", "data.builders.writing"))
    key = hash_value([build.model_dump(mode="json"), code, builder.list_inputs()])
    root = home / f"{build.builder}-{key}"
    for name, write in builder.list_writers(build, home).items():
        write_once(root / name, write)
    return root
