"""How embeddings lie: to their teacher, to each other, and of the students' base."""

import numpy as np
import pandas as pd

from lib.experiments.bench import Bench

COLLAPSED = 0.9  # from this mean cosine of different documents on, all embeddings point one way
LOSS, BY_FREQUENCY = "loss of masked words", "loss of guessing by frequency"
ALIKE, NEAR = "cosine between texts", "cosine to the teacher"


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(...) cosines between the rows of two (..., dim) embeddings, row by row."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def mark_collapsed(records: pd.DataFrame, bench: Bench) -> pd.Series:
    """For each record, whether its student has collapsed with any seed, see `COLLAPSED`."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = (bench.model(*run).embed(bench.held_out)[:] for run in students.to_numpy())
    collapsed = [mean_cosine(rows) >= COLLAPSED for rows in embedded]
    return records["model"].isin(students.loc[collapsed, "model"])


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))


def measure_base(bench: Bench) -> dict[str, float]:
    """Measure the base on held-out documents; `ALIKE` is high in raw language models.

    A base that learned to guess words also has `LOSS` and `BY_FREQUENCY`, in nats a hidden word.
    """
    base, teacher = (model.embed(bench.held_out)[:] for model in (bench.base, bench.teacher))
    cosine = {ALIKE: mean_cosine(base), NEAR: float(cosines(base, teacher).mean())}
    if (history := bench.base.history()) is None:
        return cosine
    return {LOSS: float(history["held_out"]), BY_FREQUENCY: float(history["unigram"]), **cosine}
