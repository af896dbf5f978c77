"""Contrastive loss over the cosines within a batch (thesis Section 4.4.1)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from lib.losses import _checks
from lib.losses.cosine import unit_rows


def contrastive(
    student: Float[Tensor, "batch dim"],
    teacher: Float[Tensor, "batch dim"],
    *,
    mask: Bool[Tensor, " batch"] | None = None,
) -> Float[Tensor, " batch"]:
    """Cross-entropy of picking the row's own teacher embedding by cosine (thesis Equation 4.2).

        contrastive_i = -log( exp(cos(y_i, y_pos_i)) / sum_k exp(cos(y_i, y_pos_k)) )

    y_i is a row of `student` and y_pos_i the same row of `teacher`; k runs over all unmasked rows,
    i included. Masked rows (False) give 0 and are nobody's candidate. `ValueError` for shapes that
    differ or a mask that is not bool of shape (batch,).

    The author's code has this loss. Equation 4.2 as printed has the sum over negatives inside the
    exponent, so the positive cancels and nothing pulls the student towards its teacher.

    >>> x = torch.eye(4)
    >>> contrastive(x, x)  # -log(e / (e + 3))
    tensor([0.7437, 0.7437, 0.7437, 0.7437])
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    cosines = unit_rows(student[mask]) @ unit_rows(teacher[mask]).T  # (unmasked, unmasked)
    positions = torch.arange(len(cosines), device=cosines.device)
    loss = cross_entropy(cosines, positions, reduction="none")
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
