"""How good each of several models is on one measure: values, intervals, differences to the first.

Scores are those of single examples of one run of each model, so the intervals are about other
texts, and say nothing of other seeds.
"""

from collections.abc import Sequence

import pandas as pd

from lib.statistics import verdicts
from lib.statistics.intervals import Evidence, from_examples, task_scores
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED

WORDS = {
    HOLDS: "better than",
    REVERSED: "worse than",
    EQUIVALENT: "as good as",
    OPEN: "not distinguishable from",
}
VARIES = 1e-9  # the width of an interval, at least: rounding is no variance


def measure_models(rows: pd.DataFrame) -> tuple[pd.DataFrame, Evidence]:
    """Values and intervals of models on one measure.

    Parameters
    ----------
    rows : DataFrame
        A row for each model, the base first: model, task, `scores` (examples,) in [0, 1] or with
        such a mean, `groups` (examples,) or (examples, 2), what examples share.

    Returns
    -------
    table
        A row for each model: model, value, low, high, against_base, against_low, against_high and
        than_base, one of `WORDS`. Intervals (95%) are NaN where nothing varies.
    evidence
        What further comparisons are made of.
    """
    # Chance is no part of these scores, and one run of each model says nothing about seeds.
    tasks, models = task_scores(rows.assign(chance=0.0, seed=0)), [*rows["model"]]
    table = verdicts.above_chance(tasks, models).rename(columns={"score": "value"})
    evidence = from_examples(tasks, given=models)
    against = verdicts.compare([(name, models[0]) for name in models], evidence)
    columns = {"difference": "against_base", "low": "against_low", "high": "against_high"}
    table[[*columns.values()]] = against[[*columns]]
    table["than_base"] = describe_verdicts(models, models[0], evidence)
    for least, low, high in ((0, "low", "high"), (-1, "against_low", "against_high")):
        bounds = [low, high]
        table.loc[~(table[high] - table[low] > VARIES), bounds] = None
        table[bounds] = table[bounds].clip(least, 1)
    return table.drop(columns="passed"), evidence


def describe_verdicts(models: Sequence[str], other: str, evidence: Evidence) -> pd.Series:
    """What each model is in comparison with another one, one of `WORDS`."""
    judged = verdicts.compare([(name, other) for name in models], evidence)
    varies = judged["high"] - judged["low"] > VARIES
    return judged["verdict"].where(varies, OPEN).map(WORDS)


def format_interval(value: float, low: float, high: float, sign: str = "") -> str:
    """A value with its interval as people read it; without one where nothing varies."""
    if pd.isna(low):
        return f"{value:{sign}.3f}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def format_table(table: pd.DataFrame, base: str) -> pd.DataFrame:
    """Rows of several measures as people read them: measure, examples, model, value, against base.

    table: as of `measure_models`, with the columns measure and examples.
    """
    cells = table[["measure", "examples", "model"]].assign(
        value=[format_interval(*row) for row in table[["value", "low", "high"]].to_numpy()],
    )
    against = table[["against_base", "against_low", "against_high"]].to_numpy()
    cells["against base"] = [format_interval(value, low, high, "+") for value, low, high in against]
    cells.loc[table["model"] == base, "against base"] = ""
    return cells
