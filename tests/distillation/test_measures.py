"""Held-out CCA and shares of the gradient: by hand, ends of the scale, no trace in a training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.distillation.measures import chance_cca, contextual_share, held_out_cca, measure
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData
from lib.distillation.variants import parse
from tests.distillation import tiny

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 12))
OTHER = GENERATOR.normal(size=(60, 30))
ROWS, DIM = 12, 4
STUDENT, STRUCTURAL, CONTEXTUAL = GENERATOR.standard_normal((3, ROWS, DIM)).astype(np.float32)


def test_held_out_cca_is_1_for_a_rotation_and_chance_for_unrelated_embeddings():
    rotation = np.linalg.qr(GENERATOR.normal(size=(12, 12)))[0]
    assert held_out_cca(X, 3 * X @ rotation + 1, components=12) == pytest.approx(1, abs=1e-9)
    assert held_out_cca(X, OTHER) == pytest.approx(chance_cca(X, OTHER), abs=0.1)
    assert chance_cca(X, OTHER) > 0.1  # sixty documents never look uncorrelated
    related = X @ GENERATOR.normal(size=(12, 30)) + 0.1 * OTHER
    assert held_out_cca(X, related) > chance_cca(X, related) + 0.3
    # With as many components as documents CCA is 1 for anything; at most a third are used.
    assert held_out_cca(X[:9], OTHER[:9]) < 0.99


def share(lam=None, limit=None, structural="MSE", batch_size=ROWS, loss="mse"):
    """Of a student whose projections are identities, so that both terms are mean squared errors."""
    variant = parse(f"only-contextual;100d;S:-;C:-;{loss}")
    variant = replace(variant, structural=structural, masked=limit is not None, lam=lam)
    objective = Objective(variant, DIM, DIM, max_structural_len=limit).eval()
    teachers = STRUCTURAL if structural else None, CONTEXTUAL
    data = DistillationData([[1]] * ROWS, np.arange(ROWS), *teachers)
    return contextual_share(objective, STUDENT, data, batch_size)


def norm(teacher, rows=slice(None)):
    """Of the gradient of the mean of mean squared errors, up to a factor that both sides share."""
    return np.linalg.norm((STUDENT - teacher)[rows])


def test_shares_by_hand():
    s, c = norm(STRUCTURAL), norm(CONTEXTUAL)
    assert share() == pytest.approx(c / (s + c), rel=1e-5)
    assert share(lam=0.8) == pytest.approx(0.2 * c / (0.8 * s + 0.2 * c), rel=1e-5)
    assert share(structural=None) == 1.0
    assert 0 < share(loss="soft_cca", batch_size=6) < 1
    # Masked rows follow the contextual teacher alone.
    short = np.arange(ROWS) <= 5
    s = 0.8 * norm(STRUCTURAL, short)
    c = np.hypot(0.2 * norm(CONTEXTUAL, short), norm(CONTEXTUAL, ~short))
    assert share(lam=0.8, limit=5) == pytest.approx(c / (s + c), rel=1e-5)
    # Shares of whole batches are averaged; here the last two rows fill none.
    norms = [(norm(STRUCTURAL, half), norm(CONTEXTUAL, half)) for half in (slice(5), slice(5, 10))]
    assert share(batch_size=5) == pytest.approx(np.mean([c / (s + c) for s, c in norms]), rel=1e-5)


def test_measuring_projects_both_sides_and_leaves_no_trace():
    objective = tiny.models(tiny.WEIGHTED)[1].train()
    data = tiny.documents(60)
    rows = X[:, : tiny.DIM].astype(np.float32)
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    raw, projected, share = measure(objective, rows, data, batch_size=6)
    assert objective.training
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    z1 = objective.student_projection(torch.tensor(rows)).detach().numpy()
    z2 = objective.contextual_projection(torch.tensor(data.contextual)).detach().numpy()
    assert raw == held_out_cca(rows, data.contextual) and projected == held_out_cca(z1, z2)
    assert share == contextual_share(objective.eval(), rows, data, 6)
