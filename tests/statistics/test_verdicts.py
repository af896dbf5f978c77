"""The one rule from an effect and its noise to a word."""

import ast

import numpy as np
import pytest

from lib.config import paths
from lib.statistics.effects import Comparison
from lib.statistics.intervals import SeedNoise
from lib.statistics.verdicts import FAILS, HOLDS, UNCLEAR, arithmetic, judge, verdict

UNKNOWN = np.nan


@pytest.mark.parametrize(
    ("effect", "needed", "low", "high", "word"),
    [
        (0.02, 0.01, -0.1, 0.1, HOLDS),  # known noise decides, whatever the interval
        (0.01, 0.01, 0.005, 0.1, UNCLEAR),
        (-0.01, 0.01, -0.1, -0.005, UNCLEAR),
        (-0.02, 0.01, -0.1, 0.1, FAILS),
        (0.02, UNKNOWN, 0.001, 0.1, HOLDS),
        (0.02, UNKNOWN, -0.001, 0.1, UNCLEAR),
        (-0.02, UNKNOWN, -0.1, -0.001, FAILS),
        (0.02, UNKNOWN, UNKNOWN, UNKNOWN, UNCLEAR),
    ],
)
def test_the_rule(effect, needed, low, high, word):
    assert verdict(effect, needed, low, high) == word


def pair(better, worse):
    return Comparison({better: 1.0}, {worse: 1.0}, better, worse)


RUNS = {"a": np.full((3, 6), 0.9), "b": np.full((1, 6), 0.8), "c": np.full((1, 6), 0.5)}


def test_the_comparison_that_holds_least_decides():
    judged = judge([pair("a", "c"), pair("a", "b")], RUNS, least_difference=0.05, noise=SeedNoise(0.01, 4))
    assert (judged.decided_by, judged.verdict, judged.seeds) == ("a against b", HOLDS, "1-3")
    assert (judged.effect, judged.low, judged.high) == pytest.approx((0.1, 0.1, 0.1)) and judged.p_seeds < 0.05
    assert judged.arithmetic == ".9000 - .8000 = .1000 > .0500"
    assert judge([pair("a", "c"), pair("b", "a")], RUNS, least_difference=0.05).verdict == FAILS


def test_least_is_in_units_of_a_comparisons_own_noise():
    average = Comparison({"a": 0.5, "b": 0.5}, {"c": 1.0}, "average", "c")  # .35, norm sqrt(.75)
    other = Comparison({"a": 1.0}, {"c": 0.9, "b": 0.1}, "a", "mixture")  # .37, norm sqrt(.91)
    judged = judge([average, other], RUNS, least_difference=0.1)
    assert judged.decided_by == "a against mixture" and judged.needed == pytest.approx(0.1 * np.sqrt(0.91))


@pytest.mark.parametrize(
    ("better", "worse", "least", "words"),
    [
        ("a", "b", 0.05, "holds"),
        ("a", "b", 0.2, "holds within noise"),
        ("b", "a", 0.2, "does not hold within noise"),
        ("a", "b", None, "holds, noise unknown"),
    ],
)
def test_numbers_read_by_their_sign_say_what_the_noise_is(better, worse, least, words):
    assert judge([pair(better, worse)], RUNS, least_difference=least).as_stated == words


def test_arithmetic():
    assert arithmetic(0.95, 0.951, 0.0057) == ".9500 - .9510 = -.0010, .0010 < .0057"
    assert arithmetic(1.0, 0.5) == "1.0000 - .5000 = .5000"


def test_nobody_else_comes_to_a_verdict():
    """Verdict words and scipy's tests stand in lib.statistics alone: a second engine would need both."""
    words = {FAILS, UNCLEAR}
    for path in sorted((paths.ROOT / "lib").rglob("*.py")):
        if path.parent.name == "statistics":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Constant) and node.value in words), path
            assert not (isinstance(node, ast.ImportFrom) and node.module == "scipy" and "stats" in ast.dump(node)), path
    for path in paths.NOTEBOOKS.glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert "chapter4.findings" not in text and "claims = [" not in text, path
