"""Retrieval by cosine: of a task's relevant texts, and of the other halves of documents."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.data.task_files import Task
from lib.evaluation import metrics

RANDOM_RANKINGS = 5  # of each source, for the score of chance
METRICS: dict[str, Callable] = {"MAP": metrics.average_precision, "MRR": metrics.reciprocal_rank}


@dataclass(frozen=True)
class Queries:
    """A retrieval task: all texts, which are the candidates, and source row -> rows of targets."""

    text_ids: list[str]
    texts: list[str]
    relevant: dict[int, list[int]]

    @property
    def examples(self) -> np.ndarray:
        """(examples, 2): each source with each of its targets."""
        pairs = [(source, target) for source, rows in self.relevant.items() for target in rows]
        return np.array(pairs)

    @property
    def targets(self) -> np.ndarray:
        """(sources,) how many targets each source has."""
        return np.array([len(rows) for rows in self.relevant.values()])


def read_queries(task: Task) -> Queries:
    """The queries of a retrieval task; targets without a text are left out."""
    ids = list(task.texts)
    rows = {text_id: row for row, text_id in enumerate(ids)}
    relevant = {
        rows[source]: sorted({rows[target] for target in targets if target in rows})
        for source, targets in task.relevant.items()
    }
    return Queries(ids, list(task.texts.values()), relevant)


def score_queries(
    vectors: Any, queries: Queries, metric: str, top: int | None
) -> tuple[float, np.ndarray]:
    """A model's mean score, and the scores of examples, each a source with one of its targets.

    An example's score is the precision at the target's rank, for MRR or with `top` the query's
    score. Its distance from the mean is weighted so that every query counts the same.

    Returns
    -------
    float, (examples,) array
    """
    score, sources = METRICS[metric], list(queries.relevant)
    dense = np.asarray(vectors.toarray() if hasattr(vectors, "toarray") else vectors)
    rankings = metrics.rank(dense, list(range(len(queries.texts))), sources)
    each = np.array([score(queries.relevant[row], rankings[row], top) for row in sources])
    parts = np.repeat(each, queries.targets)
    if metric == "MAP" and top is None:
        parts = np.concatenate(
            [_find_precisions(queries.relevant[row], rankings[row]) for row in sources]
        )
    weights = np.repeat(len(parts) / (len(sources) * queries.targets), queries.targets)
    return float(each.mean()), each.mean() + weights * (parts - each.mean())


def score_chance(queries: Queries, metric: str, top: int | None) -> float:
    """The mean score of random rankings."""
    shuffle = np.random.default_rng(0).permutation
    everything = range(len(queries.texts))
    others = {source: [row for row in everything if row != source] for source in queries.relevant}
    draws = itertools.product(queries.relevant, range(RANDOM_RANKINGS))
    scores = [
        METRICS[metric](queries.relevant[row], shuffle(others[row]).tolist(), top)
        for row, _ in draws
    ]
    return float(np.mean(scores))


def rank_halves(vectors: Any) -> np.ndarray:
    """(halves,) reciprocal rank of each half's other half.

    `vectors` are (halves, dim), all first halves before all second halves.
    """
    dense = np.asarray(vectors)
    rows, middle = range(len(dense)), len(dense) // 2
    rankings = metrics.rank(dense, rows, rows)
    return np.array(
        [metrics.reciprocal_rank([(row + middle) % len(rows)], rankings[row]) for row in rows]
    )


def _find_precisions(targets: Sequence[int], ranking: Sequence[int]) -> np.ndarray:
    """(targets,) precision at each target's rank; their mean is `metrics.average_precision`."""
    places = {name: place for place, name in enumerate(ranking, 1)}
    ranks = np.array([places.get(target, np.inf) for target in targets])
    return (ranks <= ranks[:, None]).sum(1) / ranks
