"""The models of the news chapter: its students, averaged token embeddings, and one cluster."""

from __future__ import annotations

import functools
import time
import timeit
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.config.schema import NewsSettings
from lib.experiments.model import Model, find_device
from lib.news import designs
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.embedders import Teacher
    from lib.news.students import NewsStudent, Sizes

SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
REPEATS = 3  # of a measured time
TRAINING = {"epochs", "batch_size", "rates", "patience", "plateau_patience"}
MODULES = (
    *("news.models", "news.designs", "news.distil", "news.losses", "news.students"),
    *("losses._checks", "losses.cosine", "losses.mse", "teachers.sbert", "texts"),
)


@dataclass(frozen=True, eq=False)
class DistilledStudent(Model):
    """One of the paper's students. Only its vectors are kept: who lacks some trains it again.

    `teacher` reads the texts that are embedded. `taught` is the same one as it reads `documents`,
    which the student learns from: `examples` and `held_out`, see `distil.train`, are rows of them.
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
            "start": self._start,
            "width": self.width,
            "teachers": [self.teacher.product, self.taught.product],
            "documents": windows or hash_arrays(hash_texts(self.documents)),
            "examples": hash_arrays(self.examples, self.held_out),
            "computed": find_device(),
        }
        label = f"{self.identity}, seed {self.seed}"
        return Product("news_student", inputs, MODULES, ("torch", "numpy"), label)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self._trained.encode(read_ids(self.teacher, texts)[:])

    @property
    def _start(self) -> str | None:
        """The token embeddings that it starts from; None for random ones."""
        reduced = "reduced" if self.settings.tokens == "pca" else None
        kinds = {"teacher": "tokens", "new": reduced, "random": None}
        return kinds[designs.parse(self.identity).tokens]

    @functools.cached_property
    def _trained(self) -> NewsStudent:
        import torch

        from lib.news import distil

        seed, sizes = derive_seed(self.identity, self.seed), read_sizes(self.teacher, self.width)
        torch.manual_seed(seed)  # after what may load a teacher, which draws random numbers
        student = make_student(self.identity, sizes)
        if self._start is not None:
            table = read_embeddings(self.teacher, self.width, self._start)[self._start]
            weights = student.embedding.weight
            with torch.no_grad():
                weights.copy_(torch.from_numpy(table)[:, : weights.shape[1]])
        student.to(find_device())
        rows = read_ids(self.taught, self.documents)
        lesson = (rows, self.taught.embed(self.documents), self.examples, self.held_out)
        distil.train(student, *lesson, settings=self.settings, seed=seed)
        return student

    @property
    def megabytes(self) -> float:
        import torch

        with torch.device("meta"):
            return make_student(self.identity, read_sizes(self.teacher, self.width)).megabytes


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
        table = read_embeddings(self.teacher, self.width, "tokens")["tokens"]
        return np.stack([table[row[1:-1]].mean(0) for row in read_ids(self.teacher, texts)[:]])

    @property
    def megabytes(self) -> float:
        sizes = read_sizes(self.teacher, self.width)
        return 4 * sizes.vocabulary * sizes.teacher_token / 2**20


class OneCluster(Model):
    """The same vector for all texts."""

    @property
    def product(self) -> Product:
        return Product("news_one_cluster", {}, MODULES)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), dtype=np.float32)


def limit_teacher(teacher: Teacher, most: int) -> Any:
    """The same teacher, reading so many tokens of a text."""
    return replace(teacher, section=teacher.section.model_copy(update={"max_tokens": most}))


def read_ids(teacher: Teacher, texts: Sequence[str]) -> Rows:
    """Token ids of what the teacher reads of texts, int32 arrays with special tokens."""
    product = Product("news_ids", {"teacher": teacher.product}, MODULES, (), "token ids")
    rows = teacher.store.rows(product, texts, lambda part: {"ids": teacher.sbert.tokenize(part)[0]})
    return rows["ids"]


def read_embeddings(teacher: Teacher, width: float, *names: str) -> Arrays:
    """The named ones of: the teacher's token embeddings `tokens` (vocabulary, dim), their `shape`,
    `reduced`, from which students start, `megabytes` of the teacher, `output`, its vectors' width.
    """
    dim = designs.scale_width(designs.TOKEN_DIM, width)
    inputs, packages = {"teacher": teacher.product, "dim": dim}, ("scikit-learn", "numpy", "scipy")
    product = Product("news_embeddings", inputs, MODULES, packages, "token embeddings")

    def reduce() -> Arrays:
        from sklearn.decomposition import PCA

        model = teacher.sbert.model
        tokens = model.get_input_embeddings().weight.cpu().numpy()
        reduced = PCA(dim, svd_solver="covariance_eigh").fit_transform(tokens)
        return {
            "tokens": tokens,
            "shape": tokens.shape,
            "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32),
            "megabytes": 4 * sum(values.numel() for values in model.parameters()) / 2**20,
            "output": teacher.sbert.dim,
        }

    return teacher.store.find(product, *names) or teacher.store.get(product, reduce)


def derive_seed(identity: str, seed: int) -> int:
    """Each identity is a run of its own, as in the paper: twins share no random numbers."""
    own = np.random.SeedSequence([seed, zlib.crc32(identity.encode())])
    return int(own.generate_state(1)[0])


def make_student(identity: str, sizes: Sizes) -> NewsStudent:
    from lib.news.students import NewsStudent

    return NewsStudent(designs.parse(identity), sizes)


def read_sizes(teacher: Teacher, width: float) -> Sizes:
    """The widths of a teacher's students, relative to the paper's."""
    from lib.news.students import Sizes

    facts = read_embeddings(teacher, width, "shape", "output")
    return Sizes.scale(width, *facts["shape"].tolist(), int(facts["output"]))


def measure_times(
    teacher: Any, students: Sequence[str], width: float, texts: Sequence[str]
) -> np.ndarray:
    """(1 + students, 2) CPU milliseconds per document: one at a time, and in a batch of all.

    The shortest of several times counts. Students are untrained: weights do not matter.
    """
    teacher.sbert.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
    sizes, ids = read_sizes(teacher, width), read_ids(teacher, texts)[:]
    times = [_measure_encoder(teacher.sbert.encode, texts)]
    times += [_measure_encoder(make_student(name, sizes).encode, ids) for name in students]
    return np.array(times)


def _measure_encoder(encode: Callable[[Any], Any], rows: Sequence[Any]) -> list[float]:
    def measure(batch: Sequence[Any]) -> float:
        timer = timeit.Timer(lambda: encode(batch), timer=time.process_time)
        return 1000 * min(timer.repeat(REPEATS, number=1))

    return [np.median([measure([row]) for row in rows[::2]]), measure(rows) / len(rows)]
