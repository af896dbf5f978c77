"""Teacher embeddings with negatives drawn from all documents, for `losses.max_margin_drawn`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 11  # so that a document's negatives do not depend on the student's seed


@dataclass(frozen=True)
class RowsWithNegatives:
    """A structural teacher's embeddings, each followed by those of documents drawn at random.

    `values` are (documents, dim), possibly memory-mapped. The `count` negatives of a document
    repeat only if there are fewer other documents. `ValueError` for fewer than two documents.
    """

    values: Any
    count: int

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError(f"of documents at least two are needed, got {len(self.values)}")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """(rows, (1 + count) * dim), or ((1 + count) * dim,) for a single integer."""
        asked = np.arange(len(self))[rows]
        drawn = np.stack([self.draw(int(row)) for row in np.atleast_1d(asked)])
        joined = self.values[drawn.ravel()].reshape(len(drawn), -1)
        return joined if np.ndim(asked) else joined[0]

    def draw(self, row: int) -> np.ndarray:
        """(1 + count,): the row itself, then those of its negatives, the same in every call."""
        others = len(self) - 1
        generator = np.random.default_rng([SEED, row])
        drawn = generator.choice(others, self.count, replace=self.count > others)
        return np.append(row, drawn + (drawn >= row))
