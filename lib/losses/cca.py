"""Deep CCA: the negative total correlation of a batch, for the drafts' ablation of SoftCCA (thesis Section 4.5.2)."""

import torch
from jaxtyping import Float
from torch import Tensor


def cca(
    student: Float[Tensor, "batch dim1"],
    teacher: Float[Tensor, "batch dim2"],
    *,
    epsilon: float = 1e-3,
) -> Float[Tensor, " batch"]:
    """Minus the sum of the canonical correlations of the batch, the same scalar in every row.

        cca_i = - sum_j s_j( L1^-1 S12 L2^-T ),   S11 + epsilon I = L1 L1',   S22 + epsilon I = L2 L2'

    S11, S22 and S12 are the centred covariances (divided by batch - 1) of student, teacher, and between them; s_j is
    the j-th singular value, of which at most batch - 1 are not zero. Whitening by Cholesky factors has the same
    singular values as the inverse square roots of Andrew et al., but needs no eigenvectors, whose gradients are
    infinite where eigenvalues repeat.

    epsilon: added to every variance; it keeps the whitening stable and pulls correlations below 1, the more the smaller
    the batch is against the dimension. A batch of fewer than two rows has no correlation and gives 0.

    Source: Equation 4.3; Andrew, Arora, Bilmes and Livescu 2013 (Deep CCA). The published students use SoftCCA instead
    because this needs large batches. `lib.evaluation.metrics.cca` is the metric, without epsilon.
    """
    batch = len(student)
    if batch < 2:
        return 0 * student.sum(
            dim=1
        )  # not a bare zero, so that backward() works on such a batch too
    # float64: Cholesky of a rank-deficient covariance needs epsilon to stand out from the rounding.
    x1, x2 = _centred(student.double()), _centred(teacher.double())
    root1, root2 = (
        torch.linalg.cholesky(_covariance(x, x) + epsilon * _identity(x)) for x in (x1, x2)
    )
    half = torch.linalg.solve_triangular(root1, _covariance(x1, x2), upper=False)
    whitened = torch.linalg.solve_triangular(root2, half.T, upper=False)
    # Beyond batch - 1 singular values are zero with arbitrary vectors; counting them would add a random gradient.
    correlations = torch.linalg.svdvals(whitened)[: batch - 1]
    return -correlations.sum().to(student.dtype).expand(batch)


def _centred(x: Float[Tensor, "batch dim"]) -> Tensor:
    """Columns with mean zero; wide inputs expressed in a basis of their rows, which leaves the loss unchanged.

    For dim > batch that turns dim x dim problems into batch x batch ones. The basis may be a constant: the correlations
    depend on x only through x x', and moving x out of the span of its own rows changes that only in second order, so
    value and gradient are exact.
    """
    x = x - x.mean(dim=0)
    if x.shape[1] > x.shape[0]:
        x = x @ torch.linalg.qr(x.detach().T).Q
    return x


def _covariance(x: Tensor, y: Tensor) -> Tensor:
    return x.T @ y / (len(x) - 1)


def _identity(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
