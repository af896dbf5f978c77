"""Builders write dataset folders: mini from files of installed packages, thesis from downloads.

A builder is a module with two functions, `list_inputs(build, home)`, which names what besides its
settings and its code decides the result, and `list_writers(build, home)`, {dataset folder: a
function that fills it}. `python -m lib.data.build <profile>` builds by hand.
"""

import importlib
from pathlib import Path

from lib.config.schema import MiniBuild, ThesisBuild
from lib.data.written_once import write_once
from lib.store.code import fingerprint_code
from lib.store.files import fingerprint

# Their code does not decide what a builder writes.
_READERS = (
    "lib.data.archives",
    "lib.data.builders.fetch",
    "lib.data.dataset_folder",
    "lib.data.sources",
    "lib.data.task_files",
    "lib.data.written_once",
)


def folder(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """`<home>/<builder>-<key>`, whose dataset folders are written where they are missing.

    A run that is killed goes on with the dataset folder that it was at.
    """
    builder = importlib.import_module(f"{__name__}.{build.builder}")
    code = fingerprint_code([builder.__name__], stop=("lib.store", "lib.config", *_READERS))
    settings = build.model_dump(mode="json")
    key = fingerprint([settings, code, builder.list_inputs(build, home)])
    root = home / f"{build.builder}-{key}"
    for name, write in builder.list_writers(build, home).items():
        write_once(root / name, write)
    return root
