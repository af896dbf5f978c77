"""triplet and complex_loss: by hand, reference, shapes, errors, invariances, gradient, edges."""

import math

import pytest
import torch
from torch.testing import assert_close

from lib.losses import mse
from lib.news import losses
from lib.news.losses import complex_loss, triplet


def rows(seed, batch=5, dim=4):
    return torch.randn(
        batch, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def three(start=0, batch=5, dim=4):
    return tuple(rows(start + number, batch, dim) for number in range(3))


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


def test_shapes():
    for batch in (0, 1, 7):
        assert triplet(*three(0, batch, 3)).shape == (batch,)
        assert complex_loss(three(0, batch, 3), three(3, batch, 3), alpha=0.5).shape == (batch,)


def test_errors():
    a, p, n = three()
    with pytest.raises(ValueError, match=r"\(5, 4\), \(1, 4\), \(5, 4\)"):
        triplet(a, p[:1], n)
    with pytest.raises(ValueError, match=r"\(5, 4\), \(5, 4\), \(5, 2\)"):
        triplet(a, p, n[:, :2])
    with pytest.raises(ValueError, match="same shape"):
        complex_loss((a, p, n), (a, p, n[:1]), alpha=0.5)
    for students, teachers in (((a, p), (a, p)), ((a, p, n), (a, p))):
        with pytest.raises(
            ValueError,
            match=f"three documents, got {len(students)} of the student, 2 of the teacher",
        ):
            complex_loss(students, teachers, alpha=0.5)
    for alpha in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="alpha must be from 0 to 1"):
            complex_loss((a, p, n), (a, p, n), alpha=alpha)


def test_invariances():
    a, p, n = three()
    assert_close(triplet(3 * a, 0.1 * p, 7 * n), triplet(a, p, n))  # directions alone
    rotation = torch.linalg.qr(rows(9, 4, 4)).Q
    assert_close(triplet(a @ rotation, p @ rotation, n @ rotation), triplet(a, p, n))
    assert_close(complex_loss((a, p, n), three(3), alpha=1.0), triplet(a, p, n))
    swapped = complex_loss((a, n, p), (rows(3), rows(5), rows(4)), alpha=0.0)
    assert_close(complex_loss((a, p, n), three(3), alpha=0.0), swapped)
    order = torch.tensor([4, 2, 0, 1, 3])
    assert_close(triplet(a[order], p[order], n[order]), triplet(a, p, n)[order])


def test_gradient():
    students = [x.requires_grad_() for x in three()]
    assert torch.autograd.gradcheck(triplet, students)
    assert torch.autograd.gradcheck(lambda *x: complex_loss(x, three(3), alpha=0.4), students)


def test_its_own_positive_gives_no_gradient_from_that_side():
    a, _, n = three()
    a.requires_grad_()
    n.requires_grad_()
    triplet(a, a, n).sum().backward()
    assert a.grad.isfinite().all() and n.grad.isfinite().all()
    other = rows(0).requires_grad_()
    (
        0.5 - torch.linalg.vector_norm(losses.unit_rows(other) - losses.unit_rows(rows(2)), dim=1)
    ).relu().sum().backward()
    assert_close(a.grad, other.grad)


def test_zero_vectors_have_finite_gradients():
    a, p, n = three()
    a[0] = 0
    a.requires_grad_()
    triplet(a, p, n).sum().backward()
    assert a.grad.isfinite().all() and (a.grad[0] == 0).all()
