"""SoftCCA: by hand, reference, history, state, invariances, one row."""

import copy
import io
import math

import torch
from torch import nn
from torch.testing import assert_close

from lib.losses import SoftCCA
from tests.losses.draw_rows import draw_rows


def batches(n, batch=6, dim=4):
    """n batches of two correlated, off-centre, unequally scaled views."""
    scale = torch.linspace(0.3, 3, dim, dtype=torch.float64)
    mix = draw_rows(99, dim, dim)
    made = []
    for i in range(n):
        first = draw_rows(i, batch, dim)
        made.append((first @ mix * scale + 2, first + 0.5 * draw_rows(50 + i, batch, dim)))
    return made


class Reference:
    """Equations 4.9-4.15 by loops over entries, with plain numbers as history and BatchNorm1d."""

    def __init__(self, dim, beta, delta):
        self.dim, self.beta, self.delta = dim, beta, delta
        self.phi, self.normaliser = [[[0.0] * dim for _ in range(dim)] for _ in range(2)], 0.0

    def __call__(self, z1, z2):
        self.normaliser = self.beta * self.normaliser + 1
        sdl = 0.0
        for view, z in enumerate((z1, z2)):
            z = nn.BatchNorm1d(self.dim, affine=False).double()(z)
            for i in range(self.dim):
                for j in range(self.dim):
                    own = (z[:, i] * z[:, j]).sum() / (len(z) - 1)
                    entry = self.beta * self.phi[view][i][j] + own
                    self.phi[view][i][j] = entry.item()
                    if i != j:
                        sdl = sdl + (entry / self.normaliser).abs()
        l2 = torch.stack([((a - b) ** 2).sum() / self.dim for a, b in zip(z1, z2, strict=True)])
        return l2 + self.delta * sdl / (self.dim * (self.dim - 1))


def test_by_hand():
    loss = SoftCCA(2, beta=0.95, delta=0.03)
    z1, z2 = torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    # Variances 1 and 4 over the batch: Zn'Zn/(2-1) is 2 * 1 * 2 / sqrt((1 + 1e-5)(4 + 1e-5)) off
    # the diagonal, and so is the mean of the two entries. The second view has none.
    # L2: (0 + 2^2) / 2 in both rows.
    correlation = 4 / math.sqrt((1 + 1e-5) * (4 + 1e-5))
    assert_close(loss(z1, z2), torch.tensor([2 + 0.03 * correlation] * 2))
    # Second batch, the same: both sums and the normaliser grow alike, so the value stays.
    assert_close(loss(z1, z2), torch.tensor([2 + 0.03 * correlation] * 2))
    # Third batch without correlation: (.95^2 + .95) / (.95^2 + .95 + 1) of it are left.
    left = (0.95**2 + 0.95) / (0.95**2 + 0.95 + 1)
    assert_close(loss(z2, z2), torch.tensor([0.03 * correlation * left] * 2))
    # One dimension has nothing to decorrelate: squared errors 1^2 and 2^2.
    z1, z2 = torch.tensor([[1.0], [4.0]]), torch.tensor([[0.0], [2.0]])
    assert_close(SoftCCA(1, delta=9.0)(z1, z2), torch.tensor([1.0, 4.0]))


def test_reference_values_and_gradients_over_a_history():
    loss, reference = SoftCCA(4, beta=0.9, delta=0.3).double(), Reference(4, 0.9, 0.3)
    past = []
    for z1, z2 in batches(4):
        ours, theirs = [[z.clone().requires_grad_() for z in (z1, z2)] for _ in range(2)]
        value, expected = loss(*ours), reference(*theirs)
        assert_close(value, expected)
        gradients = torch.autograd.grad(value.mean(), ours, retain_graph=True)
        assert_close(gradients, torch.autograd.grad(expected.mean(), theirs))
        if past:  # the history is a constant
            into_past = torch.autograd.grad(value.sum(), past, allow_unused=True)
            assert into_past == (None, None)
        past = ours


def test_evaluation_is_what_training_would_give_and_all_state_is_saved():
    """With the published code, a loss that was loaded gave NaN in evaluation."""
    *past, now = batches(4)
    loss, copied, file = SoftCCA(4).double(), SoftCCA(4).double(), io.BytesIO()
    for z1, z2 in past:
        loss(z1, z2)
    before = copy.deepcopy(loss.state_dict())
    assert {*before} == {"phi1", "phi2", "normaliser"}
    torch.save(before, file)
    file.seek(0)
    copied.load_state_dict(torch.load(file, weights_only=True))
    copied.eval()
    evaluated = [copied(*now), copied(*now)]  # twice: nothing may accumulate
    assert_close(dict(copied.state_dict()), dict(before), rtol=0, atol=0)
    trained = loss(*now)
    assert trained.isfinite().all() and loss.normaliser > before["normaliser"]
    for value in evaluated:
        assert_close(value, trained, rtol=0, atol=0)


def test_one_row_gives_the_squared_error_and_changes_no_state():
    loss = SoftCCA(2)
    loss(torch.randn(3, 2), torch.randn(3, 2))
    before = copy.deepcopy(loss.state_dict())
    z = torch.tensor([[1.0, 2.0]], requires_grad=True)
    value = loss(z, torch.zeros(1, 2))  # squared errors 1 and 4
    value.sum().backward()
    assert_close(value, torch.tensor([2.5]))
    assert z.grad.isfinite().all()
    assert_close(dict(loss.state_dict()), dict(before), rtol=0, atol=0)
    assert loss(torch.zeros(0, 2), torch.zeros(0, 2)).shape == (0,)


def test_invariances():
    z1, z2 = batches(1)[0]
    features = torch.tensor([2, 0, 3, 1])

    def fresh(first, second, **arguments):
        return SoftCCA(4, **arguments).double()(first, second)

    assert_close(fresh(z1[:, features], z2[:, features]), fresh(z1, z2))
    assert_close(fresh(z1 + 5, z2 + 5), fresh(z1, z2))  # same differences, same correlations
    # A feature's scale matters only through the epsilon of the normalisation.
    stretch = torch.tensor([3.0, 5.0, 7.0, 11.0], dtype=torch.float64)
    assert_close(*(fresh(z, z, delta=1.0) for z in (z1, z1 * stretch)), rtol=1e-3, atol=0)
    decorrelation = fresh(z1, z2) - fresh(z1, z2, delta=0.0)
    assert_close(decorrelation, decorrelation[0].expand(6))  # one scalar for all rows
