"""The training loop: order, decay groups, resuming from checkpoints whole and damaged, and that it learns."""

import hashlib
import io
from pathlib import PurePath

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import nn

from lib.distillation import checkpoint as checkpoints
from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData
from lib.distillation.variants import parse
from lib.losses import max_margin

VOCABULARY, DIM, DOCUMENTS = 50, 8, 48


class Bag(nn.Module):
    """The smallest encoder with the student's interface: the mean of its token embeddings."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, token_ids):
        return self.norm(torch.stack([self.table(torch.tensor(ids)).mean(0) for ids in token_ids]))


@pytest.fixture
def data():
    generator = np.random.default_rng(0)
    ids = [
        generator.integers(0, VOCABULARY, generator.integers(3, 40)).tolist()
        for _ in range(DOCUMENTS)
    ]
    return DistillationData(
        ids,
        np.array([len(row) for row in ids]),
        generator.normal(size=(DOCUMENTS, DIM)).astype(np.float32),
        generator.normal(size=(DOCUMENTS, 4)).astype(np.float32),
    )


def train(data, label="cosine", **settings):
    torch.manual_seed(0)
    student = Bag()
    objective = Objective(
        parse(label), DIM, data.contextual.shape[1], width=8 / 768, max_structural_len=20
    )
    history = training.distill(
        student,
        objective,
        data,
        **{"batch_size": 6, "learning_rate": 1e-2, "seed": 0, "warmup_updates": 1} | settings,
    )
    return student, objective, history


CONTEXTUAL = "cosine;100d;S:768(ReLU)x768;C:768;384;λ=0.5"


@pytest.mark.parametrize(
    "label", ["cosine", "MSE", "contrastive", "max-margin;MSE;γ=0.5", CONTEXTUAL]
)
def test_training_lowers_the_loss_of_its_own_objective(data, label):
    student, objective, _ = train(data, label)
    torch.manual_seed(0)
    untrained = Bag()
    losses = []
    for encoder in (untrained, student):
        objective.eval()
        with torch.no_grad():
            rows = torch.arange(12)
            batch = training._batch(data, rows.numpy()[None], 0, torch.device("cpu"))
            losses.append(objective(encoder(batch[0]), *batch[1:]).mean().item())
    assert losses[1] < losses[0]


def interrupted(data, checkpoint, label="cosine", at=5, **settings):
    """Train, writing a checkpoint every second update, and stop after the update `at`."""

    def stop(done, updates, loss):
        assert updates == 8 and np.isfinite(loss)
        torch.rand(1)  # so that a checkpoint keeps another random state than training begins with
        if done == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data, label, checkpoint=checkpoint, checkpoint_every=2, on_update=stop, **settings)


def same_bits(first, second):
    return all(
        torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items()
    )


@pytest.mark.parametrize("label", ["cosine", CONTEXTUAL])
@pytest.mark.parametrize("at", [5, 8])
def test_an_interrupted_training_ends_with_the_same_bits(data, tmp_path, label, at):
    whole, _, history = train(data, label)
    checkpoint = tmp_path / "checkpoint.pt"
    interrupted(data, checkpoint, label, at)
    updates = []
    resumed, _, again = train(
        data,
        label,
        checkpoint=checkpoint,
        checkpoint_every=2,
        on_update=lambda done, *_: updates.append(done),
    )
    assert updates == (
        [5, 6, 7, 8] if at == 5 else []
    )  # after the last update there is nothing left to do
    assert again.loss == history.loss and same_bits(whole, resumed)
    assert [*tmp_path.iterdir()] == [
        checkpoint
    ]  # until the student is saved, which only the caller knows


def flip(position):
    def damage(content):
        index = int(position * (len(content) - 1))
        return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]

    damage.__name__ = f"flip at {position}"
    return damage


def zeros(content):
    middle = len(content) // 2
    assert any(content[middle : middle + 4096])
    return content[:middle] + bytes(4096) + content[middle + 4096 :]


def signed(content):
    return content + hashlib.sha256(content).digest()


def foreign(value):
    """A file that `torch.save` made of something else, its digest right."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return lambda content: signed(buffer.getvalue())


def without(part):
    def lose(content):
        kept = torch.load(io.BytesIO(content), weights_only=True)
        return foreign({name: value for name, value in kept.items() if name != part})(content)

    lose.__name__ = f"without {part}"
    return lose


