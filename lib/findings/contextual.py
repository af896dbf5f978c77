"""What Section 4.5 reports beside accuracies: Paragraph Vectors, projections, held-out CCA, collapsed runs."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from lib import figures, published
from lib.config.profiles import Profile
from lib.distillation import projection
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import CONTEXTUAL_TEACHERS, TEACHER_OF_DIMENSION, Variant, parse
from lib.experiments import contextual_teacher, embeddings, models
from lib.findings import chapter4
from lib.published import figure_models

COLLAPSED = 0.9  # mean cosine of different documents: all embeddings point one way
_FIGURES = dict(zip(("tab4_6", "tab4_7", "tab4_8"), figure_models.PROJECTIONS, strict=True))


def paragraph_vector_table(identities: Iterable[str], profile: Profile) -> pd.DataFrame:
    """Each single Paragraph Vector among the models, compounds taken apart; gensim cuts documents at 10,000 words."""
    variants = [variant for variant in map(parse, identities) if variant.kind == "paragraph_vector"]
    rows = []
    for label in dict.fromkeys(part for variant in variants for part in variant.contextual.split("+")):
        vectors = contextual_teacher.paragraph_vector(label, profile)
        names = "vocabulary_size", "seconds", "truncated", "documents"
        vocabulary, seconds, cut, documents = (vectors[name].item() for name in names)
        rows.append((label, vocabulary, seconds, 100 * cut / documents, documents))
    return pd.DataFrame(rows, columns=["model", "vocabulary", "seconds", "percent_cut", "documents"])


def projection_table(label: str, profile: Profile) -> pd.DataFrame:
    """Table 4.6, 4.7 or 4.8 (tab4_6 ...), with the dimension and parameters of the projections in this profile."""
    printed = set(published.load(label).itertuples(index=False, name=None))
    dim, rows = models.base_student(profile).dim, []
    for name, variant in _students(figure_models.listed(_FIGURES[label])).items():
        key = TEACHER_OF_DIMENSION[name.split(";")[0]], variant.student_projection, variant.contextual_projection
        student, contextual = (projection.scale(layers, profile.width) for layers in key[1:])
        vectors = [part.split(";")[1] for part in variant.contextual.split("+")]
        vector_dim = sum(int(projection.scale(size, profile.width)) for size in vectors)
        counts = projection.parameter_count(student, dim), projection.parameter_count(contextual, vector_dim)
        rows.append((*key, projection.out_features(student, dim), *counts, "yes" if key in printed else "no"))
    columns = ["teacher", "student_projection", "contextual_projection", "dimension", "student_parameters"]
    return pd.DataFrame(rows, columns=[*columns, "contextual_parameters", "published"])


def selected_table(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Table 4.10: the thesis' two best students per structural loss, then those of our records of both figures."""
    table = published.load("tab4_10")
    for label, loss in figure_models.WEIGHTINGS.items():
        data = figures.boxplot_frame(label, chapter4.of_figure(records, label, profile), band=None)
        ranking = data.drop_duplicates("model").iloc[::-1].set_index("model")["identity"].to_dict()
        for name, variant in [*chapter4.students(ranking).items()][:2]:
            values = _settings(variant, profile)
            table[f"ours: {name if loss in name else f'{loss};{name}'}"] = [values[row] for row in table["parameter"]]
    return table


def _settings(variant: Variant, profile: Profile) -> dict[str, str]:
    loss, *margin = variant.structural.split(";")  # max-margin;MSE;γ=1.0
    teachers = {teacher: name for name, teacher in CONTEXTUAL_TEACHERS.items()}
    masking = f"longer than {profile.training.max_structural_len} tokens"
    return {
        "Structural loss": f"{loss} {margin[0]}" if margin else f"{loss} distance" if loss == "cosine" else loss,
        "Max-margin γ": f"{float(margin[1].removeprefix('γ=')):g}" if margin else "",
        "Contextual teacher": teachers.get(variant.contextual, "-"),
        "Student projection": variant.student_projection or "-",
        "Contextual projection": variant.contextual_projection or "-",
        "Weighting λ": "-" if variant.lam is None else f"{variant.lam:g}",
        "Structural loss masking": masking if variant.masked else "-",
    }


def figure_histories(groups: dict[str, str], profile: Profile) -> pd.DataFrame:
    """Figure A.2: held-out CCA while students with a contextual loss train, and by chance. groups: figure -> group."""
    frames = []
    for label, group in groups.items():
        for name, variant in _students(chapter4.models(label, profile)).items():
            student = embeddings.of(variant, profile.seeds[0], profile)
            teacher = contextual_teacher.embeddings(variant.contextual, "validation", profile)
            names = {"group": group, "model": name, "dimension": name.partition("d;")[0]}
            history = pd.DataFrame(student["watched"], columns=["update", "embedding", "projected", "share"])
            frames.append(history.assign(**names, chance=chance_cca(student["validation"], teacher)))
    frame = pd.concat(frames, ignore_index=True).astype({"update": int})
    return frame[["group", "model", "dimension", "update", "embedding", "projected", "chance"]]


def collapsed(records: pd.DataFrame, profile: Profile) -> pd.Series:
    """Per record: whether its model is a student of which a seed embeds all held-out documents in one direction."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = {run: embeddings.of(*run, profile)["validation"] for run in students.itertuples(index=False, name=None)}
    return records["model"].isin({model for (model, _), rows in embedded.items() if mean_cosine(rows) >= COLLAPSED})


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))


def _students(models: dict[str, str]) -> dict[str, Variant]:
    return {name: variant for name, variant in chapter4.students(models).items() if variant.contextual}
