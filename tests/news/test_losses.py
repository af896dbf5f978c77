"""triplet and complex_loss: by hand, reference, shapes, errors, invariances, gradient, edges."""

import math

import pytest
import torch
from torch.testing import assert_close

from lib.losses.cosine import unit_rows
from lib.losses.mse import mse
from lib.news.losses import complex_loss, triplet


def draw_rows(seed, batch=5, dim=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, dim, generator=generator, dtype=torch.float64)


def three(start=0, batch=5, dim=4):
    return tuple(draw_rows(start + number, batch, dim) for number in range(3))


def test_by_hand():
    a = torch.tensor([[2.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    p = torch.tensor([[0.0, 5.0], [1.0, 0.0], [0.0, 1.0]])
    n = torch.tensor([[-1.0, 0.0], [0.0, 7.0], [9.0, 0.0]])
    # Unit rows: sqrt(2) - 2 + .5 < 0. 0 - sqrt(2) + .5 < 0. sqrt(2) - 0 + .5.
    expected = torch.tensor([0.0, 0.0, math.sqrt(2) + 0.5])
    assert_close(triplet(a, p, n), expected)
    teachers = (a, p + 1, n + 2)  # MSE of the three: 0, 1, 4
    assert_close(complex_loss((a, p, n), teachers, alpha=0.25), 0.25 * expected + 0.75 * 5 / 3)


def test_reference():
    a, p, n = three()
    unit = [torch.nn.functional.normalize(x) for x in (a, p, n)]
    own = torch.nn.TripletMarginLoss(margin=0.5, p=2, eps=0.0, reduction="none")(*unit)  # PyTorch's
    assert_close(triplet(a, p, n), own)
    copied = torch.stack([mse(x, y) for x, y in zip((a, p, n), three(7), strict=True)]).mean(0)
    assert_close(complex_loss((a, p, n), three(7), alpha=0.3), 0.3 * own + 0.7 * copied)


def test_shapes_that_would_broadcast():
    a, p, n = three()
    with pytest.raises(RuntimeError, match="equal size"):
        triplet(a, p[:1], n)
    for teachers in ((a, p, n[:1]), (a, p)):
        with pytest.raises(ValueError):
            complex_loss((a, p, n), teachers, alpha=0.5)


def test_invariances():
    a, p, n = three()
    assert_close(triplet(3 * a, 0.1 * p, 7 * n), triplet(a, p, n))  # directions alone
    rotation = torch.linalg.qr(draw_rows(9, 4, 4)).Q
    assert_close(triplet(a @ rotation, p @ rotation, n @ rotation), triplet(a, p, n))
    assert_close(complex_loss((a, p, n), three(3), alpha=1.0), triplet(a, p, n))


def test_gradient():
    students = [x.requires_grad_() for x in three()]
    assert torch.autograd.gradcheck(triplet, students)
    assert torch.autograd.gradcheck(lambda *x: complex_loss(x, three(3), alpha=0.4), students)


def test_its_own_positive_gives_no_gradient_from_that_side():
    a, other, n = draw_rows(0).requires_grad_(), draw_rows(0).requires_grad_(), draw_rows(2)
    triplet(a, a, n).sum().backward()
    far = torch.linalg.vector_norm(unit_rows(other) - unit_rows(n), dim=1)
    (0.5 - far).relu().sum().backward()
    assert a.grad.isfinite().all()
    assert_close(a.grad, other.grad)
