"""Folders that this project wrote, and may therefore replace: each lists its own files in a marker.

Whatever a person keeps is left alone: a folder without a marker, or with one file more than the marker lists, is never
replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

MARKER = ".thesis-student.json"
FORMAT = 1


def check_target(target: str | Path) -> Path:
    """The path of a folder that may be written: absent, empty, or written by `replace` with nothing added since.

    Raises ValueError, one line naming the path in the way, for anything else and for missing permission.
    """
    target = Path(target).expanduser()
    if target.name in ("", ".."):
        target = target.resolve()
    if target.is_symlink():
        raise ValueError(f"{target} is a symbolic link to {os.readlink(target)}; name the folder itself")
    if os.path.lexists(target):
        if not target.is_dir():
            raise ValueError(f"{target} is a file; name a folder that does not exist yet")
        _own_files(target)
    existing = next(folder for folder in target.absolute().parents if os.path.lexists(folder))
    if not existing.is_dir():
        raise ValueError(f"{target} cannot be made: {existing} is no folder")
    for folder in (existing, target):  # a folder is moved aside only by who may write in it
        if os.path.lexists(folder) and not os.access(folder, os.W_OK | os.X_OK):
            raise ValueError(f"{target} cannot be written: no permission to write in {folder}")
    return target


def replace(target: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a new folder beside `target`, then put it in the place of `target`.

    Two renames: killed at any moment, the old or the new folder is whole, under its name or, between the two, in
    `.<name>-*/` beside it. Of the old folder only the files on its list are removed.

    Raises ValueError as `check_target`, before and after `write`, or `OSError`; both leave `target` as it was.
    """
    target = check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}-", dir=target.parent))
    new, old = work / "new", work / "old"
    try:
        new.mkdir()  # unlike `work`, which mkdtemp makes private
        write(new)
        _mark(new)
        files = _own_files(check_target(target)) if target.exists() else []
        if files:
            os.rename(target, old)
        try:
            os.rename(new, target)  # refused by the system if `target` is by now anything but an empty folder
        except BaseException:
            if files:
                os.rename(old, target)
            raise
        _remove(old, files)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        with contextlib.suppress(OSError):
            work.rmdir()


def left_over(target: Path) -> list[Path]:
    """Whole folders that a replacement of `target`, killed between its two renames, left beside it."""
    return sorted(path.parent for path in target.parent.glob(f".{target.name[:100]}-*/*/{MARKER}"))


def _own_files(folder: Path) -> list[str]:
    """The names of a folder's files, all of which are on its list; empty for an empty folder."""
    inside: list[Path] = []
    try:
        folders = [folder]
        for parent in folders:  # grows; unlike rglob, iterdir says what it cannot read
            children = sorted(parent.iterdir())
            folders += [path for path in children if path.is_dir() and not path.is_symlink()]
            inside += children
        if not inside:
            return []
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        listed = marker["files"] if marker["format"] == FORMAT else None
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise KeyError
    except FileNotFoundError:
        told = f"{folder} holds {inside[0].name} and was not saved by this project"
        raise ValueError(f"{told}; choose another folder") from None
    except OSError as error:
        told = f"{MARKER} or a folder is not readable ({error.strerror})"
        raise ValueError(f"{folder} cannot be replaced: {told}") from None
    except (ValueError, TypeError, KeyError):
        raise ValueError(f"{folder / MARKER} is damaged or of another version; choose another folder") from None
    names = {MARKER, *listed}
    parents = {parent.as_posix() for name in names for parent in Path(name).parents}
    for path in inside:
        ours = path.relative_to(folder).as_posix() in (parents if path.is_dir() else names)
        if path.is_symlink() or not ours:
            raise ValueError(f"{path} was not written by this project; move it away or choose another folder")
    return [path.relative_to(folder).as_posix() for path in inside if not path.is_dir()]


def _mark(folder: Path) -> None:
    """Write the marker; bring every file to disk, with the mode that the umask gives a new file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    marker = {"format": FORMAT, "files": [path.relative_to(folder).as_posix() for path in files]}
    (folder / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    for path in [*files, folder / MARKER]:
        path.chmod(folder.stat().st_mode & 0o666)
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def _remove(folder: Path, files: list[str]) -> None:
    """Remove the files of a list and the folders that they leave empty."""
    for name in files:
        (folder / name).unlink(missing_ok=True)
    for parent, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(parent)
    if folder.exists():
        warnings.warn(f"{folder} holds files that this project did not write; they were left there", stacklevel=4)
