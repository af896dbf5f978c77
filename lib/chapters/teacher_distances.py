"""How far a student's embeddings are from its teacher's (thesis Section 4.4.1)."""

import numpy as np
import pandas as pd
from scipy.stats import gaussian_kde


def measure_distances(student: np.ndarray, teacher: np.ndarray, *, batch: int) -> pd.DataFrame:
    """Measure a student's distances to its teacher, with two ways of pairing negatives.

    The author's code rolls a batch without naming an axis. This shifts features, so nearly every
    negative is the document's own embedding. True negatives are those of the batch's others.

    Embeddings are (documents, dim); the rest of an incomplete batch is left out. Columns, a row for
    each pair: negatives ("as published", "true"), distance ("squared L2", a mean over dimensions,
    or "cosine"), to ("positives", "negatives"), value. `ValueError` without a full batch.
    """
    shape = (len(student) // batch, batch, student.shape[1])
    if not shape[0]:
        raise ValueError(f"{len(student)} documents do not fill one batch of {batch}")
    ours, theirs = (rows[: shape[0] * batch].reshape(shape) for rows in (student, teacher))
    rolls = range(1, batch)
    pairings = {
        "as published": np.stack([[np.roll(rows, roll) for rows in theirs] for roll in rolls]),
        "true": np.stack([np.roll(theirs, roll, axis=1) for roll in rolls]),
    }
    frames = []
    for pairing, negatives in pairings.items():
        for to, others in (("positives", theirs[None]), ("negatives", negatives)):
            values = {"squared L2": np.square(ours - others).mean(-1)}
            values["cosine"] = 1 - cosines(ours, others)
            for name, value in values.items():
                rows = {"negatives": pairing, "distance": name, "to": to, "value": value.ravel()}
                frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(...) cosines between the rows of two (..., dim) embeddings, row by row."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def find_mode(values: pd.Series) -> float:
    """The mode of a Gaussian kernel density; if all values are equal (collapse), that value."""
    if np.ptp(values) < 1e-12:
        return float(values.min())
    places = np.linspace(values.min(), values.max(), 40)
    return float(places[gaussian_kde(values)(places).argmax()])
