"""The records behind a boxplot figure of Chapter 4, and the noise band drawn in it.

A figure's models are those of the published figure and those that the grids add to it; two or four reference students,
run with three seeds, tell how far a result moves when nothing but the seed changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from scipy import stats

from lib import experiments, figures, published
from lib.config import profiles
from lib.config.profiles import Profile
from lib.distillation.variants import NO_WEIGHTING, parse
from lib.statistics.noise import NoiseBand, noise_band
from lib.statistics.published_noise import rerun_distance

STRUCTURAL_REFERENCES = profiles.grid("structural")["reference"]
REFERENCES = (*STRUCTURAL_REFERENCES, *NO_WEIGHTING.values())
BASELINES = ("Longformer", "SBERT")


def references(label: str) -> tuple[str, ...]:
    """The students that measure a figure's noise: those of Section 4.4, from Section 4.5.2 on with contextual ones.

    Fixed per figure, not by what happens to be recorded already: a figure must not depend on what ran before it.
    """
    return STRUCTURAL_REFERENCES if label in ("fig4_2", "fig4_3", "fig4_5") else REFERENCES


def models(label: str, profile: Profile) -> dict[str, str]:
    """Name as printed -> identity for the models of a figure that the profile asks for: the published ones from top to
    bottom, then what the figure's grid adds.

    `profile.only` keeps the names that match one of its comma-separated patterns, and the baselines.
    `profile.max_variants` keeps the baselines, the references and the first few of the others.

    Raises `ValueError` for a variant in a grid that nobody can train.
    """
    shown = published.figure_models(label)
    for identity in shown.values():
        parse(identity)
    kept = {*BASELINES, *references(label)}
    if profile.only:
        shown = {
            name: identity
            for name, identity in shown.items()
            if identity in BASELINES or profiles.matches(name, profile.only)
        }
    if profile.max_variants is not None:
        others = [identity for identity in shown.values() if identity not in kept][: profile.max_variants]
        shown = {name: identity for name, identity in shown.items() if identity in kept or identity in others}
    return shown


def records(labels: str | Sequence[str], *, profile: Profile, executor: Executor | None = None) -> pd.DataFrame:
    """Tidy records of every model of the figures and of their references; trains what is missing."""
    labels = [labels] if isinstance(labels, str) else list(labels)
    wanted = [identity for label in labels for identity in (*models(label, profile).values(), *references(label))]
    seeds = {identity: sorted({*profile.seeds, *profile.reference_seeds}) for identity in REFERENCES}
    return experiments.run(dict.fromkeys(wanted), profile=profile, seeds=seeds, executor=executor)


def of_figure(records: pd.DataFrame, label: str, profile: Profile) -> pd.DataFrame:
    """The records of one figure's models, out of the records of several figures."""
    return records[records["model"].isin(models(label, profile).values())].reset_index(drop=True)


def band(records: pd.DataFrame, label: str, profile: Profile) -> NoiseBand:
    """The noise of mean normalised accuracy in a figure, from its reference students' seeds.

    Normalised as the figure is: by the best accuracy per task among the models shown, each the mean of its seeds.
    """
    shown = of_figure(records, label, profile)
    best = shown.groupby(["task", "model"])["value"].mean().groupby("task").max()
    runs = records[records["model"].isin(references(label))].rename(columns={"value": "accuracy"})
    return noise_band(runs[["model", "task", "seed", "accuracy"]], best=best.to_dict())


def draw(label: str, records: pd.DataFrame, profile: Profile) -> tuple[pd.DataFrame, NoiseBand]:
    """Draw and save a boxplot figure; returns its data (the CSV) and its noise."""
    shown = of_figure(records, label, profile)
    noise = band(records, label, profile)
    data = figures.boxplot_frame(label, shown, band=noise.band)
    figures.save(figures.boxplot(data, label), label, data, profile=profile, records=shown)
    return data, noise


def neighbours(label: str, data: pd.DataFrame, noise: NoiseBand) -> pd.DataFrame:
    """Neighbours of a published ranking, worst first, and whether their difference is more than noise.

    Columns figure, better, worse, published (difference of mean normalised accuracy), published_differ (exceeds
    `rerun_distance`), ours, ours_differ (exceeds the least difference that counts between two single runs).
    """
    means = data.groupby("model")[["normalized", "published_normalized"]].mean()
    ranking = means["published_normalized"].sort_values().index
    rows = []
    for worse, better in pairwise(ranking):
        ours, theirs = means.loc[better] - means.loc[worse]
        rows.append(
            {
                "figure": label,
                "better": better,
                "worse": worse,
                "published": theirs,
                "published_differ": theirs > rerun_distance(),
                "ours": ours,
                "ours_differ": abs(ours) > noise.least_difference,
            }
        )
    return pd.DataFrame(rows)


def reference_tests(records: pd.DataFrame) -> pd.DataFrame:
    """Every pair of reference students, compared over tasks and seeds.

    Columns one, other, difference (mean accuracy, one minus other), low and high (95 % bootstrap interval over tasks),
    p (Wilcoxon signed-rank test of the paired differences per task and seed), pairs.
    """
    runs = (
        records[records["model"].isin(REFERENCES)]
        .pivot_table(index=["task", "seed"], columns="model", values="value")
        .dropna(axis=1)
    )
    rows = []
    for one, other in combinations([name for name in REFERENCES if name in runs], 2):
        difference = runs[one] - runs[other]
        per_task = difference.groupby("task").mean().to_numpy()
        interval = stats.bootstrap(
            (per_task,), np.mean, method="percentile", rng=np.random.default_rng(0)
        ).confidence_interval
        p = stats.wilcoxon(difference).pvalue if difference.any() else 1.0
        rows.append(
            {
                "one": one,
                "other": other,
                "difference": difference.mean(),
                "low": interval.low,
                "high": interval.high,
                "p": p,
                "pairs": len(difference),
            }
        )
    return pd.DataFrame(rows)


def findings(data: pd.DataFrame, noise: NoiseBand, claims: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """Which of a figure's findings hold here: one row per claim "`better` beats `worse`".

    data: the figure's CSV (`lib.figures.boxplot_frame`). claims: (finding in words, better, worse) with names as
    printed; claims about models that `only` filtered out are left out.

    Columns: finding, published and ours (differences of mean normalised accuracy, better minus worse), needed (the
    least difference that counts between two runs of one seed), verdict: "holds", "does not hold" (the opposite
    exceeds the noise) or "not distinguishable".
    """
    means = data.groupby("model")[["normalized", "published_normalized"]].mean()
    rows = []
    for finding, better, worse in claims:
        if better in means.index and worse in means.index:
            ours, theirs = means.loc[better] - means.loc[worse]
            verdict = (
                "not distinguishable"
                if abs(ours) <= noise.least_difference
                else "holds"
                if ours > 0
                else "does not hold"
            )
            rows.append(
                {
                    "finding": finding,
                    "published": theirs,
                    "ours": ours,
                    "needed": noise.least_difference,
                    "verdict": verdict,
                }
            )
    return pd.DataFrame(rows, columns=["finding", "published", "ours", "needed", "verdict"])
