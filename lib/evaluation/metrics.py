"""Normalised accuracy, average precision, reciprocal rank and canonical correlation."""

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float


def normalized_accuracy(accuracies: pd.Series, tasks: pd.Series) -> pd.Series:
    """Divide accuracies by the best of their task (thesis Section 4.2).

    A model has different values among different models.
    """
    return accuracies / accuracies.groupby(tasks).transform("max")


def average_precision(relevant: Collection, ranking: Sequence, top: int | None = None) -> float:
    """Average, over the relevant items, the precision at each one's rank; 0 if none is ranked.

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    `ranking` has ids from best to worst, each once, without the query. R counts all relevant items,
    or with `top=k` only those up to rank k. The published scores have k = 1000.
    """
    ranks = _find_ranks(relevant, ranking, top)
    counted = len(ranks) if top is not None else len(set(relevant))
    return float(sum(n / rank for n, rank in enumerate(ranks, 1)) / counted) if ranks else 0.0


def reciprocal_rank(relevant: Collection, ranking: Sequence, top: int | None = None) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`."""
    ranks = _find_ranks(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def _find_ranks(relevant: Collection, ranking: Sequence, top: int | None) -> list[int]:
    """The ranks of relevant items that are within `top`, ascending from 1."""
    wanted = set(relevant)
    return [rank for rank, name in enumerate(ranking[:top], 1) if name in wanted]


def cca(x: Float[Any, "rows dim1"], y: Float[Any, "rows dim2"]) -> float:
    """Sum the canonical correlations of two sets of vectors (thesis Equation 4.3).

        cca = sum_j s_j(Ux' Uy),   Ux, Uy: orthonormal bases of the centred columns

    (Björck and Golub 1973, Numerical methods for computing angles between linear subspaces.) Row i
    of x and of y, arrays of floats, is the same document. Invariant under invertible affine maps.
    Warns if rank(x) + rank(y) exceeds rows - 1, by the number of correlations that are 1 anyway.
    """
    x_basis, y_basis = _orthonormal_columns(x), _orthonormal_columns(y)
    certain = x_basis.shape[1] + y_basis.shape[1] - (len(x) - 1)
    if certain > 0:
        what = f"cca of {tuple(x.shape)} and {tuple(y.shape)}: {certain} correlations are 1 for any"
        warnings.warn(f"{what} data, because the rows are too few; use more rows", stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1).sum())


def _orthonormal_columns(values: Any) -> np.ndarray:
    """An orthonormal basis of the centred columns, (rows, rank).

    The threshold of `scipy.linalg.orth` is relative to the largest singular value *after* centring,
    so the rounding errors of constant columns would count as directions.
    """
    x, eps = values.astype(np.float64), 2.0**-52 if values.itemsize >= 8 else 2.0**-23
    left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounded entries change singular values by less than eps times this norm; 10 allows for sums.
    return left[:, sizes > 10 * eps * np.linalg.norm(x)]
