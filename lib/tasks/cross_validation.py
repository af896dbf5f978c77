"""Cross-validation folds, for tasks without a validation or test split."""

from __future__ import annotations

import numpy as np


def folds(labels: np.ndarray, count: int, groups: np.ndarray | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) row numbers of stratified folds in file order, unshuffled (thesis code, IMDB); no group is cut.

    Args:
        labels: (examples,) class indices.
        count: number of folds.
        groups: (examples,), equal where examples share a group; None: each is its own.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is None:
        return list(StratifiedKFold(count, shuffle=False).split(np.zeros(len(labels)), labels))
    return list(StratifiedGroupKFold(count, shuffle=False).split(np.zeros(len(labels)), labels, groups))
