"""Folders that are written once, whole or not at all, and compared with their seal when used."""

import functools
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from lib.store import files
from lib.store.sealed import read_facts, read_seal, write_seal

SEAL = "seal.json"
_Look = tuple[str, int, int]  # a file's name, size and time


def write_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """The folder, which `write` fills first where it is missing or damaged.

    Of several processes one writes and the others wait. A writer that is killed leaves nothing.

    Parameters
    ----------
    folder : Path
        Where the files go, together with their seal. Nothing else may lie there.
    write : callable
        Gets an empty folder, which is moved into place when it is full.
    """
    seal = folder / SEAL
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if _is_whole(seal):
            return folder
        if folder.exists():
            warnings.warn(f"{folder} is damaged: it is written again", stacklevel=3)
            shutil.rmtree(folder)
        unfinished = folder.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
        try:
            unfinished.mkdir()
            write(unfinished)
            held = sorted(path for path in unfinished.rglob("*") if path.is_file())
            write_seal(unfinished / SEAL, held)
            os.sync()  # on the disk before the name is: power may fail
            os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def sha256(path: Path) -> str:
    """The SHA-256 of a file; within a process a file of the same size and time is read once."""
    return _sum_of(path, _look(path))


def _is_whole(seal: Path) -> bool:
    """Whether every file is as the seal says; what looks the same is read once a process."""
    facts = read_facts(seal)
    if facts is None:
        return False
    try:
        looks = tuple(_look(seal.parent / name) for name in facts["files"])
    except OSError:
        return False
    return _compare(seal, (_look(seal), *looks))


def _look(path: Path) -> _Look:
    return str(path), *files.stat_file(path)


@functools.cache
def _compare(seal: Path, looks: tuple[_Look, ...]) -> bool:
    return read_seal(seal) is not None


@functools.cache
def _sum_of(path: Path, look: _Look) -> str:
    return files.sha256(path)
