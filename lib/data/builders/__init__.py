"""Builders write dataset folders: mini from files of installed packages, thesis from downloads.

A builder is a module with two functions. `list_inputs(build, home)` lists the inputs that decide
the result besides settings and code. `list_writers(build, home)` returns {dataset folder: function
that fills it}. The command `python -m lib.data.build <profile>` runs a builder.
"""

import importlib
from pathlib import Path

from lib.config.schema import MiniBuild, ThesisBuild
from lib.data.written_once import write_once
from lib.store.code import fingerprint_code
from lib.store.files import fingerprint

# Modules whose code does not change what a builder writes.
_READERS = (
    "lib.data.archives",
    "lib.data.builders.fetch",
    "lib.data.dataset_folder",
    "lib.data.sources",
    "lib.data.task_files",
    "lib.data.written_once",
)


def folder(build: MiniBuild | ThesisBuild, home: Path) -> Path:
    """Return the folder `<home>/<builder>-<key>`, after writing its missing dataset folders.

    After an interruption, the next call continues with the first unfinished dataset folder.
    """
    builder = importlib.import_module(f"{__name__}.{build.builder}")
    code = fingerprint_code([builder.__name__], stop=("lib.store", "lib.config", *_READERS))
    settings = build.model_dump(mode="json")
    key = fingerprint([settings, code, builder.list_inputs(build, home)])
    root = home / f"{build.builder}-{key}"
    for name, write in builder.list_writers(build, home).items():
        write_once(root / name, write)
    return root
