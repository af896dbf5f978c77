"""Metrics: by hand, ties, missing targets; tests/losses/test_cca.py has a reference of `cca`."""

import itertools
import math
import warnings

import numpy as np
import pytest

from lib.evaluation import metrics


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    ("relevant", "top", "precision", "reciprocal"),
    [
        ([0, 2], None, (1 + 2 / 3) / 2, 1),
        ([3], None, 1 / 4, 1 / 4),
        ([0, 2, 3], 3, (1 + 2 / 3) / 2, 1),  # the last leaves numerator and denominator
        ([3], 3, 0, 0),
        ([3, 0], 1000, (1 + 2 / 4) / 2, 1),
    ],
)
def test_average_precision_and_reciprocal_rank_by_hand(relevant, top, precision, reciprocal):
    for scores in ([9, 7, 5, 3], [0.3, 0.2, 0.1, -2]):
        given = np.array(scores, float), relevant, top
        assert metrics.average_precision(*given) == pytest.approx(precision)
        assert metrics.reciprocal_rank(*given) == pytest.approx(reciprocal)


def measure_by_definition(ranking, relevant, top):
    """Average precision and reciprocal rank of a ranking without ties."""
    ranks = [rank for rank, item in enumerate(ranking[:top], 1) if item in relevant]
    counted = len(relevant) if top is None else max(len(ranks), 1)
    precision = sum(n / rank for n, rank in enumerate(ranks, 1)) / counted
    return precision, 1 / ranks[0] if ranks else 0.0


@pytest.mark.parametrize("top", [None, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("seed", range(6))
def test_ties_have_the_mean_score_of_all_of_their_orders(seed, top):
    random = np.random.default_rng(seed)
    scores = random.integers(0, 1 + seed // 2, 7) / 3  # seeds 0 and 1: all are tied
    relevant = random.choice(7, random.integers(1, 5), replace=False).tolist()
    orders = [o for o in itertools.permutations(range(7)) if (np.diff(scores[[*o]]) <= 0).all()]
    expected = np.mean([measure_by_definition(o, relevant, top) for o in orders], axis=0)
    nudged = scores + random.uniform(0, metrics.TIE / 2, 7)  # as the last bits of a cosine
    for given in (scores, nudged):
        precision = metrics.average_precision(given, relevant, top)
        both = [precision, metrics.reciprocal_rank(given, relevant, top)]
        np.testing.assert_allclose(both, expected, rtol=1e-12)


def related(rows=60, dim1=5, dim2=4):
    shared = draw(0, rows, 3)
    x = shared @ draw(1, 3, dim1) + draw(2, rows, dim1)
    return x, shared @ draw(3, 3, dim2) + 2 * draw(4, rows, dim2)


def test_scores_are_numbers_of_any_type_but_none_is_missing():
    for metric in (metrics.average_precision, metrics.reciprocal_rank):
        assert metric(np.array([3, 100, 50], np.uint8), [1]) == 1
        with pytest.raises(ValueError, match="NaN"):
            metric(np.array([np.nan, 0.5]), [1])


def test_cosines_of_small_integers_do_not_overflow():
    x = np.array([[100, 50], [90, 70]], np.int8)
    assert metrics.cosines(x, x).tolist() == pytest.approx([1, 1])
    expected = (100 * 90 + 50 * 70) / math.hypot(100, 50) / math.hypot(90, 70)
    assert metrics.mean_cosine(x) == pytest.approx(expected)


def test_cca_by_hand():
    x, y = np.array([[0.0], [1], [2], [3]]), np.array([[1.0], [0], [3], [4]])
    # One dimension each: |Pearson|. Centred: x -1.5 -.5 .5 1.5, y -1 -2 1 2; 6 / sqrt(5 * 10).
    assert metrics.cca(x, y) == pytest.approx(6 / math.sqrt(50))
    assert metrics.cca(x, -y) == pytest.approx(6 / math.sqrt(50))


def test_cca_invariances():
    x, y = related()
    expected = metrics.cca(x, y)
    assert metrics.cca(y, x) == pytest.approx(expected)
    mapped = metrics.cca(x @ draw(9, 5, 5) + 100, y * [1e-3, 1, 1e3, 7])
    assert mapped == pytest.approx(expected)
    assert metrics.cca(x, x @ draw(9, 5, 5)) == pytest.approx(5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_cca_of_rank_deficient_inputs_counts_each_direction_once(dtype):
    x, y = (z.astype(dtype) for z in related())
    near = 0.01 if dtype == np.float16 else 1e-5
    constant = np.full((60, 1), 0.1, dtype)
    # 9 columns of rank 5.
    mixed = np.concatenate([x, x @ draw(9, 5, 3).astype(dtype), constant], axis=1)
    assert metrics.cca(mixed, y) == pytest.approx(metrics.cca(x, y), rel=near)
    assert metrics.cca(constant, y) == 0.0
    assert metrics.cca(np.zeros((60, 2), dtype), y) == 0.0
    far = (draw(0, 1000, 32) + 20).astype(dtype)  # rounded, in 16 bits, to a hundredth of its sd
    assert metrics.cca(far, far) == pytest.approx(32)


def test_cca_warns_where_correlations_are_one_for_any_data():
    with pytest.warns(UserWarning, match="4 correlations are 1 for any data"):
        value = metrics.cca(draw(0, 8, 6), draw(1, 8, 5))  # 6 + 5 - 7 = 4
    assert 4 <= value <= 5
    with pytest.warns(UserWarning, match="5 correlations are 1"):
        assert metrics.cca(draw(0, 6, 20), draw(1, 6, 30)) == pytest.approx(5)  # batch < dimension
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.cca(draw(0, 12, 6), draw(1, 12, 5))  # 6 + 5 = 12 - 1: nothing is certain
