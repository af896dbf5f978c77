"""Every key of the store, in one place: what names a corpus, a teacher, a student, its embeddings, a record.

A key is a fingerprint of all that makes a value: settings, files, weights, versions, seeds, the syntax of the modules
involved, and the keys of what it is made from, so that a change upstream changes every key downstream. Keys are
computed without loading a model or reading a corpus: with all records present, a figure needs neither.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lib.config import paths
from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments.models import device, model_path
from lib.store.files import file_fingerprint
from lib.store.records import fingerprint, source_fingerprint

CORPUS_SOURCES = {
    "gensim": ("lib.data.corpus", "lib.data.build.mini.gensim_files", "lib.data.build.mini.wikitext"),
    "folder": ("lib.data.corpus", "lib.data.dataset_folder"),
    "hub": ("lib.data.corpus", "lib.data.arrow"),
}
TASK_SOURCES = {
    "gensim": (
        "lib.tasks",
        "lib.data.build.mini.mini_tasks",
        "lib.data.build.mini.pairs",
        "lib.data.build.mini.passage_pool",
        "lib.data.build.mini.gensim_files",
        "lib.data.build.mini.wikitext",
    ),
    "folder": ("lib.tasks", "lib.tasks.folder", "lib.data.dataset_folder"),
    "hub": ("lib.tasks", "lib.data.build.thesis.hub_tasks"),
}
_LOSS_SOURCES = {
    "MSE": ("lib.losses.mse",),
    "cosine": ("lib.losses.cosine",),
    "contrastive": ("lib.losses.contrastive", "lib.losses.cosine"),
    "max-margin": ("lib.losses.max_margin",),
    "soft_cca": ("lib.losses.soft_cca",),
    "mse": ("lib.losses.mse",),
    "cca": ("lib.losses.cca",),
}


def corpus(profile: Profile) -> str:
    """Names the distillation corpus, training and validation documents."""
    section = profile.corpus
    names = {name for names in section.datasets.values() for name in ([names] if isinstance(names, str) else names)}
    return fingerprint(
        {
            "settings": section.model_dump(mode="json"),
            "files": _files(section.source, names, profile),
            "code": source_fingerprint(*CORPUS_SOURCES[section.source]),
        }
    )


def tasks(profile: Profile) -> str:
    """Names all tasks of a profile together."""
    section = profile.tasks
    return fingerprint(
        {
            "settings": section.model_dump(mode="json"),
            "files": _files(section.source, {folder.split("/")[0] for folder in section.folders.values()}, profile),
            "code": source_fingerprint(*TASK_SOURCES[section.source]),
        }
    )


def task_set(split: str) -> str:
    """The set of task texts that an evaluation on a split needs: test and retrieval need all of them."""
    return "tasks" if split == "validation" else "all_tasks"


def text_set(name: str, profile: Profile) -> str:
    """Names the texts of a set: "train", "validation", "tasks" or "all_tasks" (see `text_sets`)."""
    if name in ("tasks", "all_tasks"):
        return f"{tasks(profile)}-{name}"
    return f"{corpus(profile)}-" + (f"train-{profile.training.documents}" if name == "train" else name)


def base(profile: Profile) -> str:
    """Names the student before training: checkpoint, layers, window."""
    return fingerprint(
        {
            "settings": profile.student.model_dump(mode="json"),
            "weights": _weights(profile.student.model),
            "code": source_fingerprint(
                *(f"lib.student.{name}" for name in ("encoder", "attention", "packing", "weights"))
            ),
            "versions": versions("torch", "transformers"),
        }
    )


def structural_teacher(profile: Profile) -> str:
    """Names the structural teacher: checkpoint and tokens read."""
    return fingerprint(
        {
            "settings": profile.structural_teacher.model_dump(mode="json"),
            "weights": _weights(profile.structural_teacher.model),
            "code": source_fingerprint("lib.teachers.sbert"),
            "versions": versions("torch", "transformers"),
        }
    )


def paragraph_vector(label: str, profile: Profile) -> str:
    """Names a single Paragraph Vector by its thesis label and everything that trains it."""
    return fingerprint(
        {
            "label": label,
            "width": profile.width,
            "settings": profile.contextual_teacher.model_dump(mode="json"),
            "corpus": corpus(profile),
            "code": source_fingerprint("lib.teachers.paragraph_vector", "lib.teachers.labels"),
            "versions": versions("gensim", "nltk", "numpy"),
        }
    )


def contextual_teacher(label: str, profile: Profile) -> list[str]:
    """Names a Paragraph Vector, single or compound: the keys of its parts."""
    return [paragraph_vector(part, profile) for part in label.split("+")]


def student(variant: Variant, seed: int, profile: Profile) -> str:
    """Names a trained student: its base, its data, its teachers, its settings and the source of what trains it."""
    sources = ["lib.distillation.training", "lib.distillation.objective", "lib.distillation.checkpoint"]
    key: dict[str, Any] = {"variant": asdict(variant), "seed": seed, "base": base(profile), "corpus": corpus(profile)}
    key["training"] = {
        name: value for name, value in profile.training.model_dump(mode="json").items() if name != "checkpoint_every"
    }
    key["device"] = device()
    if variant.structural is not None:
        name, distance, _ = variant.structural_distance
        sources += [*_LOSS_SOURCES[name], *_LOSS_SOURCES.get(distance, ())]
        key["structural"] = structural_teacher(profile)
    if variant.contextual is not None:
        sources += [*_LOSS_SOURCES[variant.contextual_loss], "lib.distillation.projection"]
        key |= {"contextual": contextual_teacher(variant.contextual, profile), "width": profile.width}
        if variant.contextual_loss == "soft_cca":
            key["soft_cca"] = profile.soft_cca.model_dump(mode="json")
    if variant.structural is not None and (variant.contextual is not None or variant.masked):
        sources.append("lib.losses.weighting")
    if variant.pooling == "cls":
        sources.append("lib.student.cls")
    key["code"] = source_fingerprint(*sources)
    key["versions"] = versions("torch", "transformers", "accelerate")
    return fingerprint(key)


def embeddings(variant: Variant, seed: int, profile: Profile, split: str = "validation") -> str:
    """Names a model's embeddings by everything that made them. Only a student depends on the seed."""
    key: dict[str, Any] = {"tasks": text_set(task_set(split), profile), "corpus": corpus(profile)}
    if variant.kind == "base":
        key["model"] = [base(profile), profile.training.precision]
    elif variant.kind == "sbert":
        key["model"] = structural_teacher(profile)
    elif variant.kind in ("tfidf", "sbert_chunks"):
        code = source_fingerprint("lib.evaluation.baselines")
        key["model"] = [variant.kind, structural_teacher(profile), text_set("train", profile), code]
    elif variant.kind == "paragraph_vector":
        key["model"] = contextual_teacher(variant.contextual, profile)
    else:
        key["model"] = student(variant, seed, profile)
    return fingerprint(key)


