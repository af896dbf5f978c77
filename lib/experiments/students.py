"""The student before and after training: its names, what it learns from, its vectors."""

from __future__ import annotations

import functools
import itertools
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from tqdm import tqdm

from lib.config.schema import Profile, StudentSettings, TrainingSettings
from lib.distillation import measures, training, variants
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData
from lib.distillation.variants import Variant
from lib.experiments.model import Model, count_ranks, find_device, find_model, hash_model
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts
from lib.student import Student, masked_words
from lib.student.cls import ClsStudent
from lib.teachers.chunks import cut_text

MEASUREMENTS = 4  # of a student of a contextual teacher, after each quarter of its training
FITTED = 10_000  # at most so many training documents give means and standard deviations
DEAL_SEED = 7  # of the orders in which the documents of controls get each other's rows
PACKAGES = ("torch", "transformers", "tokenizers")
STUDENT = ("experiments.students", "student", "teachers.chunks", "teachers.rows", "texts")
TRAINING = tuple(f"distillation.{name}" for name in ("measures", "objective", "projection"))
TRAINING += ("distillation.training", "evaluation.metrics", "losses._checks")
UNREAD = {"checkpoint_every", "gradient_checkpointing"}  # settings that change no result
LOSSES = {  # modules of lib.losses that compute a loss, unless it is the one of its name
    "contrastive": ("contrastive", "cosine"),
    "max_margin": ("max_margin", "mse"),
    "structural_mask": ("weighting",),
    "SoftCCA": ("cca",),
    "weighted": ("weighting",),
}


@dataclass(frozen=True, eq=False)
class Base(Model):
    """The student before training: the layers of an encoder.

    With a section `language_model`, they first learn to guess masked words of `documents`, and are
    measured on `held_out`. The teacher decides where a `cut` text ends.
    """

    section: StudentSettings
    precision: str  # "fp32" or "bf16"
    documents: Sequence[str]
    held_out: Sequence[str]
    teacher: Any  # an `embedders.Teacher`
    cut: bool = False

    @functools.cached_property
    def start(self) -> Product:
        """Its weights."""
        inputs = self.section.model_dump(mode="json") | {"files": hash_model(self.section.model)}
        inputs["texts"] = hash_arrays(hash_texts(self.documents), hash_texts(self.held_out))
        inputs["computed"] = [find_device(), self.precision]
        return Product("base", inputs, STUDENT, PACKAGES, "masked words")

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.start, "read": self.read}
        return Product("vectors", inputs, STUDENT, PACKAGES, "Longformer")

    @property
    def read(self) -> int:
        """How many tokens of a text are read, special ones included."""
        return self.teacher.section.max_tokens if self.cut else self.section.max_positions

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32."""
        return self.encode_with(self._loaded, texts)

    def encode_with(self, student: Any, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32, by this student or by a trained copy of it."""
        ids = self.layers.tokenize([cut_text(text) for text in texts], self.read)
        return student.encode(ids, precision=self.precision)

    @functools.cached_property
    def layers(self) -> Any:
        """The student with the weights of its checkpoint, for its tokenizer."""
        return load_layers(self.section)

    @functools.cached_property
    def _loaded(self) -> Any:
        return self.load().to(find_device())

    def load(self, dropout: float | None = None) -> Any:
        """A fresh copy with `dropout`. It learns its words if need be."""
        student, learned = load_layers(self.section, dropout), self.history()
        return student if learned is None else unpack_weights(student, learned)

    def history(self) -> Arrays | None:
        """Its weights, with `loss`, `held_out` and `unigram` of `WordLosses`.

        None without a language model.
        """
        if self.section.language_model is None:
            return None
        return self.store.get(self.start, self._learn_words)

    def _learn_words(self) -> Arrays:
        student = load_layers(self.section, dropout=0.0).to(find_device())
        texts = [self.tokens(each)["ids"] for each in (self.documents, self.held_out)]
        settings = self.section.language_model.model_dump() | {"precision": self.precision}
        settings["track"] = functools.partial(tqdm, desc="masked words", leave=False)
        learned = masked_words.train_masked_words(student, *texts, **settings)
        return learned._asdict() | pack_weights(student)

    def tokens(self, texts: Sequence[str]) -> dict[str, Rows]:
        """The token `ids` of texts, special ones included, truncated, and their length `whole`."""
        names = {"model", "revision", "max_positions"}
        inputs = self.section.model_dump(mode="json", include=names)
        inputs |= {"files": hash_model(self.section.model)}
        product = Product("tokens", inputs, STUDENT, PACKAGES, "tokens")
        return self.store.rows(product, texts, self._tokenize)

    def _tokenize(self, texts: list[str]) -> Arrays:
        ids = [np.array(row, np.int32) for row in self.layers.tokenize(texts)]
        whole = self.layers.tokenizer(texts, verbose=False)["input_ids"]
        return {"ids": ids, "whole": np.array([len(row) for row in whole])}


