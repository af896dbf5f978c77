"""The table of models, the choice of one, and the verdict on it against the base.

Scores are those of single examples, from one run of each model. So intervals account for other
texts, not for other seeds.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.statistics import verdicts
from lib.statistics.effects import pair
from lib.statistics.intervals import TaskScores, from_examples
from lib.vectors.judging import Measure
from lib.vectors.names import BASE, SIMPLEST_FIRST

VARIES = 1e-9  # smallest width of an interval that is not just rounding error
# `guessing` is the score of a random guess; intervals (95%) are NaN if nothing varies.
COLUMNS = (
    "measure examples guessing model value low high against_base against_low against_high".split()
)


def make_table(measures: Sequence[Measure]) -> pd.DataFrame:
    """Compare models, the base among them: a row of `COLUMNS` for each measure and model."""
    tables = []
    for measure in measures:
        models, scores = [*measure.scores], _read_scores([measure], measure.scores)
        table = verdicts.above_chance(scores, models).rename(columns={"score": "value"})
        evidence = from_examples(scores, given=models)
        against = verdicts.compare([(model, BASE) for model in models], evidence)
        table["against_base"] = against["difference"]
        table[["against_low", "against_high"]] = against[["low", "high"]]
        for least, *bounds in ((0, "low", "high"), (-1, "against_low", "against_high")):
            varies = table[bounds[1]] - table[bounds[0]] > VARIES
            table[bounds] = table[bounds].clip(least, 1).where(varies)
        facts = {"measure": measure.name, "examples": measure.examples, "guessing": measure.chance}
        tables.append(table.assign(**facts))
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def choose_model(measures: Sequence[Measure], asked: str | None = None) -> dict[str, Any]:
    """Choose a model: the best, or the simplest that cannot be distinguished from it.

    The best has the highest mean over all measures. The choice is the first of `SIMPLEST_FIRST`
    whose difference from the best has a 95% interval that spans zero. TF-IDF is not among them,
    because its vectors are as long as the vocabulary. A model that is `asked` for is chosen
    whatever its scores; `ValueError` if some measure did not judge it. Returns `describe_choice`,
    with an interval that accounts for the choice among all models.
    """
    judged = set.intersection(*({*measure.scores} for measure in measures))
    models = [model for model in SIMPLEST_FIRST if model in judged]
    if asked is not None and asked not in models:
        raise ValueError(f"{asked!r} was not judged by every measure; models here: {models}")
    evidence = from_examples(_read_scores(measures, models), given=models)
    means = dict(zip(evidence.means.index, evidence.scores.tolist(), strict=True))
    best = max(models, key=lambda model: means[model])
    against = verdicts.compare([(best, model) for model in models], evidence)
    as_good = against["right"][~(against["low"] > VARIES)]  # NaN if nothing varies
    chosen = asked or as_good.iloc[0]
    against = verdicts.compare([(model, BASE) for model in models], evidence)
    others = against["left"][against["high"] - against["low"] > VARIES].tolist()
    low = high = np.nan
    if chosen in others:  # it is neither the base nor as far from it on every text
        rank = 1 + sum(means[other] > means[chosen] for other in others)
        judgement = verdicts.judge([[pair(each, BASE)] for each in others], evidence, at_least=rank)
        low, high = max(judgement.low, -1.0), min(judgement.high, 1.0)
    return describe_choice(chosen, means[chosen], means[BASE], low, high)


def describe_choice(
    model: str,
    score: float = np.nan,
    base: float = np.nan,
    low: float = np.nan,
    high: float = np.nan,
) -> dict[str, Any]:
    """The chosen model and the base on the mean over all measures, and their difference.

    `low` and `high` bound it (95% interval); they are NaN if nothing varies. `verdict` is "WIN" or
    "LOSS" if the interval lies above or below 0, else "EQUAL". `line` says all of it to scripts.
    """
    verdict = "WIN" if low > 0 else "LOSS" if high < 0 else "EQUAL"
    interval = "" if np.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
    numbers = f"{score:.3f} | {base:.3f} | {score - base:+.3f}{interval}"
    choice = {"verdict": verdict, "model": model, "score": score, "base": base}
    choice |= {"difference": score - base, "low": low, "high": high}
    return choice | {"line": f"VERDICT: {verdict} | {model} | {numbers}"}


def _read_scores(measures: Iterable[Measure], models: Iterable[str]) -> dict[str, TaskScores]:
    """{measure: scores of models}, which are not corrected for chance."""
    return {
        each.name: TaskScores({name: each.scores[name][None] for name in models}, each.groups, 0.0)
        for each in measures
    }