def record(variant: Variant, seed: int, task: str, profile: Profile, split: str, limit: int | None) -> str:
    """Names one accuracy: the embeddings, the task, the head's settings and source."""
    return fingerprint(
        {
            "embeddings": embeddings(variant, seed, profile, split),
            "task": task,
            "split": split,
            "limit": limit,
            "seed": seed,
            "heads": profile.heads.model_dump(mode="json"),
            "task_limit": profile.tasks.limit,
            "code": source_fingerprint("lib.evaluation.heads"),
        }
    )


@functools.cache
def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages whose arithmetic a value depends on."""
    return {package: importlib.metadata.version(package) for package in packages}


@functools.cache
def _weights(model: str) -> str:
    """The bytes of a local model's weights; a hub id is pinned by its revision."""
    folder = Path(model_path(model))
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    return fingerprint([[path.name, file_fingerprint(path)] for path in files]) if folder.is_dir() else ""


def _files(source: str, names: Iterable[str], profile: Profile) -> list[list[str]]:
    """Names and bytes of the files a source reads; hub sources are pinned by revision in the settings."""
    if source == "hub":
        return []
    if source == "gensim":
        return [["gensim", versions("gensim")["gensim"]]]  # the files ship inside its wheel
    return _folder_files(paths.data_root(profile), tuple(sorted(names)))


@functools.cache
def _folder_files(root: Path, names: tuple[str, ...]) -> list[list[str]]:
    files = [path for name in names for path in sorted((root / name).rglob("*.json*")) if path.is_file()]
    return [[path.relative_to(root).as_posix(), file_fingerprint(path)] for path in files]
