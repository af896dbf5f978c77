"""Every key of the store, in one place: what names a corpus, a teacher, a student, its embeddings, a record.

A key is a fingerprint of all that makes a value: settings, files, weights, versions, seeds, code, and the keys of what
it is made from, so that a change upstream changes every key downstream. Keys are computed without loading a model or
reading a corpus: with all records present, a figure needs neither.

Code is that of the product's own module in lib.experiments with all that it imports (`lib.store.source_keys`), so the
calls that make a number count like the functions that they call. The imports are not followed into

* the other modules of lib.experiments: what a value takes from these is another product, whose key is in this one;
* lib.store, lib.config and lib.distillation.variants: they carry values, and the values are in the key;
* lib.student.export: it writes a student that is trained, and no number comes of it;
* lib.losses: only the losses that a student uses count, so that adding or changing one trains no other student again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lib.config.schema import Profile, StructuralTeacherSettings, StudentSettings
from lib.data import sources
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments.models import device, model_path
from lib.store.files import file_fingerprint
from lib.store.records import fingerprint
from lib.store.source_keys import home, source_key

CARRIERS = ("lib.experiments", "lib.store", "lib.config", "lib.distillation.variants", "lib.student.export")
_BUILDERS = ("lib.data.build",)  # what they wrote counts, by its bytes
# What only students with a contextual teacher run: the others need not be trained again for it.
_CONTEXTUAL = ("lib.distillation.projection", "lib.distillation.held_out_cca")
_LOADED = (".safetensors", ".bin", ".json", ".txt", ".model")  # weights, configurations, vocabularies
_BASELINES = "lib.evaluation.baselines"  # likewise TF-IDF and the mean of SBERT's pieces

_looked_at: dict[tuple[int | str, ...], tuple[Profile, str]] | None = None


@contextlib.contextmanager
def data_at_rest() -> Iterator[None]:
    """In this block dataset folders are looked at once. For loops over many keys, each of which asks several times."""
    global _looked_at
    before = _looked_at
    _looked_at = {} if before is None else before
    try:
        yield
    finally:
        _looked_at = before


def corpus(profile: Profile) -> str:
    """Names the distillation corpus. Tasks count: what they are validated and tested on is left out."""
    tasks = profile.tasks.model_dump(mode="json", include={"folders", "seed"})
    files = _files(profile, sources.corpus_datasets(profile))
    tokenizer = base(profile) if any(folder.min_tokens for folder in profile.corpus.folders) else None
    drawn_by = code("text_sets", stop=_BUILDERS)
    return fingerprint([profile.corpus.model_dump(mode="json"), tasks, files, tokenizer, drawn_by])


def tasks(profile: Profile) -> str:
    """Names all tasks of a profile together."""
    settings = [profile.tasks.model_dump(mode="json"), list(profile.tasks.names)]
    return fingerprint([settings, _files(profile, sources.task_datasets(profile)), code("task_texts", stop=_BUILDERS)])


def task_arrays(name: str, profile: Profile) -> str:
    """Names one task's rows of the task texts."""
    return fingerprint([tasks(profile), name])


def task_set(split: str) -> str:
    """The set of task texts that an evaluation on a split needs: test and retrieval need all of them."""
    return "tasks" if split == "validation" else "all_tasks"


def text_set(name: str, profile: Profile) -> list[Any]:
    """Names the texts of a set: "train", "validation", "tasks" or "all_tasks" (see `text_sets`)."""
    of_tasks = name in ("tasks", "all_tasks")
    documents = profile.training.documents if name == "train" else None
    return [name, tasks(profile) if of_tasks else corpus(profile), documents, code("text_sets", stop=("lib.data",))]


def base(profile: Profile) -> str:
    """Names the student before training: checkpoint, layers, window."""
    return _pretrained(profile.student, code("models", stop=("lib.student.cls",)))


def tokens(name: str, profile: Profile) -> str:
    """Names the token ids of a set of texts."""
    return fingerprint([base(profile), text_set(name, profile)])


def structural_teacher(profile: Profile) -> str:
    """Names the structural teacher: checkpoint and tokens read."""
    return _pretrained(profile.structural_teacher, code("structural_teacher"))


def structural_embeddings(name: str, profile: Profile) -> str:
    """Names the structural teacher's embeddings of a set of texts."""
    return fingerprint([structural_teacher(profile), text_set(name, profile)])


def paragraph_vector(label: str, profile: Profile) -> str:
    """Names a single Paragraph Vector by its thesis label and everything that trains it."""
    settings = [profile.width, profile.contextual_teacher.model_dump(mode="json")]
    made_by = [code("contextual_teacher"), versions("gensim", "nltk", "numpy")]
    return fingerprint([label, settings, corpus(profile), made_by])


