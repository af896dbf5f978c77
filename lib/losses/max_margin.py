"""Max-margin loss: near the positive, far from the negatives (thesis Section 4.4.1)."""

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
    negatives: Float[Tensor, "batch n dim"] | None = None,
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus the mean distance to the negatives (thesis Equation 4.1).

        max_margin_i = distance(y_i, y_pos_i)
                       - gamma * 1/|Y_neg_i| * sum_{n in Y_neg_i} distance(y_i, n)

    y_i is a row of `student`, y_pos_i the same row of `teacher`. Y_neg_i are the *other* unmasked
    rows of `teacher`, as in the author's code with its batches of 6, or row i of `negatives`.
    `distance` maps two (rows, dim) tensors to (rows,). Masked rows (False) give 0; a single
    unmasked row keeps its positive term. `ValueError` for wrong shapes or a mask that is not bool.

    There is no margin and no hinge. With `mse` and gamma = 1 the square of y_i cancels: the loss is
    linear in the student and has no lower bound. With gamma > 1 it rewards long embeddings.

    >>> student = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> teacher = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> max_margin(student, teacher)
    tensor([-1.5000,  3.5000])
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    # Mask inputs, not results, so that no distance involves a masked row, which may hold NaN.
    y, y_pos = student[mask], teacher[mask]
    n, dim = y.shape
    if negatives is None:
        others = ~torch.eye(n, dtype=torch.bool, device=y.device)
        y_neg = y_pos.expand(n, -1, -1)[others].view(n, max(n - 1, 0), dim)
    else:
        y_neg = negatives[mask]
    loss = distance(y, y_pos)
    if count := y_neg.shape[1]:
        pairs = y.repeat_interleave(count, dim=0), y_neg.flatten(0, 1)
        loss = loss - gamma * distance(*pairs).view(n, count).mean(dim=1)
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
