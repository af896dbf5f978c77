"""Effects: chance-corrected accuracies of single runs, and weighted differences of their means."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Comparison:
    """A weighted difference of scores: sum_m plus_m score_m - sum_m minus_m score_m + offset."""

    plus: Mapping[str, float]
    minus: Mapping[str, float]
    left: str  # what the sides are called
    right: str
    offset: float = 0.0

    @property
    def weights(self) -> dict[str, float]:
        """Model -> weight; the weights of a model on both sides are subtracted."""
        names = dict.fromkeys([*self.plus, *self.minus])
        return {name: self.plus.get(name, 0.0) - self.minus.get(name, 0.0) for name in names}

    def turned(self) -> "Comparison":
        """The same difference with its sides exchanged."""
        return Comparison(self.minus, self.plus, self.right, self.left, -self.offset)


def pair(better: str, worse: str) -> Comparison:
    """Compare one model with another."""
    return Comparison({better: 1.0}, {worse: 1.0}, better, worse)


def chance_corrected(records: pd.DataFrame) -> pd.Series:
    """Rescale the column value so that guessing (chance) gives 0 and a perfect model 1."""
    return (records["value"] - records["chance"]) / (1 - records["chance"])


def corrected_runs(scores: pd.DataFrame) -> pd.DataFrame:
    """Chance-corrected accuracies, (model, seed) x task; `ValueError` for a repeated run."""
    corrected = scores.assign(score=chance_corrected)
    return corrected.pivot(index=["model", "seed"], columns="task", values="score")
