"""max_margin: by hand, reference, invariances."""

import torch
from torch.testing import assert_close

from lib.losses import cosine, max_margin, mse
from tests.losses.draw_rows import draw_rows

MASK = torch.tensor([True, False, True, True, False])


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
    x, y, everything = draw_rows(0), draw_rows(1), torch.ones(5, dtype=torch.bool)
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

    x, y = draw_rows(0), draw_rows(1)
    value = max_margin(x, y, distance=manhattan, mask=MASK)
    assert calls == [(9, 4)]  # 3 unmasked rows: 9 pairs
    assert_close(value, by_loops(x, y, manhattan, 1.0, MASK))


def test_invariances():
    x, y = draw_rows(0), draw_rows(1)
    assert_close(max_margin(x, y, gamma=0.0), mse(x, y))
    # With MSE and gamma = 1 the loss is linear in the student: second differences vanish.
    step = draw_rows(3)
    second = max_margin(x + step, y) - 2 * max_margin(x, y) + max_margin(x - step, y)
    assert_close(second, torch.zeros(5, dtype=torch.float64), atol=1e-12, rtol=0)
