"""Retrieval by cosine: of a task's relevant texts, and of the other halves of documents."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lib.evaluation.metrics import average_precision, reciprocal_rank

METRICS: dict[str, Callable[..., float]] = {"MAP": average_precision, "MRR": reciprocal_rank}
RANDOM_RANKINGS = 5  # of each source, for the score of chance
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

    @property
    def targets(self) -> np.ndarray:
        """(sources,) how many targets each source has."""
        return np.array([len(rows) for rows in self.relevant.values()])


def rank(
    vectors: Any, queries: Queries, metric: str, top: int | None = None
) -> tuple[float, np.ndarray]:
    """A model's mean score over queries, and (examples,) scores with that mean.

    An example is a source with one target, in the order of `queries.examples`. Its score is the
    precision at the target's rank, for MRR or with `top` (`metrics.average_precision`) the query's
    score. Its distance from the mean is weighted so that every query counts the same. `vectors` are
    (texts, dim), dense or sparse; `ValueError` if they are not finite.
    """
    return rank_folds(lambda _: vectors, queries, [np.arange(len(queries.relevant))], metric, top)


def rank_folds(
    embed: Callable[[Queries], Any],
    queries: Queries,
    folds: Iterable[np.ndarray],
    metric: str,
    top: int | None = None,
) -> tuple[float, np.ndarray]:
    """`rank` with vectors that are fitted anew for each fold, to none of its sources and targets.

    `embed` maps the queries of a fold to vectors of all texts. `folds` are (sources,) places of
    sources, each in one fold.
    """
    score, sources = METRICS[metric], list(queries.relevant)
    each = np.full(len(sources), np.nan)
    parts: list[Any] = [None] * len(sources)
    for fold in folds:
        asked = [sources[place] for place in fold]
        relevant = {row: queries.relevant[row] for row in asked}
        rankings = rank_texts(embed(replace(queries, relevant=relevant)), asked)
        for place, source, ranking in zip(fold, asked, rankings, strict=True):
            each[place] = score(relevant[source], ranking, top)
            parts[place] = np.repeat(each[place], len(relevant[source]))
            if metric == "MAP" and top is None:  # (targets,) precision at each target's rank
                ranks = 1 + np.array([ranking.index(target) for target in relevant[source]])
                found = (ranks <= ranks[:, None]).sum(1)  # (targets,) ranked at least as high
                parts[place] = found / ranks
    counts = queries.targets  # (sources,)
    of_query = counts.sum() / (len(sources) * counts)  # so that every query counts the same
    weights = np.repeat(of_query, counts)  # (examples,)
    mean = each.mean()
    return float(mean), mean + weights * (np.concatenate(parts) - mean)


def rank_texts(vectors: Any, sources: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each source the rows of all other texts by decreasing cosine, ties in order."""
    x = _scale_rows(vectors)
    for source in sources:
        row = x[[source]].toarray()[0] if sparse.issparse(x) else x[source]
        order = np.argsort(-np.round(x @ row, TIE_DECIMALS), kind="stable")
        yield order[order != source].tolist()


def _scale_rows(vectors: Any) -> Any:
    """(texts, dim) float64, dense or sparse, with rows of norm 1 or 0."""
    if sparse.issparse(vectors):
        from sklearn.preprocessing import normalize

        return normalize(sparse.csr_array(vectors).astype(np.float64))
    x = np.asarray(vectors).astype(np.float64)
    if not (finite := np.isfinite(x).all(1)).all():  # NaN would be sorted to the end without a word
        raise ValueError(f"vectors must be finite; the first that is not is row {finite.argmin()}")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def score_chance(queries: Queries, metric: str, top: int | None = None) -> float:
    """The mean score of random rankings."""
    shuffle = np.random.default_rng(0).permutation
    scores = []
    for source, targets in queries.relevant.items():
        others = [row for row in range(len(queries.texts)) if row != source]
        for _ in range(RANDOM_RANKINGS):
            scores.append(METRICS[metric](targets, shuffle(others).tolist(), top))
    return float(np.mean(scores))


def rank_halves(vectors: Any) -> np.ndarray:
    """(halves,) reciprocal rank of each half's other half; all first halves come first."""
    count = vectors.shape[0]
    others = [(row + count // 2) % count for row in range(count)]
    rankings = rank_texts(vectors, range(count))
    return np.array([1 / (1 + each.index(o)) for each, o in zip(rankings, others, strict=True)])
