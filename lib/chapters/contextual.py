"""What Section 4.5 reports besides accuracies, and three ideas from drafts (Figure A.1)."""

import numpy as np
import pandas as pd

from lib import figures, published
from lib.chapters import chapter4
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import grid
from lib.distillation import projection
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import (
    CONTEXTUAL_TEACHERS,
    NO_WEIGHTING,
    TEACHER_OF_DIMENSION,
    Variant,
    parse,
)
from lib.experiments.bench import Bench
from lib.published import figure_models

COLLAPSED = 0.9  # from this mean cosine of different documents on, all embeddings point one way
_FIGURES = {"tab4_6": "fig4_7", "tab4_7": "fig4_8", "tab4_8": "fig4_9"}


def load_drafts() -> dict[str, str]:
    """Identity -> name in Figure A.1."""
    return grid("beyond")["drafts"]


def load_twins() -> dict[str, str]:
    """Name of an ablation in Figure A.1 -> the model that differs from it only in the ablation."""
    return grid("beyond")["twins"]


def tabulate_projections(label: str, bench: Bench) -> pd.DataFrame:
    """Table 4.6, 4.7 or 4.8 (tab4_6 ...): a figure's projections with their sizes in this profile.

    Columns: teacher, student_projection, contextual_projection, dimension (output of the student's
    projection), student_parameters, contextual_parameters, published ("yes" or "no").
    """
    printed = set(published.load(label).itertuples(index=False, name=None))
    dim, width, rows = bench.base_student().dim, bench.profile.width, []
    variants = chapter4.select_students(figure_models.list_grid(_FIGURES[label]), contextual=True)
    for name, variant in variants.items():
        teacher = TEACHER_OF_DIMENSION[name.split(";")[0]]
        key = (teacher, variant.student_projection, variant.contextual_projection)
        student = projection.scale(variant.student_projection, width)
        contextual = projection.scale(variant.contextual_projection, width)
        vectors = [part.split(";")[1] for part in variant.contextual.split("+")]
        vector_dim = sum(int(projection.scale(size, width)) for size in vectors)
        row = {
            "teacher": teacher,
            "student_projection": variant.student_projection,
            "contextual_projection": variant.contextual_projection,
            "dimension": projection.out_features(student, dim),
            "student_parameters": projection.parameter_count(student, dim),
            "contextual_parameters": projection.parameter_count(contextual, vector_dim),
            "published": "yes" if key in printed else "no",
        }
        rows.append(row)
    return pd.DataFrame(rows)


def tabulate_selected(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Table 4.10: the two best students of each structural loss, first the thesis', then ours.

    `records` are those of both figures of weightings.
    """
    table = published.load("tab4_10")
    for label, loss in figure_models.WEIGHTINGS.items():
        shown = chapter4.select_records(records, label, bench)
        data = figures.boxplot_frame(label, shown)
        ranking = data.drop_duplicates("model").iloc[::-1].set_index("model")["identity"].to_dict()
        best = list(chapter4.select_students(ranking).items())[:2]
        for name, variant in best:
            settings = _describe_settings(variant, bench)
            column = f"ours: {name if loss in name else f'{loss};{name}'}"
            table[column] = [settings[row] for row in table["parameter"]]
    return table


def _describe_settings(variant: Variant, bench: Bench) -> dict[str, str]:
    """Row of Table 4.10 -> its cell for a student."""
    loss, *margin = variant.structural.split(";")  # max-margin;MSE;γ=1.0
    name, gamma = loss, ""
    if margin:
        name, gamma = f"{loss} {margin[0]}", f"{float(margin[1].removeprefix('γ=')):g}"
    elif loss == "cosine":
        name = "cosine distance"
    teachers = {teacher: short for short, teacher in CONTEXTUAL_TEACHERS.items()}
    masking = f"longer than {bench.profile.training.max_structural_len} tokens"
    return {
        "Structural loss": name,
        "Max-margin γ": gamma,
        "Contextual teacher": teachers.get(variant.contextual, "-"),
        "Student projection": variant.student_projection or "-",
        "Contextual projection": variant.contextual_projection or "-",
        "Weighting λ": "-" if variant.lam is None else f"{variant.lam:g}",
        "Structural loss masking": masking if variant.masked else "-",
    }


def collect_histories(groups: dict[str, str], bench: Bench) -> pd.DataFrame:
    """Figures A.2 and A.3: how students with a contextual loss change while they train.

    Parameters
    ----------
    groups
        Figure -> name of its group of students.

    Returns
    -------
    DataFrame
        A row for each measurement: group, model, dimension, update, embedding and projected
        (held-out CCA of the student's embedding and of its projection with the teacher), chance
        (held-out CCA of documents paired at random), and share (of the contextual loss in the
        gradient, `lib.distillation.gradient_share`).

    Raises
    ------
    ValueError
        If the filter on models leaves no such student.
    """
    frames, seed = [], bench.profile.seeds[0]
    for label, group in groups.items():
        shown = chapter4.list_models(label, bench)
        for name, variant in chapter4.select_students(shown, contextual=True).items():
            student = bench.embeddings(variant, seed)
            teacher = bench.contextual_rows(variant, "validation")[:]
            frame = pd.DataFrame(
                student["watched"], columns=["update", "embedding", "projected", "share"]
            )
            frame.insert(3, "chance", chance_cca(student["validation"], teacher))
            for place, (column, value) in enumerate(
                {"group": group, "model": name, "dimension": name.partition("d;")[0]}.items()
            ):
                frame.insert(place, column, value)
            frames.append(frame)
    if not frames:
        raise ValueError(
            f"only={bench.profile.only!r} leaves no student with a contextual teacher "
            "for Figures A.2 and A.3"
        )
    return pd.concat(frames, ignore_index=True).astype({"update": int})


def compare_factors(bench: Bench) -> pd.DataFrame:
    """How students change if a factor multiplies the contextual loss in the sum of both losses.

    A row for each structural loss and factor, with the columns

    * expected: the contextual share of the gradient that the factor gives when training starts,
    * share: its mean over the training, if a student is trained with the factor,
    * cosine: between this student and that of the structural loss alone,
    * another_seed: the cosine between two seeds of the latter.
    """
    settings, rows = grid("beyond"), []
    first, second = bench.profile.reference_seeds[:2]
    for loss, plain in NO_WEIGHTING.items():
        trained = {
            factor: f"{plain};None;λ={lam}" for factor, lam in settings["trained_factors"].items()
        }
        bench.run(list(trained.values()), seeds=[first])
        alone = Variant("student", structural=parse(plain).structural)
        reference = bench.embeddings(alone, first)["validation"]
        other = bench.embeddings(alone, second)["validation"]
        students = {factor: bench.embeddings(label, first) for factor, label in trained.items()}
        start = students[1]["watched"][0, 3]
        for factor in settings["factors"]:
            share = factor * start / (1 - start + factor * start)
            row = {"loss": loss, "factor": factor, "expected": share}
            if factor in students:
                row["share"] = students[factor]["watched"][:, 3].mean()
                row["cosine"] = cosines(students[factor]["validation"], reference).mean()
            rows.append(row | {"another_seed": cosines(reference, other).mean()})
    return pd.DataFrame(rows)


def mark_collapsed(records: pd.DataFrame, bench: Bench) -> pd.Series:
    """For each record, whether its student has collapsed with any seed, see `COLLAPSED`."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    collapsed = set()
    for model, seed in students.itertuples(index=False, name=None):
        if mean_cosine(bench.embeddings(model, seed)["validation"]) >= COLLAPSED:
            collapsed.add(model)
    return records["model"].isin(collapsed)


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))
