"""The students of the news chapter as models, and what they read of their teacher."""

from __future__ import annotations

import functools
import time
import timeit
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.decomposition import PCA

from lib.config.schema import NewsSettings
from lib.experiments.model import Model, find_device
from lib.news.students import TOKEN_DIM, NewsStudent, count_megabytes, scale_width
from lib.news.training import train
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.embedders import Teacher

SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
REPEATS = 3  # of a measured time
TRAINING = {"tokens", "epochs", "batch_size", "rates", "patience", "plateau_patience"}
MODULES = (
    *("news.models", "news.students", "news.training", "losses._checks", "losses.cosine"),
    *("losses.mse", "teachers.sbert", "texts"),
)


@dataclass(frozen=True, eq=False)
class DistilledStudent(Model):
    """One of the paper's students. Only its vectors are kept: who lacks some trains it again.

    `teacher` reads the texts that are embedded. `taught` is the same one as it reads `documents`,
    which the student learns from: `examples` and `held_out` are rows of them, see `train`.
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
        windows = getattr(self.documents, "product", None)  # these are named by how they are drawn
        inputs = {
            "model": self.identity,
            "seed": self.seed,
            "training": self.settings.model_dump(mode="json", include=TRAINING),
            "width": self.width,
            "teachers": [self.teacher.product, self.taught.product],
            "documents": windows or hash_arrays(hash_texts(self.documents)),
            "examples": hash_arrays(self.examples, self.held_out),
            "computed": find_device(),
        }
        packages, label = ("torch", "numpy", "scikit-learn"), f"{self.identity}, seed {self.seed}"
        return Product("news_student", inputs, MODULES, packages, label)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self._trained.encode(read_ids(self.teacher, texts)[:])

    @functools.cached_property
    def _trained(self) -> NewsStudent:
        seed, table = derive_seed(self.identity, self.seed), read_table(self.teacher)
        rows, targets = read_ids(self.taught, self.documents), self.taught.embed(self.documents)
        torch.manual_seed(seed)  # after loading a teacher, which draws random numbers
        student = NewsStudent(self.identity, table.shape, targets[:1].shape[1], self.width)
        start, weights = student.design.tokens, student.embedding.weight
        start = self.settings.tokens if start == "new" else start
        if start != "random":
            table = reduce_table(table, self.width) if start == "pca" else table
            with torch.no_grad():
                weights.copy_(torch.from_numpy(table)[:, : weights.shape[1]])
        student.to(find_device())
        lesson = (rows, targets, self.examples, self.held_out)
        train(student, *lesson, settings=self.settings, seed=seed)
        return student


def derive_seed(identity: str, seed: int) -> int:
    """Each identity is a run of its own, as in the paper: twins share no random numbers."""
    own = np.random.SeedSequence([seed, zlib.crc32(identity.encode())])
    return int(own.generate_state(1)[0])


def limit_teacher(teacher: Teacher, most: int) -> Teacher:
    """The same teacher, reading so many tokens of a text."""
    return replace(teacher, section=teacher.section.model_copy(update={"max_tokens": most}))


def read_ids(teacher: Teacher, texts: Sequence[str]) -> Rows:
    """Token ids of what the teacher reads of texts, int32 arrays with special tokens."""
    product = Product("news_ids", {"teacher": teacher.product}, MODULES, (), "token ids")
    rows = teacher.store.rows(product, texts, lambda part: {"ids": teacher.sbert.tokenize(part)[0]})
    return rows["ids"]


def read_table(teacher: Teacher) -> np.ndarray:
    """(vocabulary, dim) token embeddings of the teacher."""
    return teacher.sbert.model.get_input_embeddings().weight.cpu().numpy()


def reduce_table(table: np.ndarray, width: float) -> np.ndarray:
    """(vocabulary, 128 * width) principal components, from which new token embeddings start."""
    dim = scale_width(TOKEN_DIM, width)
    reduced = PCA(dim, svd_solver="covariance_eigh").fit_transform(table)
    return (SPREAD * reduced / reduced.std()).astype(np.float32)


def measure_costs(
    teacher: Teacher, students: Sequence[str], width: float, texts: Sequence[str]
) -> np.ndarray:
    """(1 + students, 2): megabytes, and CPU milliseconds per document, one at a time.

    The shortest of several times counts. Students are untrained: weights do not matter. Costs are
    kept, because a second measurement would differ.
    """
    inputs = {"teacher": teacher.product, "students": [*students], "width": width}
    inputs["texts"] = hash_arrays(hash_texts(texts))
    product = Product("news_costs", inputs, MODULES, ("torch", "transformers"), "sizes and times")

    def measure() -> Arrays:
        sbert, ids = teacher.sbert, read_ids(teacher, texts)[:]
        sbert.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
        table = read_table(teacher).shape
        networks = [NewsStudent(name, table, sbert.dim, width) for name in students]
        costs = [(count_megabytes(sbert.model), _time(sbert.encode, texts))]
        costs += [(count_megabytes(each), _time(each.encode, ids)) for each in networks]
        return {"costs": costs}

    return teacher.store.get(product, measure)["costs"]


def _time(encode: Callable[[Any], Any], rows: Sequence[Any]) -> float:
    calls = (functools.partial(encode, [row]) for row in rows)
    timers = [timeit.Timer(call, timer=time.process_time) for call in calls]
    return 1000 * float(np.median([min(timer.repeat(REPEATS, 1)) for timer in timers]))
