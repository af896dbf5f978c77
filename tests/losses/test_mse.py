"""mse: by hand, reference, invariances."""

import torch
from torch.testing import assert_close

from lib.losses import mse
from tests.losses.draw_rows import draw_rows


def test_by_hand():
    # Row 0: ((1-3)^2 + (2-2)^2) / 2 = 2. Row 1: (1 + 1) / 2 = 1.
    value = mse(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[3.0, 2.0], [1.0, 1.0]]))
    assert_close(value, torch.tensor([2.0, 1.0]))


def test_reference():
    x, y = draw_rows(0), draw_rows(1)
    by_row = [torch.nn.functional.mse_loss(a, b) for a, b in zip(x, y, strict=True)]
    assert_close(mse(x, y), torch.stack(by_row))


def test_invariances():
    x, y = draw_rows(0), draw_rows(1)
    assert_close(mse(x, y), mse(y, x))  # symmetric
    assert_close(mse(x + 3, y + 3), mse(x, y))  # only the difference counts
    assert_close(mse(2 * x, 2 * y), 4 * mse(x, y))  # squared units
    assert_close(mse(x.repeat(1, 2), y.repeat(1, 2)), mse(x, y))  # a mean over dimensions
    assert_close(mse(x, x), torch.zeros(5, dtype=torch.float64))
