"""Training: it learns, repeats bit for bit, stops early, keeps the best weights."""

import tracemalloc

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.news import designs, distil
from lib.news.losses import complex_loss, triplet
from lib.news.students import NewsStudent, Sizes

SMALL = Sizes(vocabulary=50, token=16, hidden=8, output=12, teacher_token=10, feed_forward=16)
OPTIONS = {
    "epochs": 3,
    "batch_size": 8,
    "rates": {"other": 1e-2},
    "patience": 3,
    "plateau_patience": 0,
}
SETTINGS = profiles.load("mini").news.model_copy(update=OPTIONS)


def lesson(count=64):
    order = np.random.default_rng(0)
    rows = [order.integers(1, 50, order.integers(1, 9)).tolist() for _ in range(count)]
    table = order.standard_normal((50, 12)).astype(np.float32)
    return rows, np.stack([table[row].mean(0) for row in rows]), np.arange(count)[:, None]


def trained(identity="bag;cosine", seed=0, examples=None, **options):
    rows, teacher, every = lesson()
    examples = every if examples is None else examples
    torch.manual_seed(seed)
    student = NewsStudent(designs.parse(identity), SMALL)
    settings = SETTINGS.model_copy(update=options)
    history = distil.train(
        student, rows, teacher, examples[:-8], examples[-8:], seed=seed, settings=settings
    )
    return student, history, rows


TRIPLETS = np.random.default_rng(1).permuted(np.tile(np.arange(64), (3, 1)), axis=1).T


@pytest.mark.parametrize(
    ("identity", "examples"),
    [
        ("bag;cosine", None),
        ("BiGRU(2)+1 linear;attentive;64d;MSE;plateau", None),
        ("LSTM+2 linear+dropout;complex;α=0.5", TRIPLETS),
        ("BiGRU(2)+1 linear;attentive;triplet", TRIPLETS),
        ("Transformer(1x4);CLS;cosine", None),
        ("CNN-2;MSE", None),
    ],
)
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(identity, examples):
    first, again, other = (trained(identity, seed, examples) for seed in (0, 0, 1))
    assert first[1] == again[1] != other[1] and len(first[1]) == 3
    bits = [student.encode(rows).tobytes() for student, _, rows in (first, again, other)]
    assert bits[0] == bits[1] != bits[2]


def test_it_learns_what_the_teacher_says():
    _, history, _ = trained(epochs=30, patience=30)
    assert min(history) < 0.6 * history[0]


def test_the_best_epochs_weights_stay_and_patience_ends_a_training():
    student, history, rows = trained(
        "BiRNN+1 linear;cosine", epochs=60, patience=2, rates={"other": 0.3}
    )
    best = int(np.argmin(history))
    assert len(history) == best + 3 < 60
    _, teacher, every = lesson()
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    loss = distil.compute_losses(student, rows, targets, every[-8:]).mean().item()
    assert loss == pytest.approx(history[best], rel=1e-5)


@pytest.mark.parametrize(
    ("identity", "examples"), [("CNN-1;MSE", None), ("LSTM;complex;α=0.5", TRIPLETS)]
)
def test_training_stays_on_the_students_device(monkeypatch, identity, examples):
    """A teacher vector left on the CPU would be an error. A meta tensor has no value: here 0."""
    devices, compute, adam = [], distil.compute_losses, torch.optim.Adam

    def look(*given):
        losses = compute(*given)
        devices.append(losses.device.type)
        return losses

    # The fused optimizer knows no meta device.
    monkeypatch.setattr(torch.optim, "Adam", lambda groups, lr, fused: adam(groups, lr))
    monkeypatch.setattr(distil, "compute_losses", look)
    monkeypatch.setattr(distil, "float", lambda value: 0.0, raising=False)
    rows, teacher, every = lesson()
    parts = np.split(every if examples is None else examples, [56])
    student = NewsStudent(designs.parse(identity), SMALL).to("meta")
    assert distil.train(student, rows, teacher, *parts, seed=0, settings=SETTINGS) == [0.0] * 3
    assert devices == ["meta"] * 3 * (7 + 1) and student.embedding.weight.device.type == "meta"


def test_a_plateau_lowers_the_rate_and_a_fixed_schedule_does_not(monkeypatch):
    rates, step = [], torch.optim.Adam.step

    def keep_rate(self, *given):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given)

    monkeypatch.setattr(torch.optim.Adam, "step", keep_rate)
    for identity, fell in (("BiGRU;cosine", False), ("BiGRU;cosine;plateau", True)):
        rates.clear()
        trained(identity, epochs=12, patience=12, rates={"other": 0.5})
        assert (min(rates) < 0.5) == fell


def test_mse_compares_with_the_normalised_teacher():
    rows, teacher, every = lesson()
    student = NewsStudent(designs.parse("bag;MSE"), SMALL)
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    expected = (torch.from_numpy(student.encode(rows)) - targets).square().mean(1)
    torch.testing.assert_close(
        distil.compute_losses(student, rows, targets, every).detach(), expected
    )


