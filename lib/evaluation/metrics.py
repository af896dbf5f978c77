"""Evaluation: normalised accuracy, retrieval by cosine (MAP, MRR), canonical correlation.

No PyTorch here, so that figures are drawn from records without importing it. MAP and MRR are not scikit-learn's: it
knows neither targets without a rank nor the published limit of a thousand ranks.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from lib.evaluation.canonical_correlation import cca as cca  # one of the metrics

# Cosines closer than this are ties. The same vector twice may differ in its last bits through the matrix product's
# blocking, and the order of such twins must not depend on the machine.
TIE_DECIMALS = 12


def normalized_accuracy(frame: pd.DataFrame, *, best: Mapping[str, float] | None = None) -> pd.DataFrame:
    """A copy of `frame` with the column `normalized`: accuracy over the best accuracy of its task (Section 4.2).

    The number depends on which models are compared, so one model has different values in different figures.

    frame: columns model, task, accuracy, and any others; one row per result. All rows of a task compete. best: the best
    accuracy per task, where the pool is larger than the frame (Figure 5.3: over all three rounds).
    """
    tops = frame.groupby("task")["accuracy"].transform("max") if best is None else frame["task"].map(best)
    normalized = frame["accuracy"] / tops
    wrong = frame[~((frame["accuracy"] >= 0) & np.isfinite(normalized))]
    if len(wrong):
        model, task, accuracy = wrong[["model", "task", "accuracy"]].iloc[0]
        text = f"got {accuracy} for model {model!r}, task {task!r}"
        raise ValueError(f"accuracy must be a finite number >= 0, and the best of its task above 0, {text}")
    return frame.assign(normalized=normalized)


def rank(embeddings: Float[np.ndarray, "texts dim"], ids: Sequence[Hashable], sources: Iterable[Hashable]) -> dict:
    """For each source, all other ids by decreasing cosine to it: {source: list of the other ids, nearest first}.

    embeddings: (texts, dim), the candidates; ids: their names, each once. Ties (to 12 decimals) keep the order of
    `ids`, so duplicate texts rank the same way on every machine. A zero vector has cosine 0 to everything.
    """
    x = embeddings.astype(np.float64)
    row = {name: i for i, name in enumerate(ids)}
    if not len(x) == len(ids) == len(row) or not np.isfinite(x).all():
        came = f"{len(x)} embeddings, {len(ids)} ids, {len(row)} different"
        raise ValueError(f"rank: embeddings must be finite, and each have an id of its own, got {came}")
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    x = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
    rankings = {}
    for source in sources:
        order = np.argsort(-np.round(x @ x[row[source]], TIE_DECIMALS), kind="stable")
        rankings[source] = [ids[i] for i in order if i != row[source]]
    return rankings


def average_precision(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None) -> float:
    """Mean, over the relevant items, of the precision at each one's rank, in [0, 1].

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    ranking: ids from best to worst, each once, without the query itself. Whole ordering (`top=None`): R counts every
    relevant item; one that is missing from the ranking adds 0. With `top=k`, relevant items below rank k (or missing)
    leave both the sum and R, and none within gives 0: so the published scores were made, with k = 1000.
    """
    ranks = _hits(relevant, ranking, top)
    counted = len(ranks) if top is not None else len(set(relevant))
    return float(sum(n / rank for n, rank in enumerate(ranks, 1)) / counted) if ranks else 0.0


def reciprocal_rank(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None = None) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`."""
    ranks = _hits(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def mean_over_sources(score: Callable, relevant: Mapping, rankings: Mapping, top: int | None = None) -> float:
    """MAP, or MRR: mean of `average_precision`, or `reciprocal_rank`, over the sources of `relevant`.

    relevant: {source: relevant ids}. rankings: {source: ranking}.
    """
    return float(np.mean([score(targets, rankings[source], top) for source, targets in relevant.items()]))


def _hits(relevant: Iterable[Hashable], ranking: Sequence[Hashable], top: int | None) -> list[int]:
    """The ranks (from 1, within top) at which relevant ids were found."""
    relevant = set(relevant)
    if not relevant or len(set(ranking)) != len(ranking):
        came = f"{len(relevant)} relevant, {len(ranking)} ranked, {len(set(ranking))} different"
        raise ValueError(f"relevant must name at least one item, and ranking each item once, got {came}")
    return [rank for rank, name in enumerate(ranking[:top], 1) if name in relevant]
