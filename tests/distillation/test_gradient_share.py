"""Shares of the gradient: values by hand, weights and masks counted, nothing trained or stored."""

import numpy as np
import pytest
import torch

from lib.distillation.gradient_share import contextual_share
from lib.distillation.objective import Objective
from lib.distillation.variants import Variant

ROWS, DIM = 12, 4
RANDOM = np.random.default_rng(0)
STUDENT, STRUCTURAL, CONTEXTUAL = RANDOM.standard_normal((3, ROWS, DIM)).astype(np.float32)
LENGTHS = np.arange(ROWS)


def share(lam=None, masked=False, limit=None, structural="MSE", batch_size=ROWS, loss="mse"):
    """Of a student whose projections are identities, so that both terms are mean squared errors."""
    variant = Variant("student", structural, "DM;4;None;2", "-", "-", masked, lam, loss)
    objective = Objective(variant, DIM, DIM, max_structural_len=limit).eval()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    teacher = STRUCTURAL if structural else None
    value = contextual_share(
        objective, STUDENT, teacher, CONTEXTUAL, LENGTHS, batch_size=batch_size
    )
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    return value


def norm(teacher, rows=slice(None)):
    """Of the gradient of the mean of mean squared errors, up to a factor that both sides share."""
    return np.linalg.norm((STUDENT - teacher)[rows])


def test_by_hand():
    s, c = norm(STRUCTURAL), norm(CONTEXTUAL)
    assert share() == pytest.approx(c / (s + c), rel=1e-5)


def test_weights_count():
    s, c = 0.8 * norm(STRUCTURAL), 0.2 * norm(CONTEXTUAL)
    assert share(lam=0.8) == pytest.approx(c / (s + c), rel=1e-5)


def test_masked_rows_follow_the_contextual_teacher_alone():
    short = LENGTHS <= 5
    s = 0.8 * norm(STRUCTURAL, short)
    c = np.hypot(0.2 * norm(CONTEXTUAL, short), norm(CONTEXTUAL, ~short))
    assert share(lam=0.8, masked=True, limit=5) == pytest.approx(c / (s + c), rel=1e-5)


def test_batches_are_averaged():
    halves = [slice(0, 6), slice(6, 12)]
    norms = [(norm(STRUCTURAL, half), norm(CONTEXTUAL, half)) for half in halves]
    shares = [c / (s + c) for s, c in norms]
    assert share(batch_size=6) == pytest.approx(np.mean(shares), rel=1e-5)


def test_without_a_structural_teacher_all_of_it_is_contextual():
    assert share(structural=None) == 1.0


def test_soft_cca_keeps_its_state():
    assert 0 < share(loss="soft_cca", batch_size=6) < 1
