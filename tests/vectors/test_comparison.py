"""Which model is taken, by a rule that was fixed before any result, and the verdict on it."""

import numpy as np
import pandas as pd
import pytest

from lib.vectors import comparison
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, TFIDF

NOISE = np.tile([0.1, -0.1], 50)
START = np.linspace(0.3, 0.7, 100)


def make_frame(task="t", metric="MRR", groups=None, **scores):
    names = {name.replace("_", " ").replace("cut", CUT): each for name, each in scores.items()}
    return pd.DataFrame(
        {
            "model": [*names],
            "scores": [*names.values()],
            "groups": [np.arange(100) if groups is None else groups] * len(names),
            "task": task,
            "metric": metric,
            "chance": 0.1,
            "examples": 100,
        }
    )


def test_a_better_model_with_an_interval_above_the_base_wins():
    frame = make_frame(base=START, cut=START - 0.2, both=START + 0.2 + NOISE / 10)
    choice = comparison.choose_model([frame])
    assert (choice.model, choice.verdict) == (BOTH, "WIN")
    assert choice.difference == pytest.approx(0.2) and 0.19 < choice.low < 0.2 < choice.high < 0.21
    assert choice.line.startswith("VERDICT: WIN | both | 0.700 | 0.500 | +0.200 [+0.1")


def test_the_simplest_is_taken_of_those_that_cannot_be_told_apart():
    frame = make_frame(
        base=START, mean_of_chunks=START + 0.2 + NOISE, LSA=START + 0.19, both=START + 0.21 - NOISE
    )
    assert comparison.choose_model([frame]).model == CHUNKS
    alike = make_frame(base=START, both=START + 0.001 + NOISE)
    choice = comparison.choose_model([alike])
    assert (choice.model, choice.verdict, choice.difference) == (BASE, "EQUAL", 0)
    assert choice.line == "VERDICT: EQUAL | base | 0.500 | 0.500 | +0.000"


def test_all_measures_count_alike_and_words_alone_are_never_taken():
    frames = [
        make_frame("a", base=START, both=START + 0.2 + NOISE / 10, **{TFIDF: START + 0.3}),
        make_frame("b", base=START + 0.1, both=START + 0.1, **{TFIDF: START + 0.3}),
    ]
    frames[1].loc[len(frames[1])] = frames[1].iloc[0].to_dict() | {"model": CLASSIFIER}
    choice = comparison.choose_model(frames)
    assert choice.score == pytest.approx(0.65) and choice.model == BOTH


def test_a_model_that_is_asked_for_may_lose():
    frame = make_frame(base=START, both=START - 0.2 + NOISE / 10)
    assert comparison.choose_model([frame]).model == BASE
    choice = comparison.choose_model([frame], BOTH)
    assert (choice.model, choice.verdict) == (BOTH, "LOSS")
    with pytest.raises(
        ValueError, match=r"not judged by every measure; models here: \['base', 'both'"
    ):
        comparison.choose_model([frame], LSA)


def test_the_interval_is_wider_where_the_data_chose():
    generator = np.random.default_rng(0)
    noisy = {name: START + 0.1 + generator.normal(0, 0.3, 100) for name in (LSA, BOTH)}
    alone = comparison.choose_model([make_frame(base=START, **{BOTH: noisy[BOTH]})], BOTH)
    among = comparison.choose_model([make_frame(base=START, **noisy)], BOTH)
    assert among.difference == pytest.approx(alone.difference)
    assert among.high - among.low > alone.high - alone.low


def test_the_interval_of_the_table_is_that_of_paired_texts():
    frame = make_frame(base=START, cut=START + 0.1 + NOISE / 10)
    row = comparison.make_table([frame]).iloc[1]
    width = 1.984 * 0.01 * (100 / 99) ** 0.5 / 10  # t(.975, 99) of 100 differences of sd .01
    assert row["against_base"] == pytest.approx(0.1)
    assert row["against_high"] - row["against_base"] == pytest.approx(width, rel=0.05)
    assert row["than_base"] == "better than" and row["high"] - row["low"] > 0.04
    still = comparison.make_table([make_frame(base=START, cut=START + 0.1)]).iloc[1]
    assert np.isnan(still["against_low"]) and still["than_base"] == "not distinguishable from"


def test_a_measure_by_which_all_models_guess_is_told_of():
    frame = make_frame(base=START, **{TFIDF: START}).assign(chance=0.9)
    table = comparison.make_table([frame, make_frame("told", base=START)])
    assert comparison.describe_table(table) == ["t MRR: no model is above guessing (0.90)"]
