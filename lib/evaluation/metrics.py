"""Normalised accuracy, average precision, reciprocal rank, canonical correlation; without PyTorch.

scikit-learn's metrics know neither relevant items without a rank nor the published limit of ranks.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence

import pandas as pd

from lib.evaluation.canonical_correlation import cca as cca  # one of the metrics


def normalized_accuracy(
    frame: pd.DataFrame, *, best: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Divide accuracies by the best of their task (thesis Section 4.2), as a column `normalized`.

    `frame` has columns task and accuracy. `best`, per task, is by default that in the frame, so a
    model has different values in different figures. Figure 5.3 takes the best of all three rounds.
    """
    if best is None:
        tops = frame.groupby("task")["accuracy"].transform("max")
    else:
        tops = frame["task"].map(best)
    return frame.assign(normalized=frame["accuracy"] / tops)


def average_precision(
    relevant: Collection[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
    """Average, over the relevant items, the precision at each one's rank; 0 if none is ranked.

        AP = 1/R * sum over relevant ranked items of (relevant items up to its rank) / rank

    `ranking` has ids from best to worst, each once, without the query. R counts all relevant items,
    or with `top=k` only those up to rank k. The published scores have k = 1000.
    """
    ranks = _find_ranks(relevant, ranking, top)
    counted = len(ranks) if top is not None else len(set(relevant))
    return float(sum(n / rank for n, rank in enumerate(ranks, 1)) / counted) if ranks else 0.0


def reciprocal_rank(
    relevant: Collection[Hashable], ranking: Sequence[Hashable], top: int | None = None
) -> float:
    """One over the rank of the first relevant item; 0 if none is ranked within `top`."""
    ranks = _find_ranks(relevant, ranking, top)
    return 1.0 / ranks[0] if ranks else 0.0


def _find_ranks(
    relevant: Collection[Hashable], ranking: Sequence[Hashable], top: int | None
) -> list[int]:
    """The ranks of relevant items that are within `top`, ascending from 1."""
    wanted = set(relevant)
    return [rank for rank, name in enumerate(ranking[:top], 1) if name in wanted]
