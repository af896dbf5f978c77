"""What a difference of means is held against: the seed, the choice of tasks.

Noise of the published numbers (each of them is one run), a bootstrap interval, and two tests, all from scipy.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from lib import published
from lib.statistics.claim_kinds import Comparison
from lib.statistics.noise import NoiseBand

# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves that sum, which AdamW hardly notices.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
_RESAMPLES = 2000


@functools.cache
def rerun_distance(tasks: tuple[str, ...] = ()) -> float:
    """How far two published runs of (almost) one configuration lie apart.

    The mean over Figures 4.10 and 4.11 of |no-weighting - None;λ=0.5|: .0067 and .0047 of mean normalised accuracy.
    For one task, where means over six say nothing: the mean of the single-task distances. Two pairs are few; a
    difference below this distance means nothing, one above it may still be chance.
    """
    differences = []
    for label, one, other in RERUNS:
        scores = published.load(label).pivot(index="model", columns="task", values="normalized")
        differences.append(scores.loc[one] - scores.loc[other])
    pairs = pd.DataFrame(differences)
    return float(pairs.abs().to_numpy().mean() if len(tasks) == 1 else pairs.mean(axis=1).abs().mean())


def interval(runs: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the weighted sum of means; NaN if there is nothing to resample.

    Tasks are drawn once for all models, so the comparison stays paired; the seeds of a model that has several are
    drawn for it alone. Six tasks are few: read the interval as "how much does it hang on one task".
    """
    tasks = next(iter(runs.values())).shape[1]
    several = [name for name in weights if len(runs[name]) > 1]
    samples = ([np.arange(tasks)] if tasks > 1 else []) + [np.arange(len(runs[name])) for name in several]
    if not samples:
        return np.nan, np.nan

    def statistic(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        columns = drawn[0] if tasks > 1 else np.zeros((*drawn[0].shape[:-1], 1), dtype=int)
        seeds = dict(zip(several, drawn[tasks > 1 :], strict=True))
        total = 0.0
        for name, weight in weights.items():
            values = runs[name][seeds[name]].mean(-2) if name in seeds else runs[name].mean(0)
            values = np.broadcast_to(values, (*columns.shape[:-1], tasks))
            total = total + weight * np.take_along_axis(values, columns, -1).mean(-1)
        return total

    found = stats.bootstrap(
        samples, statistic, vectorized=True, axis=-1, method="percentile", n_resamples=_RESAMPLES, rng=0
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def sign_flip(differences: np.ndarray) -> float:
    """Two-sided p of "the sign of each task's difference is arbitrary": exact, so at least 2 / 2^tasks."""
    if len(differences) < 2:
        return np.nan
    return float(
        stats.permutation_test((differences,), np.mean, permutation_type="samples", vectorized=True, rng=0).pvalue
    )


def seed_test(effect: float, comparison: Comparison, band: NoiseBand | None) -> float:
    """Two-sided p of the effect against the pooled seed noise; below .05 exactly if the effect exceeds `needed`."""
    if band is None or band.sd == 0:
        return np.nan
    return float(2 * stats.t.sf(abs(effect) / (np.sqrt(2) * comparison.norm * band.sd), band.df))


def arithmetic(left: float, right: float, needed: float | None = None) -> str:
    """The decision spelt out: ".9571 - .9530 = .0041 < .0057"."""
    effect = left - right
    text = f"{_short(left)} - {_short(right)} = {_short(effect)}"
    if needed is None or np.isnan(needed):
        return text
    sign = ">" if abs(effect) > needed else "<"
    return f"{text} {sign} {_short(needed)}" if effect >= 0 else f"{text}, {_short(-effect)} {sign} {_short(needed)}"


def _short(number: float) -> str:
    return f"{number:.4f}".replace("0.", ".", 1) if abs(number) < 1 else f"{number:.4f}"