DAMAGES = [
    *(flip(position) for position in (0, 0.01, 0.2, 0.5, 0.8, 0.99, 1)),
    zeros,
    lambda content: content[: len(content) // 2],
    lambda content: content[:-1],
    lambda content: content + b"x",
    lambda content: b"",
    lambda content: signed(b"no pickle"),
    foreign([1]),
    foreign({"settings": [1]}),
    foreign({"settings": {}, "state": PurePath("x")}),  # refused: not tensors and plain values
    *(without(part) for part in ("settings", "state", "rng")),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_left_aside(data, tmp_path, damage):
    whole, _, _ = train(data)
    checkpoint = tmp_path / "checkpoint.pt"
    interrupted(data, checkpoint)
    damaged = damage(checkpoint.read_bytes())
    checkpoint.write_bytes(damaged)
    updates = []
    random_state = []

    def look(done, *_):
        updates.append(done)
        random_state.append(torch.get_rng_state())

    with pytest.warns(UserWarning) as caught:
        again, _, _ = train(data, checkpoint=checkpoint, on_update=look)
    (message,) = [str(warning.message) for warning in caught]
    assert (
        f"checkpoint {checkpoint} is damaged: training starts again" in message
        and "\n" not in message
    )
    assert updates[0] == 1 and same_bits(whole, again)
    assert torch.equal(
        random_state[0], torch.manual_seed(0).get_state()
    )  # of nothing that was read
    assert (tmp_path / "checkpoint.pt.aside").read_bytes() == damaged


def test_a_folder_in_the_place_of_a_checkpoint_is_named_and_left_aside(data, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"
    checkpoint.mkdir()
    (checkpoint / "notes.txt").write_text("work")
    with pytest.warns(
        UserWarning, match="is damaged: training starts again, it is kept as checkpoint.pt.aside"
    ):
        train(data, checkpoint=checkpoint, checkpoint_every=2)
    assert (
        checkpoint.is_file()
        and (tmp_path / "checkpoint.pt.aside" / "notes.txt").read_text() == "work"
    )


def test_a_checkpoint_keeps_the_random_state_of_the_gpu_of_each_process(tmp_path, monkeypatch):
    Accelerator(cpu=True)
    states = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.tensor([7]))
    monkeypatch.setattr(torch.cuda, "set_rng_state", states.append)
    monkeypatch.setattr(
        checkpoints, "gather_object", lambda states: [*states, [states[0][0], torch.tensor([8])]]
    )
    checkpoints.write(tmp_path / "checkpoint.pt", {"seed": 0}, {"model": 1})
    for rank in range(2):
        assert checkpoints.read(tmp_path / "checkpoint.pt", {"seed": 0}, rank=rank) == {"model": 1}
    assert [state.item() for state in states] == [7, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "was written with seed 0, this training has 1"),
        ({"learning_rate": 1e-3}, "was written with learning_rate 0.01, this training has 0.001"),
        ({"label": CONTEXTUAL}, "was written with weights"),
    ],
)
def test_a_checkpoint_of_another_training_is_named_and_left_aside(data, tmp_path, change, message):
    expected, _, _ = train(data, **change)
    checkpoint = tmp_path / "checkpoint.pt"
    interrupted(data, checkpoint)
    with pytest.warns(UserWarning, match=message):
        again, _, _ = train(data, checkpoint=checkpoint, **change)
    assert same_bits(expected, again)


def test_a_checkpoint_of_another_number_of_processes_is_refused_and_kept(
    data, tmp_path, monkeypatch
):
    """Two processes would see every other batch: going on with one would give other weights and say nothing."""
    checkpoint = tmp_path / "checkpoint.pt"
    write = checkpoints.write
    monkeypatch.setattr(
        checkpoints,
        "write",
        lambda path, settings, *rest, **rank: write(
            path, settings | {"processes": 2}, *rest, **rank
        ),
    )
    interrupted(data, checkpoint)
    monkeypatch.undo()
    with pytest.raises(
        ValueError,
        match="checkpoint.pt was written with processes 2, this training has 1: start as many",
    ):
        train(data, checkpoint=checkpoint)
    with pytest.warns(
        UserWarning, match="training starts again"
    ):  # of another training, which it does not hinder
        train(data, checkpoint=checkpoint, seed=1)


def test_seeds_change_the_order_and_equal_seeds_do_not(data):
    first, _, _ = train(data, seed=0)
    again, _, _ = train(data, seed=0)
    other, _, _ = train(data, seed=1)
    assert torch.equal(first.table.weight, again.table.weight)
    assert not torch.equal(first.table.weight, other.table.weight)


def test_watching_leaves_no_trace(data):
    seen = []

    def watch(student, objective):
        assert not student.training and not objective.training
        torch.rand(3)
        seen.append(1)
        return (0.5,)

    plain, _, _ = train(data, CONTEXTUAL)
    watched, _, history = train(data, CONTEXTUAL, watch=watch, watch_every=2)
    assert torch.equal(plain.table.weight, watched.table.weight)
    assert history.watched == [(2, 0.5), (4, 0.5), (6, 0.5)] and len(seen) == 3


def test_accumulated_batches_are_one_larger_batch(data):
    """A loss whose rows are independent has the same mean gradient in two batches of 3 as in one of 6."""
    one, _, _ = train(data, batch_size=6)
    two, _, _ = train(data, batch_size=3, accumulation=2)
    torch.testing.assert_close(one.table.weight, two.table.weight, atol=1e-6, rtol=1e-4)


MASKED = CONTEXTUAL.replace("cosine", "mm-MSE")


class Rows(np.ndarray):
    """Stored embeddings that note which of their rows are read."""

    def __getitem__(self, rows):
        type(self).read.append(rows)
        return super().__getitem__(rows)


