"""Folders that this project wrote, and may therefore replace: a marker lists each file in them with its sha256.

A folder without a marker, with one file more than it lists, or with a changed one is a person's, and left alone.
"""

import contextlib
import glob
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from lib.store.files import sha256

MARKER = ".thesis-student.json"
SAVING = ".thesis-saving"  # ends the name of the hidden folder `.<name>-*` beside a target in which a save works
DAMAGED = f"damaged or changed since this project wrote it; make it again, or remove {MARKER} to read it as it is"


def check_target(target: str | Path) -> Path:
    """The path of a folder, its parents made, that may be written: absent, empty, or as `replace` wrote it. Raises
    ValueError, one line, for any other and where no folder can be made beside it."""
    target = Path(os.path.abspath(Path(target).expanduser()))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_own(target)
        os.rmdir(tempfile.mkdtemp(SAVING, f".{target.name}-", target.parent))
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error}; choose another folder") from None
    return target


def replace(target: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a new folder beside `target`, then put it in its place. Killed at any moment, the old or the new
    folder is whole, under its name or, between two renames, as `left_over`; ValueError, as of `check_target` and for a
    full disk, leaves the old one."""
    target = check_target(target)
    for work in target.parent.glob(_pattern(target)):
        warnings.warn(
            f"{work} is left from a save that was cut off; remove it if you need nothing in it",
            stacklevel=4,
        )
    work = Path(tempfile.mkdtemp(SAVING, f".{target.name}-", target.parent))
    new, old = work / "new", work / "old"
    try:
        new.mkdir()  # unlike `work`, which mkdtemp makes private
        write(new)
        _mark(new)
        _check_own(target)
        if target.exists():
            os.rename(target, old)
        os.rename(new, target)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error}; choose another folder") from None
    finally:
        if old.exists() and not target.exists():
            os.rename(old, target)
        shutil.rmtree(new, ignore_errors=True)
        with contextlib.suppress(OSError):
            work.rmdir()
    try:
        _check_own(old)
        shutil.rmtree(work, ignore_errors=not old.exists())
    except (OSError, ValueError) as error:
        warnings.warn(f"{old}, replaced, stays: {error}", stacklevel=4)


def left_over(target: Path) -> list[Path]:
    """Whole folders that a replacement of `target`, killed between its two renames, left beside it."""
    return sorted(path.parent for path in target.parent.glob(f"{_pattern(target)}/*/{MARKER}"))


def check_whole(folder: Path) -> None:
    """Raise ValueError, one line naming the file, for a file that is not as this project wrote it there. A student
    without `tokenizer.json` is whole: it reads token ids."""
    for path, digest in _listed(folder).items() if (folder / MARKER).is_file() else ():
        if sha256(path) != digest if path.is_file() else path.name != "tokenizer.json":
            raise ValueError(f"cannot read {path}: {DAMAGED}")


def _pattern(target: Path) -> str:
    return f".{glob.escape(target.name)}-????????{SAVING}"


def _check_own(folder: Path) -> None:
    """Raise ValueError, one line, unless a folder is absent, empty, or exactly as its marker says."""
    if folder.is_symlink() or folder.is_file():
        raise ValueError(f"{folder} is a file or a symbolic link; name a folder")
    names = os.listdir(folder) if folder.exists() else []
    if names and MARKER not in names:
        raise ValueError(
            f"{folder} holds {min(names)} and was not saved by this project; choose another folder"
        )
    listed = _listed(folder) if names else {}
    folders = {parent for path in listed for parent in path.parents}
    for path in folder.rglob("*"):
        own = path in folders if path.is_dir() else path in listed or path == folder / MARKER
        if path.is_symlink() or not own or path in listed and sha256(path) != listed[path]:
            told = "was not written by this project or was changed since; move it away or choose another folder"
            raise ValueError(f"{path} {told}")


def _listed(folder: Path) -> dict[Path, str]:
    """The SHA-256 of each file that a folder's marker lists."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return {folder / name: digest for name, digest in marker["files"].items()}
    raise ValueError(f"cannot read {folder / MARKER}: {DAMAGED}")


def _mark(folder: Path) -> None:
    """Write the marker; bring every file to disk, with the mode that the umask gives a new file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    digests = {path.relative_to(folder).as_posix(): sha256(path) for path in files}
    (folder / MARKER).write_text(json.dumps({"files": digests}, indent=2) + "\n", encoding="utf-8")
    for path in [*files, folder / MARKER]:
        path.chmod(folder.stat().st_mode & 0o666)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
