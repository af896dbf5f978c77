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
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus gamma times the mean distance to the negatives, one value per row.

        max_margin_i = distance(y_i, y_pos_i) - gamma * 1/|Y_neg_i| * sum_{n in Y_neg_i} distance(y_i, n)     (4.1)

    y is a row of `student`, y_pos the same row of `teacher`, Y_neg_i the teacher embeddings of the *other* unmasked
    rows. Despite the name there is no margin and no hinge. With `mse` and gamma = 1 the quadratic term in the student
    cancels, so the loss is linear in the student and has no lower bound; with gamma > 1 it rewards long embeddings.

    distance: any function (rows, dim) x 2 -> (rows,), called once on all pairs. gamma: the thesis tries .1, .5, 1, 1.5.
    mask: False for rows that take no part: they give 0 and are nobody's negative. A row without negatives keeps its
    positive term. Source: thesis Equation 4.1; in-batch negatives as in the author's code, where the batch is 6.
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    # Inputs are masked, not results: a masked row is gone before any distance, so not even its NaN can spread.
    y, y_pos = student[mask], teacher[mask]
    n = len(y)
    distances = distance(y.repeat_interleave(n, dim=0), y_pos.repeat(n, 1)).view(n, n)  # [i, j]: of y_i to y_pos_j
    loss = positive = distances.diagonal()
    if n > 1:
        negatives = distances[~torch.eye(n, dtype=torch.bool, device=y.device)].view(n, n - 1)
        loss = positive - gamma * negatives.mean(dim=1)
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
