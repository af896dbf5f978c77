"""Rankings by cosine: known answers, ties, folds, and what must not matter."""

import numpy as np
import pytest

from lib.evaluation.ranking import Queries, rank, score_texts

TOPICS = np.arange(24) % 4


def make_queries(relevant=None):
    """Texts of a topic are each other's targets; the last topic asks nothing."""
    if relevant is None:
        groups = {row: np.flatnonzero(TOPICS[row] == TOPICS).tolist() for row in range(24)}
        relevant = {row: [*{*g} - {row}] for row, g in groups.items() if TOPICS[row] < 3}
    names = [f"{row}" for row in range(24)]
    return Queries(names, names, relevant)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_by_hand():
    vectors = np.array([[1, 0], [0, 3], [2, 1], [-1, 0.1]], dtype=np.float32)
    # Cosines to (1, 0): 0, 2/sqrt(5), about -1. To (0, 3): 0, 1/sqrt(5), about .1.
    first, second = score_texts(vectors, [0, 1])
    assert first == pytest.approx([-np.inf, 0, 2 / 5**0.5, -1 / 1.01**0.5])
    assert np.argsort(-second).tolist() == [2, 3, 0, 1]
    queries = Queries([*"pqrs"], [*"pqrs"], {0: [1, 3], 1: [0]})
    mean, examples = rank(vectors, queries, "MAP")
    # Precisions at targets: 1/2 and 2/3 of p, 1/3 of q; q's example counts twice.
    assert mean == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1 / 3) / 2)
    weights = np.array([3 / 4, 3 / 4, 3 / 2])
    assert examples == pytest.approx(mean + weights * (np.array([1 / 2, 2 / 3, 1 / 3]) - mean))
    assert queries.examples.tolist() == [[0, 1], [0, 3], [1, 0]]
    assert rank(vectors, queries, "MRR")[0] == pytest.approx((1 / 2 + 1 / 3) / 2)
    with pytest.raises(ValueError, match="3 vectors of 4 texts"):
        rank(vectors[:3], queries, "MAP")


def test_folds_of_the_same_vectors_change_nothing():
    vectors, queries = draw(24, 6), make_queries()
    asked = []

    def embed(part):
        asked.append([*part.relevant])
        return vectors

    folds = [np.array([3, 0, 7]), np.setdiff1d(np.arange(18), [3, 0, 7])]
    for metric in ("MAP", "MRR"):
        mean, examples = rank(embed, queries, metric, folds=folds)
        assert mean == rank(vectors, queries, metric)[0]
        np.testing.assert_array_equal(examples, rank(vectors, queries, metric)[1])
    sources = [*queries.relevant]
    assert asked[0] == [sources[place] for place in folds[0]]
