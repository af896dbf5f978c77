"""How far a student's embedding of a document is from its teacher's of the same and of others.

Thesis Section 4.4.1.
"""

import numpy as np
import pandas as pd

from lib import published
from lib.experiments.bench import Bench

TEACHER = "SBERT (teacher)"


def embed_models(bench: Bench) -> dict[str, np.ndarray]:
    """Held-out documents, (documents, dim), by each model of Figure 4.4 and by `TEACHER`."""
    seed = bench.profile.seeds[0]
    embedded = {model: bench.embeddings(model, seed)["validation"] for model in list_models()}
    return embedded | {TEACHER: bench.teacher.embed(bench.held_out)[:]}


def list_models() -> list[str]:
    """The models of Figure 4.4, as printed."""
    return list(published.load("fig4_4")["model"].unique())


def measure_distances(student: np.ndarray, teacher: np.ndarray, *, batch: int) -> pd.DataFrame:
    """Distances of students' embeddings to their teacher's, with two ways of pairing negatives.

    "true" negatives are the teacher's embeddings of the other documents of a batch. For the
    published ones, the author's code rolled the batch without naming an axis, so nearly every one
    is the document's own embedding with its dimensions shifted.

    Embeddings are (documents, dim). Documents that do not fill the last batch are left out.
    Columns, a row for each pair: negatives ("as published" or "true"), distance ("squared L2", a
    mean over dimensions, or "cosine"), to ("positives" or "negatives"), value.
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
            values = {"squared L2": np.square(ours - others).mean(-1)}
            values["cosine"] = 1 - cosines(ours, others)
            for name, value in values.items():
                rows = {"negatives": pairing, "distance": name, "to": to, "value": value.ravel()}
                frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(...) cosines between the rows of two (..., dim) embeddings, row by row."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))
