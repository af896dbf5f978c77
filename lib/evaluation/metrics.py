"""Evaluation: normalised accuracy, retrieval by cosine (MAP, MRR), canonical correlation.

No PyTorch here, so that figures are drawn from records without importing it; tensors are welcome all the same. MAP and
MRR are not scikit-learn's: it knows neither targets without a rank nor the published limit of a thousand ranks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

# Cosines closer than this are ties. The same vector twice may differ in its last bits through the matrix product's
# blocking, and the order of such twins must not depend on the machine.
TIE_DECIMALS = 12


def normalized_accuracy(frame: pd.DataFrame, *, best: Mapping[str, float] | None = None) -> pd.DataFrame:
    """A copy of `frame` with the column `normalized`: accuracy over the best accuracy of its task (Section 4.2).

    The number depends on which models are compared, so one model has different values in different figures.

    frame: columns model, task, accuracy, and any others; one row per result. All rows of a task compete. best: the best
    accuracy per task, where the pool is larger than the frame (Figure 5.3: over all three rounds). Raises `ValueError`
    for a missing column, an accuracy that is not a finite number >= 0, and a task whose best is not above 0.
    """
    for column in ("model", "task", "accuracy"):
        if column not in frame.columns:
            raise ValueError(f"frame needs columns model, task, accuracy; {column!r} is not in {list(frame.columns)}")
    scores = pd.to_numeric(frame["accuracy"], errors="coerce").astype(float)
    wrong = frame[~(np.isfinite(scores) & (scores >= 0))]
    if len(wrong):
        model, task, accuracy = wrong[["model", "task", "accuracy"]].iloc[0]
        raise ValueError(f"accuracy must be a finite number >= 0, got {accuracy} for model {model!r}, task {task!r}")
    tops = scores.groupby(frame["task"]).transform("max") if best is None else frame["task"].map(best).astype(float)
    unknown = frame.loc[~(tops > 0), "task"]
    if len(unknown):
        raise ValueError(f"no best accuracy above 0 for task {unknown.iloc[0]!r}, so nothing to normalise by")
    return frame.assign(normalized=scores / tops)


def rank(embeddings: Float[Any, "texts dim"], ids: Sequence[Hashable], sources: Iterable[Hashable]) -> dict:
    """For each source, all other ids by decreasing cosine to it: {source: list of the other ids, nearest first}.

    embeddings: (texts, dim), the candidates; array or tensor. ids: their names, in the same order, each once. Ties (to
    12 decimals) keep the order of `ids`, so duplicate texts rank the same way on every machine. A zero vector has
    cosine 0 to everything. Raises `ValueError` for what is not finite, ids that do not fit, and an unknown source.
    """
    x, _ = _matrix(embeddings, "embeddings")
    ids = list(ids)
    row = {name: i for i, name in enumerate(ids)}
    if len(ids) != len(x) or len(row) != len(ids):
        raise ValueError(f"ids must name each of {len(x)} embeddings once, got {len(ids)} ids, {len(row)} different")
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    rankings = {}
    for source in sources:
        if source not in row:
            raise ValueError(f"source {source!r} has no embedding; drop it or embed its text")
        order = np.argsort(-np.round(x @ x[row[source]], TIE_DECIMALS), kind="stable")
        rankings[source] = [ids[i] for i in order if i != row[source]]
    return rankings


def average_precision(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None) -> float:
    """Mean, over the relevant items, of the precision at each one's rank, in [0, 1].

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    ranking: ids from best to worst, each once, without the query itself. Whole ordering (`top=None`): R counts every
    relevant item; one that is missing from the ranking adds 0. With `top=k`, relevant items below rank k (or missing)
    leave both the sum and R, and none within gives 0: so the published scores were made, with k = 1000. Raises
    `ValueError` for no relevant item, an id ranked twice, and a top that is not an integer >= 1.
    """
    relevant, ranks = _hits(relevant, ranking, top)
    counted = len(ranks) if top is not None else len(relevant)
    return float(sum(n / rank for n, rank in enumerate(ranks, 1)) / counted) if ranks else 0.0


def reciprocal_rank(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`. See `average_precision`."""
    _, ranks = _hits(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def mean_over_sources(score: Callable, relevant: Mapping, rankings: Mapping, top: int | None = None) -> float:
    """MAP, or MRR: mean of `average_precision`, or `reciprocal_rank`, over the sources of `relevant`.

    relevant: {source: relevant ids}. rankings: {source: ranking}. Raises `ValueError` for a source without ranking.
    """
    if not relevant:
        raise ValueError("relevant must hold at least one source")
    missing = [source for source in relevant if source not in rankings]
    if missing:
        raise ValueError(f"no ranking for source {missing[0]!r} ({len(missing)} of {len(relevant)} sources lack one)")
    return float(np.mean([score(targets, rankings[source], top) for source, targets in relevant.items()]))


def cca(x: Float[Any, "rows dim1"], y: Float[Any, "rows dim2"], k: int | None = None) -> float:
    """Sum of the first k canonical correlations of two sets of vectors (thesis Equation 4.3).

        cca = sum_{j <= k} s_j(Ux' Uy),   Ux, Uy: orthonormal bases of the centred columns of x and y

    The bases come from thin SVDs and directions below the rounding error are dropped, so collinear or constant columns
    are harmless and no covariance matrix is ever formed, inverted or rooted.

    x, y: (rows, dim1) and (rows, dim2), rows of one document each; arrays or tensors. k: how many correlations to add,
    from 1 to min(dim1, dim2), which None stands for; those beyond the rank are 0. Returns a number in [0, k], invariant
    under any invertible affine map of x or of y.

    Warns if rank(x) + rank(y) exceeds rows - 1: that many correlations are then 1 whatever the data. Raises
    `ValueError` for shapes that do not fit, fewer than two rows, a value that is not finite, and k out of range.

    Source: Björck and Golub 1973. The thesis follows this on held-out documents to choose SoftCCA's beta.
    """
    (x, x_eps), (y, y_eps) = _matrix(x, "x"), _matrix(y, "y")
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"x and y must have the same number of rows, at least 2, got {x.shape} and {y.shape}")
    most = min(x.shape[1], y.shape[1])
    if k is None:
        k = most
    elif isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise ValueError(f"k must be an integer from 1 to {most} for shapes {x.shape} and {y.shape}, got {k!r}")
    x_basis, y_basis = _orthonormal_columns(x, x_eps), _orthonormal_columns(y, y_eps)
    certain = x_basis.shape[1] + y_basis.shape[1] - (len(x) - 1)
    if certain > 0:
        why = f"{len(x)} rows are few for these dimensions; use more rows"
        text = f"cca of {x.shape} and {y.shape}: {certain} correlations are 1 for any data, because {why}"
        warnings.warn(text, stacklevel=2)
    correlations = np.linalg.svd(x_basis.T @ y_basis, compute_uv=False)
    return float(np.clip(correlations, 0, 1)[:k].sum())


