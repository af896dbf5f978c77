"""The table of models, the choice of one, and the verdict on it against the base."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lib.statistics import verdicts
from lib.statistics.effects import pair
from lib.statistics.intervals import Evidence, from_examples, task_scores
from lib.statistics.measures import VARIES, format_interval, measure_models
from lib.vectors.names import BASE, ORDER, SIMPLEST_FIRST

FEW = 20  # fewer examples say little
WORDS = {1: "WIN", 0: "EQUAL", -1: "LOSS"}


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
        sign = int(self.low > 0) - int(self.high < 0)
        return WORDS[sign]

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers by name; unknown ones are NaN."""
        return {name: value for name, value in vars(self).items() if name != "model"}

    @property
    def line(self) -> str:
        """The line for scripts: verdict, model, score, base, difference with its interval."""
        against = format_interval(self.difference, self.low, self.high, sign="+")
        parts = [self.verdict, self.model, f"{self.score:.3f}", f"{self.base:.3f}", against]
        return f"VERDICT: {' | '.join(parts)}"


def make_table(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """A row for each measure and model, as in `measure_models`.

    Further columns: measure, examples, guessing (the score of a random guess).
    """
    tables = []
    for frame in frames:
        rows = frame.set_index("model").reindex([m for m in ORDER if m in {*frame["model"]}])
        rows = rows.reset_index()
        table, _ = measure_models(rows)
        first = rows.iloc[0]
        facts = {"measure": _name_measure(rows), "examples": first["examples"]}
        tables.append(table.assign(**facts, guessing=first["chance"]))
    columns = ["measure", "examples", "model", "value", "low", "high"]
    columns += ["against_base", "against_low", "against_high", "than_base", "guessing"]
    return pd.concat(tables, ignore_index=True)[columns]


def _name_measure(frame: pd.DataFrame) -> str:
    return f"{frame['task'].iloc[0]} {frame['metric'].iloc[0]}"


def choose_model(frames: Sequence[pd.DataFrame], asked: str | None = None) -> Choice:
    """Choose a model: the best, or the simplest that cannot be distinguished from it.

    The best has the highest mean over all measures. The choice is the first of `SIMPLEST_FIRST`
    whose difference from the best has a 95% interval that spans zero. TF-IDF is never chosen,
    because its vectors are as long as the vocabulary.

    Parameters
    ----------
    frames : sequence of DataFrame
        As `judging` returns them, one for each measure.
    asked : str, optional
        A model to choose whatever its scores.

    Raises
    ------
    ValueError
        If the model that is asked for was not judged.
    """
    models = _list_candidates(frames)
    if asked is not None and asked not in models:
        lacking = [_name_measure(frame) for frame in frames if asked not in {*frame["model"]}]
        told = f"{asked!r} cannot be used, because it was not judged by {', '.join(lacking)}"
        raise ValueError(f"{told}; models here: {', '.join(map(repr, models))}")
    evidence = compare_all(frames, models)
    scores = dict(zip(evidence.means.index, evidence.scores.tolist(), strict=True))
    chosen = asked or _choose_simplest(models, scores, evidence)
    difference = scores[chosen] - scores[BASE]
    low, high = _bound(models, scores, chosen, evidence)
    return Choice(chosen, scores[chosen], scores[BASE], difference, low, high)


def compare_all(frames: Sequence[pd.DataFrame], models: Sequence[str]) -> Evidence:
    """Evidence on the mean over all measures."""
    rows = pd.concat([frame[frame["model"].isin(models)] for frame in frames])
    rows = rows.assign(seed=0, chance=0.0, task=rows["task"] + " " + rows["metric"])
    return from_examples(task_scores(rows), given=models)


def _list_candidates(frames: Sequence[pd.DataFrame]) -> list[str]:
    judged = set.intersection(*({*frame["model"]} for frame in frames))
    return [model for model in SIMPLEST_FIRST if model in judged]


def _choose_simplest(models: Sequence[str], scores: dict[str, float], evidence: Evidence) -> str:
    best = max(models, key=lambda model: scores[model])
    for model in models:
        if model == best:
            return model
        (judged,) = verdicts.compare([(best, model)], evidence).itertuples()
        if not judged.low > VARIES:  # NaN if nothing varies
            return model
    return best


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
        guessing = rows["guessing"].iloc[0]
        if (rows["low"].fillna(rows["value"]) <= guessing).all():
            lines.append(f"{measure}: no model is above guessing ({guessing:.2f})")
    return lines


def list_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The table as plain values; None if there is no interval."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