@pytest.mark.parametrize(
    "identity", ["BiGRU+1 linear;attentive;triplet", "LSTM+2 linear+dropout;complex;α=0.3"]
)
def test_a_document_of_several_triplets_is_embedded_once(identity):
    """And the losses are those of the triplets one by one."""
    rows, teacher, _ = lesson()
    student = NewsStudent(designs.parse(identity), SMALL).eval()
    vectors = torch.from_numpy(student.encode(rows))
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    batch = np.array([[3, 5, 9], [9, 3, 5], [60, 60, 3]])
    wanted = []
    for a, p, n in batch:
        three = (
            tuple(vectors[[row]] for row in (a, p, n)),
            tuple(targets[[row]] for row in (a, p, n)),
        )
        wanted.append(
            complex_loss(*three, alpha=0.3) if "complex" in identity else triplet(*three[0])
        )
    embedded = []
    student.register_forward_pre_hook(lambda _, given: embedded.append(len(given[0])))
    torch.testing.assert_close(
        distil.compute_losses(student, rows, targets, batch).detach(), torch.cat(wanted)
    )
    assert embedded == [4]


def test_teacher_tokens_are_not_trained():
    student, _, _ = trained("BiLSTM+2 linear+dropout;teacher tokens;MSE")
    torch.manual_seed(0)
    assert torch.equal(
        student.embedding.weight, NewsStudent(student.design, SMALL).embedding.weight
    )


def test_only_the_tokens_of_the_documents_change_and_as_if_the_whole_table_were_trained():
    rows, teacher, every = lesson()
    used = sorted({token for row in rows for token in row[:3]})
    rows = [row[:3] for row in rows]
    torch.manual_seed(0)
    student = NewsStudent(designs.parse("bag;cosine"), SMALL)
    whole = NewsStudent(student.design, SMALL)
    whole.load_state_dict(student.state_dict())
    before = student.embedding.weight.detach().clone()
    unused = np.setdiff1d(np.arange(50), used)
    settings = SETTINGS.model_copy(update={"epochs": 1})
    distil.train(student, rows, teacher, every[:-8], every[-8:], seed=0, settings=settings)
    assert len(unused) and torch.equal(student.embedding.weight[unused], before[unused])
    assert (student.embedding.weight[used] != before[used]).any(1).sum() > len(used) / 2
    groups = [{"params": [*whole.after.parameters()]}, {"params": [whole.embedding.weight]}]
    optimizer = torch.optim.Adam(groups, lr=1e-2)
    targets = torch.nn.functional.normalize(torch.from_numpy(teacher))
    for batch in distil.sort_batches(
        every[:-8], np.array([len(row) for row in rows]), 8, np.random.default_rng(0)
    ):
        optimizer.zero_grad()
        distil.compute_losses(whole, rows, targets, batch).mean().backward()
        optimizer.step()
    torch.testing.assert_close(student.embedding.weight, whole.embedding.weight)


def test_batches_hold_every_example_once_and_documents_of_one_length():
    examples, lengths = np.arange(1000)[:, None], np.random.default_rng(0).integers(1, 100, 1000)
    parts = distil.sort_batches(examples, lengths, 32, np.random.default_rng(1))
    assert sorted(np.concatenate(parts).ravel().tolist()) == list(range(1000))
    assert np.mean([np.ptp(lengths[part.ravel()]) for part in parts]) < 20
    assert [len(part) for part in distil.sort_batches(examples, lengths, 32)].count(32) >= 30


def test_documents_and_teacher_vectors_stay_on_disk(tmp_path):
    """Private memory does not grow with their number: 20,000 of 100 tokens, 256 of which train."""
    count, order = 20_000, np.random.default_rng(0)
    ids = np.memmap(tmp_path / "ids", np.int32, "w+", shape=(count, 100))
    ids[:] = order.integers(1, 50, ids.shape)
    teacher = np.memmap(tmp_path / "teacher", np.float32, "w+", shape=(count, 12))
    teacher[:] = order.standard_normal(teacher.shape)
    examples = order.permutation(count)[:256, None]
    student = NewsStudent(designs.parse("bag;cosine"), SMALL)
    tracemalloc.start()
    distil.train(student, ids, teacher, examples, examples, seed=0, settings=SETTINGS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6  # the ids alone are 8 MB


def test_what_nothing_can_be_learned_from(monkeypatch):
    monkeypatch.setattr(distil, "CHECKED", 5)
    rows, teacher, every = lesson()

    def refuses(told, identity="bag;MSE", rows=rows, teacher=teacher, parts=(every, every)):
        student = NewsStudent(designs.parse(identity), SMALL)
        with pytest.raises(ValueError, match=told):
            distil.train(student, rows, teacher, *parts, seed=0, settings=SETTINGS)

    row = np.arange(64)[:, None] == 7
    refuses("document 5", "BiGRU;cosine", rows=[*rows[:5], [], *rows[6:]])
    refuses("63 vectors", teacher=teacher[:-1])
    refuses("NaN in vector 7", teacher=np.where(row, np.nan, teacher))
    refuses("NaN in vector 7", teacher=np.where(row, np.inf, teacher))
    refuses("vector 7 is zero", teacher=np.where(row, 0, teacher))
    refuses(r"expected examples .*\(0, 1\)", parts=(every[:0], every))
    refuses(r"expected held-out examples .*\(0, 1\)", parts=(every, every[:0]))
    refuses(r"3 documents for triplet, got \(64, 1\)", "bag;triplet")
