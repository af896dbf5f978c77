"""The state of a training on disk: what `torch.save` makes of it and its sha256, read only if it is this training's."""

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
    content = _content(data)
    if content is None:
        problem = "is damaged"
    elif other := [name for name, value in settings.items() if content["settings"].get(name) != value]:
        before = content["settings"].get(other[0])
        problem = f"was written with {other[0]} {before}, this training has {settings[other[0]]}"
    else:
        torch.set_rng_state(content["rng"])
        for device, state in enumerate(content["cuda_rng"]):
            torch.cuda.set_rng_state(state, device)
        return content["state"]
    if put_aside:
        aside = path.with_name(path.name + ASIDE)
        while aside.is_dir() or (path.is_dir() and aside.exists()):  # only a file takes the place of a file
            aside = aside.with_name(aside.name + ASIDE)
        path.replace(aside)
        warnings.warn(f"checkpoint {path} {problem}: training starts again, it is kept as {aside.name}", stacklevel=3)
    return None


def _content(data: bytes) -> dict[str, Any] | None:
    """What `write` made these bytes of; None for any others."""
    content, digest = memoryview(data)[:-DIGEST], data[-DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        return None
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception:  # whatever torch makes of bytes that it did not write
        return None
