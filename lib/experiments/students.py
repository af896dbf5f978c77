"""The student before training, and one trained student: what it learns from, its vectors."""

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

from lib.config.schema import SoftCCASettings, StudentSettings, TrainingSettings
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments.model import Model, count_ranks, find_device, find_model, hash_model
from lib.jobs import track
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.embedders import Teacher

MEASUREMENTS = 4  # of a student of a contextual teacher, after each quarter of its training
FITTED = 10_000  # at most so many training documents give means and standard deviations
DEAL_SEED = 7  # of the orders in which the documents of controls get each other's rows
PACKAGES = ("torch", "transformers", "tokenizers")
# What computes a student's vectors and a base's weights. Saving for other people is left out.
STUDENT = (
    "experiments.students",
    "student.attention",
    "student.encoder",
    "student.linear",
    "student.low_precision",
    "student.masked_words",
    "student.packing",
    "student.serving",
    "student.weights",
    "teachers.chunks",
    "teachers.rows",
    "texts",
)
TRAINING = ("distillation.objective", "distillation.training")
CONTEXTUAL = (  # what students without a contextual teacher do not run
    "distillation.measures",
    "distillation.projection",
    "evaluation.metrics",
)
LOSSES = {  # modules of lib.losses that compute a loss, unless it is one module of its name
    "contrastive": ("contrastive", "cosine"),
    "max_margin": ("max_margin", "mse"),
    "structural_mask": ("weighting",),
    "SoftCCA": ("soft_cca",),
    "weighted": ("weighting",),
}


