"""Canonical correlation as a loss: Deep CCA, and SoftCCA, its stand-in (thesis Section 4.5.2)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.losses import _checks

VARIANCE_EPSILON = 1e-5  # of torch.nn.BatchNorm1d, with which the author's code normalises


class SoftCCA(nn.Module):
    """Pull two projections together and decorrelate the features of each (thesis Equation 4.15).

        SoftCCA_i(Z1, Z2) = L2_i(Z1, Z2) + delta * (SDL(Z1) + SDL(Z2))       (4.15)
        L2_i   = mean_j (Z1_ij - Z2_ij)^2, of the raw projections            (4.9)
        SDL(Z) = mean_{i != j} | Phi_ij / n |, one scalar for all rows       (4.10)
        Phi    <- beta * Phi_old + Zn' Zn / (b - 1), starts at 0, per view   (4.11, 4.12)
        n      <- beta * n_old + 1, starts at 0, printed as beta-hat         (4.13, 4.14)

    Zn is Z after batch normalisation (without affine parameters, in evaluation too), so Phi holds
    correlations. No gradient flows into earlier batches. In evaluation the loss is what training
    would return, but Phi and n are not stored. One row has no correlations: its L2 term is left.
    `dim` is that of each projection. `ValueError` for projections that differ in shape.

    Source: Chang, Xiang and Hospedales 2018, SoftCCA, and the author's code, whose means replace
    the sums of the printed equations. It does not save the normaliser; here it is in the state.

    >>> loss = SoftCCA(dim=2)
    >>> z1 = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    >>> z2 = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> loss(z1, z2)  # (0 + 2^2) / 2 + 0.03 * 2, as the features of z1 are perfectly correlated
    tensor([2.0600, 2.0600])
    """

    phi1: Tensor
    phi2: Tensor
    normaliser: Tensor

    def __init__(self, dim: int, *, beta: float = 0.95, delta: float = 0.03) -> None:
        super().__init__()
        self.dim, self.beta, self.delta = dim, beta, delta
        self.register_buffer("phi1", torch.zeros(dim, dim))
        self.register_buffer("phi2", torch.zeros(dim, dim))
        self.register_buffer("normaliser", torch.zeros(()))

    def forward(
        self, z1: Float[Tensor, "batch dim"], z2: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, " batch"]:
        """The loss of projections of the student (z1) and of the contextual teacher (z2)."""
        _checks.pair(z1, z2)
        l2 = (z1 - z2).square().mean(dim=1)
        if len(z1) < 2:
            return l2
        phi1, phi2 = self._accumulated(self.phi1, z1), self._accumulated(self.phi2, z2)
        normaliser = self.beta * self.normaliser + 1
        sdl = (self._off_diagonal(phi1) + self._off_diagonal(phi2)) / normaliser
        if self.training:
            # Without detaching, the graphs of later batches would reach back to the first one.
            self.phi1, self.phi2 = phi1.detach(), phi2.detach()
            self.normaliser = normaliser.detach()
        return l2 + self.delta * sdl

    def _accumulated(self, phi: Tensor, z: Float[Tensor, "batch dim"]) -> Float[Tensor, "dim dim"]:
        """Add this batch's matrix to beta times the past one (Equation 4.11)."""
        z = z - z.mean(dim=0)
        z = z / (z.square().mean(dim=0) + VARIANCE_EPSILON).sqrt()
        # One pass, because with 1024 dimensions these matrices cost more than the rest of the loss.
        return torch.addmm(phi, z.T, z, beta=self.beta, alpha=1 / (len(z) - 1))

    def _off_diagonal(self, matrix: Float[Tensor, "dim dim"]) -> Float[Tensor, ""]:
        """Mean of absolute off-diagonal entries (Equation 4.10); 0 for one dimension."""
        total = matrix.abs().sum() - matrix.diagonal().abs().sum()
        return total / max(self.dim**2 - self.dim, 1)


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

    >>> x = torch.tensor([[1.0], [-1.0], [0.0]])
    >>> cca(x, 2 * x + 5, epsilon=0)
    tensor([-1., -1., -1.])
    """
    batch = len(student)
    if batch < 2:
        return 0 * student.sum(dim=1)  # keeps the graph, so backward() works on such a batch too
    # float64: a rank-deficient covariance needs an epsilon well above the rounding error.
    x1, x2 = (each.double() - each.double().mean(dim=0) for each in (student, teacher))
    half = torch.linalg.solve_triangular(_root(x1, epsilon), _covariance(x1, x2), upper=False)
    whitened = torch.linalg.solve_triangular(_root(x2, epsilon), half.T, upper=False)
    # Others are zero, and their arbitrary vectors would make the gradient random.
    correlations = torch.linalg.svdvals(whitened)[: batch - 1]
    return -correlations.sum().to(student.dtype).expand(batch)


def _covariance(x: Tensor, y: Tensor) -> Tensor:
    return x.T @ y / (len(x) - 1)


def _root(x: Tensor, epsilon: float) -> Tensor:
    """The Cholesky factor of the covariance, with epsilon on its diagonal."""
    return torch.linalg.cholesky(_covariance(x, x) + epsilon * torch.eye(x.shape[1]).to(x))
