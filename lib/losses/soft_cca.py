"""SoftCCA: a mini-batch stand-in for canonical correlation analysis (thesis Section 4.5.2, Equations 4.9-4.15)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.losses import _checks

# torch.nn.BatchNorm1d's epsilon: the author's code normalises with that layer.
VARIANCE_EPSILON = 1e-5


class SoftCCA(nn.Module):
    """Pulls two projections together while keeping each one's features uncorrelated; one value per row.

        SoftCCA_i(Z1, Z2) = L2_i(Z1, Z2) + delta * (SDL(Z1) + SDL(Z2))        (4.15)
        L2_i              = mean_j (Z1_ij - Z2_ij)^2                          (4.9, of the raw projections)
        SDL(Z)            = mean_{i != j} | Phi_ij / n |                      (4.10), the same scalar for every row
        Phi               <- beta * Phi_old + Zn' Zn / (b - 1), starts at 0   (4.11, 4.12), one per view
        n                 <- beta * n_old + 1, starts at 0                    (4.13, 4.14), the printed beta-hat

    Zn is Z after batch normalisation without affine parameters, by batch statistics in evaluation too, so Phi holds
    correlations. Phi_old is a constant: no gradient flows into earlier batches. form="code" is this and what produced
    the published numbers. form="printed" is the equations as they stand: L2 and SDL are sums, and Phi adds up centred
    covariances (divided by b - 1) of the projections themselves.

    Training mode stores Phi and n; evaluation returns what training would for that batch and stores nothing. A batch of
    one row has no correlations: it gives the L2 term and changes no state.

    dim: dimensions of each projection. beta: weight of the past; the thesis chose .95 by held-out CCA among .1 to .999.
    delta: weight of the decorrelation; the author's code uses .03 (the thesis: "little effect").

    Source: thesis Section 4.5.2; Chang, Xiang and Hospedales 2018 (SoftCCA); author's code for the default form. There
    the normaliser was missing from the saved state and evaluation left it behind the sum; neither is repeated here.
    """

    phi1: Tensor
    phi2: Tensor
    normaliser: Tensor

    def __init__(
        self, dim: int, *, beta: float = 0.95, delta: float = 0.03, form: str = "code"
    ) -> None:
        super().__init__()
        if not 0 <= beta < 1 or not delta >= 0 or form not in ("code", "printed"):
            needed = "beta must lie in [0, 1), delta be at least 0 and form be 'code' or 'printed'"
            raise ValueError(f"SoftCCA: {needed}, got {beta}, {delta} and {form!r}")
        self.dim, self.beta, self.delta, self.form = dim, beta, delta, form
        self.register_buffer("phi1", torch.zeros(dim, dim))
        self.register_buffer("phi2", torch.zeros(dim, dim))
        self.register_buffer("normaliser", torch.zeros(()))

    def forward(
        self, z1: Float[Tensor, "batch dim"], z2: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, " batch"]:
        """Equation 4.15 for projections of student (z1) and contextual teacher (z2), (batch, dim) each -> (batch,)."""
        _checks.pair(z1, z2)
        squared = (z1 - z2).square()
        l2 = squared.mean(dim=1) if self.form == "code" else squared.sum(dim=1)
        if len(z1) < 2:
            return l2
        phi1, phi2 = self._accumulated(self.phi1, z1), self._accumulated(self.phi2, z2)
        normaliser = self.beta * self.normaliser + 1
        sdl = (self._off_diagonal(phi1) + self._off_diagonal(phi2)) / normaliser
        if self.training:
            # Detached: the history counts as a constant in later batches, and their graphs stay short.
            self.phi1, self.phi2, self.normaliser = (
                phi1.detach(),
                phi2.detach(),
                normaliser.detach(),
            )
        return l2 + self.delta * sdl

    def _accumulated(self, phi: Tensor, z: Float[Tensor, "batch dim"]) -> Float[Tensor, "dim dim"]:
        """Equation 4.11: the past matrix, faded by beta, plus this batch's."""
        z = z - z.mean(dim=0)
        if self.form == "code":
            z = z / (z.square().mean(dim=0) + VARIANCE_EPSILON).sqrt()
        # beta * phi + z' z / (b - 1) in one pass: with d = 1024 the d x d matrices cost more than the rest of the loss.
        return torch.addmm(phi, z.T, z, beta=self.beta, alpha=1 / (len(z) - 1))

    def _off_diagonal(self, matrix: Float[Tensor, "dim dim"]) -> Float[Tensor, ""]:
        """Absolute off-diagonal entries of Equation 4.10, averaged (code) or summed (printed); 0 for one dimension."""
        total = matrix.abs().sum() - matrix.diagonal().abs().sum()
        return total / max(self.dim**2 - self.dim, 1) if self.form == "code" else total
