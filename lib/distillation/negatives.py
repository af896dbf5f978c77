"""Negatives from all documents, for `lib.losses.max_margin_drawn`: rows that bring them along."""

from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 11  # of the draws: which negatives a document has does not depend on the student's seed


@dataclass(frozen=True)
class RowsWithNegatives:
    """A structural teacher's embeddings, each followed by those of documents drawn at random.

    Parameters
    ----------
    values : (documents, dim) rows
        By the teacher, perhaps on disk.
    count : int
        Negatives of a document, without repetition while there are enough other documents.

    Raises
    ------
    ValueError
        If a document has no others.
    """

    values: Any
    count: int

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError(
                f"negatives are other documents, so at least two are needed, got {len(self.values)}"
            )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """(rows, (1 + count) * dim), joined when they are asked for; of one row without `rows`."""
        asked = np.arange(len(self))[rows]
        drawn = np.stack([self.draw(int(row)) for row in np.atleast_1d(asked)])
        joined = self.values[drawn.ravel()].reshape(len(drawn), -1)
        return joined if np.ndim(asked) else joined[0]

    def draw(self, row: int) -> np.ndarray:
        """(1 + count,) the document itself, then its negatives; the same in each call."""
        others = len(self) - 1
        generator = np.random.default_rng([SEED, row])
        drawn = generator.choice(others, self.count, replace=self.count > others)
        return np.append(row, drawn + (drawn >= row))
