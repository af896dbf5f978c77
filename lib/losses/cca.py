"""Deep CCA: the negative total correlation of a batch (thesis Section 4.5.2)."""

import torch
from jaxtyping import Float
from torch import Tensor


def cca(
    student: Float[Tensor, "batch dim1"],
    teacher: Float[Tensor, "batch dim2"],
    *,
    epsilon: float = 1e-3,
) -> Float[Tensor, " batch"]:
    """Minus the sum of the batch's canonical correlations (thesis Equation 4.3).

        cca_i = - sum_j s_j( L1^-1 S12 L2^-T )
        S11 + epsilon I = L1 L1',   S22 + epsilon I = L2 L2'

    S11 and S22 are the covariances of student and teacher, S12 is the one between them, all divided
    by batch - 1; s_j is the j-th singular value. Cholesky factors give the singular values of the
    paper's inverse square roots without eigenvectors, whose gradients are infinite where
    eigenvalues repeat. `epsilon` stabilises the whitening and pulls correlations below 1. Every row
    has the same value; fewer than two rows give 0.

    Only a draft of the thesis trains with it. The metric, without epsilon, is
    `lib.evaluation.metrics.cca`. Source: Andrew et al. 2013, Deep CCA.

    >>> import torch
    >>> from lib.losses import cca
    >>> x = torch.tensor([[1.0], [-1.0], [0.0]])
    >>> cca(x, 2 * x + 5, epsilon=0)
    tensor([-1., -1., -1.])
    """
    batch = len(student)
    if batch < 2:
        return 0 * student.sum(dim=1)  # keeps the graph, so backward() works on such a batch too
    # float64: a rank-deficient covariance needs an epsilon well above the rounding error.
    x1, x2 = _centred(student.double()), _centred(teacher.double())
    half = torch.linalg.solve_triangular(_root(x1, epsilon), _covariance(x1, x2), upper=False)
    whitened = torch.linalg.solve_triangular(_root(x2, epsilon), half.T, upper=False)
    # Others are zero, and their arbitrary vectors would make the gradient random.
    correlations = torch.linalg.svdvals(whitened)[: batch - 1]
    return -correlations.sum().to(student.dtype).expand(batch)


def _centred(x: Float[Tensor, "batch dim"]) -> Tensor:
    """Centre the columns and express wide inputs in a basis of their rows, (batch, <= batch).

    No gradient has to flow through the basis: the correlations depend on x only through x x', and
    moving x out of the span of its rows changes x x' in second order only.
    """
    x = x - x.mean(dim=0)
    if x.shape[1] > x.shape[0]:
        x = x @ torch.linalg.qr(x.detach().T).Q
    return x


def _covariance(x: Tensor, y: Tensor) -> Tensor:
    return x.T @ y / (len(x) - 1)


def _root(x: Tensor, epsilon: float) -> Tensor:
    """The Cholesky factor of the covariance, with epsilon on its diagonal."""
    return torch.linalg.cholesky(_covariance(x, x) + epsilon * torch.eye(x.shape[1]).to(x))
