"""cosine: by hand, reference, shapes, errors, invariances, gradient, zero vectors."""

import math

import pytest
import torch
from torch.testing import assert_close

from lib.losses import cosine


def rows(seed, batch=5, dim=4):
    return torch.randn(
        batch, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def test_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    teacher = torch.tensor([[1.0, 1.0], [0.0, -3.0], [0.0, 5.0]])
    # 45 degrees: 1 - 1/sqrt(2). Opposite: 1 + 1. A right angle: 1 - 0.
    assert_close(cosine(student, teacher), torch.tensor([1 - 1 / math.sqrt(2), 2.0, 1.0]))


def test_reference():
    x, y = rows(0), rows(1)
    assert_close(cosine(x, y), 1 - torch.nn.functional.cosine_similarity(x, y))  # PyTorch's own


def test_shapes():
    assert cosine(rows(0, 7, 3), rows(1, 7, 3)).shape == (7,)
    assert cosine(rows(0, 1, 1), rows(1, 1, 1)).shape == (1,)
    assert cosine(rows(0, 0, 3), rows(1, 0, 3)).shape == (0,)


def test_what_would_broadcast_is_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(1, 3\)"):
        cosine(torch.ones(2, 3), torch.ones(1, 3))


def test_invariances():
    x, y = rows(0), rows(1)
    assert_close(cosine(x, y), cosine(y, x))
    assert_close(cosine(7 * x, 0.1 * y), cosine(x, y))  # lengths do not count
    assert_close(cosine(-x, y), 2 - cosine(x, y))
    rotation = torch.linalg.qr(rows(2, 4, 4)).Q
    assert_close(cosine(x @ rotation, y @ rotation), cosine(x, y))
    assert_close(cosine(x, x), torch.zeros(5, dtype=torch.float64), atol=1e-14, rtol=0)


def test_gradient():
    assert torch.autograd.gradcheck(cosine, (rows(0).requires_grad_(), rows(1).requires_grad_()))


def test_zero_vectors():
    for zero in ("student", "teacher", "both"):
        x, y = rows(0), rows(1)
        for name, value in (("student", x), ("teacher", y)):
            if zero in (name, "both"):
                value[2] = 0
        x.requires_grad_()
        y.requires_grad_()
        value = cosine(x, y)
        value.sum().backward()
        assert value[2] == 1  # no direction, so neither near nor opposite: cosine 0 by definition
        assert (x.grad[2] == 0).all() and (y.grad[2] == 0).all()
        assert x.grad.isfinite().all() and y.grad.isfinite().all() and (x.grad[0] != 0).any()


def test_short_vectors_that_have_a_direction_keep_it():
    x = torch.tensor([[1e-6, 0.0]])
    assert_close(cosine(x, torch.tensor([[5.0, 0.0]])), torch.tensor([0.0]), atol=1e-6, rtol=0)
