"""The state of a training on disk: what `torch.save` makes of it and its sha256, read only if it is this training's."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch

from lib.store.files import write_atomically

DIGEST = hashlib.sha256().digest_size
ASIDE = ".aside"  # what is added to the name of a checkpoint that this training cannot use


def write(path: Path, settings: dict[str, Any], state: dict[str, Any]) -> None:
    """Replace the checkpoint by `state`, tensors and plain values, and the random state of this moment.

    settings: plain values that must be the same when the training goes on, for example {"processes": 1}.
    """
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    buffer = io.BytesIO()
    torch.save({"settings": settings, "state": state, "rng": torch.get_rng_state(), "cuda_rng": cuda}, buffer)
    buffer.write(hashlib.sha256(buffer.getvalue()).digest())
    write_atomically(path, buffer.getvalue())


def read(path: Path, settings: dict[str, Any], *, put_aside: bool = True) -> dict[str, Any] | None:
    """The state that `write` kept, the random state put back; None if there is none that can be used.

    A checkpoint with any damage, or of other settings, is renamed to `<name>.aside`, and one warning names it; nothing
    of it is used. Of several processes only one should `put_aside`.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        data = b""
    problem = "is damaged"
    if hashlib.sha256(memoryview(data)[:-DIGEST]).digest() == data[-DIGEST:]:
        try:
            content = torch.load(io.BytesIO(data[:-DIGEST]), map_location="cpu", weights_only=True)
            before, state, rng, cuda_rng = (content[name] for name in ("settings", "state", "rng", "cuda_rng"))
            name = next((name for name, value in settings.items() if before.get(name) != value), None)
            if name is None:
                torch.set_rng_state(rng)
                for device, rng in enumerate(cuda_rng):
                    torch.cuda.set_rng_state(rng, device)
                return state
            problem = f"was written with {name} {before.get(name)}, this training has {settings[name]}"
        except MemoryError:
            raise
        except Exception:  # whatever torch makes of bytes that it did not write
            problem = "is damaged"
    if put_aside:
        aside = path.with_name(path.name + ASIDE)
        while aside.is_dir() or (path.is_dir() and aside.exists()):  # only a file takes the place of a file
            aside = aside.with_name(aside.name + ASIDE)
        path.replace(aside)
        warnings.warn(f"checkpoint {path} {problem}: training starts again, it is kept as {aside.name}", stacklevel=3)
    return None
