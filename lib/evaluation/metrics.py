"""Evaluation: normalised accuracy, retrieval by cosine (MAP, MRR), canonical correlation.

No PyTorch here, so that figures are drawn from records without importing it; tensors are welcome all the same. MAP and
MRR are not scikit-learn's: it knows neither targets without a rank nor the published limit of a thousand ranks.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lib.evaluation.canonical_correlation import cca as cca  # one of the metrics
from lib.evaluation.canonical_correlation import matrix

# Cosines closer than this are ties. The same vector twice may differ in its last bits through the matrix product's
# blocking, and the order of such twins must not depend on the machine.
TIE_DECIMALS = 12


def normalized_accuracy(
    frame: pd.DataFrame, *, best: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """A copy of `frame` with the column `normalized`: accuracy over the best accuracy of its task (Section 4.2).

    The number depends on which models are compared, so one model has different values in different figures.

    frame: columns model, task, accuracy, and any others; one row per result. All rows of a task compete. best: the best
    accuracy per task, where the pool is larger than the frame (Figure 5.3: over all three rounds). Raises `ValueError`
    for a missing column, an accuracy that is not a finite number >= 0, and a task whose best is not above 0.
    """
    for column in ("model", "task", "accuracy"):
        if column not in frame.columns:
            raise ValueError(
                f"frame needs columns model, task, accuracy; {column!r} is not in {list(frame.columns)}"
            )
    scores = pd.to_numeric(frame["accuracy"], errors="coerce").astype(float)
    wrong = frame[~(np.isfinite(scores) & (scores >= 0))]
    if len(wrong):
        model, task, accuracy = wrong[["model", "task", "accuracy"]].iloc[0]
        raise ValueError(
            f"accuracy must be a finite number >= 0, got {accuracy} for model {model!r}, task {task!r}"
        )
    tops = (
        scores.groupby(frame["task"]).transform("max")
        if best is None
        else frame["task"].map(best).astype(float)
    )
    unknown = frame.loc[~(tops > 0), "task"]
    if len(unknown):
        raise ValueError(
            f"no best accuracy above 0 for task {unknown.iloc[0]!r}, so nothing to normalise by"
        )
    return frame.assign(normalized=scores / tops)


def rank(
    embeddings: Float[Any, "texts dim"], ids: Sequence[Hashable], sources: Iterable[Hashable]
) -> dict:
    """For each source, all other ids by decreasing cosine to it: {source: list of the other ids, nearest first}.

    embeddings: (texts, dim), the candidates; array or tensor. ids: their names, in the same order, each once. Ties (to
    12 decimals) keep the order of `ids`, so duplicate texts rank the same way on every machine. A zero vector has
    cosine 0 to everything. Raises `ValueError` for what is not finite, ids that do not fit, and an unknown source.
    """
    x, _ = matrix(embeddings, "embeddings")
    ids, names = list(ids), np.empty(len(ids), dtype=object)
    names[:] = ids
    row = {name: i for i, name in enumerate(ids)}
    if len(ids) != len(x) or len(row) != len(ids):
        raise ValueError(
            f"ids must name each of {len(x)} embeddings once, got {len(ids)} ids, {len(row)} different"
        )
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    rankings = {}
    for source in sources:
        if source not in row:
            raise ValueError(f"source {source!r} has no embedding; drop it or embed its text")
        order = np.argsort(-np.round(x @ x[row[source]], TIE_DECIMALS), kind="stable")
        rankings[source] = names[order[order != row[source]]].tolist()
    return rankings


def average_precision(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
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


def reciprocal_rank(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`. See `average_precision`."""
    _, ranks = _hits(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def _hits(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None
) -> tuple[set, list[int]]:
    """The relevant ids, and the ranks (from 1, within top) at which they were found."""
    for name, ids in (("relevant", relevant), ("ranking", ranking)):
        if isinstance(ids, str | bytes):
            raise ValueError(
                f"{name} must be a collection of ids, got the text {ids!r}; put it in a list"
            )
    relevant, ranking = set(relevant), list(ranking)
    if not relevant:
        raise ValueError("relevant must name at least one item; drop queries without targets")
    if len(set(ranking)) != len(ranking):
        raise ValueError(
            f"ranking must name items once, got {len(ranking)} entries, {len(set(ranking))} different"
        )
    if top is not None and (
        isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1
    ):
        raise ValueError(f"top must be an integer >= 1 or None, got {top!r}")
    return relevant, [rank for rank, name in enumerate(ranking[:top], 1) if name in relevant]
