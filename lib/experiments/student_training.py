"""One student trained as its profile says: the glue between a profile's values and `lib.distillation.training`."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import contextual_teacher, keys, models, structural_teacher, text_sets
from lib.store.records import store

CHECKPOINT = ".pt"  # ends the name of the file that a training is resumed from
WATCHED_PARTS = 4  # held-out documents are looked at so often; before training and at the end, `embeddings` asks
FITTED = 10_000  # training documents, at most, whose contextual embeddings give means and standard deviations
DEAL_SEED = 7  # of the orders in which controls' documents get each other's contextual embeddings


@dataclass(frozen=True)
class ContextualRows:
    """(documents, dim) embeddings by a contextual teacher as students learn from them, made where rows are asked for.

    values: as the teacher gives them, perhaps on disk. scaler: scikit-learn's, or None. order: (documents,), whose row
    a document has, or None for its own.
    """

    values: Any
    scaler: Any
    order: np.ndarray | None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        values = self.values[rows if self.order is None else self.order[rows]]
        return (
            values
            if self.scaler is None
            else self.scaler.transform(np.atleast_2d(values)).reshape(values.shape)
        )


def contextual_rows(variant: Variant, name: str, profile: Profile) -> ContextualRows:
    """What the variant's contextual teacher says of a set of texts, as `training.contextual_features` and `_rows` ask.

    "standardized": each feature with mean 0 and standard deviation 1 over the training documents. SoftCCA compares
    projections as they are, and most of a raw row is what all documents share: students learn that, or to shrink it.
    "dealt": training documents have each other's rows, from which nothing can be learned; a control. Each variant has
    an order of its own, so that a mean over controls does not rest on one.
    """
    from sklearn.preprocessing import StandardScaler

    settings, label = profile.training, str(variant.contextual)
    values, scaler, order = contextual_teacher.embeddings(label, name, profile), None, None
    if settings.contextual_features == "standardized":
        scaler = StandardScaler().fit(
            contextual_teacher.embeddings(label, "train", profile)[:FITTED]
        )
    if settings.contextual_rows == "dealt" and name == "train":
        order = np.random.default_rng([DEAL_SEED, *variant.identity.encode()]).permutation(
            len(values)
        )
    return ContextualRows(values, scaler, order)


def train_student(
    variant: Variant,
    seed: int,
    profile: Profile,
    start: np.ndarray | None = None,
    on_update: Callable[[int, int, float], None] | None = None,
    parts: int = WATCHED_PARTS,
):
    """One student trained on its teachers, from its last checkpoint if it has one: (student, objective, history).

    The seed sets the data order, the projections' initial weights and dropout. start: (documents, dim) embeddings of
    the validation documents before training, with which the history then begins. on_update: see `distill`; without it
    a training on no more documents than `training.checkpoint_every` updates take keeps no checkpoint. parts: after each
    of so many, but the last, a student of a contextual teacher is watched.
    """
    import torch

    from lib.distillation import training
    from lib.distillation.objective import Objective

    settings = profile.training
    structural = structural_teacher.embeddings("train", profile)
    contextual = contextual_rows(variant, "train", profile) if variant.contextual else None
    vectors = structural["embeddings"] if variant.structural else None
    token_ids = text_sets.token_ids("train", profile)
    data = training.DistillationData(token_ids, structural["lengths"], vectors, contextual)
    make = models.cls_student if variant.pooling == "cls" else models.base_student
    student = make(profile).to(models.device())
    student.gradient_checkpointing = settings.gradient_checkpointing
    if settings.freeze_token_embeddings:
        student.freeze_token_embeddings()
    torch.manual_seed(seed)
    options = {"width": profile.width, "max_structural_len": settings.max_structural_len}
    options |= {"contextual_dim": None if contextual is None else len(contextual[0])}
    objective = Objective(variant, student.dim, **options, **profile.soft_cca.model_dump()).to(
        models.device()
    )
    recipe, watch = keys.student(variant, seed, profile), held_out_watch(variant, profile)
    measured = [] if watch is None or start is None else [(0, *watch.measure(start, objective))]
    batch_size = (
        settings.cca_batch_size if variant.contextual_loss == "cca" else settings.batch_size
    )
    updates = settings.documents // (batch_size * settings.accumulation * models.processes())
    # A short training is repeated rather than resumed, unless a person waits for it.
    checkpoint, short = (
        store().path(recipe, CHECKPOINT),
        settings.checkpoint_every * settings.batch_size,
    )
    resumed = (
        on_update is not None
        or checkpoint.exists()
        or settings.documents > short * settings.accumulation
    )
    # The processes of one training must not wait for each other.
    with store().lock(recipe) if os.environ.get("RANK", "0") == "0" else nullcontext():
        history = training.distill(
            student,
            objective,
            data,
            seed=seed,
            batch_size=batch_size,
            learning_rate=settings.learning_rate,
            warmup_updates=round(settings.warmup_share * updates),
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            accumulation=settings.accumulation,
            precision=models.precision(profile),
            length_bucket=settings.length_bucket,
            negatives=settings.negatives if "max_margin" in variant.losses else None,
            checkpoint=checkpoint if resumed else None,
            checkpoint_every=settings.checkpoint_every,
            watch=watch,
            watch_every=-(-updates // parts),
            on_update=on_update,
        )
    history.watched[:0] = measured
    return student, objective, history


def remove_checkpoint(variant: Variant, seed: int, profile: Profile) -> None:
    """Remove what a training is resumed from; for when that is saved which the student was trained for."""
    store().path(keys.student(variant, seed, profile), CHECKPOINT).unlink(missing_ok=True)


def held_out_watch(variant: Variant, profile: Profile):
    """What watches a student of a contextual teacher on the validation documents; None for any other."""
    if variant.contextual is None:
        return None
    from lib.distillation.held_out_cca import Watch

    contextual = contextual_rows(variant, "validation", profile)[:]
    structural = structural_teacher.embeddings("validation", profile)
    vectors = structural["embeddings"] if variant.structural else None
    ids = text_sets.token_ids("validation", profile)
    options = {"batch_size": profile.training.batch_size, "precision": models.precision(profile)}
    return Watch(ids, contextual, vectors, structural["lengths"], **options)
