"""The state of a training on disk: what `torch.save` makes of it and its sha256, read only if it is this training's."""

import contextlib
import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object

from lib.store.files import write_atomically

DIGEST = hashlib.sha256().digest_size


def write(path: Path, settings: dict[str, Any], state: dict[str, Any], *, rank: int = 0) -> None:
    """Replace the checkpoint by `state`, tensors and plain values, and the random states of all processes at this
    moment. All of them call it, rank 0 writes.

    settings: plain values that must be the same when the training goes on, for example {"processes": 1}.
    """
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    random_states = gather_object([[torch.get_rng_state(), *cuda]])
    if rank > 0:
        return
    buffer = io.BytesIO()
    torch.save({"settings": settings, "state": state, "rng": random_states}, buffer)
    write_atomically(path, buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest())


def read(path: Path, settings: dict[str, Any], *, rank: int = 0) -> dict[str, Any] | None:
    """The state that `write` kept, the random state of this rank put back; None if there is none that can be used.

    A checkpoint with any damage, of other settings or other content is renamed to `<name>.aside` by rank 0, and one
    warning names it; nothing of it is used. One that only another number of processes can go on from is a ValueError.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        data = b""
    content, digest = data[:-DIGEST], data[-DIGEST:]
    problem, other = "is damaged", []
    if hashlib.sha256(content).digest() == digest:
        with contextlib.suppress(Exception):  # what somebody else wrote raises errors of any type
            kept = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            other = [
                name for name, value in settings.items() if kept["settings"].get(name) != value
            ]
            if not other:
                state = kept["state"]
                torch.set_rng_state(kept["rng"][rank][0])
                for on_gpu in kept["rng"][rank][1:]:
                    torch.cuda.set_rng_state(on_gpu)
                return state
            before = kept["settings"].get(other[0])
            problem = (
                f"was written with {other[0]} {before}, this training has {settings[other[0]]}"
            )
    if other == ["processes"]:
        raise ValueError(
            f"checkpoint {path} {problem}: start as many, or remove it to train from the beginning"
        )
    if rank == 0:
        aside = path.rename(path.with_name(f"{path.name}.aside"))
        warnings.warn(
            f"checkpoint {path} {problem}: training starts again, it is kept as {aside.name}",
            stacklevel=3,
        )
    return None
