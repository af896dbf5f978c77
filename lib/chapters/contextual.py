"""What Section 4.5 reports besides accuracies, and three ideas from drafts (Figure A.1)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import figures, published
from lib.chapters import chapter4
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import grid
from lib.config.schema import Profile
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


def tabulate_projections(label: str, dim: int, width: float) -> pd.DataFrame:
    """Table 4.6, 4.7 or 4.8 (tab4_6 ...): a figure's projections with their sizes.

    `dim` is that of a student's embeddings, `width` that of projections and Paragraph Vectors,
    relative to their labels. Columns: teacher, student_projection, contextual_projection, dimension
    (output of the student's projection), student_parameters, contextual_parameters, published.
    """
    printed, rows = set(published.load(label).itertuples(index=False, name=None)), []
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


def tabulate_selected(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Table 4.10: the two best students of each structural loss, first the thesis', then ours.

    `records` are those of both figures of weightings.
    """
    table = published.load("tab4_10")
    masking = f"longer than {profile.training.max_structural_len} tokens"
    for label, loss in figure_models.WEIGHTINGS.items():
        shown = chapter4.select_records(records, label, profile)
        data = figures.boxplot_frame(label, shown)
        ranking = data.drop_duplicates("model").iloc[::-1].set_index("model")["identity"].to_dict()
        for name, variant in [*chapter4.select_students(ranking).items()][:2]:
            settings = _describe_settings(variant, masking)
            column = f"ours: {name if loss in name else f'{loss};{name}'}"
            table[column] = [settings[row] for row in table["parameter"]]
    return table


def _describe_settings(variant: Variant, masking: str) -> dict[str, str]:
    """Row of Table 4.10 -> its cell for a student."""
    loss, *margin = variant.structural.split(";")  # max-margin;MSE;γ=1.0
    name, gamma = loss, ""
    if margin:
        name, gamma = f"{loss} {margin[0]}", f"{float(margin[1].removeprefix('γ=')):g}"
    elif loss == "cosine":
        name = "cosine distance"
    teachers = {teacher: short for short, teacher in CONTEXTUAL_TEACHERS.items()}
    return {
        "Structural loss": name,
        "Max-margin γ": gamma,
        "Contextual teacher": teachers.get(variant.contextual, "-"),
        "Student projection": variant.student_projection or "-",
        "Contextual projection": variant.contextual_projection or "-",
        "Weighting λ": "-" if variant.lam is None else f"{variant.lam:g}",
        "Structural loss masking": masking if variant.masked else "-",
    }


def collect_histories(groups: Mapping[str, Mapping[str, str]], bench: Bench) -> pd.DataFrame:
    """Figures A.2 and A.6: how students with a contextual loss change while they train.

    `groups` are names of groups -> models, name -> identity; other models are left out. There is a
    row for each measurement of a student with the profile's first seed. Columns: group, model,
    dimension, update, embedding and projected (held-out CCA of the student's embedding and of its
    projection with the teacher), chance (held-out CCA of documents paired at random), and share (of
    the contextual loss in the gradient, `lib.distillation.gradient_share`).
    """
    seed = bench.profile.seeds[0]
    students = {
        (group, name): bench.model(variant, seed)
        for group, models in groups.items()
        for name, variant in chapter4.select_students(models, contextual=True).items()
    }
    bench.embed(students.values(), bench.held_out)
    columns, frames = ["update", "embedding", "projected", "share"], []
    for (group, name), student in students.items():
        frame = pd.DataFrame(student.history()["watched"], columns=columns)
        rows = student.embed(bench.held_out)[:], student.prepare_rows(bench.held_out)[:]
        facts = {"group": group, "model": name, "dimension": name.partition("d;")[0]}
        frames.append(frame.assign(**facts, chance=chance_cca(*rows)))
    order = ["group", "model", "dimension", *columns[:3], "chance", "share"]
    return pd.concat(frames, ignore_index=True)[order].astype({"update": int})


def compare_factors(bench: Bench) -> pd.DataFrame:
    """How students change if a factor multiplies the contextual loss in the sum of both losses.

    Columns: loss, factor, expected (the contextual share of the gradient when training starts),
    share (its mean over the training, if a student is trained with the factor), cosine (between
    this student and that of the structural loss alone), another_seed (between two of the latter).
    """
    settings, rows = grid("beyond"), []
    first, second = bench.profile.reference_seeds[:2]
    for loss, plain in NO_WEIGHTING.items():
        alone = Variant("student", structural=parse(plain).structural)
        pair = [bench.model(alone, seed) for seed in (first, second)]
        students = {
            factor: bench.model(f"{plain};None;λ={lam}", first)
            for factor, lam in settings["trained_factors"].items()
        }
        bench.embed([*pair, *students.values()], bench.held_out)
        reference, other = (model.embed(bench.held_out)[:] for model in pair)
        watched = {factor: model.history()["watched"] for factor, model in students.items()}
        start = watched[1][0, 3]
        for factor in settings["factors"]:
            share = factor * start / (1 - start + factor * start)
            row = {"loss": loss, "factor": factor, "expected": share}
            if factor in students:
                embedded = students[factor].embed(bench.held_out)[:]
                row["share"] = watched[factor][:, 3].mean()
                row["cosine"] = cosines(embedded, reference).mean()
            rows.append(row | {"another_seed": cosines(reference, other).mean()})
    return pd.DataFrame(rows)


def mark_collapsed(records: pd.DataFrame, bench: Bench) -> pd.Series:
    """For each record, whether its student has collapsed with any seed, see `COLLAPSED`."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = (bench.embeddings(*run)["validation"] for run in students.to_numpy())
    collapsed = [mean_cosine(rows) >= COLLAPSED for rows in embedded]
    return records["model"].isin(students.loc[collapsed, "model"])


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))
