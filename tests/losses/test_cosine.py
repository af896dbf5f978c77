"""cosine: by hand, reference, invariances, zero vectors."""

import math

import torch
from torch.testing import assert_close

from lib.losses import cosine
from tests.losses.draw_rows import draw_rows


def test_by_hand():
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    teacher = torch.tensor([[1.0, 1.0], [0.0, -3.0], [0.0, 5.0]])
    # 45 degrees: 1 - 1/sqrt(2). Opposite: 1 + 1. A right angle: 1 - 0.
    assert_close(cosine(student, teacher), torch.tensor([1 - 1 / math.sqrt(2), 2.0, 1.0]))


def test_reference():
    x, y = draw_rows(0), draw_rows(1)
    assert_close(cosine(x, y), 1 - torch.nn.functional.cosine_similarity(x, y))  # PyTorch's own


def test_invariances():
    x, y = draw_rows(0), draw_rows(1)
    assert_close(cosine(x, y), cosine(y, x))
    assert_close(cosine(7 * x, 0.1 * y), cosine(x, y))  # lengths do not count
    assert_close(cosine(-x, y), 2 - cosine(x, y))
    rotation = torch.linalg.qr(draw_rows(2, 4, 4)).Q
    assert_close(cosine(x @ rotation, y @ rotation), cosine(x, y))
    assert_close(cosine(x, x), torch.zeros(5, dtype=torch.float64), atol=1e-14, rtol=0)


def test_zero_vectors():
    for student_is_zero, teacher_is_zero in ((True, False), (False, True), (True, True)):
        x, y = draw_rows(0), draw_rows(1)
        if student_is_zero:
            x[2] = 0
        if teacher_is_zero:
            y[2] = 0
        x.requires_grad_()
        y.requires_grad_()
        value = cosine(x, y)
        value.sum().backward()
        assert value[2] == 1  # no direction, so neither near nor opposite: cosine 0 by definition
        assert (x.grad[2] == 0).all() and (y.grad[2] == 0).all()
        assert x.grad.isfinite().all() and y.grad.isfinite().all() and (x.grad[0] != 0).any()


def test_short_vectors_that_have_a_direction_keep_it():
    x = torch.tensor([[1e-6, 0.0]])
    assert_close(cosine(x, torch.tensor([[5.0, 0.0]])), torch.tensor([0.0]), atol=1e-6, rtol=0)
