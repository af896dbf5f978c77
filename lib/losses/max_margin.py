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
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus the mean distance to the negatives (thesis Equation 4.1).

        max_margin_i = distance(y_i, y_pos_i)
                       - gamma * 1/|Y_neg_i| * sum_{n in Y_neg_i} distance(y_i, n)

    y_i is a row of `student` and y_pos_i the same row of `teacher`. Y_neg_i holds the teacher
    embeddings of the *other* unmasked rows, as in the author's code, where a batch has 6 rows.
    `distance` maps two (rows, dim) tensors to (rows,); the thesis tries a gamma of .1, .5, 1 and
    1.5. Masked rows (False) give 0; a single unmasked row keeps its positive term.

    Despite its name, the loss has no margin and no hinge. With `mse` and gamma = 1, the square of
    y_i cancels: the loss is linear in the student and has no lower bound. With gamma > 1, it
    rewards long embeddings.

    `ValueError` if the shapes differ or the mask is not bool of shape (batch,).

    >>> import torch
    >>> from lib.losses import max_margin
    >>> student = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    >>> teacher = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> max_margin(student, teacher)
    tensor([-1.5000,  3.5000])
    >>> max_margin(student, teacher, mask=torch.tensor([False, True]))
    tensor([0., 4.])
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    # Mask inputs, not results, so that no distance involves a masked row, which may hold NaN.
    y, y_pos = student[mask], teacher[mask]
    n = len(y)
    pairs = y.repeat_interleave(n, dim=0), y_pos.repeat(n, 1)
    distances = distance(*pairs).view(n, n)
    loss = distances.diagonal()
    if n > 1:
        others = ~torch.eye(n, dtype=torch.bool, device=y.device)
        loss = loss - gamma * distances[others].view(n, n - 1).mean(dim=1)
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
