"""How long a model takes to embed a document."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lib.news import designs
from lib.news.students import NewsStudent, Rows, Sizes

ROUNDS = 3
Encode = Callable[[Any], Any]


def measure_students(
    models: Sequence[str], sizes: Sizes, rows: Rows, others: Mapping[str, tuple[Encode, list]]
) -> dict[str, list[float]]:
    """Model -> CPU milliseconds per document: one at a time, and in a batch of all.

    All models are measured in turn in one process, and the shortest of several rounds counts.
    Weights do not matter, so students are untrained, with one for all models of equal structure.

    Parameters
    ----------
    models : sequence of str
        Students' identities.
    sizes : Sizes
    rows : sequence of (tokens,) int
        Documents as token ids; tokenising is not measured.
    others : dict
        {model: (encode, documents)}, further models to measure.
    """
    structures = {model: _strip_training(designs.parse(model)) for model in models}
    encoders: dict[Any, tuple[Encode, Any]] = dict(others)
    for structure in structures.values():
        encoders.setdefault(structure, (NewsStudent(structure, sizes).encode, rows))
    rounds = [
        {name: measure_encoder(*given) for name, given in encoders.items()} for _ in range(ROUNDS)
    ]
    least = {
        name: np.min([measured[name] for measured in rounds], axis=0).tolist() for name in encoders
    }
    return {model: least[structures.get(model, model)] for model in (*others, *models)}


def _strip_training(design: designs.Design) -> designs.Design:
    """The part of a design that decides its speed."""
    return replace(design, identity="", loss="", alpha=0.0, schedule="", annotated=False)


def measure_encoder(encode: Encode, rows: Rows) -> np.ndarray:
    """(2,) CPU milliseconds per document: alone (median of every second one), and in a batch."""

    def measure_seconds(batch: Rows) -> float:
        started = time.process_time()
        encode(batch)
        return time.process_time() - started

    alone = np.median([measure_seconds([row]) for row in rows[::2]])
    return 1000 * np.array([alone, measure_seconds(rows) / len(rows)])
