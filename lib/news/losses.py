"""What the news paper adds to MSE and cosine distance: a triplet loss, and its mixture with MSE."""

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
    """Triplet loss: a hinge on how much nearer the positive is than the negative (Eq. 1).

        triplet_i = max(0, |a_i - p_i| - |a_i - n_i| + margin)

    All rows are scaled to length 1; distances are Euclidean, margin .5, as in the organisers' code.
    A document that is its own positive has distance 0 to it, and no gradient from that distance.

    Raises `ValueError` if the shapes differ or are not two-dimensional.
    """
    for other in (positive, negative):
        if anchor.ndim != 2 or other.shape != anchor.shape:
            raise ValueError(
                "anchor, positive and negative must have the same shape (batch, dim), got "
                + ", ".join(str(tuple(rows.shape)) for rows in (anchor, positive, negative))
            )
    anchor, positive, negative = (unit_rows(rows) for rows in (anchor, positive, negative))
    near = vector_norm(anchor - positive, dim=1)
    far = vector_norm(anchor - negative, dim=1)
    return (near - far + MARGIN).relu()


def complex_loss(
    students: tuple[Tensor, Tensor, Tensor],
    teachers: tuple[Tensor, Tensor, Tensor],
    *,
    alpha: float,
) -> Float[Tensor, " batch"]:
    """Triplet loss and distillation together (news paper, Eq. 1).

        complex_i = alpha * triplet_i
                    + (1 - alpha) * 1/3 * sum of MSE(student, teacher) over the three documents

    `students` and `teachers` are the embeddings of anchors, positives and negatives. Raises
    `ValueError` if alpha is not from 0 to 1, or if shapes or numbers of embeddings differ.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    copied = sum(mse(*pair) for pair in zip(students, teachers, strict=True)) / 3
    return alpha * triplet(*students) + (1 - alpha) * copied
