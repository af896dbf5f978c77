"""Mean squared error between embeddings (thesis Section 4.4)."""

from jaxtyping import Float
from torch import Tensor

from lib.losses import _checks


def mse(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """Squared error of each row, averaged over dimensions (thesis Section 4.4).

        mse_i = 1/dim * sum_j (student_ij - teacher_ij)^2

    The author's code takes this mean, not a sum. Figure 4.4 calls it "squared L2 distance".

    >>> student = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    >>> mse(student, torch.tensor([[3.0, 2.0], [1.0, 1.0]]))
    tensor([2., 1.])
    """
    _checks.pair(student, teacher)
    return (student - teacher).square().mean(dim=1)
