"""Held-out CCA and shares of the gradient: by hand, ends of the scale, no trace in a training."""

import numpy as np
import pytest
import torch

from lib.distillation.measures import Watch, chance_cca, contextual_share, held_out_cca
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, Update
from lib.distillation.variants import Variant, parse
from tests.distillation import tiny

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 12))
OTHER = GENERATOR.normal(size=(60, 30))
ROWS, DIM = 12, 4
STUDENT, STRUCTURAL, CONTEXTUAL = GENERATOR.standard_normal((3, ROWS, DIM)).astype(np.float32)


def test_an_embedding_correlates_perfectly_with_itself_rotated_and_scaled():
    rotation = np.linalg.qr(GENERATOR.normal(size=(12, 12)))[0]
    assert held_out_cca(X, 3 * X @ rotation + 1, components=12) == pytest.approx(1, abs=1e-9)


def test_unrelated_embeddings_score_what_chance_scores_and_related_ones_more():
    assert held_out_cca(X, OTHER) == pytest.approx(chance_cca(X, OTHER), abs=0.1)
    assert chance_cca(X, OTHER) > 0.1  # sixty documents never look uncorrelated
    related = X @ GENERATOR.normal(size=(12, 30)) + 0.1 * OTHER
    assert held_out_cca(X, related) > chance_cca(X, related) + 0.3
    # With as many components as documents CCA is 1 for anything; at most a third are used.
    assert held_out_cca(X[:9], OTHER[:9]) < 0.99


def share(lam=None, limit=None, structural="MSE", batch_size=ROWS, loss="mse"):
    """Of a student whose projections are identities, so that both terms are mean squared errors."""
    masked = limit is not None
    variant = Variant("student", structural, "DM;4;None;2", "-", "-", masked, lam, loss)
    objective = Objective(variant, DIM, DIM, max_structural_len=limit).eval()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    teacher = STRUCTURAL if structural else None
    data = DistillationData([[1]] * ROWS, np.arange(ROWS), teacher, CONTEXTUAL)
    value = contextual_share(objective, STUDENT, data, batch_size)
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    return value


def norm(teacher, rows=slice(None)):
    """Of the gradient of the mean of mean squared errors, up to a factor that both sides share."""
    return np.linalg.norm((STUDENT - teacher)[rows])


def test_shares_by_hand():
    s, c = norm(STRUCTURAL), norm(CONTEXTUAL)
    assert share() == pytest.approx(c / (s + c), rel=1e-5)
    assert share(lam=0.8) == pytest.approx(0.2 * c / (0.8 * s + 0.2 * c), rel=1e-5)
    assert share(structural=None) == 1.0
    assert 0 < share(loss="soft_cca", batch_size=6) < 1


def test_masked_rows_follow_the_contextual_teacher_alone():
    short = np.arange(ROWS) <= 5
    s = 0.8 * norm(STRUCTURAL, short)
    c = np.hypot(0.2 * norm(CONTEXTUAL, short), norm(CONTEXTUAL, ~short))
    assert share(lam=0.8, limit=5) == pytest.approx(c / (s + c), rel=1e-5)


def test_shares_of_whole_batches_are_averaged():
    halves = [slice(0, 5), slice(5, 10)]  # the last two rows fill no batch
    norms = [(norm(STRUCTURAL, half), norm(CONTEXTUAL, half)) for half in halves]
    assert share(batch_size=5) == pytest.approx(np.mean([c / (s + c) for s, c in norms]), rel=1e-5)


def test_measuring_projects_both_sides_and_leaves_the_mode():
    torch.manual_seed(0)
    variant = parse("only-contextual;100d;S:768;C:768")
    objective = Objective(variant, dim=12, contextual_dim=4, width=8 / 768)
    rows, teacher = X.astype(np.float32), OTHER[:, :4].astype(np.float32)
    watch = Watch(DistillationData([[1]] * 60, np.ones(60, int), None, teacher), batch_size=6)
    raw, projected, share = watch.measure(rows, objective)
    assert share == 1.0 and objective.training
    z1 = objective.student_projection(torch.tensor(rows)).detach().numpy()
    z2 = objective.contextual_projection(torch.tensor(teacher)).detach().numpy()
    assert raw == held_out_cca(rows, teacher) and projected == held_out_cca(z1, z2)


def test_watching_leaves_no_trace_and_leaves_out_the_last_update():
    data, states = tiny.documents(), []
    watch = Watch(data, batch_size=6, every=2, precision="bf16")

    def note(update):
        states.append((torch.get_rng_state(), update.student.training, update.objective.training))

    options = {"label": tiny.WEIGHTED, "dropout": 0.5}
    plain, _, _ = tiny.train(data, **options, callbacks=[note])
    watched, objective, _ = tiny.train(data, **options, callbacks=[watch, note])
    assert torch.equal(plain.table.weight, watched.table.weight)
    for (state, *modes), (other, *other_modes) in zip(states[:8], states[8:], strict=True):
        assert torch.equal(state, other) and modes == other_modes == [True, True]
    assert [row[0] for row in watch.measurements] == [2, 4, 6]
    assert watched.asked == {"bf16"}
    # Each is what `measure` gives at that moment; here it is compared after the last update.
    watch(Update(8, 9, 0.0, watched, objective))
    embeddings = watched.encode(data.token_ids, "bf16")
    assert watch.measurements[-1] == (8, *watch.measure(embeddings, objective))
