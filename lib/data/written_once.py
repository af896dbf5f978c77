"""Folders that are written once, each whole or not at all, and compared with their checksums whenever they are used."""

import functools
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

from lib.store.files import write_atomically


def written(root: Path, writers: Mapping[str, Callable[[Path], None]]) -> Path:
    """`root`, with a folder of each name in it, filled first by its writer where it is missing.

    Who was killed goes on with the next folder. `complete`, written last, holds the SHA-256 of every file: a folder
    with another or a missing file is written again. Of several processes one writes and the others wait.
    """
    complete = root / "complete"
    if not complete.is_file() or _damaged(root):
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".lock"):
            damaged = _damaged(root) if complete.is_file() else {}
            for name, write in writers.items():
                if file := damaged.get(name, damaged.get("complete")):
                    warnings.warn(f"{file} is damaged or missing: {name} is written again", stacklevel=3)
                if file or not (root / name).is_dir():
                    _replace(root / name, write)
            files = (path for name in writers for path in sorted((root / name).rglob("*")) if path.is_file())
            sums = {path.relative_to(root).as_posix(): sha256(path) for path in files}
            write_atomically(complete, json.dumps(sums, indent=1).encode())
    return root


def _replace(folder: Path, write: Callable[[Path], None]) -> None:
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir()
    try:
        write(unfinished)
        for path in unfinished.rglob("*"):  # on the disk before the name is: power may fail
            if path.is_file():
                with path.open("rb") as stream:
                    os.fsync(stream.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def sha256(path: Path) -> str:
    """The SHA-256 of a file; within a process a file of the same size and time is read once."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _sha256(path: Path, size: int, time: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(root: Path) -> dict[str, Path]:
    """{folder: one of its files that is not as `complete` says}; {"complete": itself} if that is unreadable."""
    try:
        sums = json.loads((root / "complete").read_bytes()).items()
    except (ValueError, AttributeError):
        return {"complete": root / "complete"}
    wrong = (name for name, was in sums if not (root / name).is_file() or sha256(root / name) != was)
    return {name.partition("/")[0]: root / name for name in wrong}
