"""What Section 4.5 reports beside accuracies, and three ideas of the drafts, each beside its twin (Figure A.1)."""

import numpy as np
import pandas as pd

from lib import experiments, figures, published
from lib.chapters import chapter4
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import Profile, grid
from lib.distillation import projection
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import (
    CONTEXTUAL_TEACHERS,
    NO_WEIGHTING,
    TEACHER_OF_DIMENSION,
    Variant,
    parse,
)
from lib.experiments import embeddings, keys, models
from lib.experiments.student_training import contextual_rows
from lib.published import figure_models

COLLAPSED = 0.9  # mean cosine of different documents: all embeddings point one way
_GRID = grid("beyond")
FACTORS, TRAINED_FACTORS = (
    _GRID["factors"],
    _GRID["trained_factors"],
)  # on the contextual loss; with their λ
DRAFTS, TWINS = (
    _GRID["drafts"],
    _GRID["twins"],
)  # identity -> name in Figure A.1; ablation -> its twin, by these names
_FIGURES = dict(zip(("tab4_6", "tab4_7", "tab4_8"), figure_models.PROJECTIONS, strict=True))


def projection_table(label: str, profile: Profile) -> pd.DataFrame:
    """Table 4.6, 4.7 or 4.8 (tab4_6 ...): a figure's grid, with dimensions and parameters of the projections here."""
    printed = set(published.load(label).itertuples(index=False, name=None))
    dim, rows = models.base_student(profile).dim, []
    for name, variant in chapter4.students(
        figure_models.of_grid(_FIGURES[label]), contextual=True
    ).items():
        key = (
            TEACHER_OF_DIMENSION[name.split(";")[0]],
            variant.student_projection,
            variant.contextual_projection,
        )
        student, contextual = (projection.scale(layers, profile.width) for layers in key[1:])
        vectors = [part.split(";")[1] for part in variant.contextual.split("+")]
        vector_dim = sum(int(projection.scale(size, profile.width)) for size in vectors)
        counts = (
            projection.parameter_count(student, dim),
            projection.parameter_count(contextual, vector_dim),
        )
        rows.append(
            (
                *key,
                projection.out_features(student, dim),
                *counts,
                "yes" if key in printed else "no",
            )
        )
    columns = [
        "teacher",
        "student_projection",
        "contextual_projection",
        "dimension",
        "student_parameters",
    ]
    return pd.DataFrame(rows, columns=[*columns, "contextual_parameters", "published"])


def selected_table(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Table 4.10: the thesis' two best students per structural loss, then those of our records of both figures."""
    table = published.load("tab4_10")
    for label, loss in figure_models.WEIGHTINGS.items():
        data = figures.boxplot_frame(label, chapter4.of_figure(records, label, profile), band=None)
        ranking = data.drop_duplicates("model").iloc[::-1].set_index("model")["identity"].to_dict()
        for name, variant in [*chapter4.students(ranking).items()][:2]:
            values = _settings(variant, profile)
            table[f"ours: {name if loss in name else f'{loss};{name}'}"] = [
                values[row] for row in table["parameter"]
            ]
    return table


def _settings(variant: Variant, profile: Profile) -> dict[str, str]:
    loss, *margin = variant.structural.split(";")  # max-margin;MSE;γ=1.0
    teachers = {teacher: name for name, teacher in CONTEXTUAL_TEACHERS.items()}
    masking = f"longer than {profile.training.max_structural_len} tokens"
    return {
        "Structural loss": f"{loss} {margin[0]}"
        if margin
        else f"{loss} distance"
        if loss == "cosine"
        else loss,
        "Max-margin γ": f"{float(margin[1].removeprefix('γ=')):g}" if margin else "",
        "Contextual teacher": teachers.get(variant.contextual, "-"),
        "Student projection": variant.student_projection or "-",
        "Contextual projection": variant.contextual_projection or "-",
        "Weighting λ": "-" if variant.lam is None else f"{variant.lam:g}",
        "Structural loss masking": masking if variant.masked else "-",
    }


@keys.data_at_rest()
def figure_histories(groups: dict[str, str], profile: Profile) -> pd.DataFrame:
    """Figures A.2 and A.3, while students with a contextual loss train: held-out CCA of embeddings and projections, and
    by chance, and the contextual share of the gradient (`lib.distillation.gradient_share`). groups: figure -> group.
    Raises `ValueError` where a filter leaves no such student."""
    frames = []
    for label, group in groups.items():
        for name, variant in chapter4.students(
            chapter4.models(label, profile), contextual=True
        ).items():
            student = embeddings.of(variant, profile.seeds[0], profile)
            teacher = contextual_rows(variant, "validation", profile)[:]
            names = {"group": group, "model": name, "dimension": name.partition("d;")[0]}
            history = pd.DataFrame(
                student["watched"], columns=["update", "embedding", "projected", "share"]
            )
            frames.append(
                history.assign(**names, chance=chance_cca(student["validation"], teacher))
            )
    if not frames:
        raise ValueError(
            f"only={profile.only!r} leaves no student with a contextual teacher for Figures A.2 and A.3"
        )
    frame = pd.concat(frames, ignore_index=True).astype({"update": int})
    return frame[
        ["group", "model", "dimension", "update", "embedding", "projected", "chance", "share"]
    ]


def factors(profile: Profile) -> pd.DataFrame:
    """What a factor on the contextual loss does to the plain sum of both: a row for each structural loss and factor.

    expected: share of the gradient that the factor gives at the start of training. Of factors that are trained, share:
    its mean; cosine: with the student of the structural loss alone. another_seed: between two seeds of that student."""
    rows, seeds = [], profile.reference_seeds[:2]
    for loss, plain in NO_WEIGHTING.items():
        alone = Variant("student", structural=parse(plain).structural)
        trained = {factor: f"{plain};None;λ={lam}" for factor, lam in TRAINED_FACTORS.items()}
        experiments.run(trained.values(), profile=profile, seeds=seeds[:1])
        own, other = (embeddings.of(alone, seed, profile)["validation"] for seed in seeds)
        students = {
            factor: embeddings.of(label, seeds[0], profile) for factor, label in trained.items()
        }
        start = students[1]["watched"][0, 3]
        for factor in FACTORS:
            row = {
                "loss": loss,
                "factor": factor,
                "expected": factor * start / (1 - start + factor * start),
            }
            if factor in students:
                row["share"] = students[factor]["watched"][:, 3].mean()
                row["cosine"] = cosines(students[factor]["validation"], own).mean()
            rows.append(row | {"another_seed": cosines(own, other).mean()})
    return pd.DataFrame(rows)


def collapsed(records: pd.DataFrame, profile: Profile) -> pd.Series:
    """Per record: whether its model is a student of which a seed embeds all held-out documents in one direction."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = {
        run: embeddings.of(*run, profile)["validation"]
        for run in students.itertuples(index=False, name=None)
    }
    return records["model"].isin(
        {model for (model, _), rows in embedded.items() if mean_cosine(rows) >= COLLAPSED}
    )


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))
