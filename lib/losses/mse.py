"""Mean squared error between embeddings (thesis Section 4.4)."""

from jaxtyping import Float
from torch import Tensor

from lib.losses import _checks


def mse(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """Mean over dimensions of the squared error, one value per row, in squared units of the embedding.

        mse_i = 1/dim * sum_j (student_ij - teacher_ij)^2

    Source: thesis Section 4.4; a mean, not a sum, in the author's code. Figure 4.4's "squared L2 distance" is it too.
    """
    _checks.pair(student, teacher)
    return (student - teacher).square().mean(dim=1)
