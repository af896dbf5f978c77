"""How long a model takes to embed a document."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lib.news import designs
from lib.news.students import NewsStudent, Sizes

ROUNDS = 3
Encoder = tuple[Callable[[Any], Any], Sequence[Any]]  # what embeds, and documents


def measure_students(
    students: Sequence[str], sizes: Sizes, rows: Sequence[Any], others: Mapping[str, Encoder]
) -> np.ndarray:
    """(models, 2) CPU milliseconds per document: one at a time, and in a batch of all.

    Models are `others`, then students, whose documents are token ids. All are measured in turn, and
    the shortest of several rounds counts. Weights do not matter, so students are untrained, with
    one for all of equal structure.
    """
    # What of a design does not decide its speed.
    same = {"identity": "", "loss": "", "alpha": 0.0, "schedule": "", "annotated": False}
    structures = [replace(designs.parse(identity), **same) for identity in students]
    encoders: dict[Any, Encoder] = dict(others)
    for structure in structures:
        encoders.setdefault(structure, (NewsStudent(structure, sizes).encode, rows))
    rounds = [[measure_encoder(*each) for each in encoders.values()] for _ in range(ROUNDS)]
    least = dict(zip(encoders, np.min(rounds, axis=0), strict=True))
    return np.array([least[name] for name in (*others, *structures)])


def measure_encoder(encode: Callable[[Any], Any], rows: Sequence[Any]) -> np.ndarray:
    """(2,) CPU milliseconds per document: alone (median of every second one), and in a batch."""

    def measure_seconds(batch: Sequence[Any]) -> float:
        started = time.process_time()
        encode(batch)
        return time.process_time() - started

    alone = np.median([measure_seconds([row]) for row in rows[::2]])
    return 1000 * np.array([alone, measure_seconds(rows) / len(rows)])
