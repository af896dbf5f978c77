"""The table of models, the choice of one, and the verdict on it against the base.

Scores are those of single examples, from one run of each model. So intervals account for other
texts, not for other seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.statistics import verdicts
from lib.statistics.effects import pair
from lib.statistics.intervals import TaskScores, from_examples, task_scores
from lib.vectors.names import BASE, SIMPLEST_FIRST

VARIES = 1e-9  # smallest width of an interval that is not just rounding error
THAN_BASE = {
    verdicts.HOLDS: "better than",
    verdicts.REVERSED: "worse than",
    verdicts.EQUIVALENT: "as good as",
    verdicts.OPEN: "not distinguishable from",
}
# `guessing` is the score of a random guess; intervals (95%) are NaN if nothing varies.
COLUMNS = (
    "measure examples model value low high against_base against_low against_high than_base guessing"
).split()


@dataclass(frozen=True)
class Choice:
    """The chosen model, and how it compares with the base on the mean over all measures.

    `low` and `high` bound the difference (95% interval); they are NaN if nothing varies.
    """

    model: str
    score: float
    base: float
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """ "WIN" or "LOSS" if the interval lies above or below 0, else "EQUAL"."""
        return "WIN" if self.low > 0 else "LOSS" if self.high < 0 else "EQUAL"

    @property
    def line(self) -> str:
        """The line for scripts: verdict, model, score, base, difference with its interval."""
        against = format_interval(self.difference, self.low, self.high, sign="+")
        parts = [self.verdict, self.model, f"{self.score:.3f}", f"{self.base:.3f}", against]
        return f"VERDICT: {' | '.join(parts)}"


def read_scores(frames: Sequence[pd.DataFrame]) -> dict[str, TaskScores]:
    """{measure: scores}, which are not corrected for chance."""
    rows = pd.concat(frames)
    measures = rows["task"] + " " + rows["metric"]
    return task_scores(rows.assign(task=measures, seed=0, chance=0.0))


def make_table(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Compare models on each measure: a row of `COLUMNS` for each measure and model.

    There is a frame for each measure, with a row for each model, the base among them: model, task,
    metric, `scores` and `groups` as in `TaskScores`, chance, examples (their number).
    """
    tables = []
    for frame in frames:
        models, scores = [*frame["model"]], read_scores([frame])
        table = verdicts.above_chance(scores, models).rename(columns={"score": "value"})
        evidence = from_examples(scores, given=models)
        against = verdicts.compare([(model, BASE) for model in models], evidence)
        table["against_base"] = against["difference"]
        table[["against_low", "against_high"]] = against[["low", "high"]]
        for least, *bounds in ((0, "low", "high"), (-1, "against_low", "against_high")):
            varies = table[bounds[1]] - table[bounds[0]] > VARIES
            table[bounds] = table[bounds].clip(least, 1).where(varies)
        table["than_base"] = against["verdict"].where(varies, verdicts.OPEN).map(THAN_BASE)
        first = frame.iloc[0]
        facts = {"measure": next(iter(scores)), "examples": first["examples"]}
        tables.append(table.assign(**facts, guessing=first["chance"]))
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def choose_model(
    frames: Sequence[pd.DataFrame],
    asked: str | None = None,
    simplest_first: Sequence[str] = SIMPLEST_FIRST,
) -> Choice:
    """Choose a model: the best, or the simplest that cannot be distinguished from it.

    The best has the highest mean over all measures. The choice is the first of `simplest_first`
    whose difference from the best has a 95% interval that spans zero. TF-IDF is not among them,
    because its vectors are as long as the vocabulary. A model that is `asked` for is chosen
    whatever its scores; `ValueError` if some measure did not judge it. The interval of the
    difference from the base accounts for the choice among all models.
    """
    judged = set.intersection(*({*frame["model"]} for frame in frames))
    models = [model for model in simplest_first if model in judged]
    if asked is not None and asked not in models:
        raise ValueError(f"{asked!r} was not judged by every measure; models here: {models}")
    rows = [frame[frame["model"].isin(models)] for frame in frames]
    evidence = from_examples(read_scores(rows), given=models)
    scores = dict(zip(evidence.means.index, evidence.scores.tolist(), strict=True))
    best = max(models, key=lambda model: scores[model])
    against = verdicts.compare([(best, model) for model in models], evidence)
    as_good = against["right"][~(against["low"] > VARIES)]  # NaN if nothing varies
    chosen = asked or as_good.iloc[0]
    against = verdicts.compare([(model, BASE) for model in models], evidence)
    others = against["left"][against["high"] - against["low"] > VARIES].tolist()
    low = high = np.nan
    if chosen in others:  # it is neither the base nor as far from it on every text
        rank = 1 + sum(scores[other] > scores[chosen] for other in others)
        judgement = verdicts.judge([[pair(each, BASE)] for each in others], evidence, at_least=rank)
        low, high = max(judgement.low, -1.0), min(judgement.high, 1.0)
    return Choice(chosen, scores[chosen], scores[BASE], scores[chosen] - scores[BASE], low, high)


def is_told(rows: pd.DataFrame) -> bool:
    """Whether the interval of some model of a measure is above the score of a random guess."""
    return bool((rows["low"].fillna(rows["value"]) > rows["guessing"]).any())


def describe_table(table: pd.DataFrame) -> list[str]:
    """A remark on each measure by which no model is above guessing."""
    return [
        f"{measure}: no model is above guessing ({rows['guessing'].iloc[0]:.2f})"
        for measure, rows in table.groupby("measure", sort=False)
        if not is_told(rows)
    ]


def format_interval(value: float, low: float, high: float, sign: str = "") -> str:
    """Format a value with its interval, or alone if the bounds are NaN."""
    if pd.isna(low):
        return f"{value:{sign}.3f}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Format the table for reading: measure, examples, model, value, against base."""
    cells = table[["measure", "examples", "model"]].copy()
    cells["value"] = [format_interval(*row) for row in table[["value", "low", "high"]].to_numpy()]
    against = table[["against_base", "against_low", "against_high"]].to_numpy()
    cells["against base"] = [format_interval(*row, sign="+") for row in against]
    cells.loc[table["model"] == BASE, "against base"] = ""
    return cells
