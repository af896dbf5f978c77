"""Max-margin loss: near the positive, far from the negatives (thesis Section 4.4.1, Equation 4.1)."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lib.losses import _checks
from lib.losses.mse import mse


def max_margin(
    student: Float[Tensor, "batch dim"],
    teacher: Float[Tensor, "batch dim"],
    *,
    distance: Callable[[Tensor, Tensor], Tensor] = mse,
    gamma: float = 1.0,
    mask: Bool[Tensor, " batch"] | None = None,
    negatives: Float[Tensor, "negatives dim"] | None = None,
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus gamma times the mean distance to the negatives, one value per row.

        max_margin_i = distance(y_i, y_pos_i) - gamma * 1/|Y_neg_i| * sum_{n in Y_neg_i} distance(y_i, n)     (4.1)

    y is a row of `student`, y_pos the same row of `teacher`, Y_neg_i the teacher embeddings of the *other* unmasked
    rows, or `negatives`. Despite the name there is no margin and no hinge. With `mse` and gamma = 1 the student's
    square cancels, so the loss is linear in it and has no lower bound; with gamma > 1 it rewards long embeddings.

    distance: any function (rows, dim) x 2 -> (rows,), called on pairs. gamma: the thesis tries .1, .5, 1, 1.5. mask:
    False for rows that take no part: they give 0 and are nobody's negative. A row without negatives keeps its positive
    term. Source: thesis Equation 4.1; in-batch negatives as in the author's code, where the batch is 6.
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    # Inputs are masked, not results: a masked row is gone before any distance, so not even its NaN can spread.
    y, y_pos = student[mask], teacher[mask]
    n = len(y)
    if negatives is None:
        distances = _to_all(distance, y, y_pos)
        positive = distances.diagonal()
        to_negatives = distances[~torch.eye(n, dtype=torch.bool, device=y.device)].view(
            n, max(n - 1, 0)
        )
    else:
        positive, to_negatives = distance(y, y_pos), _to_all(distance, y, negatives)
    loss = positive
    if to_negatives.shape[1] > 0:
        loss = positive - gamma * to_negatives.mean(dim=1)
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)


def _to_all(distance: Callable[[Tensor, Tensor], Tensor], rows: Tensor, columns: Tensor) -> Tensor:
    """Distances of every row to every column, (rows, columns), by one call on the expanded pairs."""
    n, m = len(rows), len(columns)
    return distance(rows.repeat_interleave(m, dim=0), columns.repeat(n, 1)).view(n, m)
