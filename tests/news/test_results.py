"""From profile to records: what the threshold may see, and what the ledger gets."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.ledger import claims
from lib.news import chapter, results
from lib.news.chapter import News
from lib.statistics import verdicts
from tests.news.conftest import TINY


def test_a_record_for_each_model_seed_and_side_which_is_read_again(smoke):
    news, scores = smoke
    wanted = results.list_models(news)
    assert {*results.REFERENCES, *results.BASELINES} < {*wanted}
    assert len(scores) == 2 * sum(len(seeds) for seeds in wanted.values())
    one = scores[scores["model"] == chapter.ONE]
    assert one["collapsed"].all() and (one["recall"] == 1).all()
    assert scores["f1"].between(0, 1).all() and (scores["draws"].str.len() == results.DRAWS).all()
    timed = scores[~scores["model"].isin({*chapter.NOT_TRAINED} - {chapter.TEACHER})]
    assert (timed[["size_mb", "ms_per_document"]] > 0).all(axis=None)
    pd.testing.assert_frame_equal(results.read_records(news.bench), scores)
    changed = Bench(profiles.load("smoke", overrides=TINY | {"news.epochs": 2}), news.store)
    assert results.read_records(changed) is None


def test_the_threshold_never_sees_a_public_or_private_label(smoke):
    news, scores = smoke
    order, sides = np.random.default_rng(0), dict(news.sides)
    for name in results.TESTED:
        sides[name] = replace(sides[name], positive=order.permutation(sides[name].positive))
    weights = {name: results.draw_pairs(sides[name], 9, 0) for name in results.TESTED}
    for model in ("bag;cosine", chapter.TEACHER):
        rows = results.score_model(news.embed(model), sides, weights)
        before = scores[(scores["model"] == model) & (scores["seed"] == 0)]
        assert [row["threshold"] for row in rows] == before["threshold"].tolist()
        assert not np.allclose([row["f1"] for row in rows], before["f1"])


def test_evidence_speaks_to_the_ledger(smoke):
    _, scores = smoke
    evidence = results.collect_evidence(scores)
    assert evidence.noise[""].df == 2
    assert np.isinf(evidence.runs[evidence.means.index == "teacher"]).all()
    assert evidence.processor == pytest.approx(results.PROCESSOR_SD**2 / evidence.runs)
    news = claims.judge_claims({published.NEWS: evidence})
    news = news[news["label"].str.startswith("news")].set_index("id")
    assert len(news) >= 16 and news.loc["news-over-small-berts", "verdict"] == verdicts.NOT_RUN
    judged = verdicts.compare([("teacher", chapter.ONE)], evidence)
    expected = evidence.means.loc["teacher"].mean() - evidence.means.loc[chapter.ONE].mean()
    assert judged["difference"][0] == pytest.approx(expected)
    assert judged["low"][0] < judged["high"][0]


def test_the_promise_by_hand():
    assert results.compare_with_promise(pd.DataFrame(columns=["model", *COSTS])) == {}
    rows = [("teacher", 0.9, 80, 40), ("teacher", 0.8, 80, 40)]
    rows += [(results.CHOSEN, 0.7, 4, 5), (results.CHOSEN, 0.6, 4, 5)]
    numbers = results.compare_with_promise(pd.DataFrame(rows, columns=["model", *COSTS]))
    assert [*numbers.values()] == pytest.approx([0.2, 20, 8])


COSTS = ["f1", "size_mb", "ms_per_document"]


def test_only_chooses_students_and_references_have_several_seeds():
    chosen = results.list_models(News(Bench.load("mini", only="CNN*")))
    assert {*chosen} == {"CNN-1;MSE", "CNN-2;MSE", *chapter.NOT_TRAINED}
    everything = results.list_models(News(Bench.load("mini")))
    assert {*published.news_students(), *published.OWN_NEWS} <= {*everything}
    several = profiles.load("mini").reference_seeds
    assert [everything[name] for name in results.REFERENCES] == [several, several]
