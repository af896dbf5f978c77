"""max_margin: by hand, reference, shapes, errors, invariances, gradient, masks."""

from functools import partial

import pytest
import torch
from torch.testing import assert_close

from lib.losses import cosine, max_margin, mse

MASK = torch.tensor([True, False, True, True, False])


def rows(seed, batch=5, dim=4):
    return torch.randn(
        batch, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def by_loops(student, teacher, distance, gamma, mask):
    """Equation 4.1 read literally, one pair at a time."""

    def between(i, j):
        return distance(student[i : i + 1], teacher[j : j + 1]).item()

    values = []
    for i in range(len(student)):
        if not mask[i]:
            values.append(0.0)
            continue
        negatives = [between(i, j) for j in range(len(teacher)) if j != i and mask[j]]
        values.append(between(i, i) - gamma * sum(negatives) / len(negatives))
    return torch.tensor(values, dtype=torch.float64)


def test_by_hand():
    student = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    teacher = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    # Row 0: positive (1 + 0) / 2, negative (0 + 4) / 2. Row 1: (4 + 4) / 2 and (1 + 0) / 2.
    assert_close(max_margin(student, teacher), torch.tensor([0.5 - 2.0, 4.0 - 0.5]))  # gamma 1
    assert_close(max_margin(student, teacher, gamma=0.5), torch.tensor([0.5 - 1.0, 4.0 - 0.25]))
    # One unmasked row: its positive term alone. The other gives 0.
    second_only = torch.tensor([False, True])
    assert_close(max_margin(student, teacher, mask=second_only), torch.tensor([0.0, 4.0]))


def test_reference():
    x, y, everything = rows(0), rows(1), torch.ones(5, dtype=torch.bool)
    for distance in (mse, cosine):
        for gamma in (0.0, 0.1, 1.5):
            for mask in (everything, MASK):
                value = max_margin(x, y, distance=distance, gamma=gamma, mask=mask)
                assert_close(value, by_loops(x, y, distance, gamma, mask))


def test_any_distance_called_once_on_all_pairs():
    calls = []

    def manhattan(a, b):
        calls.append(a.shape)
        return (a - b).abs().sum(dim=1)

    x, y = rows(0), rows(1)
    value = max_margin(x, y, distance=manhattan, mask=MASK)
    assert calls == [(9, 4)]  # 3 unmasked rows: 9 pairs
    assert_close(value, by_loops(x, y, manhattan, 1.0, MASK))


def test_shapes():
    assert max_margin(rows(0, 7, 3), rows(1, 7, 3)).shape == (7,)
    assert max_margin(rows(0, 1, 3), rows(1, 1, 3)).shape == (1,)
    assert max_margin(rows(0, 0, 3), rows(1, 0, 3)).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"teacher": torch.ones(2, 4)}, r"\(2, 3\) and \(2, 4\)"),
        ({"mask": torch.ones(2)}, r"mask must be bool.*\(2, 3\).*float32 \(2,\)"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        max_margin(**({"student": torch.ones(2, 3), "teacher": torch.ones(2, 3)} | arguments))


def test_invariances():
    x, y, order = rows(0), rows(1), torch.tensor([3, 0, 4, 1, 2])
    assert_close(max_margin(x[order], y[order]), max_margin(x, y)[order])  # follows the rows
    assert_close(max_margin(x, y, gamma=0.0), mse(x, y))
    assert_close(
        max_margin(x, y, mask=MASK)[MASK], max_margin(x[MASK], y[MASK])
    )  # as if masked rows were absent
    # With MSE and gamma = 1 the loss is linear in the student: second differences along any line vanish.
    step = rows(3)
    second = max_margin(x + step, y) - 2 * max_margin(x, y) + max_margin(x - step, y)
    assert_close(second, torch.zeros(5, dtype=torch.float64), atol=1e-12, rtol=0)


def test_gradient():
    inputs = (rows(0).requires_grad_(), rows(1).requires_grad_())
    for distance in (mse, cosine):
        loss = partial(max_margin, distance=distance, gamma=0.5, mask=MASK)
        assert torch.autograd.gradcheck(loss, inputs)


def test_masked_rows_take_no_part_not_even_with_nan():
    x, y = rows(0), rows(1)
    expected = max_margin(x, y, mask=MASK)
    x[~MASK], y[~MASK] = float("nan"), float("inf")
    x.requires_grad_()
    value = max_margin(x, y, mask=MASK)
    value.sum().backward()
    assert_close(value, expected)
    assert (x.grad[~MASK] == 0).all() and x.grad.isfinite().all()


def test_everything_masked():
    x = rows(0).requires_grad_()
    value = max_margin(x, rows(1), mask=torch.zeros(5, dtype=torch.bool))
    value.sum().backward()
    assert (value == 0).all() and (x.grad == 0).all()


def test_zero_vectors():
    x = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    max_margin(x, rows(1, 3), distance=cosine).sum().backward()
    assert (x.grad == 0).all()
