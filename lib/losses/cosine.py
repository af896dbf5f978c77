"""Cosine distance between embeddings (thesis Section 4.4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from lib.losses import _checks

# A row of at most this norm has no direction; with torch's cosine_similarity, its gradient of
# length 1e8 would dominate the clipped update.
SHORTEST = 1e-8


def cosine(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """Cosine distance of each row, from 0 to 2 (thesis Section 4.4).

        cosine_i = 1 - <student_i, teacher_i> / (|student_i| |teacher_i|)

    A zero vector has no direction: its row gives 1 and a gradient of 0.

    >>> cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [0.0, -1.0]]))
    tensor([0., 2.])
    """
    _checks.pair(student, teacher)
    return 1 - (unit_rows(student) * unit_rows(teacher)).sum(dim=1)


def unit_rows(x: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Scale rows to length 1; rows without a direction become zero, in value and in gradient."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    short = norm <= SHORTEST
    # Replace the divisor before dividing: a masked 0/0 would still send NaN through the gradient.
    return (x / norm.masked_fill(short, 1)).masked_fill(short, 0)
