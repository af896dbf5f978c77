"""Three ideas of the thesis' drafts, each beside the twin that the thesis kept (notebook 05, Figure A.1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from lib import experiments
from lib.config.profiles import Profile
from lib.distillation.variants import NO_WEIGHTING
from lib.evaluation.metrics import normalized_accuracy
from lib.statistics.noise import NoiseBand, noise_band

# Identity -> name in the figure. All else is equal, but for Deep CCA's batch, which has to be larger.
NAMES = {
    "cosine": "cosine, mean of tokens",
    "cosine;[CLS]": "cosine, [CLS]",
    NO_WEIGHTING["cosine"]: "cosine + 2048d, SoftCCA",
    f"{NO_WEIGHTING['cosine']};mse": "cosine + 2048d, MSE",
    f"{NO_WEIGHTING['cosine']};cca": "cosine + 2048d, CCA",
}
# What the draft tried -> its twin that the thesis kept.
TWINS = {
    "cosine, [CLS]": "cosine, mean of tokens",
    "cosine + 2048d, MSE": "cosine + 2048d, SoftCCA",
    "cosine + 2048d, CCA": "cosine + 2048d, SoftCCA",
}


def records(profile: Profile) -> pd.DataFrame:
    """Tidy records of the ablations and their twins under their names in the figure, each with the reference seeds."""
    found = experiments.run(NAMES, profile=profile, seeds=profile.reference_seeds)
    return found.assign(identity=found["model"], model=found["model"].map(NAMES))


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
        interval = stats.bootstrap(
            (difference,), np.mean, method="percentile", rng=np.random.default_rng(0)
        ).confidence_interval
        rows.append(
            {
                "ablation": ablation,
                "twin": twin,
                "mean": runs[ablation].mean(),
                "twin_mean": runs[twin].mean(),
                "difference": difference.mean(),
                "low": interval.low,
                "high": interval.high,
                "p": stats.wilcoxon(difference).pvalue if difference.any() else 1.0,
            }
        )
    return pd.DataFrame(rows)
