"""Losses by PyTorch's; training learns, repeats, stops early, keeps the best."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from lib.config import profiles
from lib.losses.cosine import unit_rows
from lib.losses.mse import mse
from lib.news import training
from lib.news.training import complex_loss, triplet
from tests.news.test_students import make_student

OPTIONS = {"epochs": 3, "batch_size": 8, "rates": {"other": 1e-2}}
OPTIONS |= {"patience": 3, "plateau_patience": 0}
SETTINGS = profiles.load("mini").news.model_copy(update=OPTIONS)
EVERY = np.arange(64)[:, None]


def three(start=0, batch=5, dim=4):
    generators = (torch.Generator().manual_seed(start + number) for number in range(3))
    return tuple(torch.randn(batch, dim, generator=g, dtype=torch.float64) for g in generators)


def test_losses_equal_pytorchs_and_pass_gradcheck():
    students, teachers = three(), three(7)
    unit = [torch.nn.functional.normalize(x) for x in students]
    own = torch.nn.TripletMarginLoss(margin=0.5, p=2, eps=0.0, reduction="none")(*unit)
    assert_close(triplet(*students), own)
    with pytest.raises(RuntimeError, match="equal size"):  # and not broadcast
        triplet(students[0], students[1][:1], students[2])
    copied = torch.stack([mse(x, y) for x, y in zip(students, teachers, strict=True)]).mean(0)
    assert_close(complex_loss(students, teachers, alpha=0.3), 0.3 * own + 0.7 * copied)
    for rows in students:
        rows.requires_grad_()
    assert torch.autograd.gradcheck(triplet, students)
    assert torch.autograd.gradcheck(lambda *x: complex_loss(x, teachers, alpha=0.4), students)


def test_its_own_positive_gives_no_gradient_from_that_side():
    (a, _, n), other = three(), three()[0]
    triplet(a.requires_grad_(), a, n).sum().backward()
    pushed = other.clone().requires_grad_()
    far = torch.linalg.vector_norm(unit_rows(pushed) - unit_rows(n), dim=1)
    (0.5 - far).relu().sum().backward()
    assert_close(a.grad, pushed.grad)


def draw_lesson():
    """Token ids of documents, and their teacher's vectors."""
    order, rows = np.random.default_rng(0), np.empty(64, dtype=object)
    rows[:] = [order.integers(1, 50, order.integers(3, 11)) for _ in rows]
    table = order.standard_normal((50, 12)).astype(np.float32)
    return rows, np.stack([table[row].mean(0) for row in rows])


def train(identity="bag;cosine", **options):
    student, settings = make_student(identity), SETTINGS.model_copy(update=options)
    return student, training.train(student, *draw_lesson(), (EVERY[:-8], EVERY[-8:]), settings, 0)


def test_it_learns_keeps_the_best_epochs_weights_and_patience_ends_it():
    options = {"epochs": 60, "patience": 2, "rates": {"other": 0.3}}
    student, history = train("BiRNN+1 linear;cosine", **options)
    best = int(np.argmin(history))
    assert len(history) == best + 3 < 60
    loss = training.compute_losses(student, *draw_lesson(), EVERY[-8:]).mean().item()
    assert loss == pytest.approx(history[best], rel=1e-5)
    history = train(epochs=30, patience=30)[1]
    assert min(history) < 0.6 * history[0]


def test_a_plateau_lowers_the_rate_and_a_fixed_schedule_does_not():
    options = {"epochs": 12, "patience": 12, "rates": {"other": 0.5}}
    fixed, lowered = (train(f"RNN;MSE{end}", **options)[1] for end in ("", ";plateau"))
    assert fixed[0] == lowered[0] and np.ptp(lowered[-4:]) < 1e-3 < np.ptp(fixed[-4:])


@pytest.mark.parametrize("identity", ["bag;MSE", "LSTM;triplet", "LSTM;complex;α=0.3"])
def test_losses_of_a_batch_are_those_one_by_one_and_a_document_is_embedded_once(identity):
    (rows, teacher), student = draw_lesson(), make_student(identity)
    vectors = torch.from_numpy(student.encode(rows))
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))  # of length 1
    batch = np.array([[3, 5, 9], [9, 3, 5], [60, 60, 3]])
    students, teachers = (part[batch.T].unbind() for part in (vectors, targets))
    wanted, embedded = complex_loss(students, teachers, alpha=student.design.alpha or 1), []
    if identity == "bag;MSE":
        wanted, batch = mse(students[0], teachers[0]), batch[:, :1]
    student.register_forward_pre_hook(lambda _, given: embedded.append(len(given[0])))
    assert_close(training.compute_losses(student, rows, teacher, batch).detach(), wanted)
    assert embedded == [3 if identity == "bag;MSE" else 4]


def test_teacher_tokens_are_not_trained():
    identity = "BiLSTM+2 linear+dropout;teacher tokens;MSE"
    before, after = make_student(identity), train(identity)[0]
    assert torch.equal(before.embedding.weight, after.embedding.weight)
