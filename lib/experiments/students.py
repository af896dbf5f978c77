"""The student before and after training: its names, what it learns from, its vectors."""

import copy
import functools
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from lib import losses
from lib.config.schema import Profile, StudentSettings, TrainingSettings
from lib.distillation import measures, training, variants
from lib.distillation.objective import Objective
from lib.experiments.models import Model, find_device, find_model, hash_model
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts
from lib.student import Student, masked_words
from lib.student.cls import ClsStudent
from lib.teachers.rows import cut_text
from lib.texts import check_several, tokenize_texts

RANKS = int(os.environ.get("WORLD_SIZE", 1))  # processes that train one student, by torchrun
MEASUREMENTS = 4  # of a student with a contextual teacher: after each quarter of its training
FITTED = 10_000  # at most so many training documents give means and standard deviations
DEAL_SEED = 7  # of the shuffles by which documents of controls get each other's rows
PACKAGES = ("torch", "transformers", "tokenizers")
STUDENT = ("experiments.students", "student", "teachers.rows", "texts")
TRAINING = tuple(f"distillation.{name}" for name in ("measures", "objective", "projection"))
TRAINING += ("distillation.training", "evaluation.metrics", "losses._checks")
NOT_HASHED = {"checkpoint_every", "gradient_checkpointing"}  # settings that change no result
IMPORTED = {"contrastive": "cosine", "max_margin": "mse"}  # by modules of lib.losses


@dataclass(frozen=True, eq=False)
class Base(Model):
    """The student before training: the layers of an encoder.

    With `language_model` epochs, they first learn to guess masked words of `documents`, and are
    measured on `held_out`. The teacher decides where a `cut` text ends.
    """

    section: StudentSettings
    precision: str  # "fp32" or "bf16"
    documents: Sequence[str]
    held_out: Sequence[str]
    teacher: Any  # a `models.Teacher`
    cut: bool = False

    @functools.cached_property
    def weights(self) -> Product:
        """Weights and losses, if it learns words."""
        inputs = self.section.model_dump(mode="json") | {"files": hash_model(self.section.model)}
        inputs["texts"] = hash_arrays(*map(hash_texts, (self.documents, self.held_out)))
        inputs["computed"] = [find_device(), self.precision]
        return Product("base", inputs, STUDENT, PACKAGES, "masked words")

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.weights, "read": self.read}
        return Product("vectors", inputs, STUDENT, PACKAGES, "Longformer")

    @property
    def read(self) -> int:
        """How many tokens of a text are read, special ones included."""
        return self.teacher.section.max_tokens if self.cut else self.section.max_positions

    def encode(self, texts: Sequence[str], trained: Any = None) -> np.ndarray:
        """(texts, dim) float32, by this student or by a `trained` copy of it."""
        student = self._loaded if trained is None else trained
        read = [cut_text(text) for text in check_several(texts)]
        ids = share_layers(self.section).tokenize(read, self.read)
        return student.encode(ids, precision=self.precision)

    @functools.cached_property
    def _loaded(self) -> Any:
        return self.load().to(find_device())

    def load(self, dropout: float | None = None) -> Any:
        """A fresh copy with `dropout`. Training on masked words is run if it is missing."""
        student = copy_layers(self.section, dropout)
        learned = self.outcome()
        return student if learned is None else unpack_weights(student, learned)

    def outcome(self) -> Arrays | None:
        """Its weights and what is in `WordLosses`; None without a language model."""
        learns = self.section.language_model is not None
        return self.store.get(self.weights, self._learn_words) if learns else None

    def _learn_words(self) -> Arrays:
        student = copy_layers(self.section, dropout=0.0).to(find_device())
        texts = [self.tokens(each)["ids"] for each in (self.documents, self.held_out)]
        settings = {"epochs": self.section.language_model, "precision": self.precision}
        settings["track"] = functools.partial(tqdm, desc="masked words", leave=False)
        learned = masked_words.train_masked_words(student, *texts, **settings)
        return learned._asdict() | pack_weights(student)

    def tokens(self, texts: Sequence[str]) -> dict[str, Rows]:
        """Truncated token `ids` of texts, and `whole`, their full lengths, with special tokens."""
        read = {"model", "revision", "max_positions"}
        inputs = self.section.model_dump(mode="json", include=read)
        inputs["files"] = hash_model(self.section.model)

        def tokenize(part: list[str]) -> Arrays:
            student, most = share_layers(self.section), self.section.max_positions
            ids = [np.array(row, np.int32) for row in student.tokenize(part, most)]
            whole = tokenize_texts(student.tokenizer, part, verbose=False)
            return {"ids": ids, "whole": np.array([*map(len, whole)])}

        product = Product("tokens", inputs, STUDENT, PACKAGES, "tokens")
        return self.store.rows(product, texts, tokenize)


