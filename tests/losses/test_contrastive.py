"""contrastive: by hand, reference."""

import math

import pytest
import torch
from torch.testing import assert_close

from lib.losses import contrastive
from tests.losses.draw_rows import MASK, draw_rows


def cos(a, b):
    return (a @ b / (a.norm() * b.norm())).item()


def by_loops(student, teacher, mask):
    """The cross-entropy, one pair at a time."""
    values = []
    for i in range(len(student)):
        if not mask[i]:
            values.append(0.0)
            continue
        positive = cos(student[i], teacher[i])
        negatives = [cos(student[i], teacher[j]) for j in range(len(teacher)) if j != i and mask[j]]
        below = math.exp(positive) + sum(math.exp(negative) for negative in negatives)
        values.append(-math.log(math.exp(positive) / below))
    return torch.tensor(values, dtype=torch.float64)


def test_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    teacher = torch.tensor([[2.0, 0.0], [3.0, 3.0]])
    # Cosines of row 0 to both teachers: 1 and c = 1/sqrt(2). Of row 1: 0 and c.
    c = 1 / math.sqrt(2)
    expected = [-1 + math.log(math.exp(1) + math.exp(c)), -c + math.log(1 + math.exp(c))]
    assert_close(contrastive(student, teacher), torch.tensor(expected))


@pytest.mark.parametrize("mask", [torch.ones(5, dtype=torch.bool), MASK, torch.arange(5) == 2])
def test_reference(mask):
    x, y = draw_rows(0), draw_rows(1)
    assert_close(contrastive(x, y, mask=mask), by_loops(x, y, mask))
