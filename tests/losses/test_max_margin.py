"""max_margin: by hand, Equation 4.1 by loops; negatives of the batch and given ones."""

import pytest
import torch
from torch.testing import assert_close

from lib.losses import cosine, max_margin, mse
from tests.losses.draw_rows import MASK, draw_rows

EVERY = torch.ones(5, dtype=torch.bool)
GIVEN = draw_rows(2, 15).view(5, 3, 4)  # three negatives for each row


def by_loops(student, teacher, distance, gamma, mask, given):
    """Equation 4.1 read literally, one pair at a time."""
    values = []
    for i in range(len(student)):
        others = [teacher[j] for j in range(len(teacher)) if j != i and mask[j]]
        others = others if given is None else list(given[i])
        y, positive, *negatives = (row[None] for row in (student[i], teacher[i], *others))
        far = sum(distance(y, negative) for negative in negatives) / len(negatives)
        values.append((distance(y, positive) - gamma * far) * mask[i])
    return torch.cat(values)


@pytest.mark.parametrize("given", [None, GIVEN])
@pytest.mark.parametrize("mask", [EVERY, MASK])
@pytest.mark.parametrize("distance", [mse, cosine])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.5])
def test_reference(distance, gamma, mask, given):
    x, y = draw_rows(0), draw_rows(1)
    value = max_margin(x, y, distance=distance, gamma=gamma, mask=mask, negatives=given)
    assert_close(value, by_loops(x, y, distance, gamma, mask, given))


def test_by_hand():
    student = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    teacher = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    # Row 0: positive (1 + 0) / 2, negative (0 + 4) / 2. Row 1: (4 + 4) / 2 and (1 + 0) / 2.
    assert_close(max_margin(student, teacher), torch.tensor([0.5 - 2.0, 4.0 - 0.5]))  # gamma 1
    assert_close(max_margin(student, teacher, gamma=0.5), torch.tensor([0.5 - 1.0, 4.0 - 0.25]))
    # One unmasked row: its positive term alone. The other gives 0.
    second_only = torch.tensor([False, True])
    assert_close(max_margin(student, teacher, mask=second_only), torch.tensor([0.0, 4.0]))
    # Given negatives, row 0: 4/2 and 8/2. Row 1: 0 and 4/2.
    given = torch.tensor([[[0.0, 2.0], [2.0, 2.0]], [[2.0, 0.0], [0.0, 0.0]]])
    assert_close(max_margin(student, teacher, negatives=given), torch.tensor([0.5 - 3, 4 - 1.0]))
