"""The students of the news chapter as models, and what they read of their teacher."""

import functools
import time
import timeit
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA

from lib.config.schema import NewsSettings
from lib.experiments.devices import find_device
from lib.experiments.model import Model
from lib.experiments.structural import Teacher
from lib.news.students import TOKEN_DIM, NewsStudent, count_megabytes, scale_width
from lib.news.training import train
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts

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
        tables, seed = read_tables(self.teacher, self.width), derive_seed(self.identity, self.seed)
        rows, targets = read_ids(self.taught, self.documents), self.taught.embed(self.documents)
        torch.manual_seed(seed)  # after what may load a teacher, which draws random numbers
        table = tables["teacher"].shape
        student = NewsStudent(self.identity, table, targets.shape[1], self.width)
        start = student.design.tokens
        start = self.settings.tokens if start == "new" else start
        if start != "random":
            weights = student.embedding.weight
            with torch.no_grad():
                weights.copy_(torch.from_numpy(tables[start])[:, : weights.shape[1]])
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


def read_tables(teacher: Teacher, width: float) -> Arrays:
    """The `teacher`'s token embeddings (vocabulary, dim), and `pca` of them to start from."""
    dim = scale_width(TOKEN_DIM, width)
    inputs, packages = {"teacher": teacher.product, "dim": dim}, ("scikit-learn", "numpy", "scipy")
    product = Product("news_embeddings", inputs, MODULES, packages, "token embeddings")

    def reduce() -> Arrays:
        tokens = teacher.sbert.model.get_input_embeddings().weight.cpu().numpy()
        reduced = PCA(dim, svd_solver="covariance_eigh").fit_transform(tokens)
        return {"teacher": tokens, "pca": (SPREAD * reduced / reduced.std()).astype(np.float32)}

    return teacher.store.get(product, reduce)


def measure_costs(
    teacher: Teacher, students: Sequence[str], width: float, texts: Sequence[str]
) -> np.ndarray:
    """(1 + students, 3): megabytes, and CPU milliseconds per document, alone and in a batch.

    The shortest of several times counts. Students are untrained: weights do not matter.
    """
    sbert, ids = teacher.sbert, read_ids(teacher, texts)[:]
    sbert.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
    table = tuple(sbert.model.get_input_embeddings().weight.shape)
    costs = [_measure(sbert.model, sbert.encode, texts)]
    for name in students:
        student = NewsStudent(name, table, sbert.dim, width)
        costs.append(_measure(student, student.encode, ids))
    return np.array(costs)


def _measure(module: Any, encode: Callable[[Any], Any], rows: Sequence[Any]) -> list[float]:
    def measure(batch: Sequence[Any]) -> float:
        timer = timeit.Timer(lambda: encode(batch), timer=time.process_time)
        return 1000 * min(timer.repeat(REPEATS, number=1))

    alone = np.median([measure([row]) for row in rows[::2]])
    return [count_megabytes(module), alone, measure(rows) / len(rows)]
