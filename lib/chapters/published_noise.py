"""How far a published accuracy of Chapters 4 and 5 may be off, the yardstick for its findings."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import published
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import SeedNoise

# Section 4.5.3: the first sums the losses, the second halves the sum, which AdamW hardly notices.
RERUN = ("no-weighting", "None;λ=0.5")
# Two models disagree on about half as many examples as if their errors were independent.
DISAGREEMENT = 0.5


def tabulate_reruns() -> pd.DataFrame:
    """Both pairs of near re-runs, chance-corrected: label of figure, task, first, second, gap."""
    frames = [published.load(figure).assign(label=figure) for figure in published.WEIGHTINGS]
    scores = pd.concat(frames).rename(columns={"accuracy": "value"}).assign(score=chance_corrected)
    table = scores.pivot(index=["label", "task"], columns="model", values="score")
    table = table[[*RERUN]].set_axis(["first", "second"], axis=1)
    return table.assign(gap=table["first"] - table["second"]).reset_index()


def measure_rerun_noise(*, without: str = "") -> SeedNoise:
    """How far a published run may be off on one task, from re-runs but those of `without`."""
    gaps = tabulate_reruns().loc[lambda table: table["label"] != without, "gap"]
    return SeedNoise.from_gaps(gaps)


def measure_test_noise(figure: str, weights: Mapping[str, float]) -> float:
    """How far a published score may be off because other test examples might have been drawn.

        variance = sum over tasks of weight^2 DISAGREEMENT a (1 - a) / (examples (1 - chance)^2)

    a is the mean accuracy of the figure's models; each of two gets half of their difference's.
    """
    tasks = published.load(figure).groupby("task")
    accuracy, examples, chance = (tasks[name].mean() for name in ("accuracy", "examples", "chance"))
    weight = pd.Series(weights).reindex(accuracy.index).fillna(0.0)
    variances = DISAGREEMENT * accuracy * (1 - accuracy) / examples / (1 - chance) ** 2
    return float(np.sqrt((weight**2 * variances).sum()))


def measure_published_noise(
    figure: str, weights: Mapping[str, float] | None = None, *, without: str = ""
) -> SeedNoise:
    """How far a published score may be off: the variances of re-runs and of test examples add up.

    This errs on the safe side, as re-runs contain part of the second, which is taken as known in
    Satterthwaite's degrees of freedom. `weights` are those of a score's tasks, by default equal.
    """
    tasks = published.load(figure)["task"].unique()
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    rerun = measure_rerun_noise(without=without)
    seeds = sum(weight**2 for weight in weights.values()) * rerun.sd**2
    both = seeds + measure_test_noise(figure, weights) ** 2
    return SeedNoise(float(np.sqrt(both)), float(both**2 / (seeds**2 / rerun.df)))
