"""Canonical correlation of two sets of embeddings, apart because trainings depend on this code."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float


def cca(x: Float[Any, "rows dim1"], y: Float[Any, "rows dim2"], k: int | None = None) -> float:
    """Sum the first k canonical correlations of two sets of vectors (thesis Equation 4.3).

        cca = sum_{j <= k} s_j(Ux' Uy),   Ux, Uy: orthonormal bases of the centred columns

    (Björck and Golub 1973, Numerical methods for computing angles between linear subspaces.)
    Directions below the rounding error are dropped. The thesis measures this on held-out documents
    to choose SoftCCA's beta. Row i of x and of y, arrays or tensors, is the same document. The
    result lies between 0 and k and is invariant under invertible affine maps of x and of y.

    Warns if rank(x) + rank(y) exceeds rows - 1, by the number of correlations that are 1 anyway.
    """
    x_basis, y_basis = _orthonormal_columns(x), _orthonormal_columns(y)
    certain = x_basis.shape[1] + y_basis.shape[1] - (len(x) - 1)
    if certain > 0:
        problem = f"{certain} correlations are 1 for any data"
        advice = f"because {len(x)} rows are too few for these dimensions; use more rows"
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
        warnings.warn(f"cca of {shapes}: {problem}, {advice}", stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1)[:k].sum())


def _orthonormal_columns(values: Any) -> np.ndarray:
    """An orthonormal basis of the centred columns, (rows, rank).

    The threshold of `scipy.linalg.orth` is relative to the largest singular value *after* centring,
    so the rounding errors of constant columns would count as directions.
    """
    if hasattr(values, "detach"):  # a tensor of any device and precision
        values = values.detach().cpu()
        values = (values if values.element_size() >= 8 else values.float()).numpy()
    x = values.astype(np.float64)
    eps = 2.0**-52 if values.itemsize >= 8 else 2.0**-23
    left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounded entries change singular values by less than eps times this norm; 10 allows for sums.
    return left[:, sizes > 10 * eps * np.linalg.norm(x)]
