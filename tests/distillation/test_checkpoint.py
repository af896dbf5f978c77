"""Checkpoints: trainings that resume end with the same bits, wherever they were interrupted."""

import os
import resource

import pytest
import torch

from lib import store
from lib.distillation.checkpoint import remove_checkpoint
from tests.distillation.tiny import WEIGHTED, documents, train


@pytest.fixture
def data():
    return documents()


class Interruption(Exception):
    pass


class Notebook:
    """A callback that checkpoints keep: what it noted after every third update."""

    def __init__(self):
        self.notes = []

    def __call__(self, update):
        if update.number % 3 == 0:
            self.notes.append([update.number, update.loss])

    def state_dict(self):
        return {"notes": self.notes}

    def load_state_dict(self, state):
        self.notes = state["notes"]


def stop_at(number):
    def stop(update):
        if update.number == number:
            raise Interruption

    return stop


def resume(data, label, file, callbacks=(), **options):
    """Train on from a checkpoint; also returns the numbers of the updates that were left."""
    left = []
    callbacks = [*callbacks, lambda update: left.append(update.number)]
    return *train(data, label, checkpoint=file, callbacks=callbacks, **options), left


def same_bits(first, second):
    other = second.state_dict()
    return all(torch.equal(value, other[name]) for name, value in first.state_dict().items())


@pytest.mark.parametrize("label", ["cosine", WEIGHTED])
@pytest.mark.parametrize(
    ("passes", "at", "left"), [(1, 5, [5, 6, 7, 8]), (1, 8, [7, 8]), (2, 13, [13, 14, 15, 16])]
)
def test_an_interrupted_training_ends_with_the_same_bits(data, tmp_path, label, passes, at, left):
    options, file = {"scheme": {"passes": passes}, "dropout": 0.3}, tmp_path / "checkpoint"
    whole_notes, notes = Notebook(), Notebook()
    whole, whole_objective, history = train(data, label, callbacks=[whole_notes], **options)
    kept = {"checkpoint": file, "checkpoint_every": 2}
    with pytest.raises(Interruption):
        train(data, label, callbacks=[Notebook(), stop_at(at)], **kept, **options)
    resumed, objective, again, updates = resume(data, label, file, [notes], **options)
    assert updates == left
    assert again.loss == history.loss and notes.notes == whole_notes.notes
    assert same_bits(whole, resumed) and same_bits(whole_objective, objective)
    (tmp_path / ".checkpoint.half").touch()  # as a killed process leaves it
    assert {*tmp_path.iterdir()} == {file, tmp_path / ".checkpoint.half"}
    read, _, again, updates = resume(data, label, file, [Notebook()], **options)
    assert same_bits(whole, read) and again.loss == history.loss and not updates, "it is finished"
    remove_checkpoint(file)
    assert not [*tmp_path.iterdir()]


def fill_disk(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def kill_at(owner, name):
    """As if the process ended when it calls this."""

    def arm(monkeypatch):
        def killed(*_, **__):
            raise Interruption

        monkeypatch.setattr(owner, name, killed)
        return monkeypatch.undo

    return arm


@pytest.mark.parametrize(
    ("arm", "error"),
    [
        (kill_at(torch, "save"), Interruption),
        (kill_at(os, "replace"), Interruption),
        (fill_disk, (OSError, RuntimeError)),
    ],
    ids=["written", "renamed", "full disk"],
)
def test_a_write_that_fails_leaves_the_checkpoint_before(data, tmp_path, monkeypatch, arm, error):
    """The write after update 4 fails, so training resumes after update 2."""
    file, disarm = tmp_path / "checkpoint", []
    whole, _, history = train(data)

    def fail(update):
        if update.number == 4:
            disarm.append(arm(monkeypatch))

    try:
        with pytest.raises(error):
            train(data, checkpoint=file, checkpoint_every=2, callbacks=[fail])
    finally:
        disarm[0]()
    resumed, _, again, updates = resume(data, "cosine", file)
    assert updates[0] == 3
    assert same_bits(whole, resumed) and again.loss == history.loss
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("change", [{"seed": 1}, {"scheme": {"batch_size": 3, "accumulation": 2}}])
def test_a_checkpoint_of_other_batches_is_refused_and_kept(data, tmp_path, change):
    """Such as those of two processes: going on with one would silently give other weights."""
    file = tmp_path / "checkpoint"
    train(data, checkpoint=file)
    before = store.hash_file(file)
    with pytest.raises(ValueError, match="was written for other batches") as error:
        train(data, checkpoint=file, **change)
    assert "\n" not in str(error.value) and store.hash_file(file) == before


def test_nothing_in_a_checkpoint_is_unpickled_blindly(data, tmp_path):
    torch.save({"states": os.system}, tmp_path / "checkpoint")
    with pytest.raises(Exception, match="[Ww]eights.only"):
        train(data, checkpoint=tmp_path / "checkpoint")
