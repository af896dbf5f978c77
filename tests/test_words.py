"""Sentences made from numbers read well whatever way the numbers fall."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib import words


def row(verdict, effect=0.078, low=0.027, high=0.128):
    return {"effect": effect, "low": low, "high": high, "verdict": verdict}


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0312, 3, ".031"),
        (-0.0186, 3, "-.019"),
        (-0.0001, 3, ".000"),
        (1.0074, 3, "1.007"),
        (-12.34, 1, "-12.3"),
        (0.4, 0, "0"),
        (float("nan"), 3, words.MISSING),
    ],
)
def test_numbers_have_no_leading_zero(value, digits, text):
    assert words.signed(value, digits) == text


def test_a_comparison_has_a_clause_for_every_verdict():
    verdicts = ("holds", "reversed", "equivalent", "open", "smaller than published")
    told = [words.comparison("cosine", "MSE", row(verdict)) for verdict in verdicts]
    assert len({*told}) == 5 and all("cosine" in each and "MSE" in each for each in told)
    assert [".078 [.027, .128]" in each for each in told] == [True, False, True, True, True]
    behind = words.comparison("cosine", "MSE", row("reversed", -0.27, -0.41, -0.07))
    assert ".270 [.070, .410]" in behind, "how far behind"
    assert ".078" not in words.comparison("cosine", "MSE", row("not testable here"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0 times"),
        (9.96, "10 times"),
        (2345.6, "2,300 times"),
        (float("inf"), "more than a million times"),
        (float("nan"), words.MISSING),
    ],
)
def test_a_factor_has_two_digits(value, text):
    assert words.multiple(value) == text


@pytest.mark.parametrize("verdict", ["not run", "holds"])
def test_what_was_not_measured_is_left_out(verdict):
    unknown = row(verdict, np.nan, np.nan, np.nan)
    told = [words.comparison("A", "B", unknown), words.answer(unknown), words.estimate(unknown)]
    assert words.bullets("Known.", *told) == "* Known."
    assert words.bullets(*told) == "* Nothing measured."


def test_a_list_in_one_text_is_cut_at_its_entries():
    text = f"\n* **A** is\n  long.\n* B has {words.MISSING}.\n* C, 2 * 3.\n"
    assert words.bullets(text) == "* **A** is long.\n* C, 2 * 3."


def test_answers_say_verdict_and_effect():
    assert ".078 [.027, .128]" in words.answer(row("holds"))
    assert "3.26" in words.answer(row("number", 3.256, np.nan, np.nan))
    assert ".078" not in words.answer(row("not testable here"))


def read_out(survives, compare, none, *by):
    found = dict(zip(("compare_verdict", "none_verdict"), by or (survives, survives), strict=True))
    return {"survives": survives, "compare_effect": compare, "none_effect": none} | found


def test_survival_names_both_readouts():
    held = words.survival(read_out("holds", 0.05, 0.04))
    assert ".050" in held and ".040" in held
    apart = words.survival(read_out("readouts disagree", 0.05, -0.04, "holds", "open"))
    assert ".050 (holds)" in apart and "-.040 (open)" in apart
    short = {"survives": "reversed", "compare": -0.05, "none": -0.04}
    assert "-.050" in words.survival(short) and "-.040" in words.survival(short)
    for verdict in ("holds", "reversed", "equivalent", "open", "smaller than published"):
        assert words.MISSING not in words.survival(read_out(verdict, 0.05, 0.04))
    assert words.survival({"survives": "not run"}) == words.MISSING
    both = row("holds") | read_out("holds", 0.05, 0.04)
    assert words.answer_twice(both) == f"{words.answer(both)}. {words.survival(both)}"
    untested = row("not testable here") | read_out("not testable here", 0.05, 0.04)
    assert words.answer_twice(untested) == words.answer(untested)


def test_lists_counts_and_places():
    assert [words.list_names("abc"[:n]) for n in range(4)] == ["none", "a", "a and b", "a, b and c"]
    assert [words.count(n, "finding") for n in (0, 1, 2, 38)] == [
        "no findings",
        "one finding",
        "two findings",
        "38 findings",
    ]
    assert [words.ordinal(n) for n in (1, 2.0, 11, 13, 23)] == [
        "1st",
        "2nd",
        "11th",
        "13th",
        "23rd",
    ]
    assert words.percent(0.7269) == "73%"


def test_findings_are_looked_up_by_their_claim():
    claims = [
        SimpleNamespace(id="a", finding="A wins."),
        SimpleNamespace(id="b", finding="B wins."),
    ]
    table = pd.DataFrame(
        [{"finding": "A wins.", "ours": 0.1, "low": 0.05, "high": 0.2, "verdict": "holds"}]
    )
    rows = words.by_claim(claims, table)
    assert words.estimate(rows["a"]) == ".100 [.050, .200]"
    assert words.MISSING in words.answer(rows["b"])


def test_a_bound_near_zero_keeps_its_side():
    row = {"effect": -0.102, "low": -0.2, "high": -0.0004}
    assert words.estimate(row) == "-.1020 [-.2000, -.0004]"
    assert words.estimate(row | {"high": 0.0}) == "-.102 [-.200, .000]"


@pytest.mark.parametrize(
    ("value", "told"), [(184.5, "180"), (98.2, "98"), (9.42, "9.4"), (0.254, ".25"), (0.0, "0")]
)
def test_two_digits_never_need_an_exponent(value, told):
    assert words.rounded(value) == told
