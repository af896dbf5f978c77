"""Null data through the whole engine: how often its words are wrong, and whether it says anything.

Rates of n verdicts have a Monte Carlo error of sqrt(rate (1 - rate) / n), .010 at 5 % for 450. A
test fails beyond 5 % plus two such errors. Everything is seeded. With 3000 verdicts no effect was
called one in .013 to .049 of them, by setting.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from lib.ledger.kinds import KINDS
from lib.statistics.effects import pair
from lib.statistics.intervals import PROCESSOR_SD, SeedNoise, from_examples
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED, judge

MODELS = [f"m{number}" for number in range(40)]
# Six comparisons that have no model in common: six verdicts from one simulated data set.
PAIRS = [partial(judge, [[pair(*MODELS[number : number + 2])]]) for number in range(0, 12, 2)]
ONE_OF_37 = [partial(judge, [[pair("m0", name)] for name in MODELS[1:37]])]
RIVALS = [[pair(one, other) for other in MODELS[4:9]] for one in MODELS[:4]]
BEST = [partial(judge, RIVALS, at_least=1)]  # of one group against the best of another
FOUR_OF_EIGHT = [partial(judge, [[pair(name, "m0")] for name in MODELS[1:9]], at_least=4)]
FIELDS = dict.fromkeys(("id", "section", "figure", "finding", "quote"), "x") | {"kind": "spread"}
SPREAD = KINDS["spread"](**FIELDS, wider=MODELS[:9], narrower=MODELS[9:15])
SPREADS = [partial(SPREAD.judge_scores, models=MODELS)]
EQUAL = [np.linspace(-1, 1, count) for count in (9, 6)]
EQUAL = np.concatenate([0.05 * shape / shape.std(ddof=1) for shape in EQUAL])
# Chapter 4's validation examples, 13 articles of a task; students of one kind and of two kinds.
CLOSE_MINI = {"articles": 13, "examples": 450}
UNLIKE_MINI = CLOSE_MINI | {"article": 0.02}
HEAVY = {"article": 0.3, "example": 0.1, "interaction": 0.1}
# as one model on texts cut or whole
CLOSE = {"article": 0.0, "example": 0.004, "interaction": 0.004, "seed_sd": 0.003}
# judged, data sets, settings: nothing has an effect
NULL = {
    "mini, close": (PAIRS, 75, CLOSE_MINI),
    "mini, unlike": (PAIRS, 75, UNLIKE_MINI),
    "mini, heavy": (PAIRS, 75, CLOSE_MINI | HEAVY),
    "ragged": (PAIRS, 75, HEAVY | {"ragged": True}),
    "20 articles": (PAIRS, 75, HEAVY | {"articles": 20}),
    "own articles": (PAIRS, 75, HEAVY | {"articles": 8, "shared": False}),
    "1 seed": (PAIRS, 75, {"seeds": [1, 1, 1, 3, 3, 3] * 2}),
    "seed": (PAIRS, 75, {"seed_sd": 0.02}),
    "one of 37": (ONE_OF_37, 100, {"models": 37, "seeds": [3] * 4 + [1] * 33, "examples": 60}),
    "best of a group": (BEST, 120, {"models": 9, "examples": 100}),
    "no spread": (SPREADS, 100, {"models": 15, "examples": 60, "effects": 0 * EQUAL}),
    "equal spreads": (SPREADS, 100, {"models": 15, "examples": 60, "effects": EQUAL}),
}
# judged, effects, word
POWER = {
    "best": (BEST, [0, 0, 0, 0.15] + [0] * 5, HOLDS),
    "best of the others": (BEST, [0] * 8 + [0.15], REVERSED),
    "four of eight": (FOUR_OF_EIGHT, [0] + [0.2] * 4 + [0] * 4, HOLDS),
}


def rates(simulate, judged, datasets, *, models=12, **settings):
    """Word -> share of verdicts. judged: functions from evidence to judgement."""
    rng = np.random.default_rng(0)
    data = (from_examples(simulate(rng, models, **settings)) for _ in range(datasets))
    words = [verdict(evidence).verdict for evidence in data for verdict in judged]
    return {word: words.count(word) / len(words) for word in (HOLDS, REVERSED, EQUIVALENT, OPEN)}


def limit(judged):
    return 0.05 + 2 * np.sqrt(0.05 * 0.95 / judged)


@pytest.mark.parametrize(("judged", "datasets", "settings"), NULL.values(), ids=NULL)
def test_no_effect_is_seldom_called_one(simulate, judged, datasets, settings):
    found = rates(simulate, judged, datasets, **settings)
    assert found[HOLDS] + found[REVERSED] <= limit(datasets * len(judged)), found
    assert judged is not PAIRS or found[HOLDS] + found[REVERSED] >= 0.01, "calibrated, not mute"


@pytest.mark.parametrize(("judged", "effects", "word"), POWER.values(), ids=POWER)
def test_a_large_effect_is_found_among_many(simulate, judged, effects, word):
    assert rates(simulate, judged, 25, models=9, effects=effects)[word] >= 0.8


def test_the_fourth_best_of_eight_is_the_best_of_five_without_effect(simulate):
    settings = {"models": 9, "examples": 100, "effects": [0] + [0.2] * 3 + [0] * 5}
    assert rates(simulate, FOUR_OF_EIGHT, 150, **settings)[HOLDS] <= limit(150)


def test_another_processor_turns_few_verdicts_on_no_effect(simulate):
    """Close models with many examples: seeds and texts alone would call the processor an effect."""
    rng, words = np.random.default_rng(0), {True: [], False: []}
    settings = CLOSE | {"processor_sd": PROCESSOR_SD["thesis"], "seed_sd": 0.001, "examples": 1500}
    for _ in range(50):
        data = simulate(rng, 12, seeds=1, **settings)
        for counted, each in words.items():
            evidence = from_examples(data, processor_sd=PROCESSOR_SD["thesis"] * counted)
            evidence = replace(evidence, noise={"": SeedNoise(0.001, 12)})
            each += [verdict(evidence).verdict in (HOLDS, REVERSED) for verdict in PAIRS]
    assert np.mean(words[True]) <= limit(300) < np.mean(words[False])


def test_a_difference_as_large_as_the_margin_is_seldom_called_none(simulate):
    wrong = rates(simulate, PAIRS, 50, effects=[0.02, 0] * 6, **CLOSE)
    right = rates(simulate, PAIRS, 10, **CLOSE)
    assert wrong[EQUIVALENT] <= limit(300) and right[EQUIVALENT] >= 0.5, (wrong, right)
