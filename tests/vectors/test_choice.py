"""Which model is taken, by a rule that was fixed before any result, and the verdict on it."""

import numpy as np
import pytest

from lib.vectors import BASE, BOTH, CHUNKS, CUT, LSA, TFIDF
from lib.vectors.judging import Measure, compare_models

NOISE = np.tile([0.1, -0.1], 50)
START = np.linspace(0.3, 0.7, 100)


def make_measure(scores, name="t MRR"):
    return Measure(name, {BASE: START} | scores, np.arange(100), 0.1, 100)


def test_a_better_model_with_an_interval_above_the_base_wins():
    scores = {CUT: START - 0.2, BOTH: START + 0.2 + NOISE / 10}
    choice = compare_models([make_measure(scores)])
    assert (choice["model"], choice["verdict"]) == (BOTH, "WIN")
    assert choice["difference"] == pytest.approx(0.2)
    assert 0.19 < choice["low"] < 0.2 < choice["high"] < 0.21
    assert choice["line"].startswith("VERDICT: WIN | both | 0.700 | 0.500 | +0.200 [+0.1")


def test_the_simplest_is_taken_of_those_that_cannot_be_told_apart():
    scores = {CHUNKS: START + 0.2 + NOISE, LSA: START + 0.19, BOTH: START + 0.21 - NOISE}
    assert compare_models([make_measure(scores)])["model"] == CHUNKS
    choice = compare_models([make_measure({BOTH: START + 0.001 + NOISE})])
    assert choice["line"] == "VERDICT: EQUAL | base | 0.500 | 0.500 | +0.000"
    assert compare_models([])["line"] == "VERDICT: EQUAL | base | nan | nan | +nan"


def test_all_measures_count_alike_and_words_alone_are_never_taken():
    first = make_measure({BOTH: START + 0.2 + NOISE / 10, TFIDF: START + 0.3}, "a")
    second = make_measure({BASE: START + 0.1, BOTH: START + 0.1, TFIDF: START + 0.3}, "b")
    choice = compare_models([first, second])
    assert choice["score"] == pytest.approx(0.65) and choice["model"] == BOTH


def test_a_model_that_is_asked_for_may_lose():
    scores = {BOTH: START - 0.2 + NOISE / 10}
    assert compare_models([make_measure(scores)])["model"] == BASE
    choice = compare_models([make_measure(scores | {LSA: START + 0.2 + NOISE / 10})], BOTH)
    assert (choice["model"], choice["verdict"]) == (BOTH, "LOSS")
    assert compare_models([make_measure({BOTH: START + NOISE})], BOTH)["verdict"] == "EQUAL"


@pytest.mark.parametrize("count", [4, 8, 40, 60])
def test_a_difference_that_is_the_same_everywhere_decides_without_an_interval(count):
    """Whatever rounding leaves of it: of .109 and 1 some sums are exact, and some are not."""
    scores = {BASE: np.full(count, 0.109), CUT: np.zeros(count), LSA: np.ones(count)}
    measure = Measure("t MRR", scores, np.arange(count), 0.1, count)
    choice, asked = compare_models([measure]), compare_models([measure], CUT)
    assert (choice["model"], choice["verdict"], choice["low"]) == (LSA, "WIN", None)
    assert (asked["model"], asked["verdict"], asked["high"]) == (CUT, "LOSS", None)


def test_the_interval_of_the_table_is_that_of_paired_texts():
    scores = {CUT: START + 0.1 + NOISE / 10, CHUNKS: START + 0.1}
    _, row, still = compare_models([make_measure(scores)])["table"]
    width = 1.984 * 0.01 * (100 / 99) ** 0.5 / 10  # t(.975, 99) of 100 differences of sd .01
    assert row["against_base"] == pytest.approx(0.1)
    assert row["against_high"] - row["against_base"] == pytest.approx(width, rel=0.05)
    assert row["high"] - row["low"] > 0.04 and row["guessing"] == 0.1
    assert still["against_low"] is None, "nothing varies"
