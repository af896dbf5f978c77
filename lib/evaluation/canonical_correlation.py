"""Canonical correlation of two sets of embeddings (apart from `metrics`: trainings measure it)."""

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
    x, y : (rows, dim1) and (rows, dim2) arrays or tensors; a row of each is one document
    k : correlations to add, from 1 to min(dim1, dim2), which None stands for. Those beyond the rank
        are 0.

    Returns
    -------
    from 0 to k; any invertible affine map of x or of y leaves it as it is

    Raises
    ------
    ValueError
        For shapes that do not fit, fewer than two rows, values that are not finite, and k out of
        range.

    Warns
    -----
    UserWarning
        If rank(x) + rank(y) exceeds rows - 1: that many correlations are 1 for any data.

    References
    ----------
    Björck and Golub 1973
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
        advice = f"because {len(x)} rows are few for these dimensions; use more rows"
        warnings.warn(f"cca of {x.shape} and {y.shape}: {problem}, {advice}", stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1)[:k].sum())


def _orthonormal_columns(x: np.ndarray, eps: float) -> np.ndarray:
    """Orthonormal basis of the centred columns of x, (rows, rank).

    Not `scipy.linalg.orth`, whose limit is relative to the largest *centred* singular value: of a
    constant column that is rounding error itself, and the column would count as a direction.
    """
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounding every entry moves singular values by less than eps times the norm before centring;
    # the 10 is for sums rounded along the way.
    return left[:, values > 10 * eps * np.linalg.norm(x)]


def matrix(x: Any, name: str) -> tuple[np.ndarray, float]:
    """Return x as a finite float64 matrix, with the rounding error of the precision it came in."""
    if hasattr(x, "detach"):  # a tensor of any device and precision
        eps = 2.0**-52 if x.element_size() >= 8 else 2.0**-23
        x = x.detach().cpu().double().numpy()
    else:
        x = np.asarray(x)
        eps = 2.0**-23 if x.dtype in (np.float32, np.float16) else 2.0**-52
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must be numbers of shape (rows, dim), not empty, got {x.dtype} {x.shape}"
        )
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        text = f"{bad.sum()} of {len(x)} rows hold NaN or infinity, the first is row {bad.argmax()}"
        raise ValueError(f"{name} must be finite; {text}")
    return x.astype(np.float64), eps
