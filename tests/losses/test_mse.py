"""mse: by hand, reference, shapes, errors, invariances, gradient."""

import pytest
import torch
from torch.testing import assert_close

from lib.losses import mse


def rows(seed, batch=5, dim=4):
    return torch.randn(
        batch, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def test_by_hand():
    # Row 0: ((1-3)^2 + (2-2)^2) / 2 = 2. Row 1: (1 + 1) / 2 = 1.
    value = mse(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[3.0, 2.0], [1.0, 1.0]]))
    assert_close(value, torch.tensor([2.0, 1.0]))


def test_reference():
    x, y = rows(0), rows(1)
    expected = torch.stack(
        [torch.nn.functional.mse_loss(a, b) for a, b in zip(x, y, strict=True)]
    )  # row by row
    assert_close(mse(x, y), expected)


def test_shapes():
    assert mse(rows(0, 7, 3), rows(1, 7, 3)).shape == (7,)
    assert mse(rows(0, 1, 1), rows(1, 1, 1)).shape == (1,)
    assert mse(rows(0, 0, 3), rows(1, 0, 3)).shape == (0,)


def test_what_would_broadcast_is_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(1, 3\)"):
        mse(torch.ones(2, 3), torch.ones(1, 3))


def test_invariances():
    x, y = rows(0), rows(1)
    assert_close(mse(x, y), mse(y, x))  # symmetric
    assert_close(mse(x + 3, y + 3), mse(x, y))  # only the difference counts
    assert_close(mse(2 * x, 2 * y), 4 * mse(x, y))  # squared units
    assert_close(
        mse(x.repeat(1, 2), y.repeat(1, 2)), mse(x, y)
    )  # a mean over dimensions, not a sum
    assert_close(mse(x, x), torch.zeros(5, dtype=torch.float64))


def test_gradient():
    assert torch.autograd.gradcheck(mse, (rows(0).requires_grad_(), rows(1).requires_grad_()))
