"""What Section 4.5 reports beside accuracies: Paragraph Vectors, projections, held-out CCA, collapsed runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from lib import published
from lib.config import profiles
from lib.config.profiles import Profile
from lib.distillation import projection
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import CONTEXTUAL_TEACHERS, parse
from lib.experiments import contextual_teacher, embeddings, task_texts
from lib.findings import chapter4


def single_labels() -> list[str]:
    """The 36 single Paragraph Vectors of Table 4.5, in the grid's order."""
    grid = profiles.grid("pv")
    return [
        f"{architecture};{dimension};{preprocessing};{min_count}"
        for architecture in grid["architectures"]
        for dimension in grid["dimensions"]
        for preprocessing in grid["preprocessing"]
        for min_count in grid["min_count"]
    ]


def paragraph_vector_table(labels: list[str], profile: Profile) -> pd.DataFrame:
    """Per Paragraph Vector: vocabulary, seconds of training, percent of documents that gensim cuts at 10,000 words."""
    rows = []
    for label in labels:
        made = contextual_teacher.paragraph_vector(label, profile)
        cut = 100 * int(made["truncated"]) / int(made["documents"])
        rows.append(
            {
                "model": label,
                "vocabulary": int(made["vocabulary_size"]),
                "seconds": float(made["seconds"]),
                "percent_cut": cut,
                "documents": int(made["documents"]),
            }
        )
    return pd.DataFrame(rows)


def projection_table(group: str, profile: Profile) -> pd.DataFrame:
    """The students of Table 4.6, 4.7 or 4.8: teacher, both projections as printed, and their parameters at this
    profile's width.

    group: "only-contextual", "cosine" or "mm-MSE". Columns teacher, student_projection, contextual_projection,
    dimension (of the space both end in), student_parameters, contextual_parameters.
    """
    rows = []
    for row in published.load(
        {"only-contextual": "tab4_6", "cosine": "tab4_7", "mm-MSE": "tab4_8"}[group]
    ).itertuples():
        sides = {
            "student": (row.student_projection, 768),
            "contextual": (row.contextual_projection, _dimension(row.teacher)),
        }
        sizes = {
            side: (projection.scale(label, profile.width), max(1, round(width * profile.width)))
            for side, (label, width) in sides.items()
        }
        counts = {
            f"{side}_parameters": projection.parameter_count(label, width) for side, (label, width) in sizes.items()
        }
        rows.append(
            {
                "teacher": row.teacher,
                "student_projection": row.student_projection,
                "contextual_projection": row.contextual_projection,
                "dimension": projection.out_features(*sizes["student"]),
                **counts,
            }
        )
    return pd.DataFrame(rows)


def cca_histories(models: dict[str, str], profile: Profile) -> pd.DataFrame:
    """Held-out CCA during the training of students with a contextual loss: one row per model and measurement.

    models: display name -> identity. Columns model, update, embedding (student and teacher as they are), projected
    (after both projections, which is what the thesis chose beta by) and chance.
    """
    frames = []
    for name, identity in models.items():
        variant = parse(identity)
        if variant.contextual is None or variant.kind != "student":
            continue
        made = embeddings.of(variant, profile.seeds[0], profile)
        teacher = contextual_teacher.embeddings(variant.contextual, "validation", profile)
        chance = chance_cca(made["validation"], teacher)
        frames.append(
            pd.DataFrame(made["cca"], columns=["update", "embedding", "projected"]).assign(model=name, chance=chance)
        )
    frame = pd.concat(frames, ignore_index=True)
    return frame.astype({"update": int})[["model", "update", "embedding", "projected", "chance"]]


def figure_histories(groups: dict[str, str], profile: Profile) -> pd.DataFrame:
    """`cca_histories` of several figures' students: {label: name of the group} -> the CSV of Figure A.2."""
    frames = []
    for label, group in groups.items():
        frame = cca_histories(chapter4.models(label, profile), profile)
        frame.insert(0, "group", group)
        frame.insert(2, "dimension", frame["model"].str.partition("d;")[0])
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def collapsed(records: pd.DataFrame, profile: Profile, split: str = "validation") -> pd.Series:
    """Per record: whether its model scores a class share on every task, that is, predicts one class for everything.

    records: of `lib.experiments.run`. A model counts as collapsed if that holds for one of its seeds.
    """
    shares = {task: _class_shares(task, split, profile) for task in records["task"].unique()}
    pairs = zip(records["task"], records["value"], strict=True)
    hit = [bool(np.abs(shares[task][0] - value).min() <= 0.5 / shares[task][1]) for task, value in pairs]
    by_run = pd.Series(hit, index=records.index).groupby([records["model"], records["seed"]]).transform("all")
    return by_run.groupby(records["model"]).transform("any")


def _class_shares(task: str, split: str, profile: Profile) -> tuple[np.ndarray, int]:
    """Shares of the classes among the evaluated examples, and how many examples there are."""
    arrays = task_texts.arrays(task, profile)
    cut = profile.tasks.limit if split == "validation" else None
    labels = task_texts.examples(arrays, split if f"labels_{split}" in arrays else "train", cut)[1]
    counts = np.bincount(labels, minlength=len(arrays["classes"]))
    return counts / counts.sum(), len(labels)


def _dimension(teacher: str) -> int:
    return sum(int(part.split(";")[1]) for part in CONTEXTUAL_TEACHERS[teacher].split("+"))


def trained_labels(labels: Iterable[str]) -> set[str]:
    """The single Paragraph Vectors behind identity labels: names like PV;2048d resolved, compounds taken apart."""
    return {
        part
        for label in labels
        if (variant := parse(label)).kind == "paragraph_vector"
        for part in variant.contextual.split("+")
    }
