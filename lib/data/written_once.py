"""Folders that are written once, each whole or not at all, and compared with their checksums whenever they are used."""

import contextlib
import functools
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

from lib.store import files

_sums = functools.cache(lambda path, size, time: files.sha256(path))


def written(root: Path, writers: Mapping[str, Callable[[Path], None]]) -> Path:
    """`root`, with a folder of each name in it, filled first by its writer where it is missing.

    Who was killed goes on with the next folder. `complete`, written last, holds the SHA-256 of every file: a folder
    with another or a missing file is written again. Of several processes one writes and the others wait.
    """
    sums: dict[str, str] = {}
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        with contextlib.suppress(OSError, ValueError):
            sums = json.loads((root / "complete").read_bytes())
        wrong = [
            name
            for name, was in sums.items()
            if not (root / name).is_file() or sha256(root / name) != was
        ]
        for name in {name.partition("/")[0] for name in wrong}:
            warnings.warn(f"{root / name} is damaged: it is written again", stacklevel=3)
            shutil.rmtree(root / name, ignore_errors=True)
        missing = [name for name in writers if not (root / name).is_dir()]
        for name in missing:
            unfinished = root / f".{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
            try:
                unfinished.mkdir()
                writers[name](unfinished)
                os.sync()  # on the disk before the name is: power may fail
                os.replace(unfinished, root / name)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        if missing or not sums:
            held = (
                path
                for name in writers
                for path in sorted((root / name).rglob("*"))
                if path.is_file()
            )
            sums = {path.relative_to(root).as_posix(): sha256(path) for path in held}
            files.write_atomically(root / "complete", json.dumps(sums, indent=1).encode())
    return root


def sha256(path: Path) -> str:
    """The SHA-256 of a file; within a process a file of the same size and time is read once."""
    status = path.stat()
    return _sums(path, status.st_size, status.st_mtime_ns)
