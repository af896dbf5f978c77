"""One student as a model: what it learns from, its training, its vectors."""

from __future__ import annotations

import functools
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.config.schema import SoftCCASettings, TrainingSettings
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments.base import PACKAGES, STUDENT, Base, pack_weights, unpack_weights
from lib.experiments.model import Model, count_ranks, find_device
from lib.store import Arrays, Product, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.embedders import Teacher

MEASUREMENTS = 4  # of a student of a contextual teacher, after each quarter of its training
FITTED = 10_000  # at most so many training documents give means and standard deviations
DEAL_SEED = 7  # of the orders in which the documents of controls get each other's rows
TRAINING = (
    "experiments.students",
    "distillation.objective",
    "distillation.training",
)
CONTEXTUAL = (  # what students without a contextual teacher do not run
    "distillation.measures",
    "distillation.projection",
    "evaluation.metrics",
)
LOSSES = {  # modules of lib.losses that compute a loss, unless it is one module of its name
    "contrastive": ("contrastive", "cosine"),
    "max_margin": ("max_margin", "mse"),
    "structural_mask": ("weighting",),
    "SoftCCA": ("cca",),
    "weighted": ("weighting",),
}


@dataclass(frozen=True, eq=False)
class TrainedStudent(Model):
    """A variant trained with a seed. Row i of all that it reads is document i of `documents`.

    `structural` and `contextual` are its teachers. `teacher` counts the tokens that the mask of
    Listing 4.1 depends on.
    """

    base: Base
    variant: Variant
    seed: int
    training: TrainingSettings
    soft_cca: SoftCCASettings
    width: float
    documents: Sequence[str]
    held_out: Sequence[str]
    teacher: Teacher
    structural: Model | None
    contextual: Model | None

    @functools.cached_property
    def weights(self) -> Product:
        """Weights and losses, named by what goes in: nothing is computed for this name."""
        variant = replace(self.variant, cut=False)
        inputs: dict[str, Any] = {
            "variant": asdict(variant),
            "losses": variant.losses,
            "arguments": variant.structural and variants.structural_loss(variant.structural),
            "seed": self.seed,
            "base": self.base.start,
            "training": self._list_settings(),
            "computed": [find_device(), self.base.precision, count_ranks()],
            "documents": hash_arrays(hash_texts(self.documents)),
            "structural": self.structural and self.structural.product,
        }
        packages = (*PACKAGES, "accelerate")
        if self.contextual is not None:
            inputs |= {"contextual": self.contextual.product, "width": self.width}
            inputs |= {"held_out": hash_arrays(hash_texts(self.held_out))}
            packages = (*packages, "scikit-learn")
        if variant.contextual_loss == "soft_cca" and self.contextual is not None:
            inputs["soft_cca"] = self.soft_cca.model_dump(mode="json")
        label = f"{variant.identity}, seed {self.seed}"
        return Product("student", inputs, self._list_modules(), packages, label)

    def _list_settings(self) -> dict[str, Any]:
        """The settings that decide the result of this student."""
        read = {
            "contextual_features": self.contextual is not None,
            "contextual_rows": self.contextual is not None,
            "cca_batch_size": self.variant.contextual_loss == "cca",
            "max_structural_len": self.variant.masked,
            "checkpoint_every": False,
            "gradient_checkpointing": False,
        }
        unread = {name for name, is_read in read.items() if not is_read}
        return self.training.model_dump(mode="json", exclude=unread)

    def _list_modules(self) -> tuple[str, ...]:
        files = [file for name in self.variant.losses for file in LOSSES.get(name, (name,))]
        modules = [*STUDENT, *TRAINING, "losses._checks", *(f"losses.{file}" for file in files)]
        modules += CONTEXTUAL if self.contextual is not None else ()
        modules += ["student.cls"] if self.variant.pooling == "cls" else []
        return tuple(dict.fromkeys(modules))

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.weights, "read": self.base.count_read(self.variant.cut)}
        modules = (*STUDENT, "student.cls") if self.variant.pooling == "cls" else STUDENT
        return Product("vectors", inputs, modules, PACKAGES, self.weights.label)

    @property
    def batch_size(self) -> int:
        """Documents in a batch; plain CCA needs more of them."""
        plain = self.variant.contextual_loss == "cca"
        return self.training.cca_batch_size if plain else self.training.batch_size

    @property
    def updates(self) -> int:
        per_update = self.batch_size * self.training.accumulation * count_ranks()
        return self.training.passes * (len(self.documents) // per_update)

    def list_needs(self) -> list[tuple[Model, Sequence[str]]]:
        """The base, which may have to learn its words, and the teachers of all documents."""
        if self.store.has(self.weights):
            return []
        teachers = [each for each in (self.structural, self.contextual) if each is not None]
        parts = [part for each in teachers for part in each.parts]
        read = [self.documents] if self.contextual is None else [self.documents, self.held_out]
        needs: list[tuple[Model, Sequence[str]]] = [(self.base, self.held_out)]
        for part in parts:  # what the teachers need comes before them
            needs += part.list_needs()
        for part in parts:
            needs += [(part, texts) for texts in read]
        return needs

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32. The student is trained if it is missing."""
        return self.base.encode_with(self.loaded, texts, self.variant.cut)

    @functools.cached_property
    def loaded(self) -> Any:
        """The trained student, a `lib.student.Student`."""
        return unpack_weights(self._build(), self.get_weights()).to(find_device())

    def get_weights(self, callbacks: Sequence[Callable] = ()) -> Arrays:
        """What `train` returns. The student is trained if it is missing."""
        arrays = self.store.get(self.weights, lambda: self.train(callbacks))
        shutil.rmtree(self.store.path(self.weights, ".checkpoint"), ignore_errors=True)
        return arrays

    def history(self) -> Arrays:
        """How it was trained; it is trained if it is missing.

        `loss` (updates,), the mean loss of each; `seconds` of a core; with a contextual teacher
        also `watched` (measurements, 4): update, held-out CCA of the embeddings and of their
        projections, and the contextual share of the gradient.
        """
        names = ("loss", "seconds", *(("watched",) if self.contextual else ()))
        found = self.store.find(self.weights, *names)
        return found or self.get_weights()

    def train(self, callbacks: Sequence[Callable] = (), checkpoint: Path | None = None) -> Arrays:
        """Train the student, from its last checkpoint if there is one: weights and `history`.

        The seed sets the order of documents, the projections' first weights, and dropout.
        `callbacks` are those of `lib.distillation.training.distill`. The `checkpoint` is kept in
        the store by default, unless the training is short.
        """
        from lib.distillation import measures
        from lib.distillation.training import distill

        settings, started = self.training, time.process_time()
        student = self._build().to(find_device())
        student.gradient_checkpointing = settings.gradient_checkpointing
        if settings.freeze_token_embeddings:
            student.freeze_token_embeddings()
        data = self.read(self.documents)
        objective = self._draw_objective(student, data)
        watched = []
        if self.contextual is not None:
            held_out, end = self.read(self.held_out), self.updates
            # Controls, whose rows are dealt, are measured at the end alone.
            parts = 1 if settings.contextual_rows == "dealt" else MEASUREMENTS
            every = math.ceil(end / parts)

            def measure(rows: np.ndarray, number: int) -> tuple[float, ...]:
                return number, *measures.measure(objective, rows, held_out, settings.batch_size)

            def watch(number: int, loss: float) -> tuple[float, ...] | None:
                if number % every and number != end:
                    return None
                precision = self.base.precision
                return measure(student.encode(held_out.token_ids[:], precision=precision), number)

            watched = [measure(self.base.embed(self.held_out)[:], 0)]
            callbacks = (*callbacks, watch)
        kept = self.store.path(self.weights, ".checkpoint")
        if checkpoint is None and (kept.exists() or self.updates > settings.checkpoint_every):
            checkpoint = kept
        changes = {"batch_size": self.batch_size, "precision": self.base.precision}
        history = distill(
            student,
            objective,
            data,
            settings.model_copy(update=changes),
            seed=self.seed,
            callbacks=callbacks,
            checkpoint=checkpoint,
            checkpoint_every=settings.checkpoint_every,
        )
        facts: Arrays = {"loss": history["loss"]}
        if watched:
            facts["watched"] = watched + history["measured"]
        return facts | {"seconds": time.process_time() - started} | pack_weights(student)

    def _draw_objective(self, student: Any, data: Any) -> Any:
        import torch

        from lib.distillation.objective import Objective

        torch.manual_seed(self.seed)
        objective = Objective(
            self.variant,
            student.dim,
            None if data.contextual is None else data.contextual[:1].shape[1],
            width=self.width,
            max_structural_len=self.training.max_structural_len,
            **self.soft_cca.model_dump(),
        )
        return objective.to(find_device())

    def read(self, texts: Sequence[str]) -> Any:
        """What the student and its teachers read of documents, a `DistillationData`."""
        from lib.distillation.training import DistillationData

        structural = None if self.structural is None else self.structural.embed(texts)
        contextual = None if self.contextual is None else self.prepare_rows(texts)
        lengths = self.teacher.lengths(texts)[:]
        rows = (lengths, structural, contextual)
        return DistillationData(self.base.tokens(texts)["ids"], *rows, self.variant.negatives)

    def prepare_rows(self, texts: Sequence[str]) -> ContextualRows:
        """(texts, dim) rows of the contextual teacher, as the student learns from them.

        With `contextual_features` "standardized", each feature has mean 0 and standard deviation 1
        over the training documents. SoftCCA compares projections as they are, and most of a raw row
        is common to all documents: students would learn this common part, or learn to shrink it.
        With `contextual_rows` "dealt", training documents get each other's rows, in an order of the
        variant's own, so that a mean over controls does not depend on a single one.
        """
        from sklearn.preprocessing import StandardScaler

        rows, scaler, order = self.contextual.embed(texts), None, None
        if self.training.contextual_features == "standardized":
            fitted = self.contextual.embed(self.documents)
            scaler = StandardScaler().fit(fitted[: min(FITTED, len(fitted))])
        if self.training.contextual_rows == "dealt" and texts is self.documents:
            generator = np.random.default_rng([DEAL_SEED, *self.variant.identity.encode()])
            order = generator.permutation(len(rows))
        return ContextualRows(rows, scaler, order)

    def _build(self) -> Any:
        """The student before training; a `[CLS]` variant has the pooling of the drafts."""
        student = self.base.load(self.training.dropout, self.training.attention_dropout)
        if self.variant.pooling == "mean":
            return student
        from lib.student.cls import ClsStudent

        return ClsStudent(student)


@dataclass(frozen=True)
class ContextualRows:
    """(documents, dim) rows of a contextual teacher, scaled and read when they are indexed.

    `order`, (documents,), is which document's row each document gets; None for its own.
    """

    values: Any
    scaler: Any = None
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        values = self.values[rows if self.order is None else self.order[rows]]
        return values if self.scaler is None else self.scaler.transform(values)
