"""Three ideas of the thesis' drafts, each beside the twin that the thesis kept (notebook 05, Figure A.1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from lib import experiments
from lib.metrics import normalized_accuracy
from lib.noise import NoiseBand, noise_band
from lib.params import Profile
from lib.variants import NO_WEIGHTING

# What the draft tried -> its twin. All else is equal, but for Deep CCA's batch, which has to be larger.
TWINS = {
    f"{NO_WEIGHTING['cosine']};mse": NO_WEIGHTING["cosine"],
    f"{NO_WEIGHTING['cosine']};cca": NO_WEIGHTING["cosine"],
    "cosine;[CLS]": "cosine",
}


def records(profile: Profile) -> pd.DataFrame:
    """Tidy records of the ablations and their twins, each with the reference seeds."""
    models = dict.fromkeys([*TWINS, *TWINS.values()])
    return experiments.run(models, profile=profile, seeds=profile.reference_seeds)


def band(records: pd.DataFrame) -> NoiseBand:
    """The noise of mean normalised accuracy among these models, every one of which has several seeds."""
    best = records.groupby(["task", "model"])["value"].mean().groupby("task").max().to_dict()
    return noise_band(records.rename(columns={"value": "accuracy"})[["model", "task", "seed", "accuracy"]], best=best)


def twins(records: pd.DataFrame) -> pd.DataFrame:
    """Ablation against twin: mean normalised accuracies, their difference, its 95 % bootstrap interval over tasks and
    seeds, and the p-value of a Wilcoxon signed-rank test of the paired differences."""
    best = records.groupby(["task", "model"])["value"].mean().groupby("task").max().to_dict()
    scores = normalized_accuracy(records.rename(columns={"value": "accuracy"}), best=best)
    runs = scores.pivot(index=["task", "seed"], columns="model", values="normalized")
    rows = []
    for ablation, twin in TWINS.items():
        difference = (runs[ablation] - runs[twin]).to_numpy()
        interval = stats.bootstrap((difference,), np.mean, rng=np.random.default_rng(0)).confidence_interval
        rows.append(
            {
                "ablation": ablation,
                "twin": twin,
                "mean": runs[ablation].mean(),
                "twin_mean": runs[twin].mean(),
                "difference": difference.mean(),
                "low": interval.low,
                "high": interval.high,
                "p": stats.wilcoxon(difference).pvalue,
            }
        )
    return pd.DataFrame(rows)
