"""Checkpoints: a training that ends anywhere and is started again gives the same bits."""

import shutil

import pytest
import torch
from accelerate import Accelerator
from torch.testing import assert_close

from tests.distillation.tiny import WEIGHTED, documents, train

DATA = documents()


def at(number, act):
    """A callback that acts after an update, before its checkpoint is written."""
    return lambda done, loss: act() if done == number else None


def interrupt(*given):
    raise KeyboardInterrupt


def assert_same(whole, again):
    """Weights, statistics and histories of two trainings are equal to the last bit."""
    states = ([dict(module.state_dict()) for module in each[:2]] for each in (whole, again))
    assert_close(*states, rtol=0, atol=0)
    assert whole[2] == again[2]


@pytest.mark.parametrize("label", ["cosine", WEIGHTED])
@pytest.mark.parametrize(("passes", "stop", "first"), [(1, 5, 5), (1, 8, 7), (2, 13, 13)])
def test_an_interrupted_training_ends_with_the_same_bits(tmp_path, label, passes, stop, first):
    """What callbacks have measured by then is kept too."""
    kept, updates = tmp_path / "kept", []

    def measure(number, loss):
        updates.append(number)
        return (number, loss) if number % 3 == 0 else None

    options = {"label": label, "scheme": {"passes": passes}, "dropout": 0.3}
    whole = train(DATA, callbacks=[measure], **options)
    options |= {"checkpoint": kept, "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        train(DATA, callbacks=[measure, at(stop, interrupt)], **options)
    updates.clear()
    assert_same(whole, train(DATA, callbacks=[measure], **options))
    assert updates == [*range(first, 8 * passes + 1)]
    assert [path.name for path in kept.iterdir()] == [str(8 * passes)]
    assert_same(whole, train(DATA, callbacks=[measure], **options))
    assert len(updates) == 8 * passes + 1 - first, "a finished training is only read"


@pytest.mark.parametrize(
    ("owner", "name", "first"),
    [(torch, "save", 3), (Accelerator, "wait_for_everyone", 3), (shutil, "rmtree", 5)],
)
def test_a_write_that_ends_anywhere_leaves_a_whole_checkpoint(
    tmp_path, monkeypatch, owner, name, first
):
    """The write after update 4 ends when it calls this: training goes on after update 2 or 4."""
    updates = []
    options = {"checkpoint": tmp_path / "kept", "checkpoint_every": 2}
    fail = at(4, lambda: monkeypatch.setattr(owner, name, interrupt))
    with pytest.raises(KeyboardInterrupt):
        train(DATA, callbacks=[fail], **options)
    monkeypatch.undo()
    again = train(DATA, callbacks=[lambda number, loss: updates.append(number)], **options)
    assert updates[0] == first
    assert_same(train(DATA), again)
    assert [path.name for path in options["checkpoint"].iterdir()] == ["8"]
