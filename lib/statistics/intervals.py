"""What a difference of means is held against: the seed, the choice of tasks. Resampling and tests are scipy's."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats


class SeedNoise(NamedTuple):
    """Noise of mean normalised accuracy when nothing but the seed changes.

    sd: standard deviation of one run, pooled over models. df: its degrees of freedom.
    """

    sd: float
    df: int

    @property
    def band(self) -> float:
        """Half the width of the strip in every boxplot figure."""
        return 2 * self.sd

    @property
    def least_difference(self) -> float:
        """The difference between two single runs that counts, t(.975, df) sqrt(2) sd."""
        return float(stats.t.ppf(0.975, self.df) * np.sqrt(2) * self.sd)


class Paired(NamedTuple):
    """A mean difference, its 95 % bootstrap interval, and the p of a Wilcoxon signed-rank test."""

    difference: float
    low: float
    high: float
    p: float


def seed_noise(runs: pd.DataFrame) -> SeedNoise:
    """Pooled standard deviation, over the seeds of each model, of a run's mean over tasks.

        sd^2 = sum_m sum_s (v_ms - mean_s v_ms)^2 / df,   df = sum_m (seeds of m - 1)

    runs: `effects.normalized_runs`; models with one seed add nothing. Raises `ValueError` if no model has two.
    """
    by_model = runs.mean(axis=1).groupby(level="model")
    df = int((by_model.size() - 1).sum())
    if df < 1:
        raise ValueError("no model has two seeds, so the noise is unknown; run the reference models with more seeds")
    deviations = by_model.transform(lambda values: values - values.mean())
    return SeedNoise(float(np.sqrt((deviations**2).sum() / df)), df)


def interval(
    runs: Mapping[str, np.ndarray], weights: Mapping[str, float], *, resamples: int = 2000
) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the weighted sum of means; NaN if there is nothing to resample.

    Tasks are drawn once for all models, so the comparison stays paired; the seeds of a model that has several are
    drawn for it alone. Six tasks are few: read the interval as "how much does it hang on one task".

    Args:
        runs: model -> (seeds, tasks), all with the same tasks.
        weights: model -> its weight in the sum.
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

    bounds = stats.bootstrap(
        samples, statistic, vectorized=True, axis=-1, method="percentile", n_resamples=resamples, rng=0
    ).confidence_interval
    return float(bounds.low), float(bounds.high)


def paired(left: pd.Series, right: pd.Series, *, over: str | None = None) -> Paired:
    """Two models compared pair by pair: the mean of left minus right.

    left, right: a score per (task, seed), with that index. over: the index level whose means are resampled for the
    interval ("task"); None resamples the pairs. The test takes the pairs either way; 1 if no pair differs.
    """
    difference = left - right
    units = difference if over is None else difference.groupby(over).mean()
    low, high = interval({"difference": units.to_numpy()[None]}, {"difference": 1.0}, resamples=9999)
    p = float(stats.wilcoxon(difference).pvalue) if difference.any() else 1.0
    return Paired(float(difference.mean()), low, high, p)


def sign_flip(differences: np.ndarray) -> float:
    """Two-sided p of "the sign of each task's difference is arbitrary": exact, so at least 2 / 2^tasks."""
    if len(differences) < 2:
        return np.nan
    return float(
        stats.permutation_test((differences,), np.mean, permutation_type="samples", vectorized=True, rng=0).pvalue
    )


def seed_test(effect: float, noise: SeedNoise | None, *, norm: float = 1.0) -> float:
    """Two-sided p of an effect against the seed noise; below .05 exactly if it exceeds norm x `least_difference`."""
    if noise is None or noise.sd == 0:
        return np.nan
    return float(2 * stats.t.sf(abs(effect) / (np.sqrt(2) * norm * noise.sd), noise.df))
