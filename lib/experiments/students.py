"""Training one student, and embedding with it, from values alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.schema import SoftCCASettings, TrainingSettings
from lib.distillation.variants import Variant
from lib.experiments import models

MEASUREMENTS = 4  # a student of a contextual teacher is measured after each part of its training
FITTED = 10_000  # training documents, at most, that give means and standard deviations
DEAL_SEED = 7  # of the orders in which the controls' documents get each other's rows


@dataclass(frozen=True)
class JoinedColumns:
    """Arrays with the same rows, joined where rows are asked for: they may exceed memory."""

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
        As the teacher gives them, perhaps on disk.
    scaler : StandardScaler or None
        Applied to rows when they are asked for.
    order : (documents,) or None
        Whose row a document has; None for its own.
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
    """Documents as a student reads them, and what its teachers say of them, row by row.

    token_ids: the student's, special tokens included. lengths: in the structural teacher's tokens.
    structural, contextual: (documents, dim); None for a teacher that the student does not have.
    """

    token_ids: Sequence[np.ndarray]
    lengths: Sequence[int]
    structural: Any = None
    contextual: ContextualRows | None = None


@dataclass(frozen=True)
class Lesson:
    """All that makes a student, as values.

    held_out: documents on which a student of a contextual teacher is measured. start: (documents,
    dim) embeddings of these before training.
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
        """Documents of a batch; plain CCA needs more of them."""
        plain_cca = self.variant.contextual_loss == "cca"
        return self.training.cca_batch_size if plain_cca else self.training.batch_size

    @property
    def parts(self) -> int:
        """After each of so many parts of training it is measured; a control at the end alone."""
        return 1 if self.training.contextual_rows == "dealt" else MEASUREMENTS

    @property
    def updates(self) -> int:
        per_update = self.batch_size * self.training.accumulation * models.count_processes()
        return self.training.passes * (self.training.documents // per_update)


def standardize_rows(
    training_rows: Any, rows: Any, settings: TrainingSettings, order: np.ndarray | None = None
) -> ContextualRows:
    """Contextual rows as `training.contextual_features` asks for them.

    "standardized": each feature with mean 0 and standard deviation 1 over the training documents.
    SoftCCA compares projections as they are, and most of a raw row is what all documents share:
    students learn that, or to shrink it.
    """
    from sklearn.preprocessing import StandardScaler

    if settings.contextual_features == "raw":
        return ContextualRows(rows, order=order)
    scaler = StandardScaler().fit(training_rows[: min(FITTED, len(training_rows))])
    return ContextualRows(rows, scaler, order)


def deal_rows(variant: Variant, count: int) -> np.ndarray:
    """(count,) whose row each document of a control has, from which nothing can be learned.

    Each variant has an order of its own, so that a mean over controls does not rest on one.
    """
    return np.random.default_rng([DEAL_SEED, *variant.identity.encode()]).permutation(count)


def train_student(
    lesson: Lesson, *, checkpoint: Path | None = None, callbacks: Sequence[Callable] = ()
) -> tuple[Any, list[float], np.ndarray]:
    """Train a student on its teachers, from its last checkpoint if it has one.

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
    """The student before training; of a `[CLS]` variant with the drafts' pooling."""
    settings = lesson.training
    student = lesson.base.load(settings.dropout, settings.attention_dropout)
    if lesson.variant.pooling == "mean":
        return student
    from lib.student.cls import ClsStudent

    return ClsStudent(student)


def watch_held_out(lesson: Lesson):
    """What measures a student of a contextual teacher while it trains; None for any other."""
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
