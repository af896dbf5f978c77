"""Canonical correlation of two sets of embeddings.

Not part of `metrics`, because trainings measure it and their results depend on its code alone.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float


def cca(x: Float[Any, "rows dim1"], y: Float[Any, "rows dim2"], k: int | None = None) -> float:
    """Sum the first k canonical correlations of two sets of vectors (thesis Equation 4.3).

        cca = sum_{j <= k} s_j(Ux' Uy),   Ux, Uy: orthonormal bases of the centred columns

    Directions below the rounding error are dropped, so collinear or constant columns are harmless.
    No covariance matrix is formed or inverted. The thesis measures this on held-out documents to
    choose SoftCCA's beta.

    Parameters
    ----------
    x, y : (rows, dim1) and (rows, dim2) arrays or tensors; row i of both is the same document
    k : number of correlations to add, from 1 to min(dim1, dim2); None is the maximum. Correlations
        beyond the rank are 0.

    Returns
    -------
    from 0 to k; invariant under invertible affine maps of x and of y

    Raises
    ------
    ValueError
        For different numbers of rows, fewer than two rows, values that are not finite, and k out of
        range.

    Warns
    -----
    UserWarning
        If rank(x) + rank(y) exceeds rows - 1. The excess is the number of correlations that are 1
        for any data.

    References
    ----------
    Björck and Golub 1973, Numerical methods for computing angles between linear subspaces
    """
    (x, x_eps), (y, y_eps) = matrix(x, "x"), matrix(y, "y")
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(
            f"x and y must have the same number of rows, at least 2, got {x.shape} and {y.shape}"
        )
    most = min(x.shape[1], y.shape[1])
    if k is None:
        k = most
    elif isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise ValueError(
            f"k must be an integer from 1 to {most} for shapes {x.shape} and {y.shape}, got {k!r}"
        )
    x_basis, y_basis = _orthonormal_columns(x, x_eps), _orthonormal_columns(y, y_eps)
    certain = x_basis.shape[1] + y_basis.shape[1] - (len(x) - 1)
    if certain > 0:
        problem = f"{certain} correlations are 1 for any data"
        advice = f"because {len(x)} rows are too few for these dimensions; use more rows"
        warnings.warn(f"cca of {x.shape} and {y.shape}: {problem}, {advice}", stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1)[:k].sum())


def _orthonormal_columns(x: np.ndarray, eps: float) -> np.ndarray:
    """Return an orthonormal basis of the centred columns of x, (rows, rank).

    `scipy.linalg.orth` sets its threshold relative to the largest singular value *after* centring.
    If all columns are constant, that value is rounding error itself, and they would count as
    directions.
    """
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounding the entries changes singular values by less than eps times the norm before centring.
    # The factor of 10 allows for rounding in the sums.
    return left[:, values > 10 * eps * np.linalg.norm(x)]


def matrix(x: Any, name: str) -> tuple[np.ndarray, float]:
    """Return x as a finite float64 matrix, and the relative rounding error of its original dtype.

    Raises
    ------
    ValueError
        If x is not a matrix of finite numbers, with at least one row and column. `name` names it.
    """
    if hasattr(x, "detach"):  # a tensor of any device and precision
        eps = 2.0**-52 if x.element_size() >= 8 else 2.0**-23
        x = x.detach().cpu().double().numpy()
    else:
        x = np.asarray(x)
        eps = 2.0**-23 if x.dtype in (np.float32, np.float16) else 2.0**-52
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must be numbers of shape (rows, dim) and not empty, got {x.dtype} {x.shape}"
        )
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        text = f"{bad.sum()} of {len(x)} rows hold NaN or infinity, the first is row {bad.argmax()}"
        raise ValueError(f"{name} must be finite; {text}")
    return x.astype(np.float64), eps
