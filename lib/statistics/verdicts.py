"""From effects and noise to a verdict: the one rule for published numbers and ours, in notebooks, ledger and report.

    effect > needed: holds      effect < -needed: does not hold      else: not distinguishable

`needed` is the least difference between two single runs that counts, times the comparison's norm. Where no noise is
known, the interval takes its place: it must exclude zero.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.statistics import intervals
from lib.statistics.effects import Comparison
from lib.statistics.intervals import SeedNoise

HOLDS, FAILS, UNCLEAR, NOT_RUN = "holds", "does not hold", "not distinguishable", "not run"


class Judgement(NamedTuple):
    """The comparison that decides, and what decides it.

    effect: in normalised score, positive as claimed. low, high: its 95 % bootstrap interval. needed: NaN if no noise is
    known. p_tasks: sign-flip test over tasks. p_seeds: t test against the seed noise. seeds: how many the compared
    models have. decided_by, arithmetic: the comparison in words and in numbers.
    """

    effect: float
    low: float
    high: float
    needed: float
    verdict: str
    p_tasks: float
    p_seeds: float
    seeds: str
    decided_by: str
    arithmetic: str

    @property
    def exceeds(self) -> bool | None:
        """Whether the effect, whatever its sign, is more than noise; None if that is unknown."""
        return exceeds(self.effect, self.needed)

    @property
    def as_stated(self) -> str:
        """The verdict on numbers that a text reads by their sign alone: its direction, and whether it is noise."""
        direction = HOLDS if self.effect > 0 else FAILS
        return direction + {True: "", False: " within noise", None: ", noise unknown"}[self.exceeds]


def judge(
    comparisons: Sequence[Comparison],
    runs: Mapping[str, np.ndarray],
    *,
    least_difference: float | None,
    noise: SeedNoise | None = None,
) -> Judgement:
    """The verdict on a claim whose comparisons must all be positive: that of the one that holds least.

    Args:
        runs: model -> (seeds, tasks), scores.
        least_difference: what counts between two single runs; None if unknown.
        noise: the seed noise behind it, for `p_seeds`.
    """
    means = pd.Series({name: values.mean() for name, values in runs.items()})
    effects = [np.subtract(*comparison.sides(means)) / max(comparison.norm, 1e-12) for comparison in comparisons]
    decisive = comparisons[int(np.argmin(effects))]
    left, right = decisive.sides(means)
    needed = np.nan if least_difference is None else least_difference * decisive.norm
    low, high = intervals.interval(runs, decisive.weights)
    counts = sorted({len(runs[name]) for name in decisive.weights})
    return Judgement(
        left - right,
        low,
        high,
        needed,
        verdict(left - right, needed, low, high),
        intervals.sign_flip(sum(weight * runs[name].mean(0) for name, weight in decisive.weights.items())),
        intervals.seed_test(left - right, noise, norm=decisive.norm),
        f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}-{counts[-1]}",
        f"{decisive.left} against {decisive.right}",
        arithmetic(left, right, needed),
    )


def verdict(effect: float, needed: float, low: float, high: float) -> str:
    """The word for an effect, see the head of this module."""
    significant = low > 0 or high < 0 if np.isnan(needed) else exceeds(effect, needed)
    return UNCLEAR if not significant else HOLDS if effect > 0 else FAILS


def exceeds(effect: float, needed: float) -> bool | None:
    """Whether an effect of either sign is more than noise; None if the noise is unknown (NaN)."""
    return None if np.isnan(needed) else bool(abs(effect) > needed)


def arithmetic(left: float, right: float, needed: float = np.nan) -> str:
    """The decision spelt out: ".9571 - .9530 = .0041 < .0057"."""
    effect = left - right
    text = f"{_short(left)} - {_short(right)} = {_short(effect)}"
    if np.isnan(needed):
        return text
    sign = ">" if exceeds(effect, needed) else "<"
    return f"{text} {sign} {_short(needed)}" if effect >= 0 else f"{text}, {_short(-effect)} {sign} {_short(needed)}"


def _short(number: float) -> str:
    return f"{number:.4f}".replace("0.", ".", 1) if abs(number) < 1 else f"{number:.4f}"
