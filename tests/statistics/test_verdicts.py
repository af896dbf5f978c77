"""The one rule from evidence to a word: bounds of comparisons, selection, missing scores."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.statistics import verdicts
from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import PROCESSOR_SD, SeedNoise, from_examples, from_runs
from lib.statistics.verdicts import EQUIVALENT, HOLDS, NOT_RUN, OPEN, REVERSED, judge


def evidence(sd=0.01, df=8, **means):
    """One run of each model over two tasks, at .1 below and above its mean; seed noise as given."""
    index = pd.MultiIndex.from_tuples([(name, 0) for name in means], names=["model", "seed"])
    values = pd.DataFrame([(mean - 0.1, mean + 0.1) for mean in means.values()], index, ["t", "u"])
    return from_runs(values, noise=SeedNoise(sd, df) if sd else None)


def units(better, worse):
    return [[pair(a, b) for b in worse] for a in better]


NEEDED = SeedNoise(0.01, 8).least_difference  # .0326


@pytest.mark.parametrize(
    ("a", "b", "sd", "word"),
    [
        (0.5 + NEEDED + 1e-6, 0.5, 0.01, HOLDS),
        (0.5 + NEEDED - 1e-6, 0.5, 0.01, OPEN),
        (0.5 - NEEDED - 1e-6, 0.5, 0.01, REVERSED),
        (0.505, 0.5, 0.004, EQUIVALENT),
        (0.512, 0.5, 0.004, OPEN),  # .012 + t(.95, 8) .0057 exceeds the margin
        (0.515, 0.5, 0.001, HOLDS),  # small, but there: it holds
        (0.9, 0.5, None, OPEN),
    ],
)
def test_the_rule(a, b, sd, word):
    judged = judge(units("a", "b"), evidence(a=a, b=b, sd=sd))
    assert judged.verdict == word and judged.effect == pytest.approx(a - b)
    assert ("no model was run twice" in judged.reason) == bool(judged.reason) == (sd is None)


def test_equal_answers_of_models_that_no_seed_changes_have_a_reason_of_their_own(simulate):
    scores = {"t": simulate(np.random.default_rng(0), 1, seeds=1)["task 5"]}
    scores["t"].scores["twin"] = scores["t"].scores["m0"]
    judged = judge([[pair("m0", "twin")]], from_examples(scores, given=["m0", "twin"]))
    assert np.isnan(judged.low) and "same answers" in judged.reason
    assert "run twice" in judge([[pair("m0", "twin")]], from_examples(scores)).reason


def test_one_comparison_is_a_t_test():
    judged = judge(units("a", "b"), evidence(a=0.52, b=0.5))
    error = 0.01 * np.sqrt(2)
    assert judged.p == pytest.approx(2 * stats.t.sf(0.02 / error, 8))
    assert (judged.low, judged.high) == pytest.approx((0.02 - NEEDED, 0.02 + NEEDED))
    assert judged.p_equivalent == pytest.approx(0.5)  # exactly at the margin
    assert (judged.decided_by, judged.seeds) == ("a against b", "1")


def test_the_comparison_that_holds_least_decides_and_needs_no_correction():
    judged = judge([[pair("a", other)] for other in "bcd"], evidence(a=0.6, b=0.5, c=0.56, d=0.1))
    assert (judged.decided_by, judged.verdict) == ("a against c", HOLDS)
    assert judged.low == pytest.approx(0.04 - NEEDED)
    # "Some rival is better" is chosen from three: the upper bound is wider than that of one.
    assert judged.high > 0.04 + NEEDED + 0.002


def test_the_best_of_several_pays_for_having_been_chosen():
    others = dict.fromkeys("bcdefg", 0.5)
    alone = judge(units("a", "b"), evidence(a=0.54, b=0.5))
    chosen = judge(units("acdefg", "b"), evidence(a=0.54, **others), at_least=1)
    assert (alone.verdict, chosen.verdict, chosen.decided_by) == (HOLDS, OPEN, "a against b")
    assert alone.p < chosen.p < 6 * alone.p, "max-T is sharper than Bonferroni, as all share b"
    assert chosen.high == pytest.approx(alone.high), "this bound needs no choice"


def test_the_best_of_one_group_against_the_best_of_the_other_and_back():
    known = evidence(a=0.6, b=0.4, c=0.5, d=0.45)
    forward, back = (judge(units(*s), known, at_least=1) for s in (("ab", "cd"), ("cd", "ab")))
    assert (forward.verdict, forward.decided_by) == (HOLDS, "a against c")
    assert (back.verdict, back.decided_by) == (REVERSED, "c against a")
    turned = -forward.effect, -forward.high, -forward.low
    assert (back.effect, back.low, back.high) == pytest.approx(turned, abs=2e-3)


def test_equivalence_takes_the_whole_of_alpha_for_a_bound():
    offset = Comparison({"a": 1}, {"b": 1}, "a", "b", offset=0.03)
    both = [judge([[offset]], evidence(a=0.5, b=0.5), sides=sides) for sides in (2, 1)]
    assert [judged.verdict for judged in both] == [OPEN, HOLDS]
    assert both[0].effect == pytest.approx(0.03)
    assert both[1].p == pytest.approx(both[0].p / 2)


def test_more_runs_take_away_the_part_of_the_error_that_is_the_seeds(simulate):
    scores = simulate(np.random.default_rng(0), 2, seeds=3)
    measured = from_examples(scores, processor_sd=PROCESSOR_SD["thesis"])
    share = judge(units(["m0"], ["m1"]), measured).seed_share
    more = replace(measured, runs=5 * measured.runs, processor=measured.processor / 5)
    (now,), (then,) = (each.errors(np.array([[1.0, -1.0]]))[0] for each in (measured, more))
    assert 0 < share < 1 and then**2 / now**2 == pytest.approx(1 - share * 4 / 5)
    assert judge(units("a", "b"), evidence(a=0.5, b=0.4)).seed_share == 1  # all that is known


def test_a_pair_without_scores_has_no_verdict():
    """A missing model must not count as one that scores 0."""
    known = evidence(a=0.6, b=0.5)
    table = verdicts.compare([("a", "gone"), ("a", "b")], known).set_index("right")
    assert table.loc["gone", "verdict"] == NOT_RUN and np.isnan(table.loc["gone", "difference"])
    assert table.loc["b"].equals(verdicts.compare([("a", "b")], known).iloc[0][table.columns])


def test_a_statement_about_models_without_scores_is_refused():
    known = evidence(a=0.6, b=0.5, c=0.4)
    with pytest.raises(ValueError, match="no scores of 'typo'"):
        judge([[pair("a", "typo")]], known)


def test_a_model_that_guesses_is_not_above_chance(simulate):
    scores = simulate(np.random.default_rng(0), 3, effects=[0.0, -0.5, 0.25], seeds=1)
    above, guessing = (verdicts.mean_score(scores, [name])[1] for name in ("m0", "m1"))
    assert above > 0 > guessing
    # On a pair task, an accuracy of three in four is .5 of the way from chance to 1.
    score, low, high = verdicts.mean_score({"task 5": scores["task 5"]}, ["m0"])
    assert score == pytest.approx(0.5, abs=0.15) and low < score < high
    both = verdicts.mean_score(scores, ["m0", "m1"])[0]
    assert 2 * both == pytest.approx(
        sum(verdicts.mean_score(scores, [name])[0] for name in ("m0", "m1"))
    )
