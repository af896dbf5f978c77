"""The training loop: it learns; order, decay groups, callbacks, accumulation, bad input."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.distillation import training
from lib.distillation.training import DistillationData
from lib.losses import max_margin
from tests.distillation.tiny import WEIGHTED, Bag, documents, models, settings, train

data = pytest.fixture(documents)


@pytest.mark.parametrize(
    "label", ["cosine", "MSE", "contrastive", "max-margin;MSE;γ=0.5", WEIGHTED]
)
def test_training_lowers_the_loss_of_its_own_objective(data, label):
    losses = train(data, label, scheme={"passes": 6})[2]["loss"]
    assert np.mean(losses[-8:]) < np.mean(losses[:8])


def test_seeds_change_the_order_and_equal_seeds_do_not(data):
    first, again, other = (train(data, seed=seed)[0].table.weight for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_drawn_negatives_are_other_documents_always_the_same_and_the_losss_negatives(data):
    all_others = replace(data, negatives=47)
    rows, asked = all_others.teachers(slice(None), "cpu")[0], np.array([7, 0, 7])
    for place, (own, *others) in enumerate(rows.tolist()):
        assert own == data.structural[place].tolist()
        assert sorted(others) == sorted(np.delete(data.structural, place, axis=0).tolist())
    assert torch.equal(all_others.teachers(asked, "cpu")[0], rows[asked])
    student, rows = torch.randn(6, 8), replace(data, negatives=16).teachers(slice(0, 6), "cpu")[0]
    assert len(rows[:, 1].unique(dim=0)) > 3, "each document has its own"
    objective = models("max-margin;MSE;γ=1.0;negatives=16")[1]
    expected = max_margin(student, rows[:, 0], negatives=rows[:, 1:])
    assert torch.equal(objective(student, rows, None, None), expected)
    # With few documents they repeat, and are never the document itself.
    few = DistillationData([[1], [2]], np.array([1, 1]), np.array([[0], [1]]), negatives=5)
    assert few.teachers([0], "cpu")[0].flatten().tolist() == [0, 1, 1, 1, 1, 1]


def test_callbacks_see_every_update_and_their_evaluation_mode_does_not_stay(data):
    student, objective = models(WEIGHTED)
    seen = []

    def look(number, loss):
        assert student.training and objective.training
        student.eval()
        objective.eval()
        seen.append((number, loss))
        return (number,) if number % 3 == 0 else True

    history = training.distill(student, objective, data, settings(), seed=0, callbacks=[look])
    assert torch.equal(train(data, WEIGHTED)[0].table.weight, student.table.weight)
    assert seen == [*enumerate(history["loss"], start=1)] and len(seen) == 8
    assert history["measured"] == [(3,), (6,)] and not student.training and not objective.training


def test_accumulated_batches_are_one_larger_batch(data):
    """Where rows are independent, two batches of 3 have the mean gradient of one of 6."""
    schemes = {"clip": 0.25}, {"clip": 0.25, "batch_size": 3, "accumulation": 2}
    one, two = (train(data, scheme=scheme)[0].table.weight for scheme in schemes)
    torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-4)


def test_rates_rise_and_fall_to_zero_and_all_gradients_are_clipped(data, monkeypatch):
    seen, step = [], torch.optim.AdamW.step

    def look(adam, *rest):
        gradients = [each.grad for group in adam.param_groups for each in group["params"]]
        seen.append((adam.param_groups[0]["lr"], torch.nn.utils.get_total_norm(gradients).item()))
        return step(adam, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", look)
    train(data, WEIGHTED, scheme={"clip": 1e-3})
    rates = [0, *0.005 * (1 + np.cos(np.pi * np.arange(7) / 7))]
    assert np.array(seen) == pytest.approx(np.array([(rate, 1e-3) for rate in rates]), rel=1e-2)


def test_order_keeps_the_mix_of_lengths_in_every_stretch():
    lengths = np.repeat([100, 700, 2000], [60, 30, 10])
    generator = np.random.default_rng(0)
    order = training.length_mixed_order(lengths, bucket=512, generator=generator)
    assert sorted(order) == list(range(100))
    for stretch in lengths[order].reshape(5, 20):
        counts = [(stretch == length).sum() for length in (100, 700, 2000)]
        assert np.abs(np.array(counts) - [12, 6, 2]).max() <= 1


def test_each_pass_reads_every_document_once_at_most_and_in_a_new_order(data):
    scheme = settings(batch_size=5, accumulation=2, passes=2)
    batches = training.draw_batches(data, scheme, processes=2, seed=0)
    assert batches.shape == (4, 2, 2, 5)
    assert len(np.unique(batches[:2])) == len(np.unique(batches[2:])) == 40
    assert not np.array_equal(batches[:2], batches[2:])


def test_biases_and_norms_do_not_decay():
    decayed, spared = training.parameter_groups(Bag(), 0.1)
    assert decayed["weight_decay"] == 0.1 and [p.ndim for p in decayed["params"]] == [2]
    assert spared["weight_decay"] == 0.0 and [p.ndim for p in spared["params"]] == [1, 1]


def test_masked_rows_train_on_the_contextual_teacher_alone():
    """Listing 4.1: above the limit the structural teacher must not matter, below it must."""
    objective = models(WEIGHTED)[1].eval()
    student, structural, contextual = torch.randn(6, 8), torch.randn(6, 8), torch.randn(6, 4)
    lengths = torch.tensor([10, 20, 21, 30, 5, 40])
    before = objective(student, structural, contextual, lengths)
    after = objective(student, structural + torch.randn(6, 8), contextual, lengths)
    read = [True, True, False, False, True, False]
    assert ((before - after).abs() > 1e-7).tolist() == read
    objective = models("mm-MSE" + WEIGHTED.removeprefix("cosine"))[1].eval()
    before = objective(student, structural, contextual, lengths)
    structural[~torch.tensor(read)] += 1  # nor as the negatives of other rows
    assert torch.equal(objective(student, structural, contextual, lengths), before)


def test_bad_data_is_named(data):
    with pytest.raises(ValueError, match=r"\[48, 48, 3\] rows"):
        DistillationData(data.token_ids, data.lengths, data.structural[:3])
    with pytest.raises(ValueError, match="48 documents do not fill one update of 60"):
        train(data, scheme={"batch_size": 60})
    huge = data.structural * np.float32(1e30)
    with pytest.raises(FloatingPointError, match="at update 1 of 8"):
        train(DistillationData(data.token_ids, data.lengths, huge, data.contextual), "MSE")
