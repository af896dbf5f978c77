"""How far students are from their own teacher's embedding and from those of other documents (thesis Section 4.4.1)."""

import numpy as np
import pandas as pd

from lib import published
from lib.config.profiles import Profile
from lib.distillation.variants import parse
from lib.experiments import embeddings, structural_teacher


def distances(student: np.ndarray, teacher: np.ndarray, *, batch: int) -> pd.DataFrame:
    """Distances of each document's student embedding to its teacher embedding and to negatives, two ways of pairing.

    student, teacher: (documents, dim). A row per pair: negatives ("as published" or "true"), distance ("squared L2", a
    mean over dimensions, or "cosine"), to ("positives" or "negatives"), value. "true" negatives are the teacher's
    embeddings of the other documents of a batch. The published ones came from rolling the batch without naming an axis
    (author's code), so that nearly every one is the document itself, shifted.
    """
    batches = len(student) // batch
    if batches == 0:
        raise ValueError(f"{len(student)} documents do not fill one batch of {batch}")
    ours, theirs = (
        rows[: batches * batch].reshape(batches, batch, -1) for rows in (student, teacher)
    )
    flat, shifts, frames = theirs.reshape(batches, -1), range(1, batch), []
    negatives = {
        "as published": [np.roll(flat, shift, axis=1).reshape(theirs.shape) for shift in shifts]
    }
    negatives["true"] = [np.roll(theirs, shift, axis=1) for shift in shifts]
    for pairing, shifted in negatives.items():
        for to, others in (("positives", theirs[None]), ("negatives", np.stack(shifted))):
            values = {
                "squared L2": np.square(ours - others).mean(-1),
                "cosine": 1 - cosines(ours, others),
            }
            for name, value in values.items():
                frames.append(
                    pd.DataFrame(
                        {"negatives": pairing, "distance": name, "to": to, "value": value.ravel()}
                    )
                )
    return pd.concat(frames, ignore_index=True)


def of_figure(profile: Profile) -> pd.DataFrame:
    """The distances of Figure 4.4's models on the held-out documents, with the column model; all must be recorded."""
    students, teacher = _embeddings(profile)
    batch = profile.training.batch_size
    frames = [
        distances(rows, teacher, batch=batch).assign(model=model)
        for model, rows in students.items()
    ]
    return pd.concat(frames, ignore_index=True)


def norms(profile: Profile) -> pd.DataFrame:
    """Mean and sd of the embeddings' norms on the held-out documents, per model of Figure 4.4 and for the teacher."""
    students, teacher = _embeddings(profile)
    lengths = {
        name: np.linalg.norm(rows, axis=1)
        for name, rows in (students | {"SBERT (teacher)": teacher}).items()
    }
    rows = [(model, values.mean(), values.std()) for model, values in lengths.items()]
    return pd.DataFrame(rows, columns=["model", "norm", "sd"])


def models() -> list[str]:
    """The models of Figure 4.4, as printed."""
    return list(published.load("fig4_4")["model"].unique())


def _embeddings(profile: Profile) -> tuple[dict[str, np.ndarray], np.ndarray]:
    students = {
        model: embeddings.of(parse(model), profile.seeds[0], profile)["validation"]
        for model in models()
    }
    return students, structural_teacher.embeddings("validation", profile)["embeddings"]


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine of each row, (..., dim), of one embedding and the same row of another."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))
