"""Seed noise: how far a result moves when only the seed changes, and what difference exceeds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib.evaluation.metrics import normalized_accuracy


class NoiseBand(NamedTuple):
    """Noise of mean normalised accuracy, in its units.

    sd: pooled standard deviation over seeds. df: its degrees of freedom. band: 2 * sd, drawn in every boxplot figure.
    least_difference: the difference between two single-seed runs that counts, t(.975, df) * sqrt(2) * sd.
    """

    sd: float
    df: int
    band: float
    least_difference: float


def noise_band(frame: pd.DataFrame, *, best: Mapping[str, float] | None = None) -> NoiseBand:
    """Pooled standard deviation of mean normalised accuracy over the seeds of the reference models.

        sd^2 = sum_m sum_s (v_ms - mean_s v_ms)^2 / df,   df = sum_m (seeds of m - 1)

    v_ms is the mean over tasks of the normalised accuracy of model m with seed s. Models with one seed add nothing to
    sd, but still count as competitors in the normalisation.

    Args:
        frame: columns model, task, seed, accuracy; one row per combination, every run with the same tasks.
        best: the best accuracy per task if the compared pool is larger than the frame (see `normalized_accuracy`).

    Raises:
        ValueError: a column is missing, a run is listed twice or lacks a task, or no model has two seeds.
    """
    if "seed" not in frame.columns:
        raise ValueError(f"frame needs columns model, task, seed, accuracy; 'seed' is not in {list(frame.columns)}")
    scores = normalized_accuracy(frame, best=best)
    twice = scores[scores.duplicated(["model", "task", "seed"])]
    if len(twice):
        row = twice.iloc[0]
        raise ValueError(f"model {row['model']!r}, task {row['task']!r}, seed {row['seed']} is listed more than once")
    runs = scores.pivot(index=["model", "seed"], columns="task", values="normalized")
    if runs.isna().any(axis=None):
        model, seed = runs.index[runs.isna().any(axis=1)][0]
        task = runs.columns[runs.loc[(model, seed)].isna()][0]
        raise ValueError(f"model {model!r}, seed {seed} has no accuracy for task {task!r}; means would not compare")
    by_model = runs.mean(axis=1).groupby(level="model")
    df = int((by_model.size() - 1).sum())
    if df < 1:
        raise ValueError("no model has two seeds, so the noise is unknown; run the reference models with more seeds")
    deviations = by_model.transform(lambda values: values - values.mean())
    sd = float(np.sqrt((deviations**2).sum() / df))
    return NoiseBand(sd, df, 2 * sd, float(stats.t.ppf(0.975, df) * np.sqrt(2) * sd))
