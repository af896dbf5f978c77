"""Checkpoints: the whole state of a training in one file, from which it ends with the same bits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from lib.store import write_whole


def save_checkpoint(
    path: Path, accelerator: Accelerator, parts: Sequence[Any], batches: str, progress: Any
) -> None:
    """Replace the checkpoint with the present state of the training. All processes call it.

    `path` is on a disk that all processes share. `parts` are everything with a `state_dict`: model,
    optimiser, schedule, callbacks. `batches` names all batches: it differs if data, their order or
    the number of processes differ. `load_checkpoint` returns `progress`, plain values.
    """
    on_gpu = torch.cuda.is_available()
    own = [torch.get_rng_state(), torch.cuda.get_rng_state() if on_gpu else None]
    random = gather_object([own])
    if accelerator.is_main_process:
        states = [part.state_dict() for part in parts]
        content = {"batches": batches, "states": states, "random": random, "progress": progress}
        write_whole(path, lambda file: torch.save(content, file))
    accelerator.wait_for_everyone()


def load_checkpoint(
    path: Path, accelerator: Accelerator, parts: Sequence[Any], batches: str
) -> Any:
    """Restore what `save_checkpoint` wrote, and return its progress; None if there is no file.

    `ValueError` for the checkpoint of other batches, such as those of more processes.
    """
    if not path.exists():
        return None
    content = torch.load(path, map_location="cpu", weights_only=True)
    if content["batches"] != batches:
        raise ValueError(
            f"checkpoint {path} was written for other batches: start as many processes as then, "
            "or remove it to train from the beginning"
        )
    for part, state in zip(parts, content["states"], strict=True):
        part.load_state_dict(state)
    on_cpu, on_gpu = content["random"][accelerator.process_index]
    torch.set_rng_state(on_cpu)
    if on_gpu is not None:
        torch.cuda.set_rng_state(on_gpu)
    return content["progress"]


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint, and what a process that was killed left half written beside it."""
    for file in (path, *path.parent.glob(f".{path.name}.*")):
        file.unlink(missing_ok=True)
