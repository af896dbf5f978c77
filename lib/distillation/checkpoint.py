"""Checkpoints: the state of a training in a folder, written whole and read by that training alone.

accelerate's `save_state` writes the weights, optimiser, schedule and random states of all
processes. `training.json` holds the settings and the progress of the training, `seal.json` the
sha256 of every other file. The seal is written last: a folder without a right one is damaged.
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
    """Replace the checkpoint by the state of what `accelerator` prepared. All processes call it.

    Parameters
    ----------
    folder : the checkpoint, on a disk that all processes share
    settings : plain values that must be the same when the training is resumed
    progress : plain values that `load_checkpoint` returns

    Raises
    ------
    OSError
        If it cannot be written, for example on a full disk. The previous checkpoint stays.
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
        # A folder cannot replace another in one step. `load_checkpoint` knows what was interrupted.
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    folder: Path, accelerator: Accelerator, settings: dict[str, Any]
) -> dict[str, Any] | None:
    """Restore the state that `save_checkpoint` wrote. All processes call it.

    A damaged checkpoint, or one of another training, is renamed to `<name>.aside`, and a warning of
    one line says so. Nothing of it is used.

    Parameters
    ----------
    folder : the checkpoint
    accelerator : has prepared what is restored, in the order in which it was saved
    settings : plain values of this training; those of the checkpoint must be the same

    Returns
    -------
    The progress that was saved, or None if there is no checkpoint to resume from.

    Raises
    ------
    ValueError
        If only another number of processes can resume it.
    """
    new, _ = _beside(folder)
    if accelerator.is_main_process and not folder.exists() and _read(new) is not None:
        os.rename(new, folder)  # `save_checkpoint` was killed between its two renames
    accelerator.wait_for_everyone()
    exists, facts = folder.exists(), _read(folder)
    accelerator.wait_for_everyone()  # no process renames what another one still reads
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
            advice = "start as many, or remove it to train from the beginning"
            raise ValueError(f"checkpoint {folder} {problem}: {advice}")
    if accelerator.is_main_process:
        aside = _free_name(folder)
        os.rename(folder, aside)
        consequence = f"training starts again, it is kept as {aside.name}"
        warnings.warn(f"checkpoint {folder} {problem}: {consequence}", stacklevel=3)
    return None


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint and what an interrupted write left beside it."""
    for path in (folder, *_beside(folder)):
        shutil.rmtree(path, ignore_errors=True)


def _beside(folder: Path) -> tuple[Path, Path]:
    """Where the next checkpoint is written, and where the previous one waits to be removed."""
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


def _free_name(folder: Path) -> Path:
    aside = folder.with_name(f"{folder.name}.aside")
    numbers = itertools.count(2)
    while aside.exists():
        aside = folder.with_name(f"{folder.name}.aside{next(numbers)}")
    return aside


def _read(folder: Path) -> dict[str, Any] | None:
    """The contents of `training.json`; None unless every file of the folder is as the seal says."""
    try:
        seal = read_seal(folder / SEAL)
        if seal is None or {file.name for file in folder.iterdir()} != {SEAL, *seal["files"]}:
            return None
        facts = json.loads((folder / TRAINING).read_bytes())
        return {"settings": dict(facts["settings"]), "progress": facts["progress"]}
    except (OSError, ValueError, TypeError, KeyError):  # not ours
        return None
