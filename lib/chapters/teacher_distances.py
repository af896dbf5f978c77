"""How far students are from their teacher's embedding of a document and from those of others.

Thesis Section 4.4.1.
"""

import numpy as np
import pandas as pd

from lib import published
from lib.experiments.bench import Bench


def measure_distances(student: np.ndarray, teacher: np.ndarray, *, batch: int) -> pd.DataFrame:
    """Distances of students' embeddings to their teacher's, with two ways of pairing negatives.

    "true" negatives are the teacher's embeddings of the other documents of a batch. The published
    ones came from rolling the batch without naming an axis (author's code), so that nearly every
    one is the document itself, shifted.

    Parameters
    ----------
    student, teacher
        (documents, dim) embeddings.
    batch
        Documents of a batch; documents that do not fill one are left out.

    Returns
    -------
    DataFrame
        A row for each pair: negatives ("as published" or "true"), distance ("squared L2", a mean
        over dimensions, or "cosine"), to ("positives" or "negatives"), value.

    Raises
    ------
    ValueError
        If the documents do not fill one batch.
    """
    batches = len(student) // batch
    if batches == 0:
        raise ValueError(f"{len(student)} documents do not fill one batch of {batch}")
    whole = batches * batch
    ours = student[:whole].reshape(batches, batch, -1)
    theirs = teacher[:whole].reshape(batches, batch, -1)
    flat, shifts = theirs.reshape(batches, -1), range(1, batch)
    negatives = {
        "as published": [np.roll(flat, shift, axis=1).reshape(theirs.shape) for shift in shifts],
        "true": [np.roll(theirs, shift, axis=1) for shift in shifts],
    }
    frames = []
    for pairing, shifted in negatives.items():
        for to, others in (("positives", theirs[None]), ("negatives", np.stack(shifted))):
            values = {
                "squared L2": np.square(ours - others).mean(-1),
                "cosine": 1 - cosines(ours, others),
            }
            for name, value in values.items():
                rows = {"negatives": pairing, "distance": name, "to": to, "value": value.ravel()}
                frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def measure_students(bench: Bench) -> pd.DataFrame:
    """The distances of Figure 4.4's models on the held-out documents, with the column model."""
    teacher = bench.structural("validation")["embeddings"]
    frames = []
    for model, rows in _embed_students(bench).items():
        table = measure_distances(rows, teacher, batch=bench.profile.training.batch_size)
        frames.append(table.assign(model=model))
    return pd.concat(frames, ignore_index=True)


def measure_norms(bench: Bench) -> pd.DataFrame:
    """Mean and sd of the norms of held-out embeddings, by Figure 4.4's models and the teacher."""
    embedded = _embed_students(bench)
    embedded["SBERT (teacher)"] = bench.structural("validation")["embeddings"]
    rows = []
    for model, embedding in embedded.items():
        lengths = np.linalg.norm(embedding, axis=1)
        rows.append((model, lengths.mean(), lengths.std()))
    return pd.DataFrame(rows, columns=["model", "norm", "sd"])


def list_models() -> list[str]:
    """The models of Figure 4.4, as printed."""
    return list(published.load("fig4_4")["model"].unique())


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine of each row, (..., dim), of one embedding with the same row of another."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def _embed_students(bench: Bench) -> dict[str, np.ndarray]:
    seed = bench.profile.seeds[0]
    return {model: bench.embeddings(model, seed)["validation"] for model in list_models()}
