"""How embeddings lie: to their teacher, and to each other."""

import numpy as np
import pandas as pd

from lib.experiments.bench import Bench

COLLAPSED = 0.9  # from this mean cosine of different documents on, all embeddings point one way


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(...) cosines between the rows of two (..., dim) embeddings, row by row."""
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))


def mark_collapsed(records: pd.DataFrame, bench: Bench) -> pd.Series:
    """For each record, whether its student has collapsed with any seed, see `COLLAPSED`."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = (bench.model(*run).embed(bench.held_out)[:] for run in students.to_numpy())
    collapsed = [mean_cosine(rows) >= COLLAPSED for rows in embedded]
    return records["model"].isin(students.loc[collapsed, "model"])
