"""What losses share: shapes, errors, order of rows, gradients, masks, examples in docstrings."""

import doctest
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from lib import losses
from lib.losses import SoftCCA, contrastive, cosine, max_margin, mse
from tests.losses.draw_rows import MASK, draw_rows


def with_negatives(x, y, **options):
    """max_margin with two given negatives for each row."""
    return max_margin(x, y, negatives=torch.stack([y.flip(1), 2 * y + 1], dim=1), **options)


WITH_MASK = {
    "contrastive": contrastive,
    "max_margin": max_margin,
    "max_margin of cosines": partial(max_margin, distance=cosine, gamma=0.5),
    "max_margin with given negatives": with_negatives,
}
LOSSES = {"mse": mse, "cosine": cosine} | WITH_MASK
LOSSES["SoftCCA"] = lambda z1, z2: SoftCCA(z1.shape[1]).double()(z1, z2)
LOSSES["SoftCCA in evaluation"] = lambda z1, z2: SoftCCA(z1.shape[1]).double().eval()(z1, z2)


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.fixture(params=WITH_MASK)
def masked_loss(request):
    return WITH_MASK[request.param]


@pytest.mark.parametrize(("batch", "dim"), [(7, 3), (1, 3), (2, 1), (0, 3)])
def test_one_value_per_row(loss, batch, dim):
    assert loss(draw_rows(0, batch, dim), draw_rows(1, batch, dim)).shape == (batch,)


@pytest.mark.parametrize("shape", [(1, 3), (2, 4), (4, 3)])
def test_shapes_that_differ_are_refused(loss, shape):
    """PyTorch would broadcast the first, and a matrix product alone would accept the last."""
    with pytest.raises(ValueError) as error:
        loss(torch.ones(2, 3), torch.ones(shape))
    assert "(2, 3)" in str(error.value) and str(shape) in str(error.value)


@pytest.mark.parametrize("name", losses.__all__)
def test_examples_of_the_docstring(name):
    text = getattr(losses, name).__doc__
    names = {"torch": torch, **vars(losses)}
    examples = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    result = doctest.DocTestRunner().run(examples)
    assert result.attempted and not result.failed


def test_values_follow_their_rows(loss):
    x, y, order = draw_rows(0), draw_rows(1), torch.tensor([3, 0, 4, 1, 2])
    assert_close(loss(x[order], y[order]), loss(x, y)[order])


def test_gradient(loss):
    inputs = draw_rows(0).requires_grad_(), draw_rows(1).requires_grad_()
    assert torch.autograd.gradcheck(loss, inputs)


def test_zero_vectors_have_small_gradients(loss):
    """Those of PyTorch's cosine_similarity and normalize are finite, and 1e8 and 1e12."""
    x = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    loss(x, draw_rows(1, 3)).sum().backward()
    assert x.grad.abs().max() < 100


def test_gradient_with_a_mask(masked_loss):
    inputs = draw_rows(0).requires_grad_(), draw_rows(1).requires_grad_()
    assert torch.autograd.gradcheck(partial(masked_loss, mask=MASK), inputs)


@pytest.mark.parametrize("mask", [torch.ones(2), torch.ones(3, dtype=torch.bool)])
def test_masks_of_another_type_or_shape_are_refused(masked_loss, mask):
    with pytest.raises(ValueError, match=r"mask must be bool of shape \(2,\)"):
        masked_loss(torch.ones(2, 3), torch.ones(2, 3), mask=mask)


def test_masked_rows_are_as_if_absent_even_with_nan(masked_loss):
    x, y = draw_rows(0), draw_rows(1)
    expected = masked_loss(x[MASK], y[MASK])
    x[~MASK], y[~MASK] = float("nan"), float("inf")
    x.requires_grad_()
    value = masked_loss(x, y, mask=MASK)
    value.sum().backward()
    assert_close(value[MASK], expected)
    assert (value[~MASK] == 0).all()
    assert (x.grad[~MASK] == 0).all() and x.grad.isfinite().all()


def test_everything_masked(masked_loss):
    x = draw_rows(0).requires_grad_()
    value = masked_loss(x, draw_rows(1), mask=torch.zeros(5, dtype=torch.bool))
    value.sum().backward()
    assert (value == 0).all() and (x.grad == 0).all()