def load_layers(section: StudentSettings, dropout: float | None = None) -> Student:
    """The layers of a base as a student, with the weights of their checkpoint."""
    path, options = find_model(section.model), {"revision": section.revision, "dropout": dropout}
    if section.base == "longformer":
        return Student.from_longformer(path, **options)
    shape = (section.layers, section.window, section.max_positions)
    return Student.from_encoder(path, *shape, **options)


def pack_weights(student: Any) -> Arrays:
    """The weights that training may have changed, each as `w.<name>`; frozen ones are left out."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {f"w.{name}": value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, arrays: Arrays) -> Any:
    """Load weights from `pack_weights`, for evaluation."""
    state = {name[2:]: torch.from_numpy(a) for name, a in arrays.items() if name[:2] == "w."}
    student.load_state_dict(student.state_dict() | state)  # torch refuses those it does not have
    return student.eval()


@dataclass(frozen=True, eq=False)
class TrainedStudent(Model):
    """A variant trained with a seed by its teachers, `structural` and `contextual`.

    Row i of all that it reads is document i of `documents`.
    """

    base: Base
    variant: Variant
    seed: int
    profile: Profile
    documents: Sequence[str]
    held_out: Sequence[str]
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
            "processes": count_ranks(),
            "documents": hash_arrays(hash_texts(self.documents)),
            "structural": self.structural and self.structural.product,
            "training": self.profile.training.model_dump(mode="json", exclude=UNREAD),
        }
        if self.contextual is not None:
            inputs |= {"contextual": self.contextual.product, "width": self.profile.width}
            inputs["held_out"] = hash_arrays(hash_texts(self.held_out))
            inputs["soft_cca"] = self.profile.soft_cca.model_dump(mode="json")
        files = [file for name in variant.losses for file in LOSSES.get(name, (name,))]
        modules = (*STUDENT, *TRAINING, *(f"losses.{file}" for file in dict.fromkeys(files)))
        label = f"{variant.identity}, seed {self.seed}"
        return Product("student", inputs, modules, (*PACKAGES, "accelerate", "scikit-learn"), label)

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.weights, "read": self.base.read}
        return Product("vectors", inputs, STUDENT, PACKAGES, self.weights.label)

    @functools.cached_property
    def settings(self) -> TrainingSettings:
        """How it is trained; plain CCA needs more documents in a batch."""
        settings = self.profile.training
        plain = self.variant.contextual_loss == "cca"
        size = settings.cca_batch_size if plain else settings.batch_size
        return settings.model_copy(update={"precision": self.base.precision, "batch_size": size})

    @property
    def updates(self) -> int:
        per_update = self.settings.batch_size * self.settings.accumulation * count_ranks()
        return self.settings.passes * (len(self.documents) // per_update)

    def list_needs(self, texts: Sequence[str]) -> list[tuple[Model, Sequence[str]]]:
        """The base, which may have to learn its words, and the teachers of all documents."""
        if self.store.has(self.weights):
            return []
        read = [self.documents] if self.contextual is None else [self.documents, self.held_out]
        teachers = filter(None, (self.structural, self.contextual))
        return [(self.base, self.held_out), *itertools.product(teachers, read)]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32. The student is trained if it is missing."""
        return self.base.encode_with(self.loaded, texts)

    @functools.cached_property
    def loaded(self) -> Any:
        """The trained student, a `lib.student.Student`."""
        return unpack_weights(self._build(), self.history()).to(find_device())

    def history(self, callbacks: Sequence[Callable] = ()) -> Arrays:
        """Its weights, and how it was trained; it is trained if it is missing.

        `loss` (updates,), the mean loss of each; with a contextual teacher also `watched`
        (measurements, 4): update, held-out CCA of the embeddings and of their projections, and the
        contextual share of the gradient. `callbacks` are those of
        `lib.distillation.training.distill`.
        """
        arrays = self.store.get(self.weights, lambda: self.train(callbacks))
        shutil.rmtree(self.store.path(self.weights, ".checkpoint"), ignore_errors=True)
        return arrays

    def train(self, callbacks: Sequence[Callable] = ()) -> Arrays:
        """Train the student, from its last checkpoint if there is one, and return its `history`.

        The seed sets the order of documents, the projections' first weights, and dropout.
        """
        settings, student = self.settings, self._build().to(find_device())
        student.gradient_checkpointing = settings.gradient_checkpointing
        if settings.freeze_token_embeddings:
            student.freeze_token_embeddings()
        dealt = settings.contextual_rows == "dealt"
        data, watched = self.read_data(self.documents, dealt), []
        torch.manual_seed(self.seed)
        objective = Objective(
            self.variant,
            student.dim,
            None if data.contextual is None else data.contextual[:1].shape[1],
            width=self.profile.width,
            max_structural_len=settings.max_structural_len,
            **self.profile.soft_cca.model_dump(),
        ).to(find_device())
        if self.contextual is not None:
            held_out, end = self.read_data(self.held_out), self.updates
            # Controls, whose rows are dealt, are measured at the end alone.
            every = end if dealt else math.ceil(end / MEASUREMENTS)

            def measure(rows: np.ndarray, number: int) -> tuple[float, ...]:
                return number, *measures.measure(objective, rows, held_out, settings.batch_size)

            def watch(number: int, loss: float) -> tuple[float, ...] | None:
                if number % every and number != end:
                    return None
                ids = held_out.token_ids[:]
                return measure(student.encode(ids, precision=settings.precision), number)

            watched = [measure(self.base.embed(self.held_out)[:], 0)]
            callbacks = (*callbacks, watch)
        long = self.updates > settings.checkpoint_every
        history = training.distill(
            student,
            objective,
            data,
            settings,
            seed=self.seed,
            callbacks=callbacks,
            checkpoint=self.store.path(self.weights, ".checkpoint") if long else None,
            checkpoint_every=settings.checkpoint_every,
        )
        facts = {"watched": watched + history["measured"]} if watched else {}
        return {"loss": history["loss"], **facts, **pack_weights(student)}

    def _build(self) -> Any:
        """The student before training; a `[CLS]` variant has the pooling of the drafts."""
        student = self.base.load(self.settings.dropout)
        return student if self.variant.pooling == "mean" else ClsStudent(student)

    def read_data(self, texts: Sequence[str], dealt: bool = False) -> DistillationData:
        """What the student and its teachers read of documents."""
        structural = None if self.structural is None else self.structural.embed(texts)
        contextual = None if self.contextual is None else self.prepare_rows(texts, dealt)
        rows = (self.base.teacher.lengths(texts)[:], structural, contextual)
        return DistillationData(self.base.tokens(texts)["ids"], *rows, self.variant.negatives)

    def prepare_rows(self, texts: Sequence[str], dealt: bool = False) -> Rows:
        """(texts, dim) rows of the contextual teacher, as the student learns from them.

        With `contextual_features` "standardized", each feature has mean 0 and standard deviation 1
        over the training documents. SoftCCA compares projections as they are, and most of a raw row
        is common to all documents: students would learn this common part, or learn to shrink it.
        If they are `dealt`, texts get each other's rows, in an order of the variant's own, so that
        a mean over controls does not depend on a single one.
        """
        values, scaler = self.contextual.embed(texts), FunctionTransformer()
        if self.settings.contextual_features == "standardized":
            fitted = self.contextual.embed(self.documents)
            scaler = StandardScaler().fit(fitted[: min(FITTED, len(fitted))])
        order = np.arange(len(values))
        if dealt:
            generator = np.random.default_rng([DEAL_SEED, *self.variant.identity.encode()])
            order = generator.permutation(len(values))
        return Rows(len(values), lambda rows: scaler.transform(values[order[rows]]))
