"""Rows of vectors: scaled, centred, side by side."""

import numpy as np


def scale_rows(x: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1; a zero row stays zero."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def mean_row(vectors: np.ndarray) -> np.ndarray:
    """(dim,) the mean of rows scaled to norm 1; zeros if there are no rows."""
    return scale_rows(vectors).mean(axis=0) if len(vectors) else np.zeros(vectors.shape[1], "f4")


def centre_rows(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1, minus a mean of such rows, scaled to norm 1 again.

    Cosines distinguish texts better without what all share. A zero row, of no known word, stays.
    """
    scaled = scale_rows(x)
    return scale_rows(np.where(scaled.any(axis=1, keepdims=True), scaled - mean, 0))


def join_rows(dense: np.ndarray, lexical: np.ndarray) -> np.ndarray:
    """(texts, dim + words) float32, whose cosine is the mean of the two; zero rows stay zero."""
    joined = np.hstack([scale_rows(dense), scale_rows(lexical)]).astype(np.float32)
    return joined * np.float32(np.sqrt(0.5))
