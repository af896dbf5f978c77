"""Canonical correlation of two sets of embeddings, in a module of its own: trainings measure it (`held_out_cca`)."""

import warnings

import numpy as np
from jaxtyping import Float


def cca(x: Float[np.ndarray, "rows dim1"], y: Float[np.ndarray, "rows dim2"]) -> float:
    """Sum of the canonical correlations of two sets of vectors, rows of one document each (thesis Equation 4.3).

        cca = sum_j s_j(Ux' Uy),   Ux, Uy: orthonormal bases of the centred columns of x and y

    The bases come from thin SVDs and directions below the rounding error are dropped, so collinear or constant columns
    are harmless and no covariance matrix is ever formed, inverted or rooted. The result lies in [0, min(dim1, dim2)]
    and is invariant under any invertible affine map of x or of y.

    Warns if rank(x) + rank(y) exceeds rows - 1: that many correlations are then 1 whatever the data.

    Source: Björck and Golub 1973. The thesis follows this on held-out documents to choose SoftCCA's beta.
    """
    x_basis, y_basis = _orthonormal_columns(x), _orthonormal_columns(y)
    certain = x_basis.shape[1] + y_basis.shape[1] - (len(x) - 1)
    if certain > 0:
        text = f"cca of {x.shape} and {y.shape}: {certain} correlations are 1 for any data; use more rows"
        warnings.warn(text, stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1).sum())


def _orthonormal_columns(x: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the centred columns of x, (rows, rank)."""
    eps = np.finfo(x.dtype).eps
    x = x.astype(np.float64)
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounding every entry moves singular values by less than eps * norm, the norm of the data before centring, which
    # leaves only rounding errors of a constant column; the 10 is for sums rounded along the way.
    return left[:, values > 10 * eps * np.linalg.norm(x)]
