"""Folders that this project wrote, and may therefore replace: a seal inside lists their files.

A folder without a seal, with one file more than it lists, or with a changed one is a person's, and
left alone. Files that systems leave in a folder, such as `.DS_Store`, are no one's.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

from lib.store.sealed import list_changed, read_seal, sum_values, write_seal

SEAL = "seal.json"
# In the seal: a dataset that this project built is no target for a student, nor a student for
# vectors.
KIND = "student"
# Ends the names of hidden folders `.<name>-*` beside a target, in which a new folder is written.
_WORK = ".thesis-saving"
_OF_SYSTEMS = (".DS_Store", "Thumbs.db", "desktop.ini")


def check_target(target: str | Path, kind: str = KIND) -> Path:
    """Check that a folder may be written: it is absent, empty, or as `replace_folder` left it.

    kind: what is to be written there, and may be replaced.

    Returns
    -------
    Path
        The folder's absolute path; its parents have been made.

    Raises
    ------
    ValueError
        In one line, for any other folder, and where nothing can be written.
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
    """Write a folder whole or not at all, in the place of one that this project wrote.

    A process that is killed leaves the old or the new folder whole: under its own name or, between
    two renames, in one of the hidden folders that `list_left_over` names.

    Parameters
    ----------
    target : str or Path
        The folder.
    write : callable
        Fills the new, empty folder that it is given.
    kind : str
        What it is; a folder of another kind is not replaced.

    Raises
    ------
    ValueError
        As `check_target`, and for a full disk; the old folder is then as it was.
    """
    target = check_target(target, kind)
    for path in list_left_over(target):
        warnings.warn(f"{path} was left behind by an interrupted save; remove it", stacklevel=4)
    work = _make_work_folder(target)
    new, old = work / "new", work / "old"
    try:
        new.mkdir()  # with the modes of the umask, unlike `work`
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
        if _is_replaceable(old, kind):  # once more, as a person may have put a file into it
            shutil.rmtree(work, ignore_errors=True)
        else:
            warnings.warn(f"{old} was changed while it was replaced, so it is kept", stacklevel=4)


def list_left_over(target: Path) -> list[Path]:
    """List the hidden folders beside a target in which a save was cut off, or is at work."""
    prefix = f".{target.name}-"
    hidden = target.parent.iterdir() if target.parent.is_dir() else ()
    return sorted(
        path for path in hidden if path.name.startswith(prefix) and path.name.endswith(_WORK)
    )


def is_sealed(folder: Path, kind: str = KIND) -> bool:
    """Whether a folder is exactly as `replace_folder` wrote it: no file more, less or changed."""
    seal = read_seal(folder / SEAL)
    if seal is None or seal.get("kind") != kind:
        return False
    written = {folder / SEAL, *(folder / name for name in seal["files"])}
    present = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
    return {path for path in present if not _is_of_system(path)} == written


def check_whole(folder: Path, unread: Collection[str] = ()) -> None:
    """Check the files of a folder with a seal.

    Parameters
    ----------
    folder : Path
        One without a seal is a person's, and not looked at.
    unread : collection of str
        Files that do not decide what is read: if one was changed, that is a warning.

    Raises
    ------
    ValueError
        In one line, if another file, or the seal, is not as it was written.
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
    if target in (Path.cwd(), *Path.cwd().parents):  # a shell would stay in the folder of before
        raise ValueError(f"{target} holds the current folder; name another one")
    if not _is_replaceable(target, kind):
        raise ValueError(
            f"{target} holds files that this project did not write, or that were changed since; "
            "choose another folder"
        )


def _is_replaceable(folder: Path, kind: str) -> bool:
    empty = not folder.exists() or all(map(_is_of_system, folder.iterdir()))
    return empty or is_sealed(folder, kind)


def _is_of_system(path: Path) -> bool:
    """Whether macOS or Windows left a file where a person looked into a folder."""
    return (path.name in _OF_SYSTEMS or path.name.startswith("._")) and path.is_file()


def _make_work_folder(target: Path) -> Path:
    return Path(tempfile.mkdtemp(suffix=_WORK, prefix=f".{target.name}-", dir=target.parent))


def _seal(folder: Path, kind: str) -> None:
    """Write the seal; bring every file to disk, with the mode that the umask gives a new file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_seal(folder / SEAL, files, kind=kind, json=sum_values(folder, files))
    for path in [*files, folder / SEAL]:
        path.chmod(folder.stat().st_mode & 0o666)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
