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
from lib.statistics.intervals import Evidence, from_examples, task_scores
from lib.vectors.names import BASE, ORDER, SIMPLEST_FIRST

FEW = 20  # fewer examples say little
VARIES = 1e-9  # smallest width of an interval that is not just rounding error
WORDS = {1: "WIN", 0: "EQUAL", -1: "LOSS"}
THAN_BASE = {
    verdicts.HOLDS: "better than",
    verdicts.REVERSED: "worse than",
    verdicts.EQUIVALENT: "as good as",
    verdicts.OPEN: "not distinguishable from",
}


COLUMNS = ["measure", "examples", "model", "value", "low", "high"]
COLUMNS += ["against_base", "against_low", "against_high", "than_base", "guessing"]


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
        return WORDS[int(self.low > 0) - int(self.high < 0)]

    @property
    def line(self) -> str:
        """The line for scripts: verdict, model, score, base, difference with its interval."""
        against = format_interval(self.difference, self.low, self.high, sign="+")
        parts = [self.verdict, self.model, f"{self.score:.3f}", f"{self.base:.3f}", against]
        return f"VERDICT: {' | '.join(parts)}"


def make_table(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Compare models on each measure: a row for each measure and model.

    Parameters
    ----------
    frames : sequence of DataFrame
        One for each measure, with a row for each model, the base among them: model, task, metric,
        `scores` and `groups` as in `TaskScores`, chance, examples (their number).

    Returns
    -------
    DataFrame
        measure, examples, model, value, low, high, against_base, against_low, against_high,
        than_base (one of `THAN_BASE`), guessing (the score of a random guess). Intervals (95%) are
        NaN if nothing varies.
    """
    tables = []
    for frame in frames:
        models = [*frame["model"]]
        tasks = task_scores(frame.assign(chance=0.0, seed=0))  # as they are: 0 is no guess
        table = verdicts.above_chance(tasks, models).rename(columns={"score": "value"})
        against = verdicts.compare([(name, BASE) for name in models], compare_all([frame], models))
        table["than_base"] = against["verdict"]
        table[["against_base", "against_low", "against_high"]] = against[
            ["difference", "low", "high"]
        ]
        for least, *bounds in ((0, "low", "high"), (-1, "against_low", "against_high")):
            varies = table[bounds[1]] - table[bounds[0]] > VARIES
            table[bounds] = table[bounds].clip(least, 1).where(varies)
        table["than_base"] = table["than_base"].where(varies, verdicts.OPEN).map(THAN_BASE)
        first = frame.iloc[0]
        facts = {"measure": _name_measure(frame), "examples": first["examples"]}
        tables.append(table.assign(**facts, guessing=first["chance"]))
    return pd.concat(tables, ignore_index=True)[COLUMNS]


def sort_models(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure in the order of the table."""
    return frame.sort_values("model", key=lambda names: names.map(ORDER.index), ignore_index=True)


def _name_measure(frame: pd.DataFrame) -> str:
    return f"{frame['task'].iloc[0]} {frame['metric'].iloc[0]}"


def choose_model(
    frames: Sequence[pd.DataFrame],
    asked: str | None = None,
    simplest_first: Sequence[str] = SIMPLEST_FIRST,
) -> Choice:
    """Choose a model: the best, or the simplest that cannot be distinguished from it.

    The best has the highest mean over all measures. The choice is the first of `simplest_first`
    whose difference from the best has a 95% interval that spans zero. TF-IDF is not among them,
    because its vectors are as long as the vocabulary. A model that is `asked` for is chosen
    whatever its scores; `ValueError` if it was not judged.
    """
    judged = set.intersection(*({*frame["model"]} for frame in frames))
    models = [model for model in simplest_first if model in judged]
    if asked is not None and asked not in models:
        lacking = [_name_measure(frame) for frame in frames if asked not in {*frame["model"]}]
        raise ValueError(
            f"{asked!r} cannot be used, because it was not judged by {', '.join(lacking)}; "
            f"models here: {', '.join(map(repr, models))}"
        )
    evidence = compare_all(frames, models)
    scores = dict(zip(evidence.means.index, evidence.scores.tolist(), strict=True))
    best = max(models, key=lambda model: scores[model])
    against = verdicts.compare([(best, model) for model in models], evidence)
    as_good = against["right"][~(against["low"] > VARIES)]  # NaN if nothing varies
    chosen = asked or as_good.iloc[0]
    low, high = _bound(models, scores, chosen, evidence)
    return Choice(chosen, scores[chosen], scores[BASE], scores[chosen] - scores[BASE], low, high)


def compare_all(frames: Sequence[pd.DataFrame], models: Sequence[str]) -> Evidence:
    """Evidence on the mean over all measures, which is not corrected for chance."""
    rows = pd.concat([frame[frame["model"].isin(models)] for frame in frames])
    rows = rows.assign(seed=0, chance=0.0, task=rows["task"] + " " + rows["metric"])
    return from_examples(task_scores(rows), given=models)


def _bound(
    models: Sequence[str], scores: dict[str, float], chosen: str, evidence: Evidence
) -> tuple[float, float]:
    """The interval of a difference from the base; it accounts for the choice among all models."""
    if chosen == BASE:
        return np.nan, np.nan
    against = verdicts.compare([(model, BASE) for model in models if model != BASE], evidence)
    others = against["left"][against["high"] - against["low"] > VARIES].tolist()
    if chosen not in others:  # its difference from the base is the same on every text
        return np.nan, np.nan
    rank = 1 + sum(scores[other] > scores[chosen] for other in others)
    judged = verdicts.judge([[pair(other, BASE)] for other in others], evidence, at_least=rank)
    return max(judged.low, -1.0), min(judged.high, 1.0)


def describe_table(table: pd.DataFrame) -> list[str]:
    """Remarks for readers of the table, on measures with few examples or no model above chance."""
    lines = []
    for measure, rows in table.groupby("measure", sort=False):
        count = int(rows["examples"].iloc[0])
        if count < FEW:
            lines.append(f"{measure}: fewer than {FEW} examples ({count}) say little")
        if not is_told(rows):
            lines.append(f"{measure}: no model is above guessing ({rows['guessing'].iloc[0]:.2f})")
    return lines


def is_told(rows: pd.DataFrame) -> bool:
    """Whether the interval of some model of a measure is above the score of a random guess."""
    return bool((rows["low"].fillna(rows["value"]) > rows["guessing"]).any())


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
