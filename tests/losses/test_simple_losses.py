"""mse and cosine: by hand, PyTorch's own, zero vectors."""

import math

import pytest
import torch
from torch.nn.functional import cosine_similarity, mse_loss
from torch.testing import assert_close

from lib.losses import cosine, mse
from tests.losses.draw_rows import draw_rows

X, Y = draw_rows(0), draw_rows(1)


def test_by_hand():  # mse: in its docstring
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [1e-6, 0.0]])
    teacher = torch.tensor([[1.0, 1.0], [0.0, -3.0], [0.0, 5.0], [5.0, 0.0]])
    # 45 degrees: 1 - 1/sqrt(2). Opposite: 1 + 1. A right angle: 1 - 0. Short, with a direction: 0.
    expected = torch.tensor([1 - 1 / math.sqrt(2), 2.0, 1.0, 0.0])
    assert_close(cosine(student, teacher), expected, atol=1e-6, rtol=0)


def test_reference():
    assert_close(cosine(X, Y), 1 - cosine_similarity(X, Y))
    assert_close(mse(X, Y), torch.stack([mse_loss(a, b) for a, b in zip(X, Y, strict=True)]))


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_a_zero_vector_has_no_direction(first, second):
    x, y = X.clone(), Y.clone()
    x[2], y[2] = (0.0 if first else x[2]), (0.0 if second else y[2])
    value = cosine(x.requires_grad_(), y.requires_grad_())
    value.sum().backward()
    assert value[2] == 1  # neither near nor opposite: cosine 0 by definition
    assert (x.grad[2] == 0).all() and (y.grad[2] == 0).all()
    assert x.grad.isfinite().all() and y.grad.isfinite().all() and (x.grad[0] != 0).any()
