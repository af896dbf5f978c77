"""Folders that are written once, whole or not at all, and compared with their seal when used."""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from lib.store.sealed import looks_whole, read_facts, write_seal

SEAL = "seal.json"


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
        facts = read_facts(seal)
        if facts is not None and looks_whole(seal, facts):
            return folder
        if folder.exists():
            warnings.warn(f"{folder} is damaged and is written again", stacklevel=3)
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
