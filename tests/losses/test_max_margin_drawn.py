"""max_margin_drawn: by hand, reference, shapes, errors, gradients, masks."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from lib.losses import cosine, max_margin, max_margin_drawn, mse
from tests.losses.draw_rows import draw_rows

NEGATIVES, DIM = 3, 4
MASK = torch.tensor([True, False, True, True, False])


def draw_pair(batch=5):
    student, teacher = draw_rows(0, batch, DIM), draw_rows(1, batch, (1 + NEGATIVES) * DIM)
    return student, teacher


def by_loops(student, teacher, distance, gamma):
    """The formula read literally, one pair at a time."""
    values = []
    for y, row in zip(student, teacher, strict=True):
        positive, *others = row.split(DIM)
        near = distance(y[None], positive[None]).item()
        far = [distance(y[None], other[None]).item() for other in others]
        values.append(near - gamma * sum(far) / len(far))
    return torch.tensor(values, dtype=torch.float64)


def test_by_hand():
    student = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    teacher = torch.tensor([[1.0, 0.0, 0.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0, 3.0, 1.0]])
    # Row 0: positive 1/2, negatives 4/2 and 8/2. Row 1: positive 0, negatives 0 and 4/2.
    assert_close(max_margin_drawn(student, teacher, negatives=2), torch.tensor([-2.5, -1.0]))
    half = max_margin_drawn(student, teacher, negatives=2, gamma=0.5)
    assert_close(half, torch.tensor([0.5 - 1.5, -0.5]))


@pytest.mark.parametrize("distance", [mse, cosine])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 1.5])
def test_reference(distance, gamma):
    x, y = draw_pair()
    value = max_margin_drawn(x, y, negatives=NEGATIVES, distance=distance, gamma=gamma)
    assert_close(value, by_loops(x, y, distance, gamma))


def test_with_the_rows_of_the_batch_it_is_max_margin():
    x, y = draw_rows(0, 4, DIM), draw_rows(1, 4, DIM)
    orders = [[row, *(other for other in range(4) if other != row)] for row in range(4)]
    joined = torch.stack([y[order].flatten() for order in orders])
    assert_close(max_margin_drawn(x, joined, negatives=3), max_margin(x, y))


def test_the_gradient_points_from_the_positive_to_the_mean_of_the_negatives():
    x, y = draw_pair()
    x.requires_grad_()
    max_margin_drawn(x, y, negatives=NEGATIVES).sum().backward()
    positive, *others = y.split(DIM, dim=1)
    assert_close(x.grad, 2 / DIM * (torch.stack(others).mean(dim=0) - positive))


@pytest.mark.parametrize("batch", [7, 1, 0])
def test_one_value_per_row(batch):
    assert max_margin_drawn(*draw_pair(batch), negatives=NEGATIVES).shape == (batch,)


@pytest.mark.parametrize("shape", [(5, DIM), (5, NEGATIVES * DIM), (4, (1 + NEGATIVES) * DIM)])
def test_a_teacher_of_another_shape_is_refused(shape):
    with pytest.raises(ValueError) as error:
        max_margin_drawn(draw_rows(0, 5, DIM), torch.ones(shape), negatives=NEGATIVES)
    assert str(shape) in str(error.value) and "4 * dim" in str(error.value)


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("distance", [mse, cosine])
def test_gradient(mask, distance):
    x, y = draw_pair()
    loss = partial(max_margin_drawn, negatives=NEGATIVES, distance=distance, mask=mask)
    assert torch.autograd.gradcheck(loss, (x.requires_grad_(), y.requires_grad_()))


def test_masked_rows_are_as_if_absent_even_with_nan():
    x, y = draw_pair()
    expected = max_margin_drawn(x[MASK], y[MASK], negatives=NEGATIVES)
    x[~MASK], y[~MASK] = float("nan"), float("inf")
    x.requires_grad_()
    value = max_margin_drawn(x, y, negatives=NEGATIVES, mask=MASK)
    value.sum().backward()
    assert_close(value[MASK], expected)
    assert (value[~MASK] == 0).all() and (x.grad[~MASK] == 0).all() and x.grad.isfinite().all()


def test_everything_masked():
    x, y = draw_pair()
    value = max_margin_drawn(x, y, negatives=NEGATIVES, mask=torch.zeros(5, dtype=torch.bool))
    assert (value == 0).all()
