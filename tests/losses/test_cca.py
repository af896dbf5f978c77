"""cca (Deep CCA): by hand, reference, invariances, gradient, degenerate batches."""

import math

import pytest
import torch
from torch.testing import assert_close

from lib.evaluation import metrics
from lib.losses import cca
from tests.losses.draw_rows import draw_rows


def views(batch=20, dim1=4, dim2=3):
    """Two views that share part of their content."""
    shared = draw_rows(7, batch, 2)
    first = draw_rows(0, batch, dim1) + shared @ draw_rows(1, 2, dim1)
    return first, draw_rows(2, batch, dim2) + shared @ draw_rows(3, 2, dim2)


def by_eigenvectors(x, y, epsilon):
    """As Andrew et al. write it: singular values of S11^-1/2 S12 S22^-1/2, by eigenvectors."""
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)

    def inverse_root(z):
        covariance = z.T @ z / (len(z) - 1) + epsilon * torch.eye(z.shape[1], dtype=z.dtype)
        values, vectors = torch.linalg.eigh(covariance)
        return vectors @ torch.diag(values**-0.5) @ vectors.T

    t = inverse_root(x) @ (x.T @ y / (len(x) - 1)) @ inverse_root(y)
    return -torch.linalg.svdvals(t).sum()


def test_by_hand():
    student, teacher = torch.tensor([[1.0], [-1.0]]), torch.tensor([[5.0], [1.0]])
    # Variances 2 and 8, covariance 4, epsilon .5: the one correlation is 4 / sqrt(2.5 * 8.5).
    value = cca(student, teacher, epsilon=0.5)
    assert_close(value, torch.tensor([-4 / math.sqrt(2.5 * 8.5)] * 2))


def test_reference():
    for batch, dim1, dim2 in ((20, 4, 3), (20, 3, 5), (6, 10, 8), (6, 3, 9), (5, 5, 5)):
        x, y = views(batch, dim1, dim2)
        for epsilon in (1e-3, 0.5):
            expected = by_eigenvectors(x, y, epsilon).expand(batch)
            assert_close(cca(x, y, epsilon=epsilon), expected, rtol=1e-6, atol=0)
    metric = -metrics.cca(*(view.numpy() for view in views()))
    assert_close(cca(*views(), epsilon=1e-9)[0].item(), metric, rtol=1e-6, atol=0)


def test_invariances():
    x, y = views()
    value = cca(x, y)
    assert_close(cca(y, x), value)
    assert_close(cca(x + 100, y - 3), value)
    rotation = torch.linalg.qr(draw_rows(5, 4, 4)).Q
    assert_close(cca(x @ rotation, y), value)
    assert_close(cca(x.flip(0), y.flip(0)), value)
    # Without epsilon to speak of, any invertible map leaves it alone.
    mapped, plain = (cca(z, y, epsilon=1e-10) for z in (x @ draw_rows(6, 4, 4), x))
    assert_close(mapped, plain, rtol=1e-5, atol=0)
    assert_close(value, value[0].expand(20))


def test_gradient():
    for batch, dim1, dim2 in ((8, 3, 2), (4, 6, 5), (4, 2, 6)):  # tall, wide, and one of each
        x, y = views(batch, dim1, dim2)
        inputs = (x.requires_grad_(), y.requires_grad_())
        assert torch.autograd.gradcheck(lambda a, b: cca(a, b, epsilon=0.1), inputs)


@pytest.mark.parametrize(
    "student",
    [
        torch.eye(8, dtype=torch.float64)[:, :4],  # repeated eigenvalues
        torch.zeros(8, 4, dtype=torch.float64),
        draw_rows(0, 8, 1).repeat(1, 4),  # rank one
        draw_rows(0, 8, 40),  # more dimensions than rows
        1e4 * draw_rows(0, 8, 40),
        1e-4 * draw_rows(0, 8, 4),
    ],
    ids=["repeated", "zero", "rank one", "wide", "large", "small"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_finite(student, dtype):
    x = student.to(dtype).requires_grad_()
    for y in (student.to(dtype), draw_rows(1, 8, 5).to(dtype)):  # identical views, and another
        value = cca(x, y)
        assert value.shape == (8,) and value.dtype == dtype
        (grad,) = torch.autograd.grad(value.mean(), x)
        assert value.isfinite().all() and grad.isfinite().all()
        assert (value <= 1e-6).all() and (value >= -min(7, x.shape[1], y.shape[1]) - 1e-6).all()


def test_one_row_has_no_correlation():
    x = draw_rows(0, 1).requires_grad_()
    value = cca(x, draw_rows(1, 1))
    value.sum().backward()
    assert (value == 0).all() and (x.grad == 0).all()
    assert cca(draw_rows(0, 0), draw_rows(1, 0)).shape == (0,)
