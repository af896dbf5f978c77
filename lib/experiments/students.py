"""Training one student, from plain values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.schema import SoftCCASettings, TrainingSettings
from lib.distillation.variants import Variant
from lib.experiments import models

MEASUREMENTS = 4  # of a student of a contextual teacher, after each quarter of its training
FITTED = 10_000  # at most so many training documents give means and standard deviations
DEAL_SEED = 7  # of the orders in which the documents of controls get each other's rows


@dataclass(frozen=True)
class JoinedColumns:
    """Arrays with the same rows, joined when rows are read, because they may exceed memory."""

    parts: Sequence[Any]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.concatenate([part[rows] for part in self.parts], axis=-1)


@dataclass(frozen=True)
class ContextualRows:
    """(documents, dim) embeddings by a contextual teacher, as students learn from them.

    Parameters
    ----------
    values : rows
        The teacher's rows, perhaps on disk.
    scaler : StandardScaler or None
        Applied to rows when they are read.
    order : (documents,) or None
        Which document's row each document gets; None for its own.
    """

    values: Any
    scaler: Any = None
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        values = self.values[rows if self.order is None else self.order[rows]]
        if self.scaler is None:
            return values
        return self.scaler.transform(np.atleast_2d(values)).reshape(values.shape)


@dataclass(frozen=True)
class TaughtDocuments:
    """Documents as a student reads them, and its teachers' rows of them.

    Attributes
    ----------
    token_ids : sequence of (tokens,) int
        The student's, special tokens included.
    lengths : sequence of int
        In the structural teacher's tokens.
    structural, contextual : (documents, dim) or None
        None for a teacher that the student does not have.
    """

    token_ids: Sequence[np.ndarray]
    lengths: Sequence[int]
    structural: Any = None
    contextual: ContextualRows | None = None


@dataclass(frozen=True)
class Lesson:
    """All that makes a student, as plain values.

    Attributes
    ----------
    held_out : TaughtDocuments or None
        Documents on which a student of a contextual teacher is measured.
    start : (documents, dim) or None
        The base's embeddings of these documents.
    """

    variant: Variant
    seed: int
    base: models.Base
    training: TrainingSettings
    soft_cca: SoftCCASettings
    width: float
    precision: str
    documents: TaughtDocuments
    held_out: TaughtDocuments | None = None
    start: Any = None

    @property
    def batch_size(self) -> int:
        """Documents in a batch; plain CCA needs more of them."""
        plain_cca = self.variant.contextual_loss == "cca"
        return self.training.cca_batch_size if plain_cca else self.training.batch_size

    @property
    def parts(self) -> int:
        """The student is measured after each of so many parts of training, a control only at the
        end.
        """
        return 1 if self.training.contextual_rows == "dealt" else MEASUREMENTS

    @property
    def updates(self) -> int:
        per_update = self.batch_size * self.training.accumulation * models.count_processes()
        return self.training.passes * (self.training.documents // per_update)


def standardize_rows(
    training_rows: Any, rows: Any, settings: TrainingSettings, order: np.ndarray | None = None
) -> ContextualRows:
    """Contextual rows as the setting `training.contextual_features` says.

    With "standardized", each feature has mean 0 and standard deviation 1 over the training
    documents. SoftCCA compares projections as they are, and most of a raw row is common to all
    documents. From raw rows students would learn this common part, or learn to shrink it.
    """
    from sklearn.preprocessing import StandardScaler

    if settings.contextual_features == "raw":
        return ContextualRows(rows, order=order)
    scaler = StandardScaler().fit(training_rows[: min(FITTED, len(training_rows))])
    return ContextualRows(rows, scaler, order)


def deal_rows(variant: Variant, count: int) -> np.ndarray:
    """(count,) random order in which the documents of a control get each other's rows.

    Each variant has its own order, so that a mean over controls does not depend on a single one.
    """
    return np.random.default_rng([DEAL_SEED, *variant.identity.encode()]).permutation(count)


def train_student(
    lesson: Lesson, *, checkpoint: Path | None = None, callbacks: Sequence[Callable] = ()
) -> tuple[Any, list[float], np.ndarray]:
    """Train a student on its teachers; training continues from the last checkpoint, if any.

    The seed sets the data order, the projections' initial weights and dropout.

    Returns
    -------
    student : lib.student.Student
    losses : list of float
        The mean loss of each update.
    watched : (measurements, 4)
        Update, held-out CCA of the embeddings and of their projections, and the contextual share of
        the gradient; no rows without a contextual teacher.
    """
    import torch

    from lib.distillation.objective import Objective
    from lib.distillation.training import DistillationData, Scheme, distill

    settings, variant = lesson.training, lesson.variant
    student = build_student(lesson).to(models.find_device())
    student.gradient_checkpointing = settings.gradient_checkpointing
    if settings.freeze_token_embeddings:
        student.freeze_token_embeddings()
    documents = lesson.documents
    data = DistillationData(
        documents.token_ids, documents.lengths, documents.structural, documents.contextual
    )
    torch.manual_seed(lesson.seed)
    objective = Objective(
        variant,
        student.dim,
        None if documents.contextual is None else len(documents.contextual[0]),
        width=lesson.width,
        max_structural_len=settings.max_structural_len,
        **lesson.soft_cca.model_dump(),
    ).to(models.find_device())
    scheme = Scheme(
        batch_size=lesson.batch_size,
        learning_rate=settings.learning_rate,
        warmup_updates=round(settings.warmup_share * lesson.updates),
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        accumulation=settings.accumulation,
        precision=lesson.precision,
        length_bucket=settings.length_bucket,
        passes=settings.passes,
    )
    watch, measured = watch_held_out(lesson), []
    if watch is not None and lesson.start is not None:
        measured.append((0, *watch.measure(np.asarray(lesson.start), objective)))
    history = distill(
        student,
        objective,
        data,
        scheme,
        seed=lesson.seed,
        callbacks=[*callbacks, *([] if watch is None else [watch])],
        checkpoint=checkpoint,
        checkpoint_every=settings.checkpoint_every,
    )
    if watch is not None:
        rows = student.encode(lesson.held_out.token_ids[:], precision=lesson.precision)
        measured += [*watch.measurements, (len(history.loss), *watch.measure(rows, objective))]
    return student, history.loss, np.array(measured).reshape(len(measured), 4)


def build_student(lesson: Lesson):
    """The student before training; a `[CLS]` variant has the pooling of the drafts."""
    settings = lesson.training
    student = lesson.base.load(settings.dropout, settings.attention_dropout)
    if lesson.variant.pooling == "mean":
        return student
    from lib.student.cls import ClsStudent

    return ClsStudent(student)


def watch_held_out(lesson: Lesson):
    """The callback that measures a contextual teacher's student while it trains; else None."""
    if lesson.variant.contextual is None or lesson.held_out is None:
        return None
    from lib.distillation.held_out_cca import Watch

    held_out = lesson.held_out
    return Watch(
        held_out.token_ids[:],
        held_out.contextual[:],
        None if held_out.structural is None else held_out.structural[:],
        np.asarray(held_out.lengths),
        batch_size=lesson.training.batch_size,
        precision=lesson.precision,
        every=math.ceil(lesson.updates / lesson.parts),
    )
