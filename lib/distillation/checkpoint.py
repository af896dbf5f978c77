"""The state of a training on disk: what `torch.save` makes of it and its sha256, read only if it is this training's."""

import contextlib
import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch

from lib.store.files import write_atomically

DIGEST = hashlib.sha256().digest_size


def write(path: Path, settings: dict[str, Any], state: dict[str, Any]) -> None:
    """Replace the checkpoint by `state`, tensors and plain values, and the random state of this moment.

    settings: plain values that must be the same when the training goes on, for example {"processes": 1}.
    """
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    buffer = io.BytesIO()
    torch.save({"settings": settings, "state": state, "rng": torch.get_rng_state(), "cuda_rng": cuda}, buffer)
    write_atomically(path, buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest())


def read(path: Path, settings: dict[str, Any], *, put_aside: bool) -> dict[str, Any] | None:
    """The state that `write` kept, the random state put back; None if there is none that can be used.

    A checkpoint with any damage, of other settings or other content is renamed to `<name>.aside`, and one warning names
    it; nothing of it is used. Of several processes only one should `put_aside`.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        data = b""
    content, digest = data[:-DIGEST], data[-DIGEST:]
    problem = "is damaged"
    if hashlib.sha256(content).digest() == digest:
        with contextlib.suppress(Exception):  # what somebody else wrote raises errors of any type
            kept = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            other = [name for name, value in settings.items() if kept["settings"].get(name) != value]
            if not other:
                state = kept["state"]
                torch.cuda.set_rng_state_all(kept["cuda_rng"][: torch.cuda.device_count()])
                torch.set_rng_state(kept["rng"])
                return state
            before = kept["settings"].get(other[0])
            problem = f"was written with {other[0]} {before}, this training has {settings[other[0]]}"
    if put_aside:
        aside = path.rename(path.with_name(f"{path.name}.aside"))
        warnings.warn(f"checkpoint {path} {problem}: training starts again, it is kept as {aside.name}", stacklevel=3)
    return None
