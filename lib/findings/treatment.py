"""How much of a student's training comes from its contextual teacher, and how much would have to (Figure A.3)."""

import numpy as np
import pandas as pd

from lib import experiments
from lib.config.profiles import Profile
from lib.distillation.variants import NO_WEIGHTING, Variant, parse
from lib.experiments import embeddings
from lib.findings import chapter4
from lib.findings.teacher_distances import cosines
from lib.published import figure_models

# How much heavier than equal the contextual loss is made, (1 - λ) / λ -> λ. AdamW does not notice a common factor.
TRAINED_FACTORS = {1: 0.5, 4: 0.2, 16: 0.0588, 64: 0.0154}
FACTORS = (1, 2, 4, 8, 16, 32, 64)
GROUPS = {label: f"{loss}, projections" for label, loss in figure_models.PROJECTIONS.items()}
GROUPS |= {label: f"{loss}, weightings" for label, loss in figure_models.WEIGHTINGS.items()}


def shares(profile: Profile) -> pd.DataFrame:
    """The contextual share of the gradient (`lib.distillation.gradient_share`) while students of both losses train."""
    rows = []
    for label, group in GROUPS.items():
        for name, variant in chapter4.students(chapter4.models(label, profile)).items():
            if variant.structural and variant.contextual:
                watched = embeddings.of(variant, profile.seeds[0], profile)["watched"]
                rows += [(group, name, int(row[0]), row[3]) for row in watched]
    return pd.DataFrame(rows, columns=["group", "model", "update", "share"])


def factors(profile: Profile) -> pd.DataFrame:
    """What a factor on the contextual loss does to the plain sum of both: a row for each structural loss and factor.

    expected: share of the gradient that the factor gives at the start of training. share: mean over a training with it.
    cosine: mean over held-out documents, with the student of the structural loss alone; another_seed: between two seeds
    of that student. Factors that are not trained have no share and cosine.
    """
    rows, seeds = [], profile.reference_seeds[:2]
    for loss, plain in NO_WEIGHTING.items():
        alone = Variant("student", structural=parse(plain).structural)
        trained = {factor: f"{plain};None;λ={lam}" for factor, lam in TRAINED_FACTORS.items()}
        experiments.run(trained.values(), profile=profile, seeds=seeds[:1])
        own, other = (embeddings.of(alone, seed, profile)["validation"] for seed in seeds)
        students = {factor: embeddings.of(label, seeds[0], profile) for factor, label in trained.items()}
        start = students[1]["watched"][0, 3]
        for factor in FACTORS:
            row = {"loss": loss, "factor": factor, "expected": factor * start / (1 - start + factor * start)}
            if factor in students:
                row["share"] = students[factor]["watched"][:, 3].mean()
                row["cosine"] = cosine_between(students[factor]["validation"], own)
            rows.append(row | {"another_seed": cosine_between(own, other)})
    return pd.DataFrame(rows)


def cosine_between(x: np.ndarray, y: np.ndarray) -> float:
    """Mean cosine of the rows of two embeddings, (documents, dim) each."""
    return float(cosines(x, y).mean())
