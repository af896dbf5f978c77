"""similarity: by hand, example, reference, invariances, gradients, one row, errors."""

import doctest

import pytest
import torch
from torch.testing import assert_close

from lib.losses import similarity as module
from lib.losses.similarity import similarity
from tests.losses.draw_rows import draw_rows


def test_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])  # cosines 0, -1 and 0
    teacher = torch.tensor([[4.0, 3.0], [1.0, 0.0], [0.0, 1.0]])  # .8, .6 and 0
    # Rows: (.8^2 + 1.6^2) / 2, (.8^2 + 0) / 2, (1.6^2 + 0) / 2.
    assert_close(similarity(student, teacher), torch.tensor([1.6, 0.32, 1.28]))


def test_example_of_the_docstring():
    assert not doctest.testmod(module).failed


def test_reference():
    """Jasper's: the mean squared error of two matrices, here without the diagonal."""
    x, y = draw_rows(0), draw_rows(1)
    cosines = [torch.nn.functional.cosine_similarity(a[:, None], a, dim=-1) for a in (x, y)]
    whole = torch.nn.functional.mse_loss(*cosines)
    assert_close(similarity(x, y).mean(), whole * 25 / 20)


def test_invariances():
    x, y = draw_rows(0), draw_rows(1)
    rotation, order = torch.linalg.qr(draw_rows(2, 4, 4)).Q, torch.tensor([3, 0, 4, 1, 2])
    assert_close(similarity(x @ rotation, y), similarity(x, y))
    assert_close(similarity(3 * x, 0.1 * y), similarity(x, y))
    assert_close(similarity(y, x), similarity(x, y))
    assert_close(similarity(x[order], y[order]), similarity(x, y)[order])
    assert_close(
        similarity(x, x @ rotation), torch.zeros(5, dtype=torch.float64), atol=1e-12, rtol=0
    )


def test_widths_may_differ():
    assert similarity(draw_rows(0, 5, 4), draw_rows(1, 5, 7)).shape == (5,)


def test_gradient():
    rows = draw_rows(0).requires_grad_(), draw_rows(1, dim=3).requires_grad_()
    assert torch.autograd.gradcheck(similarity, rows)


def test_a_zero_vector_has_no_gradient():
    x = draw_rows(0)
    x[1] = 0
    x.requires_grad_()
    similarity(x, draw_rows(1)).sum().backward()
    assert (x.grad[1] == 0).all() and x.grad.isfinite().all() and (x.grad[0] != 0).any()


def test_a_single_row_has_no_other():
    x = draw_rows(0, 1).requires_grad_()
    value = similarity(x, draw_rows(1, 1))
    value.sum().backward()
    assert value.tolist() == [0] and (x.grad == 0).all()


@pytest.mark.parametrize("shape", [(3, 4), (2,)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="batch, other"):
        similarity(torch.ones(2, 4), torch.ones(shape))