def _orthonormal_columns(x: np.ndarray, eps: float) -> np.ndarray:
    """Orthonormal basis of the centred columns of x, (rows, rank)."""
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    # Rounding every entry moves singular values by less than eps * norm, the norm of the data before centring, which
    # leaves only rounding errors of a constant column; the 10 is for sums rounded along the way.
    return left[:, values > 10 * eps * np.linalg.norm(x)]


def _hits(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None) -> tuple[set, list[int]]:
    """The relevant ids, and the ranks (from 1, within top) at which they were found."""
    for name, ids in (("relevant", relevant), ("ranking", ranking)):
        if isinstance(ids, str | bytes):
            raise ValueError(f"{name} must be a collection of ids, got the text {ids!r}; put it in a list")
    relevant, ranking = set(relevant), list(ranking)
    if not relevant:
        raise ValueError("relevant must name at least one item; drop queries without targets")
    if len(set(ranking)) != len(ranking):
        raise ValueError(f"ranking must name items once, got {len(ranking)} entries, {len(set(ranking))} different")
    if top is not None and (isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1):
        raise ValueError(f"top must be an integer >= 1 or None, got {top!r}")
    return relevant, [rank for rank, name in enumerate(ranking[:top], 1) if name in relevant]


def _matrix(x: Any, name: str) -> tuple[np.ndarray, float]:
    """x as a finite float64 matrix, and the rounding error of the precision it came in."""
    if hasattr(x, "detach"):  # a tensor of any device and precision
        eps = 2.0**-52 if x.element_size() >= 8 else 2.0**-23
        x = x.detach().cpu().double().numpy()
    else:
        x = np.asarray(x)
        eps = 2.0**-23 if x.dtype in (np.float32, np.float16) else 2.0**-52
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers of shape (rows, dim), not empty, got {x.dtype} {x.shape}")
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        text = f"{bad.sum()} of {len(x)} rows hold NaN or infinity, the first is row {bad.argmax()}"
        raise ValueError(f"{name} must be finite; {text}")
    return x.astype(np.float64), eps
