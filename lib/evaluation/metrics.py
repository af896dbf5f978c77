"""Metrics: normalised accuracy, retrieval by cosine (MAP, MRR), canonical correlation.

This module does not import PyTorch, so that figures can be drawn from records without it, but it
accepts tensors. scikit-learn's metrics support neither relevant items without a rank nor the
published limit of a thousand ranks.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from lib.evaluation.canonical_correlation import cca as cca  # one of the metrics
from lib.evaluation.canonical_correlation import matrix

# Cosines that agree to this many decimals are ties. The matrix product may give two copies of a
# vector cosines with different last bits, and their order must not depend on the machine.
TIE_DECIMALS = 12


def normalized_accuracy(
    frame: pd.DataFrame, *, best: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Divide accuracies by the best accuracy of their task (thesis Section 4.2).

    The result depends on which models are compared, so the same model has different values in
    different figures.

    Parameters
    ----------
    frame : one row per result, with columns model, task, accuracy and any others
    best : the best accuracy per task; by default, that of the task's rows in `frame`. Figure 5.3
        takes the best of all three rounds.

    Returns
    -------
    A copy of `frame` with the column `normalized`.

    Raises
    ------
    ValueError
        For a missing column, an accuracy that is not a finite number >= 0, and a task without a
        best accuracy above 0.
    """
    for column in ("model", "task", "accuracy"):
        if column not in frame.columns:
            problem = f"{column!r} is not in {list(frame.columns)}"
            raise ValueError(f"frame needs columns model, task, accuracy; {problem}")
    scores = pd.to_numeric(frame["accuracy"], errors="coerce").astype(float)
    wrong = frame[~(np.isfinite(scores) & (scores >= 0))]
    if len(wrong):
        model, task, accuracy = wrong[["model", "task", "accuracy"]].iloc[0]
        where = f"for model {model!r}, task {task!r}"
        raise ValueError(f"accuracy must be a finite number >= 0, got {accuracy} {where}")
    if best is None:
        tops = scores.groupby(frame["task"]).transform("max")
    else:
        tops = frame["task"].map(best).astype(float)
    unknown = frame.loc[~(tops > 0), "task"]
    if len(unknown):
        raise ValueError(
            f"task {unknown.iloc[0]!r} has no best accuracy above 0, so it cannot be normalised"
        )
    return frame.assign(normalized=scores / tops)


def rank(
    embeddings: Float[Any, "texts dim"], ids: Sequence[Hashable], sources: Iterable[Hashable]
) -> dict:
    """For each source, rank all other texts by decreasing cosine to it.

    Parameters
    ----------
    embeddings : (texts, dim) array or tensor; a zero vector has cosine 0 to all others
    ids : unique names of the texts, in the same order. Ties (to 12 decimals) keep this order, so
        duplicate texts are ranked in the same way on every machine.
    sources : the ids of the queries

    Returns
    -------
    {source: list of the other ids, nearest first}

    Raises
    ------
    ValueError
        For embeddings that are not finite, ids that do not name each embedding once, and an unknown
        source.
    """
    x, _ = matrix(embeddings, "embeddings")
    ids, names = list(ids), np.empty(len(ids), dtype=object)
    names[:] = ids
    row_of = {name: row for row, name in enumerate(ids)}
    if len(ids) != len(x) or len(row_of) != len(ids):
        got = f"{len(ids)} ids, {len(row_of)} different"
        raise ValueError(f"ids must name each of {len(x)} embeddings once, got {got}")
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    rankings = {}
    for source in sources:
        if source not in row_of:
            raise ValueError(f"source {source!r} has no embedding; leave it out or embed its text")
        row = row_of[source]
        order = np.argsort(-np.round(x @ x[row], TIE_DECIMALS), kind="stable")
        rankings[source] = names[order[order != row]].tolist()
    return rankings


def average_precision(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
    """Average, over the relevant items, the precision at each one's rank.

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    Parameters
    ----------
    relevant : ids of the relevant items
    ranking : ids from best to worst, each once, without the query
    top : None uses the whole ranking: R is the number of relevant items, and an item that is
        missing from the ranking adds 0. With `top=k`, relevant items that are missing or below
        rank k count neither in the sum nor in R. The published scores have k = 1000.

    Returns
    -------
    from 0 to 1; 0 if no relevant item is ranked

    Raises
    ------
    ValueError
        Without a relevant item, for an id ranked twice, and for a `top` that is not an integer
        >= 1.
    """
    relevant, ranks = _hits(relevant, ranking, top)
    counted = len(ranks) if top is not None else len(relevant)
    return float(sum(n / rank for n, rank in enumerate(ranks, 1)) / counted) if ranks else 0.0


def reciprocal_rank(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
    """Return one over the rank of the first relevant item; 0 if none is ranked within `top`.

    Parameters
    ----------
    relevant, ranking
        As for `average_precision`, which raises the same errors.
    top : int or None
        Ranks below this one do not count; None uses the whole ranking.

    Returns
    -------
    from 0 to 1
    """
    _, ranks = _hits(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def _hits(
    relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None
) -> tuple[set, list[int]]:
    """Check the arguments; return the relevant ids and those of their ranks that are within `top`.

    Ranks count from 1.
    """
    for name, ids in (("relevant", relevant), ("ranking", ranking)):
        if isinstance(ids, str | bytes):
            raise ValueError(
                f"{name} must be a collection of ids, got the text {ids!r}; put it in a list"
            )
    relevant, ranking = set(relevant), list(ranking)
    if not relevant:
        raise ValueError(
            "relevant must name at least one item; leave out queries without relevant items"
        )
    if len(set(ranking)) != len(ranking):
        got = f"{len(ranking)} entries, {len(set(ranking))} different"
        raise ValueError(f"ranking must name each item once, got {got}")
    integer = isinstance(top, int | np.integer) and not isinstance(top, bool)
    if top is not None and (not integer or top < 1):
        raise ValueError(f"top must be an integer >= 1 or None, got {top!r}")
    return relevant, [rank for rank, name in enumerate(ranking[:top], 1) if name in relevant]
