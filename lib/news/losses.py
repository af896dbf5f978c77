"""What the news paper adds to MSE and cosine distance: a triplet loss, and its mixture with MSE."""

from jaxtyping import Float
from torch import Tensor
from torch.linalg import vector_norm

from lib.losses import mse
from lib.losses.cosine import unit_rows

MARGIN = 0.5  # as the organisers' reproduction trains the teacher


def triplet(
    anchor: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    negative: Float[Tensor, "batch dim"],
) -> Float[Tensor, " batch"]:
    """The hinge on how much nearer the positive is than the negative, one value per row.

        triplet_i = max(0, |a_i - p_i| - |a_i - n_i| + margin),   all rows scaled to length 1, Euclidean distances

    A document that is its own positive has distance 0 on that side and no gradient from it. Raises `ValueError` unless
    the shapes are equal. Source: news paper, Eq. 1; margin .5 and p = 2 as in the organisers' code.
    """
    for other in (positive, negative):
        if anchor.ndim != 2 or other.shape != anchor.shape:
            shapes = ", ".join(str(tuple(rows.shape)) for rows in (anchor, positive, negative))
            raise ValueError(
                f"anchor, positive and negative must have the same shape (batch, dim), got {shapes}"
            )
    anchor, positive, negative = (unit_rows(rows) for rows in (anchor, positive, negative))
    near, far = (vector_norm(anchor - other, dim=1) for other in (positive, negative))
    return (near - far + MARGIN).relu()


def complex(
    students: tuple[Tensor, Tensor, Tensor],
    teachers: tuple[Tensor, Tensor, Tensor],
    *,
    alpha: float,
) -> Float[Tensor, " batch"]:
    """Triplet loss and distillation together, one value per row.

        complex_i = alpha * triplet_i + (1 - alpha) * 1/3 * sum of MSE(student, teacher) over the triplet's documents

    students, teachers: embeddings of anchors, positives and negatives, (batch, dim) each. alpha: from 0 to 1, else
    `ValueError`; 1 is the triplet loss alone. Source: news paper, Eq. 1.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be from 0 to 1, got {alpha}")
    if not len(students) == len(teachers) == 3:
        raise ValueError(
            f"a triplet has three documents, got {len(students)} of student, {len(teachers)} of teacher"
        )
    copied = (
        sum(mse(student, teacher) for student, teacher in zip(students, teachers, strict=True)) / 3
    )
    return alpha * triplet(*students) + (1 - alpha) * copied
