"""From profile to tables: what the threshold may see, and that tables carry both sides' numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.ledger import claims
from lib.news import chapter, clustering, results
from lib.news.chapter import News
from lib.statistics import verdicts
from tests.news.conftest import TINY


def test_a_record_for_each_model_seed_and_side_which_is_read_again(smoke):
    news, scores = smoke
    wanted = results.list_models(news)
    assert {*results.REFERENCES, *chapter.NOT_TRAINED, "bag;cosine"} < {*wanted}
    assert len(scores) == 2 * sum(len(seeds) for seeds in wanted.values())
    one = scores[scores["model"] == chapter.ONE]
    assert one["collapsed"].all() and (one["recall"] == 1).all()
    np.testing.assert_allclose(one["f1"], one["one_cluster"])
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
    weights = {name: clustering.draw_pairs(sides[name], 9, 0) for name in results.TESTED}
    for model in ("bag;cosine", chapter.TEACHER):
        rows = results.score_model(news.embed(model), sides, weights)
        before = scores[(scores["model"] == model) & (scores["seed"] == 0)]
        assert [row["threshold"] for row in rows] == before["threshold"].tolist()
        assert not np.allclose([row["f1"] for row in rows], before["f1"])


def test_tables_have_published_values_baselines_and_intervals(smoke):
    _, scores = smoke
    ours = results.summarize(scores)
    assert (ours["low_public"] <= ours["high_public"]).all()
    extra = {"low_public", "high_public", "f1_all_public", "collapsed_public", "seeds"}
    for number in range(1, 9):
        table, printed = results.make_table(number, ours), published.load(f"news_tab{number}")
        assert table["model"].tolist()[: len(printed)] == printed["identity"].tolist()
        assert {*results.BASELINES} <= {*table["model"]} and extra <= {*table}
        assert not table["model"].duplicated().any()
        values = pd.to_numeric(printed["f1_public"]).to_numpy()
        assert (table["f1_public (published)"].to_numpy()[: len(printed)] == values).all()
    frame = results.collect_sizes(ours)
    assert (frame["source"] == "published").sum() == 48 and (frame["source"] == "ours").sum() >= 8
    lines = frame[frame["model"] == chapter.ONE].set_index("source")["f1"]
    assert lines["published"] == pytest.approx(63.06, abs=0.01)  # 63.14 in Table 2, and 62.97
    mean = scores.loc[scores["model"] == chapter.ONE, "f1"].mean()
    assert lines["ours"] == pytest.approx(100 * mean)


def test_evidence_speaks_to_the_ledger(smoke):
    _, scores = smoke
    evidence = results.collect_evidence(scores)
    assert evidence.noise[""].df == 2
    assert np.isinf(evidence.runs[evidence.means.index == "teacher"]).all()
    assert evidence.processor == pytest.approx(results.PROCESSOR_SD**2 / evidence.runs)
    numbers = results.compare_with_promise(results.summarize(scores))
    ledger = claims.judge_claims({published.NEWS: evidence}, numbers=numbers)
    news = ledger[ledger["label"].str.startswith("news")].set_index("id")
    assert len(news) >= 16 and news.loc["news-over-small-berts", "verdict"] == verdicts.NOT_RUN
    judged = verdicts.compare([("teacher", chapter.ONE)], evidence)
    expected = evidence.means.loc["teacher"].mean() - evidence.means.loc[chapter.ONE].mean()
    assert judged["difference"][0] == pytest.approx(expected)
    assert judged["low"][0] < judged["high"][0]


def test_only_chooses_students_and_references_have_several_seeds():
    chosen = results.list_models(News(Bench.load("mini", only="CNN*")))
    assert {*chosen} == {"CNN-1;MSE", "CNN-2;MSE", *chapter.NOT_TRAINED}
    everything = results.list_models(News(Bench.load("mini")))
    assert {*published.news_students(), *published.OWN_NEWS} <= {*everything}
    several = profiles.load("mini").reference_seeds
    assert [everything[name] for name in results.REFERENCES] == [several, several]
