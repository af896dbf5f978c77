"""The embeddings of every model: trained where needed, computed once, kept under a key of all that made them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.profiles import Profile
from lib.distillation import variants as labels
from lib.distillation.held_out_cca import CCAWatch
from lib.distillation.variants import Variant
from lib.evaluation import baselines
from lib.experiments import inputs
from lib.store import executors
from lib.store.records import fingerprint, source_fingerprint

TFIDF_FEATURES = 1024  # as wide as the widest embedding of the mini profile
WATCHED_PARTS = 2  # held-out CCA is measured before training, half way, and at the end
_LOSS_SOURCES = {
    "MSE": ("lib.losses.mse",),
    "cosine": ("lib.losses.cosine",),
    "contrastive": ("lib.losses.contrastive", "lib.losses.cosine"),
    "max-margin": ("lib.losses.max_margin",),
    "soft_cca": ("lib.losses.soft_cca",),
    "mse": ("lib.losses.mse",),
    "cca": ("lib.losses.cca",),
}


def of(variant: Variant | str, seed: int, profile: Profile, split: str = "validation") -> dict[str, np.ndarray]:
    """One model's arrays: "tasks" (texts, dim), "validation" (documents, dim), and a student's training history.

    split: asked for "validation", "tasks" has rows for the texts of training and validation only; for "test" for all.
    """
    variant = labels.parse(variant) if isinstance(variant, str) else variant
    data = inputs.of(profile)
    key = embedding_key(variant, seed, profile, split)
    note = {"model": variant.identity, "seed": seed, "device": device()}
    arrays = data.store.arrays("embeddings", key, lambda: _compute(variant, seed, profile, split), **note)
    if variant.kind == "student" and (path := checkpoint_path(variant, seed, profile)).exists():
        from lib.distillation import checkpoint  # imports torch

        checkpoint.remove(path)  # not before the embeddings are in the store
    return arrays


def embed(variant: Variant, seed: int, profile: Profile, split: str) -> str:
    """Make sure that a model's embeddings are in the store; the unit of work that an executor receives."""
    of(variant, seed, profile, split)
    return variant.identity


def prepare(
    profile: Profile, executor: Executor | None = None, teachers: Iterable[str] = (), split: str = "validation"
) -> None:
    """What students share: texts, token ids, the structural teacher's embeddings, and the named Paragraph Vectors."""
    sets = ("train", "validation", inputs.task_set(split))
    jobs = [(_prepare, (name, profile)) for name in sets] + [(_teach, (label, profile)) for label in teachers]
    executors.submit(jobs, executor, "texts and teachers")


def embed_all(pairs: list[tuple[Variant, int]], profile: Profile, executor: Executor | None, split: str) -> None:
    """Shared inputs first, then every model whose embeddings are missing."""
    data = inputs.of(profile)
    todo = {embedding_key(variant, seed, profile, split): (variant, seed) for variant, seed in pairs}
    todo = {key: pair for key, pair in todo.items() if not data.store.has("embeddings", key)}
    if todo:
        singles = {part for variant, _ in todo.values() if variant.contextual for part in variant.contextual.split("+")}
        prepare(profile, executor, sorted(singles), split)
        # Students with a contextual teacher measure their starting point on the base's embeddings: those come first.
        order = sorted(todo.values(), key=lambda pair: pair[0].kind != "base")
        executors.submit([(embed, (variant, seed, profile, split)) for variant, seed in order], executor, "models")


def embedding_key(variant: Variant, seed: int, profile: Profile, split: str = "validation") -> str:
    """Names a model's embeddings by everything that made them. Only a student depends on the seed."""
    data = inputs.of(profile)
    key: dict[str, Any] = {"tasks": data.set_key(inputs.task_set(split)), "corpus": data.corpus_key}
    if variant.kind == "base":
        key["model"] = [data.base_key, profile.training.precision]
    elif variant.kind == "sbert":
        key["model"] = data.structural_key
    elif variant.kind in ("tfidf", "sbert_chunks"):
        key["model"] = [
            variant.kind,
            data.structural_key,
            data.set_key("train"),
            source_fingerprint("lib.evaluation.baselines"),
        ]
    elif variant.kind == "paragraph_vector":
        key["model"] = [data.contextual_key(part) for part in variant.contextual.split("+")]
    else:
        key["model"] = student_key(variant, seed, profile)
    return fingerprint(key)


def student_key(variant: Variant, seed: int, profile: Profile) -> str:
    """Names a trained student: its base, its data, its teachers, its settings and the source of what trains it."""
    data = inputs.of(profile)
    sources = ["lib.distillation.training", "lib.distillation.objective", "lib.distillation.checkpoint"]
    key: dict[str, Any] = {"variant": asdict(variant), "seed": seed, "base": data.base_key, "corpus": data.corpus_key}
    key["training"] = {
        name: value for name, value in profile.training.model_dump(mode="json").items() if name != "checkpoint_every"
    }
    key["device"] = device()
    if variant.structural is not None:
        name, distance, _ = variant.structural_distance
        sources += [*_LOSS_SOURCES[name], *_LOSS_SOURCES.get(distance, ())]
        key["structural"] = data.structural_key
    if variant.contextual is not None:
        sources += [*_LOSS_SOURCES[variant.contextual_loss], "lib.distillation.projection"]
        key |= {
            "contextual": [data.contextual_key(part) for part in variant.contextual.split("+")],
            "width": profile.width,
        }
        if variant.contextual_loss == "soft_cca":
            key["soft_cca"] = profile.soft_cca.model_dump(mode="json")
    if variant.structural is not None and (variant.contextual is not None or variant.masked):
        sources.append("lib.losses.weighting")
        key["structural"] = data.structural_key
    if variant.pooling == "cls":
        sources.append("lib.student.cls")
    key["code"] = source_fingerprint(*sources)
    key["versions"] = inputs.versions("torch", "transformers", "accelerate")
    return fingerprint(key)


