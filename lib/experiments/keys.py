"""Recipes: all that makes a corpus, a teacher, a student, its embeddings, a record; none loads a model or a corpus."""

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lib.config.schema import Profile, StructuralTeacherSettings, StudentSettings
from lib.data import sources
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments.models import device, model_path, precision
from lib.store.files import file_fingerprint
from lib.store.records import Recipe
from lib.store.source_keys import home, source_key

NOT_ENTERED = (
    "lib.experiments",  # what a value takes from its other modules is another product, whose recipe is in this one
    *(
        "lib.store",
        "lib.config",
        "lib.distillation.variants",
    ),  # they carry values, and the values are in the recipe
    "lib.data.builders",  # what builders wrote counts, by its bytes
    "lib.student.export",  # writes students for people; experiments read none of them
)
# What only students with a contextual teacher run: the others need not be trained again for it.
_CONTEXTUAL = ("lib.distillation.projection", "lib.distillation.held_out_cca")
_CONTEXTUAL_SETTINGS = ("contextual_features", "contextual_rows")
_LOADED = (
    ".safetensors",
    ".bin",
    ".json",
    ".txt",
    ".model",
)  # weights, configurations, vocabularies
_BASELINES = "lib.evaluation.baselines"  # TF-IDF and the mean of SBERT's pieces alone run it

_looked_at: ContextVar[dict[tuple[Any, ...], str] | None] = ContextVar("_looked_at", default=None)


@contextlib.contextmanager
def data_at_rest() -> Iterator[None]:
    """In this block, with blocks inside it, dataset folders are looked at once, however many recipes ask for them."""
    before = _looked_at.get()
    token = _looked_at.set({} if before is None else before)
    try:
        yield
    finally:
        _looked_at.reset(token)


def corpus(profile: Profile) -> Recipe:
    """The distillation corpus. Tasks count: what they are validated and tested on is left out."""
    tasks = profile.tasks.model_dump(mode="json", include={"folders", "seed"})
    tokenizer = (
        base(profile) if any(folder.min_tokens for folder in profile.corpus.folders) else None
    )
    settings = [profile.corpus.model_dump(mode="json"), tasks, tokenizer]
    data = _files(profile, sources.corpus_datasets(profile))
    return {"kind": "corpus", "settings": settings, "data": data, "code": code("text_sets")}


def tasks(profile: Profile) -> Recipe:
    """All tasks of a profile together: their texts, and their examples as rows of these."""
    settings = [profile.tasks.model_dump(mode="json"), profile.tasks.names]
    data = _files(profile, sources.task_datasets(profile))
    return {"kind": "tasks", "settings": settings, "data": data, "code": code("text_sets")}


def text_set(name: str, profile: Profile) -> Recipe:
    """The texts of one of `text_sets.NAMES`."""
    of = tasks(profile) if name in ("tasks", "all_tasks") else corpus(profile)
    return {
        "kind": "texts",
        "name": name,
        "of": of,
        "documents": name == "train" and profile.training.documents,
    }


def base(profile: Profile) -> Recipe:
    """The student before training: checkpoint, layers, window."""
    return _pretrained("base", profile.student, code("models", stop=("lib.student.cls",)))


def tokens(name: str, profile: Profile) -> Recipe:
    """The token ids of a set of texts."""
    return {"kind": "tokens", "base": base(profile), "texts": text_set(name, profile)}


def structural_teacher(profile: Profile) -> Recipe:
    """The structural teacher: checkpoint and tokens read."""
    return _pretrained("structural_teacher", profile.structural_teacher, code("structural_teacher"))


def paragraph_vector(label: str, profile: Profile, sets: Iterable[str] = ()) -> Recipe:
    """A Paragraph Vector, by its thesis label and everything that trains it, and its embeddings of some sets."""
    settings = [label, profile.width, profile.contextual_teacher.model_dump(mode="json")]
    texts = [corpus(profile), *(text_set(name, profile) for name in sets)]
    made_by = [code("contextual_teacher"), versions("gensim", "nltk", "numpy", "scipy")]
    return {"kind": "paragraph_vector", "settings": settings, "texts": texts, "code": made_by}


