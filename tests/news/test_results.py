"""Clusters and scores against brute force, scikit-learn and by hand; records, and the ledger."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.cluster import hierarchy
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import f1_score

from lib.config import profiles
from lib.experiments.bench import Bench
from lib.news import chapter, results
from lib.news.chapter import News, Side
from lib.statistics import verdicts
from lib.store import NotComputed
from tests.news.conftest import TINY

EVENTS = np.repeat(np.arange(10), 3)


def make_side(events, seed=0, share=0.5):
    """All positive pairs of the events, and as many negative ones as give them this share."""
    events, pairs = np.asarray(events), np.array([*combinations(range(len(events)), 2)])
    same = np.equal(*events[pairs].T)
    count = round(same.sum() * (1 - share) / share)
    others = np.random.default_rng(seed).choice(np.flatnonzero(~same), count, replace=False)
    kept = np.concatenate([np.flatnonzero(same), others])
    texts = tuple(f"text {n}" for n in range(len(events)))
    return Side(texts, texts, pairs[kept], same[kept], events, complete=True)


def draw_vectors(seed=0):
    return np.random.default_rng(seed).standard_normal((30, 6)).astype(np.float32)


@pytest.mark.parametrize("distance", [0.3, 0.7, 1.1])
def test_clusters_equal_scikit_learns_dense_or_sparse(distance):
    options = {"metric": "cosine", "linkage": "average", "distance_threshold": distance}
    for rows in map(draw_vectors, range(5)):
        theirs = AgglomerativeClustering(None, **options).fit_predict(rows.astype(float))
        for given in (rows, csr_array(rows)):
            ours = hierarchy.fcluster(results.link(given), distance, "distance")
            assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))
    unknown = np.diag([1.0, 1, 1, 0])  # words that nobody knows are far from all
    assert (results.link(csr_array(unknown))[:, 2] == 1).all()


def test_scores_by_hand():
    given = make_side([0, 0, 0, 1, 1, 2])
    given = replace(given, pairs=np.array([[0, 1], [0, 2], [1, 2], [3, 4], [0, 3], [4, 5]]))
    given = replace(given, positive=np.array([True, True, True, True, False, False]))
    result = results.score(np.array([7, 7, 8, 8, 8, 9]), given)
    # Together: 0 1 and 3 4, of four positives. All 15 pairs: together 0 1, 2 3, 2 4, 3 4; of one
    # event 0 1, 0 2, 1 2, 3 4; both: two.
    assert (result["precision"], result["recall"], result["f1_all"]) == (1, 0.5, 0.5)
    assert result["f1"] == pytest.approx(2 / 3) and result["cluster_size"] == 2
    assert np.isnan(results.score(np.arange(6), replace(given, complete=False))["f1_all"])
    one = results.score(np.ones(6, int), given)
    assert one["collapsed"] and one["f1"] == pytest.approx(2 * 4 / (4 + 6))
    many = make_side(np.repeat(np.arange(30), 3), 0, 0.46)
    near = results.score(np.r_[np.ones(89, int), 2], many)
    assert near["collapsed"] and 0 < abs(near["f1"] - 2 * 0.46 / 1.46) < 0.02
    assert not results.score(many.events, many)["collapsed"]


def test_the_threshold_is_the_best_of_all():
    for seed in range(10):
        given = make_side(np.random.default_rng(seed).permutation(EVENTS), seed)
        merges = results.link(draw_vectors(seed))
        heights = [*merges[:, 2], results.choose_threshold(merges, given)]
        cut = [hierarchy.fcluster(merges, height, "distance") for height in heights]
        scores = [results.score(clusters, given)["f1"] for clusters in cut]
        assert scores[-1] == pytest.approx(max(scores[:-1]))


def test_draws_of_events():
    given = make_side(EVENTS, share=0.46)
    clusters = np.where(np.arange(30) % 5 == 0, 99, EVENTS)
    scores = results.score(clusters, given, seed=1)
    assert scores["draws"].mean() == pytest.approx(scores["f1"], abs=0.03)
    assert (results.score(EVENTS, given)["draws"] == 1).all()
    # By hand, the first draw: every pair as often as its events came up.
    counts = np.random.default_rng(1).multinomial(10, np.full(10, 0.1), results.DRAWS)[0]
    times, same = counts[EVENTS[given.pairs]], np.equal(*clusters[given.pairs].T)
    weights = np.where(given.positive, times[:, 0], times.prod(1))
    expected = f1_score(given.positive, same, sample_weight=weights)
    assert scores["draws"][0] == pytest.approx(expected)


def test_a_record_for_each_model_seed_and_side_which_is_read_again(smoke):
    news, scores = smoke
    wanted = results.list_models(news)
    assert {*results.REFERENCES, *chapter.NOT_TRAINED, "bag;cosine"} < {*wanted}
    assert len(scores) == 2 * sum(len(seeds) for seeds in wanted.values())
    one = scores[scores["model"] == chapter.ONE]
    assert one["collapsed"].all() and (one["recall"] == 1).all()
    timed = scores[~scores["model"].isin({*chapter.NOT_TRAINED} - {chapter.TEACHER})]
    assert (timed[["size_mb", "ms_per_document"]] > 0).all(axis=None)
    pd.testing.assert_frame_equal(results.make_records(News(news.bench.reading())), scores)
    changed = Bench(profiles.load("smoke", overrides=TINY | {"news.epochs": 2}), news.store)
    with pytest.raises(NotComputed):
        results.make_records(News(changed.reading()))


def test_the_threshold_never_sees_a_public_or_private_label(smoke):
    news, scores = smoke
    order, sides = np.random.default_rng(0), dict(news.sides)
    for name in results.TESTED:
        sides[name] = replace(sides[name], positive=order.permutation(sides[name].positive))
    shuffled = News(news.bench.reading())
    shuffled.sides = sides
    after = results.make_records(shuffled)
    assert after["threshold"].equals(scores["threshold"])
    assert not np.allclose(after["f1"], scores["f1"])


def test_evidence_has_the_noise_of_seeds_events_and_processors(smoke):
    evidence = results.collect_evidence(smoke[1])
    assert evidence.noise[""].df == 2
    assert np.isinf(evidence.runs[evidence.means.index == "teacher"]).all()
    assert evidence.processor == pytest.approx(results.F1_PROCESSOR_SD**2 / evidence.runs)
    judged = verdicts.compare([("teacher", chapter.ONE)], evidence)
    expected = evidence.means.loc["teacher"].mean() - evidence.means.loc[chapter.ONE].mean()
    assert judged["difference"][0] == pytest.approx(expected)
    assert judged["low"][0] < judged["high"][0]


def test_the_promise_by_hand():
    scores = pd.DataFrame({"model": ["teacher", "teacher", results.CHOSEN, results.CHOSEN]})
    scores = scores.assign(f1=[0.9, 0.8, 0.7, 0.6], size_mb=[80, 80, 4, 4])
    numbers = results.compare_with_promise(scores.assign(ms_per_document=[40, 40, 5, 5]))
    assert [*numbers.values()] == pytest.approx([0.2, 20, 8])


def test_only_chooses_students_and_references_have_several_seeds():
    chosen = results.list_models(News(Bench.load("mini", only="BiGRU(2)+1 linear;att*")))
    shown, other = results.REFERENCES
    assert {*chosen} > {shown, results.CHOSEN} and other not in chosen
    assert chosen[shown] == profiles.load("mini").reference_seeds