def checkpoint_path(variant: Variant, seed: int, profile: Profile) -> Path:
    """Where the training of a student is kept until what it was trained for is saved."""
    return inputs.of(profile).store.folder / "checkpoints" / f"{student_key(variant, seed, profile)}.pt"


def train_student(
    variant: Variant, seed: int, profile: Profile, on_update: Callable[[int, int, float], None] | None = None
):
    """One student trained on its teachers; returns (student, objective, history).

    The seed sets the data order, the projections' initial weights and dropout. Training resumes from its last
    checkpoint if an earlier run was interrupted.
    """
    import torch

    from lib.distillation import training
    from lib.distillation.objective import Objective

    settings = profile.training
    data = inputs.of(profile)
    count = settings.documents
    structural = data.structural("train")
    data_set = training.DistillationData(
        data.token_ids("train")[:count],
        structural["lengths"][:count],
        structural["embeddings"][:count] if variant.structural else None,
        data.contextual(variant.contextual, "train")[:count] if variant.contextual else None,
    )
    make = inputs.cls_student if variant.pooling == "cls" else inputs.base_student
    student = make(profile).to(device())
    student.gradient_checkpointing = settings.gradient_checkpointing
    if settings.freeze_token_embeddings:
        student.freeze_token_embeddings()
    torch.manual_seed(seed)
    objective = Objective(
        variant,
        student.dim,
        None if data_set.contextual is None else data_set.contextual.shape[1],
        width=profile.width,
        max_structural_len=settings.max_structural_len,
        **profile.soft_cca.model_dump(),
    ).to(device())
    watch, measured = None, []
    if variant.contextual is not None:
        watch = CCAWatch(data.token_ids("validation"), data.contextual(variant.contextual, "validation"))
        measured.append((0, *watch.measure(of(Variant("base"), 0, profile)["validation"], objective)))
    key = student_key(variant, seed, profile)
    batch_size = settings.cca_batch_size if variant.contextual_loss == "cca" else settings.batch_size
    updates = count // (batch_size * settings.accumulation * int(os.environ.get("WORLD_SIZE", 1)))
    shared = int(os.environ.get("WORLD_SIZE", 1)) > 1  # the processes of one training must not wait for each other
    with nullcontext() if shared else data.store.lock("checkpoints", key):
        history = training.distill(
            student,
            objective,
            data_set,
            seed=seed,
            batch_size=batch_size,
            learning_rate=settings.learning_rate,
            warmup_updates=round(settings.warmup_share * updates),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            accumulation=settings.accumulation,
            precision=settings.precision,
            length_bucket=settings.length_bucket,
            checkpoint=checkpoint_path(variant, seed, profile),
            checkpoint_every=settings.checkpoint_every,
            watch=watch,
            watch_every=-(-updates // WATCHED_PARTS),
            on_update=on_update,
        )
    history.watched[:0] = measured
    return student, objective, history


def _compute(variant: Variant, seed: int, profile: Profile, split: str) -> dict[str, np.ndarray]:
    data = inputs.of(profile)
    texts = inputs.task_set(split)
    if variant.kind == "sbert":
        both = {"tasks": texts, "validation": "validation"}
        return {name: data.structural(one)["embeddings"] for name, one in both.items()}
    if variant.kind == "paragraph_vector":
        return {"tasks": data.contextual(variant.contextual, texts)}
    if variant.kind == "sbert_chunks":
        return {"tasks": baselines.mean_of_chunks(inputs.structural_teacher(profile), data.texts(texts))}
    if variant.kind == "tfidf":
        return {"tasks": baselines.tfidf(data.texts("train"), data.texts(texts), features=TFIDF_FEATURES)}
    found: dict[str, np.ndarray] = {}
    if variant.kind == "base":
        student = inputs.base_student(profile).to(device())
    else:
        student, objective, history = train_student(variant, seed, profile)
        found["loss"] = np.asarray(history.loss)
    found["tasks"] = student.encode(data.token_ids(texts), precision=profile.training.precision)
    found["validation"] = student.encode(data.token_ids("validation"), precision=profile.training.precision)
    if variant.contextual is not None:
        watch = CCAWatch(data.token_ids("validation"), data.contextual(variant.contextual, "validation"))
        found["cca"] = np.asarray(
            [*history.watched, (len(history.loss), *watch.measure(found["validation"], objective))]
        )
    return found


def _prepare(name: str, profile: Profile) -> str:
    data = inputs.of(profile)
    data.token_ids(name)
    data.structural(name)
    if name in ("tasks", "all_tasks"):
        for task in profile.tasks.names:
            data.task_arrays(task)
    return name


def _teach(label: str, profile: Profile) -> str:
    inputs.of(profile).paragraph_vector(label)
    return label


@functools.cache
def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
