"""Normalised accuracy, average precision, reciprocal rank, canonical correlation, cosines."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

TIE = 1e-12  # cosines that are so close are equal: their last bits depend on the machine


def normalized_accuracy(accuracies: pd.Series, tasks: pd.Series) -> pd.Series:
    """Divide accuracies by the best of their task among these models (thesis Section 4.2)."""
    return accuracies / accuracies.groupby(tasks).transform("max")


def average_precision(scores: np.ndarray, relevant: Sequence[int], top: int | None = None) -> float:
    """Average, over the relevant items, the precision at each one's rank; 0 if none is ranked.

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    `scores` (items,) rank the items, without the query, from high to low; `relevant` are places
    among them. The result is the mean over all orders of tied items (McSherry and Najork 2008,
    Computing information retrieval performance measures efficiently in the presence of tied
    scores). R counts all relevant items, or with `top=k` only those up to rank k. The published
    scores have k = 1000.
    """
    precisions = precision_at_ranks(scores, relevant)
    if top is None:
        return float(precisions.mean())
    above, size, _, _ = _find_ties(scores, relevant)
    inside = above + size <= top
    total, found = precisions[inside].sum(), inside.sum()
    cut = (above < top) & ~inside  # tied items of which the first k hold some, at random
    if not cut.any():
        return float(total / max(found, 1))
    start, counts = above[cut][0], np.arange(cut.sum() + 1)
    slots = top - start
    chances = stats.hypergeom.pmf(counts, size[cut][0], cut.sum(), slots)
    sums = [total + count * _mean_precision(start, slots, found, count) for count in counts]
    return float(chances @ (sums / np.maximum(found + counts, 1)))


def precision_at_ranks(scores: np.ndarray, relevant: Sequence[int]) -> np.ndarray:
    """(relevant,) the precision at each relevant item's rank, over all orders of tied items."""
    return np.array([_mean_precision(*each) for each in _find_ties(scores, relevant).T])


def reciprocal_rank(scores: np.ndarray, relevant: Sequence[int], top: int | None = None) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`.

    Like `average_precision`, the mean over all orders of tied items.
    """
    above, size, _, hits = _find_ties(scores, relevant)[:, np.argmax(scores[relevant])]
    places = np.arange(size if top is None else np.clip(top - above, 0, size))
    first = np.minimum(hits / (size - places), 1)  # if none of the tied ones before it is relevant
    missed = np.cumprod(np.r_[1, 1 - first])[:-1]
    return float((missed * first / (above + 1 + places)).sum())


def _find_ties(scores: np.ndarray, relevant: Sequence[int]) -> np.ndarray:
    """(4, relevant): how many items are above each relevant one, how many are tied with it (itself
    among them), and how many of either are relevant.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    gaps = scores - scores[relevant][:, None]
    above, tied = gaps > TIE, abs(gaps) <= TIE
    counted = (above, tied, above[:, relevant], tied[:, relevant])
    return np.array([each.sum(axis=1) for each in counted])


def _mean_precision(above: int, size: int, found: int, hits: int) -> float:
    """The mean precision at a relevant item, one of `hits` among `size` tied ones in random order,
    below `above` items of which `found` are relevant.
    """
    places = np.arange(size)
    others = (hits - 1) * places / max(size - 1, 1)  # relevant, tied and before it
    return float(((found + 1 + others) / (above + 1 + places)).mean())


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
    x, eps = values.astype(np.float64), np.finfo(values.dtype).eps
    left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounded entries change singular values by less than eps times this norm. 10 allows for sums,
    # of which no library keeps 16 bits.
    return left[:, sizes > (10 if eps < 1e-6 else 1) * eps * np.linalg.norm(x)]


def cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(...) cosines between the rows of two (..., dim) embeddings, row by row."""
    x, y = (np.asarray(each, np.float64) for each in (x, y))
    return (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def mean_cosine(embedding: np.ndarray) -> float:
    """Mean cosine of different rows of a (rows, dim) embedding."""
    unit = embedding.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return float((np.square(unit.sum(0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))