@dataclass(frozen=True, eq=False)
class Base(Model):
    """The student before training.

    With a section `language_model`, the layers first learn to guess masked words of `documents`,
    and are measured on `held_out`. The teacher decides where a `cut` text ends. `precision` is
    "fp32" or "bf16"; `served` students encode as people's do: faster in bfloat16, and equal up to
    rounding.
    """

    section: StudentSettings
    precision: str
    documents: Sequence[str]
    held_out: Sequence[str]
    teacher: Teacher
    cut: bool = False
    served: bool = False

    @functools.cached_property
    def start(self) -> Product:
        inputs = self.section.model_dump(mode="json") | {"files": hash_model(self.section.model)}
        if self.section.language_model is not None:
            texts = (self.documents, self.held_out)
            inputs["texts"] = [hash_arrays(hash_texts(each)) for each in texts]
            inputs["computed"] = [find_device(), self.precision]
        return Product("base", inputs, STUDENT, PACKAGES, "masked words")

    @functools.cached_property
    def product(self) -> Product:
        computed = [find_device(), self.precision, self.served]
        inputs = {"model": self.start, "read": self.count_read(self.cut), "computed": computed}
        return Product("vectors", inputs, STUDENT, PACKAGES, "Longformer")

    def count_read(self, cut: bool) -> int:
        """How many tokens of a text are read, special ones included."""
        return self.teacher.section.max_tokens if cut else self.section.max_positions

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32."""
        return self.encode_with(self._loaded, texts, self.cut)

    def encode_with(self, student: Any, texts: Sequence[str], cut: bool) -> np.ndarray:
        """(texts, dim) float32, by this student or by a trained copy of it."""
        from lib.student import packing
        from lib.teachers.chunks import cut_text

        read = [cut_text(text) for text in texts]
        ids = packing.tokenize(self.layers.tokenizer, read, self.count_read(cut))
        return student.encode(ids, precision=self.precision)

    @functools.cached_property
    def layers(self) -> Any:
        """The student with the weights of its checkpoint, for its tokenizer."""
        return load_layers(self.section)

    @functools.cached_property
    def _loaded(self) -> Any:
        return self.load().to(find_device())

    def load(self, dropout: float | None = None, attention_dropout: float | None = None) -> Any:
        """A fresh copy. It learns its words first if it has not yet."""
        student = load_layers(self.section, dropout, attention_dropout, self.served)
        if self.section.language_model is None:
            return student
        return unpack_weights(student, self.store.get(self.start, self._learn_words))

    def history(self) -> Arrays | None:
        """`loss`, `held_out` and `unigram` of `WordLosses`; None without a language model."""
        if self.section.language_model is None:
            return None
        self.store.get(self.start, self._learn_words)
        return self.store.find(self.start, "loss", "held_out", "unigram")

    def _learn_words(self) -> Arrays:
        from lib.student.masked_words import train_masked_words

        student = load_layers(self.section, dropout=0.0).to(find_device())
        texts = [self.tokens(each)["ids"] for each in (self.documents, self.held_out)]
        settings = self.section.language_model.model_dump() | {"precision": self.precision}
        settings["track"] = lambda batches: track(batches, "masked words", len(batches))
        return train_masked_words(student, *texts, **settings)._asdict() | pack_weights(student)

    def tokens(self, texts: Sequence[str]) -> dict[str, Rows]:
        """The token `ids` of texts, special ones included, truncated, and their length `whole`."""
        inputs = {"model": self.section.model, "revision": self.section.revision}
        inputs |= {"files": hash_model(self.section.model), "read": self.section.max_positions}
        product = Product("tokens", inputs, STUDENT, PACKAGES, "tokens")
        return self.store.rows(product, texts, self._tokenize)

    def _tokenize(self, texts: list[str]) -> Arrays:
        student = self.layers
        ids = [np.array(row, np.int32) for row in student.tokenize(texts)]
        whole = [len(row) for row in ids]
        for row, text in enumerate(texts):
            if whole[row] >= student.max_positions:
                whole[row] = len(student.tokenizer(text, verbose=False)["input_ids"])
        return {"ids": ids, "whole": np.array(whole)}


def load_layers(
    section: StudentSettings,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    served: bool = False,
) -> Any:
    """The layers of a base as a student, with the weights of their checkpoint."""
    from lib.student import encoder, serving

    Student = serving.Student if served else encoder.Student
    path, options = find_model(section.model), {"revision": section.revision, "dropout": dropout}
    options["attention_dropout"] = attention_dropout
    if section.base == "longformer":
        return Student.from_longformer(path, **options)
    shape = {"layers": section.layers, "window": section.window}
    return Student.from_encoder(path, **shape, max_positions=section.max_positions, **options)


def pack_weights(student: Any) -> Arrays:
    """The weights that training may have changed, each as `w.<name>`; frozen ones are left out."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {f"w.{name}": value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, arrays: Arrays) -> Any:
    """Load weights from `pack_weights`, for evaluation; `ValueError` if the student lacks one."""
    import torch

    state = {name[2:]: torch.from_numpy(a) for name, a in arrays.items() if name[:2] == "w."}
    if unknown := student.load_state_dict(state, strict=False).unexpected_keys:
        raise ValueError(f"the weights belong to another student: this one has no {unknown[0]}")
    return student.eval()


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
        read = (self.documents, self.held_out) if self.contextual else (self.documents,)
        needs = [need for part in parts for need in part.list_needs()]
        needs += [(part, texts) for part in parts for texts in read]
        return [(self.base, self.held_out), *needs]

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
        from lib.distillation.training import distill

        settings, started = self.training, time.process_time()
        student = self._build().to(find_device())
        student.gradient_checkpointing = settings.gradient_checkpointing
        if settings.freeze_token_embeddings:
            student.freeze_token_embeddings()
        data = self.read(self.documents)
        objective = self._draw_objective(student, data)
        watch, measured = self._watch(), []
        if watch is not None:
            start = self.base.embed(self.held_out)[:]
            measured.append((0, *watch.measure(start, objective)))
            callbacks = (*callbacks, watch)
        kept = self.store.path(self.weights, ".checkpoint")
        if checkpoint is None and (kept.exists() or self.updates > settings.checkpoint_every):
            checkpoint = kept
        options = {"checkpoint": checkpoint, "checkpoint_every": settings.checkpoint_every}
        lesson = (student, objective, data, self._make_scheme())
        history = distill(*lesson, seed=self.seed, callbacks=callbacks, **options)
        facts: Arrays = {"loss": history.loss}
        if watch is not None:
            rows = student.encode(watch.data.token_ids[:], precision=self.base.precision)
            measured += [*watch.measurements, (len(history.loss), *watch.measure(rows, objective))]
            facts["watched"] = measured
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

    def _make_scheme(self) -> Any:
        from lib.distillation.training import Scheme

        names = "learning_rate weight_decay clip accumulation length_bucket passes".split()
        return Scheme(
            batch_size=self.batch_size,
            warmup_updates=round(self.training.warmup_share * self.updates),
            precision=self.base.precision,
            **self.training.model_dump(include={*names}),
        )

    def read(self, texts: Sequence[str]) -> Any:
        """What the student and its teachers read of documents, a `DistillationData`."""
        from lib.distillation.training import DistillationData, WithNegatives

        structural = None if self.structural is None else self.structural.embed(texts)
        if self.variant.negatives:
            structural = WithNegatives(structural, self.variant.negatives)
        contextual = None if self.contextual is None else self.prepare_rows(texts)
        lengths = self.teacher.lengths(texts)[:]
        return DistillationData(self.base.tokens(texts)["ids"], lengths, structural, contextual)

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

    def _watch(self) -> Any:
        """The callback that measures a contextual teacher's student while it trains; else None."""
        if self.contextual is None:
            return None
        from lib.distillation.measures import Watch

        dealt = self.training.contextual_rows == "dealt"  # controls are measured at the end
        return Watch(
            self.read(self.held_out),
            batch_size=self.training.batch_size,
            precision=self.base.precision,
            every=math.ceil(self.updates / (1 if dealt else MEASUREMENTS)),
        )


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
