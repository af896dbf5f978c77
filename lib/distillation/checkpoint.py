"""Checkpoints: a folder with the state of a training, which only the same training can resume.

accelerate's `save_state` writes the weights, the optimiser, the schedule and the random states of
all processes. `training.json` holds the settings and the progress of the training, and `seal.json`
the sha256 of every other file. The seal is written last, so a folder without a valid seal is
damaged or incomplete.
"""

import itertools
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from safetensors import SafetensorError

from lib.store.sealed import read_seal, write_seal

SEAL, TRAINING = "seal.json", "training.json"


def save_checkpoint(
    folder: Path, accelerator: Accelerator, settings: dict[str, Any], progress: dict[str, Any]
) -> None:
    """Replace the checkpoint with the present state of the training. All processes call it.

    Parameters
    ----------
    folder : the checkpoint, on a disk that all processes share
    accelerator : has prepared the model, optimiser and schedule to save
    settings : values that JSON can hold; resuming requires the same ones
    progress : values that JSON can hold, for `load_checkpoint` to return

    Raises
    ------
    OSError
        If the checkpoint cannot be written, for example on a full disk. The previous one stays.
    """
    new, old = _beside(folder)
    if accelerator.is_main_process:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    accelerator.wait_for_everyone()
    try:
        accelerator.save_state(str(new))
    except (OSError, RuntimeError, SafetensorError) as error:  # what PyTorch and safetensors raise
        shutil.rmtree(new, ignore_errors=True)
        reason = str(error).splitlines()[0]
        raise OSError(
            f"cannot write checkpoint {folder}: {reason}; free space and run again"
        ) from error
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        facts = {"settings": settings, "progress": progress}
        (new / TRAINING).write_text(json.dumps(facts))
        write_seal(new / SEAL, sorted(new.iterdir()))
        # A folder cannot replace another in one step. If this is interrupted between the two
        # renames, `load_checkpoint` completes it.
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    folder: Path, accelerator: Accelerator, settings: dict[str, Any]
) -> dict[str, Any] | None:
    """Restore the state that `save_checkpoint` wrote. All processes call it.

    A damaged checkpoint, or one of another training, is not used. It is renamed to `<name>.aside`,
    with a warning.

    Parameters
    ----------
    folder : the checkpoint
    accelerator : has prepared the model, optimiser and schedule to restore, in the same order as
        when they were saved
    settings : values that identify this training; the checkpoint must have the same ones

    Returns
    -------
    The progress that was saved, or None if there is no checkpoint to resume from.

    Raises
    ------
    ValueError
        If only the number of processes differs.
    """
    new, _ = _beside(folder)
    if accelerator.is_main_process and not folder.exists() and _read(new) is not None:
        os.rename(new, folder)  # `save_checkpoint` was killed between its two renames
    accelerator.wait_for_everyone()
    exists, facts = folder.exists(), _read(folder)
    accelerator.wait_for_everyone()  # so that no process renames what another is still reading
    if not exists:
        return None
    problem = "is damaged"
    if facts is not None:
        before = facts["settings"]
        changed = [name for name, value in settings.items() if before.get(name) != value]
        if not changed:
            accelerator.load_state(str(folder))
            return facts["progress"]
        name = changed[0]
        problem = f"was written with {name} {before.get(name)}, this training has {settings[name]}"
        if changed == ["processes"]:
            advice = "start as many, or remove the checkpoint to train from the beginning"
            raise ValueError(f"checkpoint {folder} {problem}: {advice}")
    if accelerator.is_main_process:
        aside = _free_name(folder)
        os.rename(folder, aside)
        consequence = f"training starts from the beginning; the checkpoint is kept as {aside.name}"
        warnings.warn(f"checkpoint {folder} {problem}: {consequence}", stacklevel=3)
    return None


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint and anything that an interrupted write left next to it."""
    for path in (folder, *_beside(folder)):
        shutil.rmtree(path, ignore_errors=True)


def _beside(folder: Path) -> tuple[Path, Path]:
    """Paths for writing the next checkpoint and for keeping the previous one until then."""
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


def _free_name(folder: Path) -> Path:
    aside = folder.with_name(f"{folder.name}.aside")
    numbers = itertools.count(2)
    while aside.exists():
        aside = folder.with_name(f"{folder.name}.aside{next(numbers)}")
    return aside


def _read(folder: Path) -> dict[str, Any] | None:
    """Read `training.json`; None unless every file of the folder matches the seal."""
    try:
        seal = read_seal(folder / SEAL)
        if seal is None or {file.name for file in folder.iterdir()} != {SEAL, *seal["files"]}:
            return None
        facts = json.loads((folder / TRAINING).read_bytes())
        return {"settings": dict(facts["settings"]), "progress": facts["progress"]}
    except (OSError, ValueError, TypeError, KeyError):  # not written by `save_checkpoint`
        return None
