"""Contrastive loss over the cosines within a batch (thesis Section 4.4.1, Equation 4.2)."""

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
    as_printed: bool = False,
) -> Float[Tensor, " batch"]:
    """Cross-entropy of picking one's own teacher embedding by cosine at temperature 1, one value per row.

        contrastive_i = -log( exp(cos(y_i, y_pos_i)) / sum_k exp(cos(y_i, y_pos_k)) )

    y is a row of `student`, y_pos the same row of `teacher`; k runs over all unmasked rows, i included. Equation 4.2
    *as printed* has the sum over negatives inside the exponent,

        -log( exp(cos(y, y_pos)) / exp(cos(y, y_pos) + sum_neg cos(y, y_neg)) )  =  sum_neg cos(y, y_neg),

    so the positive cancels and nothing pulls the student towards its teacher. `as_printed=True` computes that.

    mask: False for rows that take no part: they give 0 and are nobody's candidate. Source: thesis Equation 4.2; the
    cross-entropy, which made the published numbers, is that of the author's code.
    """
    _checks.pair(student, teacher)
    mask = _checks.row_mask(mask, student)
    cosines = unit_rows(student[mask]) @ unit_rows(teacher[mask]).T  # (unmasked, unmasked)
    if as_printed:
        itself = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
        loss = cosines.masked_fill(itself, 0).sum(dim=1)
    else:
        loss = cross_entropy(
            cosines, torch.arange(len(cosines), device=cosines.device), reduction="none"
        )
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)
