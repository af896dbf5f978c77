"""Retrieval by cosine: of a task's relevant texts, and of the other halves of documents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from lib.evaluation.metrics import average_precision, reciprocal_rank
from lib.evaluation.readouts import read_vectors

METRICS: dict[str, Callable[..., float]] = {"MAP": average_precision, "MRR": reciprocal_rank}
TIE_DECIMALS = 12  # cosines equal so far are ties: their last bits depend on the machine


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
    sources, scored = [*queries.relevant], dict[int, tuple[float, np.ndarray]]()
    for fold in [np.arange(len(sources))] if folds is None else folds:
        relevant = {sources[place]: queries.relevant[sources[place]] for place in fold}
        fitted = vectors(replace(queries, relevant=relevant)) if callable(vectors) else vectors
        for source, ranking in zip(relevant, rank_texts(fitted, [*relevant]), strict=True):
            scored[source] = _score_query(relevant[source], ranking, metric, top)
    scores, parts = zip(*map(scored.get, sources), strict=True)
    mean, counts = np.mean(scores), np.array([*map(len, parts)])
    weights = np.repeat(counts.sum() / (len(sources) * counts), counts)  # queries count the same
    return float(mean), mean + weights * (np.concatenate(parts) - mean)


def _score_query(targets: list[int], ranking: list[int], metric: str, top: int | None) -> tuple:
    """The score of a query, and (targets,) scores with that mean."""
    score = METRICS[metric](targets, ranking, top)
    if metric != "MAP" or top is not None:
        return score, np.full(len(targets), score)
    ranks = 1 + np.array([ranking.index(target) for target in targets])
    return score, (ranks <= ranks[:, None]).sum(1) / ranks  # the precision at each target's rank


def rank_texts(vectors: Any, sources: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each source the rows of all other texts by decreasing cosine, ties in order."""
    # Normalising refuses NaN, which would be sorted to the end.
    x = normalize(read_vectors(vectors).astype(np.float64))
    for source in sources:
        row = x[[source]].toarray()[0] if sparse.issparse(x) else x[source]
        order = np.argsort(-np.round(x @ row, TIE_DECIMALS), kind="stable")
        yield order[order != source].tolist()


def score_chance(queries: Queries, metric: str, top: int | None = None) -> float:
    """The mean score of random rankings, five of each source."""
    shuffle, scores = np.random.default_rng(0).permutation, []
    for source, targets in queries.relevant.items():
        others = np.delete(np.arange(len(queries.texts)), source)
        for _ in range(5):
            scores.append(METRICS[metric](targets, shuffle(others).tolist(), top))
    return float(np.mean(scores))


def rank_halves(vectors: Any) -> np.ndarray:
    """(halves,) reciprocal rank of each half's other half; all first halves come first."""
    vectors = read_vectors(vectors)
    rows = np.arange(vectors.shape[0])
    others = rows.reshape(2, -1)[::-1].ravel()  # `ValueError` for an odd number
    rankings = rank_texts(vectors, rows.tolist())
    return np.array([1 / (1 + each.index(o)) for each, o in zip(rankings, others, strict=True)])
