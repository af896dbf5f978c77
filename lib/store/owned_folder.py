"""Folders that this project wrote, and may therefore replace: a marker lists each file in them with its sha256.

Whatever a person keeps is left alone: a folder without a marker, with one file more than the marker lists, or with one
that was changed since, is never replaced.
"""

import contextlib
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from lib.store.files import sha256

MARKER = ".thesis-student.json"
FORMAT = 2
SAVING = ".thesis-saving"  # ends the name of the hidden folder `.<name>-*` beside a target in which a save works


def check_target(target: str | Path) -> Path:
    """The path of a folder that may be written: absent, empty, or as `replace` wrote it.

    What will be done to it is tried beside it. Raises ValueError, one line naming the path in the way.
    """
    target = Path(target).expanduser()
    if target.name in ("", ".."):
        target = target.resolve()
    try:
        _own_files(target)
        existing = next(folder for folder in target.absolute().parents if os.path.lexists(folder))
        if not existing.is_dir():
            raise ValueError(f"{target} cannot be made: {existing} is no folder")
        with _work_folder(existing, target.name) as work:
            moved, names = work / "new" / "moved", work / "new" / "names"
            names.mkdir(parents=True)
            for name in {*target.absolute().relative_to(existing).parts} - {".."}:
                (moved / "inside").mkdir(parents=True)
                os.rename(moved, names / name)
            with contextlib.suppress(FileNotFoundError):
                os.rename(target, names / target.name)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # what the system says last: all else would succeed
            raise ValueError(f"{target} cannot be written: {error.strerror}; choose another folder") from None
    return target


def replace(target: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` on a new folder beside `target`, then put it in the place of `target`.

    Killed at any moment, the old or the new folder is whole, under its name or, between two renames, in the hidden
    folder beside it, which the next save keeps; other remains of killed saves it removes. Of the old folder only the
    files on its list are removed; a warning names what cannot be. Raises ValueError as `check_target`, before and after
    `write`, or `OSError`; both leave `target` as it was.
    """
    target = check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    for work in target.parent.glob(_pattern(target)):
        _clear(work, target)
    with _work_folder(target.parent, target.name) as work:
        new, old = work / "new", work / "old"
        new.mkdir()  # unlike `work`, which mkdtemp makes private
        write(new)
        _mark(new)
        files = _own_files(target)
        try:
            if files:
                os.rename(target, old)
            os.rename(new, target)  # refused by the system if `target` is by now anything but an empty folder
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
        _remove(old, files)


def left_over(target: Path) -> list[Path]:
    """Whole folders that a replacement of `target`, killed between its two renames, left beside it."""
    return sorted(path.parent for path in target.parent.glob(f"{_pattern(target)}/*/{MARKER}"))


def check_whole(folder: Path) -> None:
    """Raise ValueError, one line naming the file, for a file that was changed since this project wrote it there."""
    if not (folder / MARKER).is_file():
        return
    try:
        files = {folder / name: digest for name, digest in _listed(folder).items()}
        changed = [path for path, digest in files.items() if path.is_file() and sha256(path) != digest]
    except ValueError:
        changed = [folder / MARKER]
    if changed:
        text = f"damaged or changed since this project wrote it; make it again, or remove {MARKER} to read it as it is"
        raise ValueError(f"cannot read {changed[0]}: {text}")


def _prefix(name: str) -> str:
    return f".{os.fsencode(name)[:100].decode(errors='ignore')}-"


def _pattern(target: Path) -> str:
    return glob.escape(_prefix(target.name)) + 8 * "?" + SAVING


@contextlib.contextmanager
def _work_folder(parent: Path, name: str) -> Iterator[Path]:
    """A hidden folder, locked while this process is alive; at the end it goes, with the folder `new` in it."""
    work = Path(tempfile.mkdtemp(prefix=_prefix(name), suffix=SAVING, dir=parent))
    lock = _lock(work)
    try:
        yield work
    finally:
        if not (work / "old").exists() or (parent / name).exists():  # else both are kept, as after a kill
            shutil.rmtree(work / "new", ignore_errors=True)
        with contextlib.suppress(OSError):
            work.rmdir()
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A handle that keeps others from locking the folder; None if another has it, or none can be had."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except OSError:
            os.close(handle)
    return None


def _clear(work: Path, target: Path) -> None:
    """Remove what a killed save left, unless a student that was never replaced is in it: that is named."""
    lock = _lock(work)
    if lock is None:
        return
    new, old = work / "new", work / "old"
    if old.exists() and (new.exists() or not target.exists()):
        told = "is what a killed save moved away; nothing of it was removed, move it where you want it"
        warnings.warn(f"{old} {told}", stacklevel=4)
    else:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists():
            try:
                _remove(old, _own_files(old))
            except ValueError:
                _remove(old, [])
        with contextlib.suppress(OSError):
            work.rmdir()
    os.close(lock)


def _own_files(folder: Path) -> list[str]:
    """The files of a folder that may be replaced, the marker last; none if it is absent or empty."""
    if folder.is_symlink():
        raise ValueError(f"{folder} is a symbolic link to {os.readlink(folder)}; name the folder itself")
    if not os.path.lexists(folder):
        return []
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder that does not exist yet")
    inside: list[Path] = []
    try:
        folders = [folder]
        for parent in folders:  # grows; unlike rglob, iterdir says what it cannot read
            children = sorted(parent.iterdir())
            folders += [path for path in children if path.is_dir() and not path.is_symlink()]
            inside += children
        listed = _listed(folder) if inside else {}
        own = {MARKER, *listed}
        parents = {parent.as_posix() for name in own for parent in Path(name).parents}
        for path in inside:
            name = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (name in parents if path.is_dir() else path.is_file() and name in own):
                raise ValueError(f"{path} was not written by this project; move it away or choose another folder")
            if name in listed and not path.is_dir() and sha256(path) != listed[name]:
                told = "was changed after this project wrote it; move it away or choose another folder"
                raise ValueError(f"{path} {told}")
    except FileNotFoundError:
        told = f"holds {inside[0].name} and was not saved by this project; choose another folder"
        raise ValueError(f"{folder} {told}") from None
    except OSError as error:
        told = f"{MARKER} or what it lists is not readable ({error.strerror})"
        raise ValueError(f"{folder} cannot be replaced: {told}") from None
    names = [path.relative_to(folder).as_posix() for path in inside if not path.is_dir()]
    return sorted(names, key=lambda name: name == MARKER)


def _listed(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file that a folder's marker lists."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        if marker["format"] == FORMAT and all(isinstance(digest, str) for digest in marker["files"].values()):
            return marker["files"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise ValueError(f"{folder / MARKER} is damaged or of another version; choose another folder")


def _mark(folder: Path) -> None:
    """Write the marker; bring every file to disk, with the mode that the umask gives a new file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    marker = {"format": FORMAT, "files": {path.relative_to(folder).as_posix(): sha256(path) for path in files}}
    (folder / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    for path in [*files, folder / MARKER]:
        path.chmod(folder.stat().st_mode & 0o666)
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def _remove(folder: Path, files: list[str]) -> None:
    """Remove the files of a list and the folders that they leave empty; warn of what stays."""
    for name in files:
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    for parent, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(parent)
    if folder.exists():
        warnings.warn(f"{folder}, replaced, stays: it holds what is not ours or cannot be removed", stacklevel=5)
