"""Compares several models on one measure: values, intervals and differences from the first model.

The scores are those of single examples, from one run of each model. So the intervals account for
the choice of texts, but not for the choice of seeds.
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
VARIES = 1e-9  # smallest width of an interval that is not just rounding error


def measure_models(rows: pd.DataFrame) -> tuple[pd.DataFrame, Evidence]:
    """Compute values and intervals of models on one measure.

    Parameters
    ----------
    rows : DataFrame
        One row per model, the base first, with the columns model, task, `scores` (examples,), whose
        mean must be in [0, 1], and `groups` (examples,) or (examples, 2), as in `TaskScores`.

    Returns
    -------
    table
        One row per model: model, value, low, high, against_base, against_low, against_high and
        than_base, one of `WORDS`. The intervals (95%) are NaN where nothing varies.
    evidence
        The basis of further comparisons.
    """
    # These scores are not corrected for chance, and there is one run of each model.
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
    """Describe how each model compares with another one, in one of `WORDS`."""
    judged = verdicts.compare([(name, other) for name in models], evidence)
    varies = judged["high"] - judged["low"] > VARIES
    return judged["verdict"].where(varies, OPEN).map(WORDS)


def format_interval(value: float, low: float, high: float, sign: str = "") -> str:
    """Format a value with its interval, or alone if the bounds are NaN."""
    if pd.isna(low):
        return f"{value:{sign}.3f}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def format_table(table: pd.DataFrame, base: str) -> pd.DataFrame:
    """Format the rows of several measures: measure, examples, model, value, against base.

    table: rows of `measure_models`, with the additional columns measure and examples.
    """
    cells = table[["measure", "examples", "model"]].assign(
        value=[format_interval(*row) for row in table[["value", "low", "high"]].to_numpy()],
    )
    against = table[["against_base", "against_low", "against_high"]].to_numpy()
    cells["against base"] = [format_interval(value, low, high, "+") for value, low, high in against]
    cells.loc[table["model"] == base, "against base"] = ""
    return cells