def paragraph_vector_embeddings(label: str, sets: Iterable[str], profile: Profile) -> str:
    """Names a single Paragraph Vector's embeddings of some sets of texts."""
    return fingerprint([paragraph_vector(label, profile), [text_set(name, profile) for name in sets]])


def contextual_teacher(label: str, profile: Profile) -> list[str]:
    """Names a Paragraph Vector, single or compound: the keys of its parts."""
    return [paragraph_vector(part, profile) for part in label.split("+")]


def student(variant: Variant, seed: int, profile: Profile) -> str:
    """Names a trained student: its base, its data, its teachers, its settings and the code that trains it."""
    pooling = {"lib.student.cls"} if variant.pooling == "cls" else set()
    weighted = variant.structural is not None and variant.contextual is not None
    functions = [*variant.losses, *(("weighted", "structural_mask") if weighted or variant.masked else ())]
    own = sorted({home("lib.losses", name) for name in functions} | pooling)
    general = code("student_training", stop=("lib.losses", *(() if variant.contextual else _CONTEXTUAL)))
    key: dict[str, Any] = {"variant": asdict(variant), "seed": seed, "documents": tokens("train", profile)}
    key["training"] = profile.training.model_dump(mode="json", exclude={"checkpoint_every"})
    key["losses"] = functions, variant.structural and variants.structural_loss(variant.structural)
    key["code"] = [general, source_key(*own, stop=CARRIERS)]
    key["versions"] = [device(), versions("torch", "transformers", "accelerate")]
    if variant.structural is not None or variant.masked:
        key["structural"] = structural_teacher(profile)
    if variant.contextual is not None:
        key |= {
            "contextual": contextual_teacher(variant.contextual, profile),
            "width": profile.width,
            "validation": tokens("validation", profile),
            "soft_cca": profile.soft_cca.model_dump(mode="json") if variant.contextual_loss == "soft_cca" else None,
        }
    return fingerprint(key)


def embeddings(variant: Variant, seed: int, profile: Profile, split: str = "validation") -> str:
    """Names a model's embeddings by everything that made them. Only a student depends on the seed."""
    kind = variant.kind
    sets = {"tasks": text_set(task_set(split), profile), "validation": text_set("validation", profile)}
    key: dict[str, Any] = {"kind": kind, "code": code("embeddings", stop=(_BASELINES,)), "sets": sets}
    if kind == "base":
        key["model"] = [base(profile), profile.training.precision, device()]
    elif kind == "sbert":
        key["model"] = structural_teacher(profile)
    elif kind in ("tfidf", "sbert_chunks"):
        made_by = [source_key(_BASELINES, stop=CARRIERS), versions("scikit-learn", "numpy")]
        key["model"] = [structural_teacher(profile), text_set("train", profile), made_by]
    elif kind == "paragraph_vector":
        key["model"] = contextual_teacher(variant.contextual, profile)
    else:
        key["model"] = student(variant, seed, profile)
    return fingerprint(key)


def record(variant: Variant, seed: int, task: str, profile: Profile, split: str, limit: int | None) -> str:
    """Names one accuracy: the embeddings, the task, the heads' settings and code."""
    data = [embeddings(variant, seed, profile, split), task_arrays(task, profile), split, limit]
    heads = [seed, profile.heads.model_dump(mode="json"), code("accuracies"), versions("torch", "scikit-learn")]
    return fingerprint([data, heads])


def code(product: str, stop: tuple[str, ...] = ()) -> str:
    """Names the code of one product: its module in lib.experiments and all that it imports, up to CARRIERS and stop.

    The environment that every process computes in (threads, MKL's kernels) is part of it.
    """
    return source_key(f"lib.experiments.{product}", "lib.config.environment", stop=(*CARRIERS, *stop))


@functools.cache
def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages whose arithmetic a value depends on."""
    return {package: importlib.metadata.version(package) for package in packages}


def _pretrained(section: StudentSettings | StructuralTeacherSettings, made_by: str) -> str:
    settings = section.model_dump(mode="json")
    return fingerprint([settings, _weights(section.model), made_by, versions("torch", "transformers")])


@functools.cache
def _weights(model: str) -> list[list[str]]:
    """The bytes of all that a local model is loaded from, by file; a hub id is pinned by its revision."""
    folder = Path(model_path(model))
    read = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return [[path.relative_to(folder).as_posix(), file_fingerprint(path)] for path in read]


def _files(profile: Profile, datasets: Iterable[str]) -> str:
    if _looked_at is None:
        return sources.fingerprint(profile, datasets)
    place = (id(profile), *sorted(datasets))
    if place not in _looked_at:
        _looked_at[place] = profile, sources.fingerprint(profile, datasets)  # held, the profile's id stays its own
    return _looked_at[place][1]