def share_layers(section: StudentSettings) -> Student:
    """The layers of a base as a student, with its checkpoint's weights; not to be changed."""
    return _load_layers(section, hash_model(section.model))


@functools.lru_cache(maxsize=1)
def _load_layers(section: StudentSettings, files: Any) -> Student:
    path = find_model(section.model)
    if not (files or re.fullmatch("[0-9a-f]{40}", section.revision or "")):
        raise ValueError(f"student: a hub id needs a revision of 40 digits, not {section.revision}")
    if section.base == "longformer":
        student = Student.from_longformer(path, section.revision)
        if section.layers is not None or section.window not in student.config.attention_window:
            raise ValueError(f"student needs layers null, window {student.config.attention_window}")
        return student
    shape = (section.layers, section.window, section.max_positions)
    return Student.from_encoder(path, *shape, section.revision)


def copy_layers(section: StudentSettings, dropout: float | None = None) -> Student:
    """A copy of `share_layers` to train, with the dropout of its checkpoint or another."""
    shared = share_layers(section)
    student = copy.deepcopy(shared, {id(shared.tokenizer): shared.tokenizer})
    if dropout is not None:
        student.set_dropout(dropout)
    return student


def pack_weights(student: Any) -> Arrays:
    """The weights that training may have changed, each as `w.<name>`; frozen ones are left out."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {f"w.{name}": value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, arrays: Arrays) -> Any:
    """Load weights from `pack_weights`, for evaluation."""
    state = {name[2:]: torch.from_numpy(a) for name, a in arrays.items() if name[:2] == "w."}
    student.load_state_dict(student.state_dict() | state)  # torch refuses unknown names
    return student.eval()


@dataclass(frozen=True, eq=False)
class TrainedStudent(Model):
    """A variant trained with a seed. Row i of all that it reads is document i of `documents`."""

    base: Base
    variant: variants.Variant
    seed: int
    profile: Profile
    documents: Sequence[str]
    held_out: Sequence[str]
    structural: Model | None
    contextual: Model | None

    @functools.cached_property
    def weights(self) -> Product:
        """Weights and losses, named by their inputs, so nothing is computed to name them."""
        variant, read = replace(self.variant, cut=False), {"training", "width"}
        parts: dict = {"include": read, "exclude": {"training": NOT_HASHED}}
        inputs = self.profile.model_dump(mode="json", **parts)
        inputs |= {
            "variant": asdict(variant),
            "losses": variant.losses,
            "arguments": variant.structural and variants.structural_loss(variant.structural),
            "seed": self.seed,
            "base": self.base.weights,
            "processes": RANKS,
            "texts": hash_arrays(*map(hash_texts, (self.documents, self.held_out))),
            "teachers": [each and each.product for each in (self.structural, self.contextual)],
        }
        files = {getattr(losses, name).__module__.split(".")[-1] for name in variant.losses}
        files |= {IMPORTED[name] for name in files & IMPORTED.keys()}
        modules = (*STUDENT, *TRAINING, *(f"losses.{name}" for name in sorted(files)))
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
        return self.settings.count_updates(len(self.documents), RANKS)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32. The student is trained if it is missing."""
        return self.base.encode(texts, self.loaded)

    @functools.cached_property
    def loaded(self) -> Any:
        """The trained student, a `lib.student.Student`."""
        return unpack_weights(self._build(), self.outcome()).to(find_device())

    def outcome(self, callbacks: Sequence[Callable] = ()) -> Arrays:
        """Its weights, and how it was trained; it is trained if it is missing, with `callbacks`.

        `loss` (updates,), the mean loss of each; with a contextual teacher also `watched`
        (measurements, 4): update, held-out CCA of embeddings and projections, share of gradient.
        """
        arrays = self.store.get(self.weights, lambda: self.train(callbacks))
        shutil.rmtree(self.store.path(self.weights, ".checkpoint"), ignore_errors=True)
        return arrays

    def train(self, callbacks: Sequence[Callable] = ()) -> Arrays:
        """Train the student, from its last checkpoint if there is one, and return its `outcome`."""
        settings, student = self.settings, self._build().to(find_device())
        student.gradient_checkpointing = settings.gradient_checkpointing
        if settings.freeze_token_embeddings:
            student.freeze_token_embeddings()
        data = self.read_data(self.documents, dealt=settings.contextual_rows == "dealt")
        torch.manual_seed(self.seed)  # of the projections' first weights
        sizes = (student.dim, None if data.contextual is None else data.contextual.shape[1])
        options = {"width": self.profile.width, "max_structural_len": settings.max_structural_len}
        objective = Objective(self.variant, *sizes, **options).to(find_device())
        before = []
        if self.contextual is not None:
            before, watch = self._watch(student, objective)
            callbacks = (*callbacks, watch)
        long = self.updates > settings.checkpoint_every
        checkpoint = self.store.path(self.weights, ".checkpoint") if long else None
        given = {"seed": self.seed, "callbacks": callbacks, "checkpoint": checkpoint}
        history = training.distill(student, objective, data, settings, **given)
        facts = {"loss": history["loss"], "watched": before + history["measured"]}
        return facts | pack_weights(student)

    def _watch(self, student: Any, objective: Objective) -> tuple[list, Callable]:
        """The measurement before training, and a callback that measures during training."""
        settings, held_out, end = self.settings, self.read_data(self.held_out), self.updates
        controls = settings.contextual_rows == "dealt"  # measured only at the end
        every = end if controls else math.ceil(end / MEASUREMENTS)

        def measure(number: int, rows: np.ndarray) -> tuple[float, ...]:
            return number, *measures.measure(objective, rows, held_out, settings.batch_size)

        def watch(number: int, loss: float) -> tuple[float, ...] | None:
            if number % every and number != end:
                return None
            ids = held_out.token_ids[:]
            return measure(number, student.encode(ids, precision=settings.precision))

        return [measure(0, self.base.embed(self.held_out)[:])], watch

    def _build(self) -> Any:
        """The student before training; a `[CLS]` variant has the pooling of the drafts."""
        student = self.base.load(self.settings.dropout)
        return student if self.variant.pooling == "mean" else ClsStudent(student)

    def read_data(self, texts: Sequence[str], dealt: bool = False) -> training.DistillationData:
        """What the student and its teachers read of documents."""
        structural = None if self.structural is None else self.structural.embed(texts)
        contextual = None if self.contextual is None else self.prepare_rows(texts, dealt)
        rows = (self.base.tokens(texts)["ids"], self.base.teacher.lengths(texts)[:])
        return training.DistillationData(*rows, structural, contextual, self.variant.negatives)

    def prepare_rows(self, texts: Sequence[str], dealt: bool = False) -> np.ndarray:
        """(texts, dim) rows of the contextual teacher, as the student learns from them.

        With `contextual_features` "standardized", each feature has mean 0 and variance 1 over the
        training documents. Otherwise SoftCCA would teach what is common to all raw rows, which is
        most of a row. If `dealt`, each text gets another's row, in an order of the variant's own.
        """
        rows = np.asarray(self.contextual.embed(texts))
        if self.settings.contextual_features == "standardized":
            fitted = self.contextual.embed(self.documents)[: min(FITTED, len(self.documents))]
            rows = StandardScaler().fit(fitted).transform(rows)
        if dealt:
            generator = np.random.default_rng([DEAL_SEED, *self.variant.identity.encode()])
            order = generator.permutation(len(rows))  # each gets the row of the one before it
            rows = rows[np.roll(order, 1)][np.argsort(order)]
        return rows
