"""Writes folders once, whole or not at all, and compares them with their seal when used."""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from lib.store.sealed import looks_whole, read_facts, write_seal

SEAL = "seal.json"


def write_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return the folder, after `write` has filled it if it was missing or damaged.

    If several processes call this, one writes and the others wait. A process that is killed leaves
    no incomplete folder.

    Parameters
    ----------
    folder : Path
        The folder for the files and their seal. It must contain nothing else.
    write : callable
        Fills an empty folder, which is moved into place when it is complete.

    Returns
    -------
    Path
        `folder`
    """
    seal = folder / SEAL
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        facts = read_facts(seal)
        if facts is not None and looks_whole(seal, facts):
            return folder
        if folder.exists():
            warnings.warn(f"{folder} is damaged and is written again", stacklevel=3)
            shutil.rmtree(folder)
        unfinished = folder.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
        try:
            unfinished.mkdir()
            write(unfinished)
            held = sorted(path for path in unfinished.rglob("*") if path.is_file())
            write_seal(unfinished / SEAL, held)
            os.sync()  # files must be on disk before the rename, in case the power fails
            os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder
