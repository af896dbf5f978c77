"""Held-out CCA: ends of its scale, invariance, chance."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.distillation.held_out_cca import Watch, chance_cca, held_out_cca
from lib.distillation.objective import Objective
from lib.distillation.training import Update
from lib.distillation.variants import parse
from tests.distillation import tiny

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
    """With as many components as documents CCA is 1 for anything; at most a third are used."""
    assert held_out_cca(X[:9], GENERATOR.normal(size=(9, 12))) < 0.99


CONTEXTUAL_ONLY = "only-contextual;100d;S:768;C:768"


def test_measuring_projects_both_sides_and_leaves_the_mode():
    torch.manual_seed(0)
    objective = Objective(parse(CONTEXTUAL_ONLY), dim=12, contextual_dim=4, width=8 / 768)
    teacher = GENERATOR.normal(size=(60, 4)).astype(np.float32)
    watch = Watch([], teacher, None, np.ones(60, int), batch_size=6)
    raw, projected, share = watch.measure(X.astype(np.float32), objective)
    assert share == 1.0 and objective.training
    z1 = objective.student_projection(torch.tensor(X, dtype=torch.float32)).detach().numpy()
    z2 = objective.contextual_projection(torch.tensor(teacher)).detach().numpy()
    assert raw == held_out_cca(X.astype(np.float32), teacher)
    assert projected == held_out_cca(z1, z2)
    watch.precision, asked = "bf16", []
    rows = X.astype(np.float32)
    student = SimpleNamespace(encode=lambda _, precision: asked.append(precision) or rows)
    watch(Update(3, 8, 0.0, student, objective))
    assert watch.measurements == [(3, raw, projected, share)] and asked == ["bf16"]


def watch_of(held_out, every=2):
    teachers = held_out.contextual, held_out.structural
    return Watch(held_out.token_ids, *teachers, held_out.lengths, batch_size=6, every=every)


def test_watching_leaves_no_trace_and_leaves_out_the_last_update():
    data, watch, states = tiny.documents(), watch_of(tiny.documents()), []

    def note(update):
        states.append((torch.get_rng_state(), update.student.training, update.objective.training))

    options = {"label": tiny.WEIGHTED, "dropout": 0.5}
    plain, _, _ = tiny.train(data, **options, callbacks=[note])
    watched, objective, _ = tiny.train(data, **options, callbacks=[watch, note])
    assert torch.equal(plain.table.weight, watched.table.weight)
    for (state, *modes), (other, *other_modes) in zip(states[:8], states[8:], strict=True):
        assert torch.equal(state, other) and modes == other_modes == [True, True]
    assert [row[0] for row in watch.measurements] == [2, 4, 6]
    # Each is what `measure` gives at that moment; here it is compared after the last update.
    watch.every = 1
    watch(Update(8, 9, 0.0, watched, objective))
    embeddings = watched.encode(data.token_ids, "fp32")
    assert watch.measurements[-1] == (8, *watch.measure(embeddings, objective))


def test_measurements_survive_an_interruption(tmp_path):
    data, held_out = tiny.documents(), tiny.documents(30)
    whole, resumed = watch_of(held_out), watch_of(held_out)
    tiny.train(data, tiny.WEIGHTED, callbacks=[whole])
    checkpoint = {"checkpoint": tmp_path / "checkpoint", "checkpoint_every": 2}

    def stop(update):
        if update.number == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        tiny.train(data, tiny.WEIGHTED, callbacks=[watch_of(held_out), stop], **checkpoint)
    tiny.train(data, tiny.WEIGHTED, callbacks=[resumed], **checkpoint)
    assert len(whole.measurements) == 3 and resumed.measurements == whole.measurements
