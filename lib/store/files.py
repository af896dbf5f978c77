"""Writes files whole or not at all, and computes checksums of files and fingerprints of values."""

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

LENGTH = 16  # hex digits of a fingerprint: 64 bits, far beyond accidental collision


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see either the old or the complete new one.

    Raises
    ------
    OSError
        In one line, if the file cannot be written. The old file is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp's 0600 would hide results from colleagues on a shared disk.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        told = f"cannot write {path}: {error.strerror}; nothing was lost: free space and run again"
        raise OSError(error.errno, told) from None


def check_room(folder: Path, size: float) -> None:
    """Raise OSError, in one line, unless the disk of a folder has `size` bytes free."""
    if (free := shutil.disk_usage(folder).free) < size:
        told = (f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB" for n in (size, free))
        raise OSError(f"{folder}: {' are needed, '.join(told)} are free")


def stat_file(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes and its time of writing in ns.

    As long as both are unchanged, so is the file's checksum.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sum_once(path: Path) -> str:
    """Like `sha256`, but a process reads a file again only if its size or time has changed."""
    return _sum_of(path, *stat_file(path))


@functools.cache
def _sum_of(path: Path, size: int, time: int) -> str:
    return sha256(path)


def file_fingerprint(path: Path) -> str:
    """Return the first 16 hex digits of a file's SHA-256."""
    return sha256(path)[:LENGTH]


def fingerprint(value: Any) -> str:
    """Return 16 hex digits that identify a plain value, whatever the order of a dict's keys.

    Raises
    ------
    TypeError
        For a value that JSON cannot express.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
