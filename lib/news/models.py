"""The models of the news chapter: its students, averaged token embeddings, and one cluster."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lib.config.schema import NewsSettings
from lib.experiments.devices import find_device
from lib.experiments.model import Model
from lib.news import designs, tokens
from lib.news.designs import Design
from lib.store import Product, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.structural import Teacher
    from lib.news.students import NewsStudent, Sizes

TRAINING = {"epochs", "batch_size", "rates", "patience", "plateau_patience"}
MODULES = (
    *("news.models", "news.distil", "news.losses", "news.students"),
    *("losses._checks", "losses.cosine", "losses.mse"),
    *tokens.MODULES,
)


@dataclass(frozen=True, eq=False)
class DistilledStudent(Model):
    """One of the paper's students. Only its vectors are kept: who lacks some trains it again.

    For `identity` see `designs`; `width` is relative to the paper's. `teacher` and `taught` are the
    same teacher, as it reads texts that are embedded, and `documents`, which the student learns
    from. `examples` and `held_out`, (examples, 1 or 3), are rows of documents; triplets for the
    losses that take them.
    """

    identity: str
    seed: int
    settings: NewsSettings
    width: float
    teacher: Teacher
    taught: Teacher
    documents: Sequence[str]
    examples: np.ndarray
    held_out: np.ndarray

    @functools.cached_property
    def product(self) -> Product:
        inputs = {
            "model": self.identity,
            "seed": self.seed,
            "training": self.settings.model_dump(mode="json", include=TRAINING),
            "start": self._start,
            "width": self.width,
            "teachers": [self.teacher.product, self.taught.product],
            "documents": name_texts(self.documents),
            "examples": hash_arrays(self.examples, self.held_out),
            "computed": find_device(),
        }
        label = f"{self.identity}, seed {self.seed}"
        return Product("news_student", inputs, MODULES, ("torch", "numpy"), label)

    @property
    def design(self) -> Design:
        return designs.parse(self.identity)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self._trained.encode(tokens.read_ids(self.teacher, texts)[:])

    @property
    def _start(self) -> str | None:
        """The token embeddings that it starts from; None for random ones."""
        if self.design.tokens == "teacher":
            return "tokens"
        return "reduced" if (self.design.tokens, self.settings.tokens) == ("new", "pca") else None

    @functools.cached_property
    def _trained(self) -> NewsStudent:
        import torch

        from lib.news import distil
        from lib.news.students import NewsStudent

        seed, sizes = derive_seed(self.identity, self.seed), read_sizes(self.teacher, self.width)
        torch.manual_seed(seed)  # after what may load a teacher, which draws random numbers
        student = NewsStudent(self.design, sizes)
        if self._start is not None:
            table = tokens.read_embeddings(self.teacher, self.width, self._start)[self._start]
            weights = student.embedding.weight
            with torch.no_grad():
                weights.copy_(torch.from_numpy(table)[:, : weights.shape[1]])
        student.to(find_device())
        rows = tokens.read_ids(self.taught, self.documents)
        lesson = (rows, self.taught.embed(self.documents), self.examples, self.held_out)
        distil.train(student, *lesson, settings=self.settings, seed=seed)
        return student

    @property
    def megabytes(self) -> float:
        import torch

        from lib.news.students import NewsStudent

        with torch.device("meta"):
            return NewsStudent(self.design, read_sizes(self.teacher, self.width)).megabytes


@dataclass(frozen=True, eq=False)
class AverageTokens(Model):
    """The mean of the teacher's token embeddings, without its special tokens."""

    teacher: Teacher
    width: float

    @property
    def product(self) -> Product:
        inputs = {"teacher": self.teacher.product}
        return Product("news_average", inputs, MODULES, (), "teacher tokens, averaged")

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        table = tokens.read_embeddings(self.teacher, self.width, "tokens")["tokens"]
        ids = tokens.read_ids(self.teacher, texts)[:]
        return np.stack([table[row[1:-1]].mean(0) for row in ids])

    @property
    def megabytes(self) -> float:
        sizes = read_sizes(self.teacher, self.width)
        return 4 * sizes.vocabulary * sizes.teacher_token / 2**20


class OneCluster(Model):
    """The same vector for all texts."""

    @property
    def product(self) -> Product:
        return Product("news_one_cluster", {}, ("news.models",))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), dtype=np.float32)


def derive_seed(identity: str, seed: int) -> int:
    """Each identity is a run of its own, as in the paper: twins share no random numbers."""
    own = np.random.SeedSequence([seed, zlib.crc32(identity.encode())])
    return int(own.generate_state(1)[0])


def read_sizes(teacher: Teacher, width: float) -> Sizes:
    """The widths of a teacher's students, relative to the paper's."""
    from lib.news.students import Sizes

    facts = tokens.read_embeddings(teacher, width, "shape", "output")
    return Sizes.scale(width, *facts["shape"].tolist(), int(facts["output"]))


def name_texts(texts: Sequence[str]) -> Product | str:
    """What stands for texts in a name: how they are drawn, or their content."""
    return getattr(texts, "product", None) or hash_arrays(hash_texts(texts))
