"""Max-margin loss with negatives drawn from all documents (thesis Section 5.4)."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from lib.losses import _checks
from lib.losses.mse import mse


def max_margin_drawn(
    student: Float[Tensor, "batch dim"],
    teacher: Float[Tensor, "batch joined"],
    *,
    negatives: int,
    distance: Callable[[Tensor, Tensor], Tensor] = mse,
    gamma: float = 1.0,
    mask: Bool[Tensor, " batch"] | None = None,
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus the mean distance to negatives drawn from all documents.

        loss_i = distance(y_i, y_pos_i) - gamma * 1/K * sum_{k=1..K} distance(y_i, n_ik)

    This is `max_margin` (thesis Equation 4.1) with other negatives: n_i1 to n_iK are the teacher's
    embeddings of K = `negatives` documents that were drawn for document i. The student embeds none
    of them, so more negatives cost hardly any time or memory. A row of `teacher`, of width
    (1 + K) * dim, holds y_pos_i, then n_i1 to n_iK, as
    `lib.distillation.negatives.RowsWithNegatives` joins them.

    With `mse` and gamma = 1 the gradient is 2 / dim * (mean of n_ik - y_pos_i). More negatives then
    do one thing: they bring that mean closer to the mean of all documents.

    `ValueError` for another shape of `teacher`, or a mask that is not bool of shape (batch,).

    >>> import torch
    >>> from lib.losses import max_margin_drawn
    >>> student = torch.tensor([[0.0, 0.0]])
    >>> teacher = torch.tensor([[1.0, 0.0, 0.0, 2.0, 2.0, 2.0]])
    >>> max_margin_drawn(student, teacher, negatives=2)  # 1/2 - (4/2 + 8/2) / 2
    tensor([-2.5000])
    """
    if student.ndim != 2 or teacher.shape != (len(student), (1 + negatives) * student.shape[-1]):
        raise ValueError(
            f"student (batch, dim) needs a teacher of shape (batch, {1 + negatives} * dim), "
            f"got {tuple(student.shape)} and {tuple(teacher.shape)}"
        )
    mask = _checks.row_mask(mask, student)
    y, dim = student[mask], student.shape[1]
    rows = teacher[mask].view(len(y), 1 + negatives, dim)
    pairs = y.repeat_interleave(negatives, dim=0), rows[:, 1:].reshape(-1, dim)
    repelled = distance(*pairs).view(len(y), negatives).mean(dim=1)
    loss = distance(y, rows[:, 0]) - gamma * repelled
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
