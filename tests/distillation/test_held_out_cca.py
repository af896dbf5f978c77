"""Held-out CCA: ends of its scale, invariance, chance."""

import numpy as np
import pytest
import torch

from lib.distillation.held_out_cca import Watch, chance_cca, held_out_cca
from lib.distillation.objective import Objective
from lib.distillation.variants import parse

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 12))


def test_an_embedding_correlates_perfectly_with_itself_rotated_and_scaled():
    rotation = np.linalg.qr(GENERATOR.normal(size=(12, 12)))[0]
    assert held_out_cca(X, 3 * X @ rotation + 1, components=12) == pytest.approx(1, abs=1e-9)


def test_unrelated_embeddings_score_what_chance_scores():
    other = GENERATOR.normal(size=(60, 30))
    assert held_out_cca(X, other) == pytest.approx(chance_cca(X, other), abs=0.1)
    assert chance_cca(X, other) > 0.1  # sixty documents never look uncorrelated


def test_related_embeddings_score_above_chance():
    related = X @ GENERATOR.normal(size=(12, 30)) + 0.1 * GENERATOR.normal(size=(60, 30))
    assert held_out_cca(X, related) > chance_cca(X, related) + 0.3


def test_few_documents_bound_the_components():
    """With as many components as documents allow, CCA would be 1 for anything; a third of them are used at most."""
    assert held_out_cca(X[:9], GENERATOR.normal(size=(9, 12))) < 0.99


def test_watch_projects_both_sides():
    torch.manual_seed(0)
    objective = Objective(
        parse("only-contextual;100d;S:768;C:768"), dim=12, contextual_dim=4, width=8 / 768
    )
    teacher = GENERATOR.normal(size=(60, 4)).astype(np.float32)
    watch = Watch([], teacher, None, np.ones(60, int), batch_size=6)
    raw, projected, share = watch.measure(X.astype(np.float32), objective)
    assert share == 1.0 and objective.training
    z1 = objective.student_projection(torch.tensor(X, dtype=torch.float32)).detach().numpy()
    z2 = objective.contextual_projection(torch.tensor(teacher)).detach().numpy()
    assert raw == held_out_cca(X.astype(np.float32), teacher)
    assert projected == held_out_cca(z1, z2)


def test_watch_embeds_in_its_precision():
    asked = []

    class Student:
        def encode(self, token_ids, precision):
            asked.append((token_ids, precision))
            return X.astype(np.float32)

    objective = Objective(
        parse("only-contextual;100d;S:768;C:768"), dim=12, contextual_dim=4, width=8 / 768
    )
    teacher = GENERATOR.normal(size=(60, 4)).astype(np.float32)
    watch = Watch([[1, 2]], teacher, None, np.ones(60, int), batch_size=6, precision="bf16")
    assert watch(Student(), objective) == watch.measure(X.astype(np.float32), objective)
    assert asked == [([[1, 2]], "bf16")]
