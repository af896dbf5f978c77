"""Retrieval by cosine: of a task's relevant texts, and of the other halves of documents."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from lib.evaluation.metrics import average_precision, precision_at_ranks, reciprocal_rank
from lib.evaluation.readouts import read_vectors

METRICS: dict[str, Callable[..., float]] = {"MAP": average_precision, "MRR": reciprocal_rank}
# Readout -> how many texts of a retrieval are ranked; None are all. The published code ranks 1,000.
TOPS: dict[str, float | None] = {"thesis": 1000, "none": None}


@dataclass(frozen=True)
class Queries:
    """A retrieval task: all texts, which are the candidates, and source row -> rows of targets."""

    text_ids: list[str]
    texts: list[str]
    relevant: dict[int, list[int]]

    @property
    def examples(self) -> np.ndarray:
        """(examples, 2): each source with each of its targets."""
        return np.array([(row, target) for row, each in self.relevant.items() for target in each])


def rank(
    vectors: Any, queries: Queries, metric: str, top: int | None = None, folds: Any = None
) -> tuple[float, np.ndarray]:
    """A model's mean score over queries, and (examples,) scores with that mean.

    An example's score is the precision at its target's rank (MAP over whole rankings), else the
    score of its query. `vectors` are (texts, dim), dense or sparse, and finite. Or they are a
    function of a fold's queries, which fits them to none of its sources and targets; `folds` are
    places of sources, each in one fold.
    """
    sources, scored = [*queries.relevant], dict[int, np.ndarray]()
    for fold in [np.arange(len(sources))] if folds is None else folds:
        relevant = {sources[place]: queries.relevant[sources[place]] for place in fold}
        fitted = vectors(replace(queries, relevant=relevant)) if callable(vectors) else vectors
        if np.shape(fitted)[0] != len(queries.texts):
            raise ValueError(f"{np.shape(fitted)[0]} vectors of {len(queries.texts)} texts")
        for source, scores in zip(relevant, score_texts(fitted, [*relevant]), strict=True):
            targets = relevant[source]
            if metric == "MAP" and top is None:
                scored[source] = precision_at_ranks(scores, targets)
            else:
                scored[source] = np.full(len(targets), METRICS[metric](scores, targets, top))
    parts = [scored[source] for source in sources]
    mean, counts = np.mean([*map(np.mean, parts)]), np.array([*map(len, parts)])
    weights = np.repeat(counts.sum() / (len(sources) * counts), counts)  # queries count the same
    return float(mean), mean + weights * (np.concatenate(parts) - mean)


def score_texts(vectors: Any, sources: Sequence[int]) -> Iterator[np.ndarray]:
    """Yield for each source its cosines with all texts, (texts,); -inf with itself."""
    # Normalising refuses NaN, which no comparison would find.
    x = normalize(read_vectors(vectors).astype(np.float64))
    for source in sources:
        cosines = x @ (x[[source]].toarray()[0] if sparse.issparse(x) else x[source])
        cosines[source] = -np.inf
        yield cosines


def score_chance(queries: Queries, metric: str, top: int | None = None) -> float:
    """The mean score of random rankings: that of texts which are all tied."""
    tied = np.zeros(len(queries.texts) - 1)
    counts = Counter(map(len, queries.relevant.values()))
    scores = [METRICS[metric](tied, range(count), top) for count in counts]
    return float(np.average(scores, weights=[*counts.values()]))


def rank_halves(vectors: Any) -> np.ndarray:
    """(halves,) reciprocal rank of each half's other half; all first halves come first."""
    vectors = read_vectors(vectors)
    rows = np.arange(vectors.shape[0])
    others = rows.reshape(2, -1)[::-1].ravel()  # `ValueError` for an odd number
    scored = zip(score_texts(vectors, rows.tolist()), others, strict=True)
    return np.array([reciprocal_rank(scores, [other]) for scores, other in scored])
