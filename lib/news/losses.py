"""What the news paper adds to MSE and cosine distance: a triplet loss, and its mixture with MSE."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from lib.losses.cosine import unit_rows
from lib.losses.mse import mse

MARGIN = 0.5  # with which the organisers' reproduction trains the teacher


def triplet(
    anchor: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    negative: Float[Tensor, "batch dim"],
) -> Float[Tensor, " batch"]:
    """Triplet loss of rows scaled to length 1, with Euclidean distances (news paper, Eq. 1).

        triplet_i = max(0, |a_i - p_i| - |a_i - n_i| + margin)

    A document that is its own positive has distance 0 to it, and no gradient from that distance.
    """
    # `stack` refuses shapes that differ, which the difference would broadcast.
    anchor, positive, negative = map(unit_rows, torch.stack([anchor, positive, negative]))
    near = vector_norm(anchor - positive, dim=1)
    far = vector_norm(anchor - negative, dim=1)
    return (near - far + MARGIN).relu()


def complex_loss(
    students: tuple[Tensor, Tensor, Tensor],
    teachers: tuple[Tensor, Tensor, Tensor],
    *,
    alpha: float,
) -> Float[Tensor, " batch"]:
    """Triplet loss and distillation together, for anchors, positives and negatives (Eq. 1).

    complex_i = alpha * triplet_i
                + (1 - alpha) * 1/3 * sum of MSE(student, teacher) over the three documents
    """
    copied = sum(mse(*pair) for pair in zip(students, teachers, strict=True)) / 3
    return alpha * triplet(*students) + (1 - alpha) * copied
