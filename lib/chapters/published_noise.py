"""How far a published accuracy of Chapters 4 and 5 may be off, the yardstick for its findings."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import published
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import SeedNoise

# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves the sum. For AdamW, which is nearly
# invariant to the scale of a loss, these are two runs of one model.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
# Two models disagree on about half as many examples as if their errors were independent. Ours, with
# heads of 3,130 steps, disagree on .29 to .57 of that by task (two seeds of one model: .19 to .43).
DISAGREEMENT = 0.5


def tabulate_reruns() -> pd.DataFrame:
    """The thesis' own yardstick: its two pairs of near re-runs, task by task.

    Columns: label (the figure), task, first and second (chance-corrected accuracies of
    `no-weighting` and `None;λ=0.5`), gap (first - second).
    """
    frames = [published.load(figure).assign(label=figure) for figure, *_ in RERUNS]
    scores = pd.concat(frames).rename(columns={"accuracy": "value"}).assign(score=chance_corrected)
    table = scores.pivot(index=["label", "task"], columns="model", values="score")
    table = table[[*RERUNS[0][1:]]].set_axis(["first", "second"], axis=1)
    return table.assign(gap=table["first"] - table["second"]).reset_index()


def measure_rerun_noise(*, without: str = "") -> SeedNoise:
    """How far a published run may be off on one task, from the pairs of near re-runs.

        sd^2 = mean over pairs and tasks of gap^2 / 2

    The twelve gaps of `tabulate_reruns` give .0138. A mean over six tasks is then off by .0056; the
    gaps of the two means give .0061, so tasks vary nearly independently. The pair of the figure
    `without` is left out, for claims about that pair itself.
    """
    table = tabulate_reruns()
    gaps = table.loc[table["label"] != without, "gap"]
    return SeedNoise(float(np.sqrt((gaps**2).mean() / 2)), len(gaps))


def measure_test_noise(figure: str, weights: Mapping[str, float]) -> float:
    """How far a published score may be off because other test examples might have been drawn.

        variance = sum over tasks of weight^2 D / 2 / (examples (1 - chance)^2)
        D = DISAGREEMENT * 2 a (1 - a)

    a is the mean accuracy of the figure's models on the task. They share its examples, so their
    difference depends only on the share D on which two disagree; each gets half of the variance.
    Near re-runs already contain part of it, so the sum of both errs on the safe side.
    """
    tasks = published.load(figure).groupby("task")
    accuracy, examples, chance = (tasks[name].mean() for name in ("accuracy", "examples", "chance"))
    weight = pd.Series(weights).reindex(accuracy.index).fillna(0.0)
    variances = DISAGREEMENT * accuracy * (1 - accuracy) / examples / (1 - chance) ** 2
    return float(np.sqrt((weight**2 * variances).sum()))


def measure_published_noise(
    figure: str, weights: Mapping[str, float] | None = None, *, without: str = ""
) -> SeedNoise:
    """How far a published score may be off: `measure_rerun_noise` and `measure_test_noise`.

    The variances add up, with degrees of freedom by Satterthwaite's formula (that of test examples
    is taken as known). For the mean over the six tasks of Figure 4.3 the standard deviation is
    .0065 with 21 degrees of freedom, so two models differ if they are .0190 apart. `weights` are
    those of the figure's tasks in the score, by default equal.
    """
    tasks = published.load(figure)["task"].unique()
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    rerun = measure_rerun_noise(without=without)
    seeds = sum(weight**2 for weight in weights.values()) * rerun.sd**2
    texts = measure_test_noise(figure, weights) ** 2
    df = (seeds + texts) ** 2 / (seeds**2 / rerun.df)
    return SeedNoise(float(np.sqrt(seeds + texts)), float(df))
