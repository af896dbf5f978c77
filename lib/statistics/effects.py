"""Effects: normalised accuracies of single runs, and weighted differences of their means."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from lib.evaluation.metrics import normalized_accuracy


@dataclass(frozen=True)
class Comparison:
    """sum_m plus_m score_m - sum_m minus_m score_m + offset; left and right name the sides."""

    plus: Mapping[str, float]
    minus: Mapping[str, float]
    left: str
    right: str
    offset: float = 0.0

    @property
    def weights(self) -> dict[str, float]:
        """Model -> weight; a model on both sides cancels."""
        names = dict.fromkeys([*self.plus, *self.minus])
        return {name: self.plus.get(name, 0.0) - self.minus.get(name, 0.0) for name in names}

    @property
    def turned(self) -> "Comparison":
        """The same difference from the other side."""
        return Comparison(self.minus, self.plus, self.right, self.left, -self.offset)


def pair(better: str, worse: str) -> Comparison:
    """One model against another."""
    return Comparison({better: 1.0}, {worse: 1.0}, better, worse)


def chance_corrected(records: pd.DataFrame) -> pd.Series:
    """Accuracy on a scale from guessing, 0, to 1. records: columns value and chance."""
    return (records["value"] - records["chance"]) / (1 - records["chance"])


def best_means(scores: pd.DataFrame) -> dict[str, float]:
    """Task -> its best model's mean over seeds. scores: columns model, task, seed, value."""
    return scores.groupby(["task", "model"])["value"].mean().groupby("task").max().to_dict()


def normalized_runs(
    scores: pd.DataFrame, *, best: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Normalised accuracy of every run: a (model, seed) x task table (thesis Section 4.2).

    Parameters
    ----------
    scores
        Columns model, task, seed, value.
    best
        The best value of each task, by default the `best_means` of `scores`.

    Raises
    ------
    ValueError
        If a run is listed twice or lacks a task, or a value is no accuracy.
    """
    frame = normalized_accuracy(
        scores.rename(columns={"value": "accuracy"}), best=best or best_means(scores)
    )
    runs = frame.pivot(index=["model", "seed"], columns="task", values="normalized")
    values = runs.stack(future_stack=True)
    for model, seed, task in values.index[values.isna()]:
        raise ValueError(
            f"model {model!r}, seed {seed} has no value for task {task!r}; means would not compare"
        )
    return runs


def neighbours(means: pd.Series) -> pd.DataFrame:
    """Each model and the next one in a ranking, best first: columns better, worse, gap."""
    ranked = means.sort_values(ascending=False, kind="stable")
    gaps = ranked.to_numpy()[:-1] - ranked.to_numpy()[1:]
    return pd.DataFrame({"better": ranked.index[:-1], "worse": ranked.index[1:], "gap": gaps})
