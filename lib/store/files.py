"""Files written whole or not at all, and names made of bytes and values."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

LENGTH = 16  # hex digits of a fingerprint: 64 bits, far beyond accidental collision


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the whole new one; `OSError` in one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(
            temporary, 0o644
        )  # mkstemp's 0600 would hide results from colleagues on a shared disk
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        told = f"cannot write {path}: {error.strerror}; nothing was lost, free space and run again"
        raise OSError(error.errno, told) from None


def check_room(folder: Path, size: float) -> None:
    """Raise `OSError`, in one line, unless so many bytes are free on the disk of a folder."""
    if (free := shutil.disk_usage(folder).free) < size:
        told = (f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB" for n in (size, free))
        raise OSError(f"{folder}: {' are needed, '.join(told)} are free")


def stat_file(path: Path) -> tuple[int, int]:
    """A file's size and the time it was written: while they stay, so does its sum."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, 64 hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_fingerprint(path: Path) -> str:
    """16 hex digits of a file's bytes."""
    return sha256(path)[:LENGTH]


def fingerprint(value: Any) -> str:
    """16 hex digits that name a plain value; the order of a dict's keys does not matter.

    Raises `TypeError` for what JSON cannot express.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]
