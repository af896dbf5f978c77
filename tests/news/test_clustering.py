"""Clustering: against brute force, scikit-learn and numbers by hand."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import psutil
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering

from lib.news import clustering
from lib.news.events import Side


def side(events, seed=0, share=0.5):
    """All positive pairs of the events and as many negative ones."""
    events, order = np.asarray(events), np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(len(events)), 2)))
    same = events[pairs[:, 0]] == events[pairs[:, 1]]
    others = order.choice(
        np.flatnonzero(~same), round(same.sum() * (1 - share) / share), replace=False
    )
    kept = np.concatenate([np.flatnonzero(same), others])
    texts = tuple(f"text {n}" for n in range(len(events)))
    return Side(texts, texts, pairs[kept], same[kept], events, complete=True)


def vectors(count=30, seed=0, dim=6):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


EVENTS = np.repeat(np.arange(10), 3)


def test_sparse_vectors_have_the_distances_of_dense_ones():
    rows = np.random.default_rng(0).random((40, 300)) * (
        np.random.default_rng(1).random((40, 300)) < 0.1
    )
    np.testing.assert_allclose(
        clustering.measure_distances(csr_array(rows)),
        clustering.measure_distances(rows),
        atol=1e-12,
    )
    rows[5] = 0
    with pytest.raises(ValueError, match="the vector of document 5 is zero"):
        clustering.link(csr_array(rows))


def test_scores_by_hand():
    given = side([0, 0, 0, 1, 1, 2])
    given = replace(given, pairs=np.array([[0, 1], [0, 2], [1, 2], [3, 4], [0, 3], [4, 5]]))
    given = replace(given, positive=np.array([True, True, True, True, False, False]))
    result = clustering.score(np.array([7, 7, 8, 8, 8, 9]), given)
    # together: 0 1 and 3 4, of four positives
    assert (result.precision, result.recall) == (1.0, 0.5)
    assert result.f1 == pytest.approx(2 / 3) and result.cluster_size == 2
    assert result.one_cluster == pytest.approx(2 * (4 / 6) / (1 + 4 / 6))
    # All 15 pairs: together 0 1, 2 3, 2 4, 3 4; of one event 0 1, 0 2, 1 2, 3 4; both: two.
    assert result.f1_all == pytest.approx(2 * 2 / (4 + 4)) and not result.collapsed
    assert np.isnan(clustering.score(np.arange(6), replace(given, complete=False)).f1_all)


def test_scores_equal_a_brute_force_count():
    for seed in range(20):
        given = side(np.random.default_rng(seed).integers(0, 8, 25), seed)
        clusters = np.random.default_rng(seed + 100).integers(0, 6, 25)
        hit = sum(
            clusters[a] == clusters[b]
            for (a, b), yes in zip(given.pairs, given.positive, strict=True)
            if yes
        )
        together = sum(clusters[a] == clusters[b] for a, b in given.pairs)
        result = clustering.score(clusters, given)
        assert result.recall == pytest.approx(hit / given.positive.sum())
        assert result.precision == pytest.approx(hit / together)
        assert result.f1 == pytest.approx(2 * hit / (together + given.positive.sum()))
        every = list(combinations(range(25), 2))
        same = [(clusters[a] == clusters[b], given.events[a] == given.events[b]) for a, b in every]
        both, ours, theirs = (
            sum(rows)
            for rows in ((x and y for x, y in same), (x for x, _ in same), (y for _, y in same))
        )
        assert result.f1_all == pytest.approx(2 * both / (ours + theirs))


def test_clusters_equal_scikit_learns():
    for seed in range(5):
        rows = vectors(seed=seed)
        for distance in (0.3, 0.7, 1.0, 1.1):
            theirs = AgglomerativeClustering(
                None, metric="cosine", linkage="average", distance_threshold=distance
            )
            theirs = theirs.fit_predict(rows.astype(np.float64))
            ours = clustering.cut(clustering.link(rows), distance)
            assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))


def test_the_threshold_is_the_best_of_all_and_may_exceed_1():
    for seed in range(10):
        given = side(np.random.default_rng(seed).permutation(EVENTS), seed)
        merges = clustering.link(vectors(seed=seed))
        chosen = clustering.choose_threshold(merges, given)
        tried = [
            clustering.score(clustering.cut(merges, height), given).f1 for height in merges[:, 2]
        ]
        assert clustering.score(clustering.cut(merges, chosen), given).f1 == pytest.approx(
            max(tried)
        )
    opposed = np.array([[1, 0.0], [1, 0.01], [-1, 0], [-1, 0.01]], dtype=np.float32)
    everything = Side(
        ("",) * 4,
        ("",) * 4,
        np.array([[0, 2], [1, 3], [0, 1]]),
        np.array([True, True, False]),
        np.zeros(4, int),
        True,
    )
    assert clustering.choose_threshold(clustering.link(opposed), everything) > 1


def test_one_cluster_and_what_is_near_it_are_marked():
    given = side(EVENTS, share=0.46)
    one = clustering.score(np.ones(30, int), given)
    assert one.collapsed and one.f1 == pytest.approx(one.one_cluster) and one.recall == 1
    assert one.one_cluster == pytest.approx(0.63, abs=0.005)
    many = side(np.repeat(np.arange(30), 3), share=0.46)
    near = clustering.score(np.r_[np.ones(89, int), 2], many)
    assert near.collapsed and 0 < abs(near.f1 - near.one_cluster) < 0.02
    assert not clustering.score(EVENTS, given).collapsed and clustering.score(EVENTS, given).f1 == 1


def test_draws_of_events():
    given = side(EVENTS, share=0.46)
    clusters = np.where(np.arange(30) % 5 == 0, 99, EVENTS)
    weights = clustering.draw_pairs(given, 4000, seed=1)
    draws = clustering.score_draws(clusters, given, weights)
    whole = clustering.score(clusters, given).f1
    assert draws.mean() == pytest.approx(whole, abs=0.03) and 0.01 < draws.std() < 0.2
    assert (clustering.draw_pairs(given, 4000, seed=1) == weights).all()
    assert (clustering.score_draws(EVENTS, given, weights) == 1).all()
    # By hand, the first draw: every pair as often as its events came up.
    counts = np.random.default_rng(1).multinomial(10, np.full(10, 0.1), 4000)[0]
    hit = predicted = actual = 0
    for (a, b), positive in zip(given.pairs, given.positive, strict=True):
        weight = counts[EVENTS[a]] if positive else counts[EVENTS[a]] * counts[EVENTS[b]]
        same = clusters[a] == clusters[b]
        hit = hit + weight * (same and positive)
        predicted = predicted + weight * same
        actual = actual + weight * positive
    assert draws[0] == pytest.approx(2 * hit / (predicted + actual))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.ones((1, 3)), "at least two documents, got 1"),
        (np.array([[1.0, 2], [np.nan, 1]]), "document 1 holds NaN"),
        (np.array([[1.0, 2], [0, 0], [3, 4]]), "document 1 is zero"),
    ],
)
def test_vectors_that_cannot_be_clustered(rows, told):
    with pytest.raises(ValueError, match=told):
        clustering.link(rows)


@pytest.mark.parametrize("missing", ["positive", "negative"])
def test_a_side_without_a_kind_of_pair_has_neither_threshold_nor_score(missing):
    given = side(EVENTS, share=0.46)
    given = replace(given, positive=np.full(len(given.pairs), missing == "negative"))
    with pytest.raises(ValueError, match=f"^the side has no {missing} pair"):
        clustering.choose_threshold(clustering.link(vectors(30)), given)
    with pytest.raises(ValueError, match=f"^the side has no {missing} pair"):
        clustering.score(EVENTS, given)


def test_clusters_of_other_documents():
    given = side(EVENTS, share=0.46)
    with pytest.raises(ValueError, match="the side has 30 documents, but 29 are clustered"):
        clustering.choose_threshold(clustering.link(vectors(29)), given)
    with pytest.raises(ValueError, match="the side has 30 documents, but 29 are clustered"):
        clustering.score(EVENTS[:29], given)


def test_more_documents_than_fit_say_how_many_do(monkeypatch):
    free = type("Memory", (), {"available": 12 * 100 * 100})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    with pytest.raises(
        ValueError, match="distances of 101 documents do not fit in memory, those of 100 would"
    ):
        clustering.link(vectors(101))
    assert len(clustering.link(vectors(100))) == 99
