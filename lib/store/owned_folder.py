"""Folders that this project wrote and may therefore replace. A seal inside lists their files.

A folder belongs to a person, and is left alone, if it has no seal, a file that the seal does not
list, or a changed file. Files that operating systems leave, such as `.DS_Store`, are ignored.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

from lib.store.sealed import list_changed, read_seal, sum_values, write_seal

SEAL = "seal.json"
# The kind of a folder is in its seal, so that a student replaces no dataset that this project
# built, and vectors replace no student.
KIND = "student"
# Suffix of the hidden folders `.<name>-*` next to a target, in which a new folder is written.
_WORK = ".thesis-saving"
_OF_SYSTEMS = (".DS_Store", "Thumbs.db", "desktop.ini")


def check_target(target: str | Path, kind: str = KIND) -> Path:
    """Check that a folder may be written: it is missing, empty, or as `replace_folder` left it.

    kind: the kind of folder to write, which may replace only its own kind.

    Returns
    -------
    Path
        The folder's absolute path. Its parents exist.

    Raises
    ------
    ValueError
        In one line, for any other folder, and for a place that cannot be written to.
    """
    target = Path(os.path.abspath(Path(target).expanduser()))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_replaceable(target, kind)
        _make_work_folder(target).rmdir()
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error}; choose another folder") from None
    return target


def replace_folder(target: str | Path, write: Callable[[Path], None], kind: str = KIND) -> None:
    """Write a folder whole or not at all; it may replace one that this project wrote.

    If the process is killed, the old or the new folder stays whole. Between two renames, it is in
    one of the hidden folders that `list_left_over` lists.

    Parameters
    ----------
    target : str or Path
        The folder to write.
    write : callable
        Gets a new, empty folder and fills it.
    kind : str
        The kind of folder; folders of another kind are not replaced.

    Raises
    ------
    ValueError
        As in `check_target`, and for a full disk. The old folder is then unchanged.
    """
    target = check_target(target, kind)
    for path in list_left_over(target):
        warnings.warn(f"{path} was left behind by an interrupted save; remove it", stacklevel=4)
    work = _make_work_folder(target)
    new, old = work / "new", work / "old"
    try:
        new.mkdir()  # its mode follows the umask, unlike that of `work`
        write(new)
        _seal(new, kind)
        _check_replaceable(target, kind)  # again: writing takes a while
        if target.exists():
            target.rename(old)
        new.rename(target)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error}; choose another folder") from None
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        if _is_replaceable(old, kind):  # check again, since a person may have put a file into it
            shutil.rmtree(work, ignore_errors=True)
        else:
            warnings.warn(f"{old} was changed while it was replaced; it is kept", stacklevel=4)


def list_left_over(target: Path) -> list[Path]:
    """List the hidden folders next to a target of saves that were interrupted or are running."""
    prefix = f".{target.name}-"
    hidden = target.parent.iterdir() if target.parent.is_dir() else ()
    return sorted(
        path for path in hidden if path.name.startswith(prefix) and path.name.endswith(_WORK)
    )


def is_sealed(folder: Path, kind: str = KIND) -> bool:
    """Whether a folder is exactly as `replace_folder` wrote it, with no file added or changed."""
    seal = read_seal(folder / SEAL)
    if seal is None or seal.get("kind") != kind:
        return False
    written = {folder / SEAL, *(folder / name for name in seal["files"])}
    present = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {path for path in present if not _is_of_system(path)} == written


def check_whole(folder: Path, unread: Collection[str] = ()) -> None:
    """Check the files of a folder against its seal.

    Parameters
    ----------
    folder : Path
        A folder without a seal belongs to a person and is not checked.
    unread : collection of str
        Files that nothing here reads. If one of them has changed, there is a warning.

    Raises
    ------
    ValueError
        In one line, if the seal or any other file is missing or has changed.
    """
    if not (folder / SEAL).is_file():
        return
    changed = list_changed(folder / SEAL)
    wrong = [SEAL] if changed is None else [name for name in changed if name not in unread]
    if wrong:
        raise ValueError(
            f"cannot read {folder}: damaged or changed since this project wrote it: "
            f"{', '.join(wrong[:3])}; make it again, or remove {SEAL} to read it as it is"
        )
    for name in changed or ():
        told = "was changed since this project wrote it, and is not read here"
        warnings.warn(f"{folder / name} {told}", stacklevel=2)


def _check_replaceable(target: Path, kind: str) -> None:
    if target.is_symlink() or target.is_file():
        raise ValueError(f"{target} is a file or a symbolic link; name a folder")
    if target in (Path.cwd(), *Path.cwd().parents):  # a shell would stay in the replaced folder
        raise ValueError(f"{target} is or contains the current folder; name another one")
    if not _is_replaceable(target, kind):
        raise ValueError(
            f"{target} holds files that this project did not write, or that were changed since "
            "then; choose another folder"
        )


def _is_replaceable(folder: Path, kind: str) -> bool:
    empty = not folder.exists() or all(map(_is_of_system, folder.iterdir()))
    return empty or is_sealed(folder, kind)


def _is_of_system(path: Path) -> bool:
    """Whether a file is one that macOS or Windows leaves in folders that a person has opened."""
    return (path.name in _OF_SYSTEMS or path.name.startswith("._")) and path.is_file()


def _make_work_folder(target: Path) -> Path:
    return Path(tempfile.mkdtemp(suffix=_WORK, prefix=f".{target.name}-", dir=target.parent))


def _seal(folder: Path, kind: str) -> None:
    """Write the seal, flush every file to disk, and give files the mode of the umask."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_seal(folder / SEAL, files, kind=kind, json=sum_values(folder, files))
    for path in [*files, folder / SEAL]:
        path.chmod(folder.stat().st_mode & 0o666)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
