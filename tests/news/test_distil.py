"""Training: it learns, repeats bit for bit, stops early, keeps the best weights."""

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.news import designs, distil
from lib.news.losses import complex_loss, triplet
from lib.news.students import NewsStudent, Sizes

SMALL = Sizes(vocabulary=50, token=16, hidden=8, output=12, teacher_token=10, feed_forward=16)
OPTIONS = {"epochs": 3, "batch_size": 8, "rates": {"other": 1e-2}}
OPTIONS |= {"patience": 3, "plateau_patience": 0}
SETTINGS = profiles.load("mini").news.model_copy(update=OPTIONS)
EVERY = np.arange(64)[:, None]
TRIPLETS = np.random.default_rng(1).permuted(np.tile(np.arange(64), (3, 1)), axis=1).T


def draw_lesson():
    """Token ids of documents, and their teacher's vectors."""
    order, rows = np.random.default_rng(0), np.empty(64, dtype=object)
    rows[:] = [order.integers(1, 50, order.integers(3, 11)) for _ in rows]
    table = order.standard_normal((50, 12)).astype(np.float32)
    return rows, np.stack([table[row].mean(0) for row in rows])


def make_student(identity, seed=0):
    torch.manual_seed(seed)
    return NewsStudent(designs.parse(identity), SMALL)


def train(identity="bag;cosine", seed=0, examples=EVERY, **options):
    student, settings = make_student(identity, seed), SETTINGS.model_copy(update=options)
    parts = (examples[:-8], examples[-8:])
    return student, distil.train(student, *draw_lesson(), *parts, seed=seed, settings=settings)


@pytest.mark.parametrize(
    ("identity", "examples"),
    [
        ("bag;cosine", EVERY),
        ("BiGRU(2)+1 linear;attentive;64d;MSE;plateau", EVERY),
        ("LSTM+2 linear+dropout;complex;α=0.5", TRIPLETS),
        ("BiGRU(2)+1 linear;attentive;triplet", TRIPLETS),
        ("Transformer(1x4);CLS;cosine", EVERY),
        ("CNN-2;MSE", EVERY),
    ],
)
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(identity, examples):
    first, again, other = (train(identity, seed, examples) for seed in (0, 0, 1))
    assert first[1] == again[1] != other[1] and len(first[1]) == 3
    bits = [student.encode(draw_lesson()[0]).tobytes() for student, _ in (first, again, other)]
    assert bits[0] == bits[1] != bits[2]


def test_it_learns_what_the_teacher_says():
    _, history = train(epochs=30, patience=30)
    assert min(history) < 0.6 * history[0]


def test_the_best_epochs_weights_stay_and_patience_ends_a_training():
    options = {"epochs": 60, "patience": 2, "rates": {"other": 0.3}}
    student, history = train("BiRNN+1 linear;cosine", **options)
    best = int(np.argmin(history))
    assert len(history) == best + 3 < 60
    loss = distil.compute_losses(student, *draw_lesson(), EVERY[-8:]).mean().item()
    assert loss == pytest.approx(history[best], rel=1e-5)


@pytest.mark.parametrize(("identity", "falls"), [("BiGRU;cosine", 0), ("BiGRU;cosine;plateau", 1)])
def test_a_plateau_lowers_the_rate_and_a_fixed_schedule_does_not(monkeypatch, identity, falls):
    rates, step = [], torch.optim.Adam.step

    def keep_rate(self, *given):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.Adam, "step", keep_rate)
    train(identity, epochs=12, patience=12, rates={"other": 0.5})
    assert (min(rates) < 0.5) == bool(falls)


def test_mse_compares_with_the_normalised_teacher():
    rows, teacher = draw_lesson()
    student = make_student("bag;MSE")
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    expected = (torch.from_numpy(student.encode(rows)) - targets).square().mean(1)
    losses = distil.compute_losses(student, rows, teacher, EVERY)
    torch.testing.assert_close(losses.detach(), expected)


@pytest.mark.parametrize(
    "identity", ["BiGRU+1 linear;attentive;triplet", "LSTM+2 linear+dropout;complex;α=0.3"]
)
def test_a_document_of_several_triplets_is_embedded_once(identity):
    """And the losses are those of the triplets one by one."""
    rows, teacher = draw_lesson()
    student = make_student(identity).eval()
    vectors = torch.from_numpy(student.encode(rows))
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    batch = np.array([[3, 5, 9], [9, 3, 5], [60, 60, 3]])
    wanted = []
    for triple in batch:
        ours, theirs = (tuple(part[[row]] for row in triple) for part in (vectors, targets))
        mixed = complex_loss(ours, theirs, alpha=0.3) if "complex" in identity else triplet(*ours)
        wanted.append(mixed)
    embedded = []
    student.register_forward_pre_hook(lambda _, given: embedded.append(len(given[0])))
    losses = distil.compute_losses(student, rows, teacher, batch)
    torch.testing.assert_close(losses.detach(), torch.cat(wanted))
    assert embedded == [4]


def test_teacher_tokens_are_not_trained():
    student, _ = train("BiLSTM+2 linear+dropout;teacher tokens;MSE")
    before = make_student("BiLSTM+2 linear+dropout;teacher tokens;MSE")
    assert torch.equal(student.embedding.weight, before.embedding.weight)