@pytest.mark.parametrize(("label", "limit"), [("max-margin;MSE;γ=0.5", None), (MASKED, 20)])
def test_negatives_are_stored_teacher_embeddings(data, label, limit, tmp_path):
    """Drawn for each batch, none of it or masked; rows are read from the file, a batch's and no more than asked for."""
    file = np.memmap(tmp_path / "stored", np.float32, "w+", shape=data.structural.shape)
    file[:] = data.structural
    Rows.read, given = [], []

    class Noting(Objective):
        def forward(self, student, structural, contextual, lengths, negatives=None):
            given.append((structural.numpy(), lengths.numpy(), negatives.numpy()))
            loss = super().forward(student, structural, contextual, lengths, negatives)
            teacher, mask = structural, None if limit is None else lengths <= limit
            expected = max_margin(
                student,
                teacher,
                gamma=0.5 if limit is None else 1.0,
                mask=mask,
                negatives=negatives,
            )
            if limit is None:
                torch.testing.assert_close(loss, expected)
            torch.testing.assert_close(
                self.terms(student, structural, contextual, lengths, negatives)[0], expected
            )
            return loss

    torch.manual_seed(0)
    objective = Noting(parse(label), DIM, 4, width=8 / 768, max_structural_len=limit)
    stored = DistillationData(data.token_ids, data.lengths, file.view(Rows), data.contextual)
    settings = {"batch_size": 6, "learning_rate": 1e-2, "seed": 0, "warmup_updates": 1}
    training.distill(Bag(), objective, stored, negatives=5, **settings)
    row_of = {row.tobytes(): number for number, row in enumerate(data.structural)}
    drawn = [[row_of[row.tobytes()] for row in negatives] for _, _, negatives in given]
    assert (
        len(given) == 8
        and all(0 < len(rows) <= 5 for rows in drawn)
        and len(set(map(tuple, drawn))) == 8
    )
    for (structural, _, _), rows in zip(given, drawn, strict=True):
        assert not {row_of[row.tobytes()] for row in structural} & set(rows)
        assert limit is None or (data.lengths[rows] <= limit).all()
    assert {len(rows) for rows in Rows.read[1:]} <= {1, 2, 3, 4, 5, 6}, (
        "the first is the digest of the data"
    )


def test_a_training_with_a_bank_is_resumed_with_the_same_negatives(data, tmp_path):
    label, bank = "max-margin;MSE;γ=0.5", {"negatives": 5}
    whole, _, _ = train(data, label, **bank)
    plain, _, _ = train(data, label)
    interrupted(data, tmp_path / "checkpoint.pt", label, **bank)
    resumed, _, _ = train(data, label, checkpoint=tmp_path / "checkpoint.pt", **bank)
    assert same_bits(whole, resumed) and not same_bits(whole, plain)
    with pytest.warns(UserWarning, match="was written with negatives 5, this training has None"):
        train(data, label, checkpoint=tmp_path / "checkpoint.pt")


def test_order_keeps_the_mix_of_lengths_in_every_stretch():
    lengths = np.repeat([100, 700, 2000], [60, 30, 10])
    order = training.length_mixed_order(lengths, bucket=512, seed=0)
    assert sorted(order) == list(range(100))
    for start in range(0, 100, 20):
        counts = [
            (lengths[order[start : start + 20]] == length).sum() for length in (100, 700, 2000)
        ]
        assert np.abs(np.array(counts) - [12, 6, 2]).max() <= 1


def test_biases_and_norms_do_not_decay():
    decayed, spared = training.parameter_groups(Bag(), 0.1)
    assert decayed["weight_decay"] == 0.1 and [p.ndim for p in decayed["params"]] == [2]
    assert spared["weight_decay"] == 0.0 and [p.ndim for p in spared["params"]] == [1, 1]


def test_masked_rows_train_on_the_contextual_teacher_alone(data):
    """Listing 4.1: above the limit the structural teacher must not matter, below it must."""
    objective = Objective(parse(CONTEXTUAL), DIM, 4, width=8 / 768, max_structural_len=20)
    objective.eval()
    student, contextual = torch.randn(6, DIM), torch.randn(6, 4)
    structural = torch.randn(6, DIM)
    lengths = torch.tensor([10, 20, 21, 30, 5, 40])
    before = objective(student, structural, contextual, lengths)
    after = objective(student, structural + torch.randn(6, DIM), contextual, lengths)
    changed = (before - after).abs() > 1e-7
    assert changed.tolist() == [True, True, False, False, True, False]


def test_too_few_rows_are_named(data):
    with pytest.raises(ValueError, match="48 documents but 3 rows of structural"):
        DistillationData(data.token_ids, data.lengths, data.structural[:3])


def test_too_few_documents_are_named(data):
    with pytest.raises(ValueError, match="48 documents do not fill one update of 60"):
        train(data, batch_size=60)


def test_a_loss_that_explodes_stops_the_run(data):
    with pytest.raises(FloatingPointError, match="at update 1 of 8"):
        train(
            DistillationData(
                data.token_ids, data.lengths, data.structural * np.float32(1e30), data.contextual
            ),
            "MSE",
        )