def student(variant: Variant, seed: int, profile: Profile) -> Recipe:
    """A trained student: its base, its data, its teachers, its settings and the code that trains it."""
    settings = {name: value for name, value in asdict(variant).items() if name != "cut"}
    own = sorted(home("lib.losses", name) for name in variant.losses)
    own += ["lib.student.cls"] if variant.pooling == "cls" else []
    general = code(
        "student_training", stop=("lib.losses", *(() if variant.contextual else _CONTEXTUAL))
    )
    recipe: Recipe = {"kind": "student", "variant": settings, "seed": seed}
    recipe["documents"] = tokens("train", profile)
    unread = (
        {"checkpoint_every"} if variant.contextual else {"checkpoint_every", *_CONTEXTUAL_SETTINGS}
    )
    recipe["training"] = profile.training.model_dump(mode="json", exclude=unread)
    recipe["losses"] = (
        variant.losses,
        variant.structural and variants.structural_loss(variant.structural),
    )
    recipe["code"] = [general, source_key(*own, stop=NOT_ENTERED)]
    recipe["versions"] = [
        device(),
        precision(profile),
        versions("torch", "transformers", "accelerate"),
    ]
    if variant.structural is not None or variant.masked:
        recipe["structural"] = structural_teacher(profile)
    if variant.contextual is not None:
        taught = [paragraph_vector(variant.contextual, profile), tokens("validation", profile)]
        recipe["contextual"] = [*taught, versions("scikit-learn")]
        if variant.contextual_loss == "soft_cca":
            recipe["soft_cca"] = profile.soft_cca.model_dump(mode="json")
    return recipe


def task_set(split: str) -> str:
    """The set of task texts that an evaluation on a split needs: test and retrieval need all of them."""
    return "tasks" if split == "validation" else "all_tasks"


def embedded_sets(split: str | None) -> dict[str, str]:
    """The set of texts that each array of a model's embeddings is of. split None: of held-out documents alone."""
    judged = {} if split is None else {"tasks": task_set(split), "halves": "halves"}
    return judged | {"validation": "validation"}


def embeddings(
    variant: Variant, seed: int, profile: Profile, split: str | None = "validation"
) -> Recipe:
    """A model's embeddings, those of cut texts among them. Only students and Paragraph Vectors depend on the seed."""
    texts = [text_set(name, profile) for name in embedded_sets(split).values()]
    recipe = {
        "kind": "embeddings",
        "of": variant.kind,
        "texts": texts,
        "code": code("embeddings", stop=(_BASELINES,)),
    }
    if split == "test" and variant.kind in ("base", "student"):
        recipe["cut"] = profile.structural_teacher.max_tokens
    if variant.kind == "student":
        return recipe | {"model": student(variant, seed, profile)}
    if variant.kind == "paragraph_vector":
        return recipe | {"model": paragraph_vector(str(variant.contextual), profile.reseeded(seed))}
    if variant.kind == "base":
        return recipe | {"model": [base(profile), precision(profile), device()]}
    if variant.kind in ("tfidf", "sbert_chunks"):
        made_by = [source_key(_BASELINES, stop=NOT_ENTERED), versions("scikit-learn", "numpy")]
        recipe |= {"fitted": [text_set("train", profile), made_by]}
    return recipe | {"model": structural_teacher(profile)}


def record(
    variant: Variant, seed: int, task: str, profile: Profile, split: str, limit: int | None
) -> Recipe:
    """The accuracy of a model on a task: its embeddings, the task, the heads' settings and code."""
    data = [
        embeddings(variant, seed, profile, split),
        variant.cut,
        tasks(profile),
        task,
        split,
        limit,
    ]
    heads = [
        seed,
        profile.heads.model_dump(mode="json"),
        code("accuracies"),
        versions("torch", "scikit-learn"),
    ]
    return {"kind": "records", "data": data, "heads": heads}


def code(product: str, stop: tuple[str, ...] = ()) -> str:
    """Names the code of a module of lib.experiments, with the environment that every process computes in."""
    return source_key(
        f"lib.experiments.{product}", "lib.config.environment", stop=(*NOT_ENTERED, *stop)
    )


@functools.cache
def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages whose arithmetic a value depends on."""
    return {package: importlib.metadata.version(package) for package in packages}


def _pretrained(
    kind: str, section: StudentSettings | StructuralTeacherSettings, made_by: str
) -> Recipe:
    model = [section.model_dump(mode="json"), _weights(section.model)]
    return {"kind": kind, "model": model, "code": [made_by, versions("torch", "transformers")]}


@functools.cache
def _weights(model: str) -> list[list[str]]:
    """The bytes of all that a local model is loaded from, by file; a hub id is pinned by its revision."""
    folder = Path(model_path(model))
    read = sorted(path for path in folder.rglob("*") if path.suffix in _LOADED)
    return [[path.relative_to(folder).as_posix(), file_fingerprint(path)] for path in read]


def _files(profile: Profile, datasets: Iterable[str]) -> str:
    before = _looked_at.get()
    looked_at = {} if before is None else before
    place = (repr(profile.build), profile.data_root, *sorted(datasets))
    if place not in looked_at:
        looked_at[place] = sources.fingerprint(profile, datasets)
    return looked_at[place]
