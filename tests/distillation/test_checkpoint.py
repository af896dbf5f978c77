"""Checkpoints: resumed to the same bits, put aside if damaged or foreign, killed while written."""

import json
import os
import resource
import shutil

import numpy as np
import pytest
import torch

from lib.distillation import checkpoint as checkpoints
from lib.distillation.checkpoint import remove_checkpoint
from lib.store.sealed import write_seal
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
        torch.rand(1)  # so that the random state differs from that at the beginning
        if update.number == number:
            raise Interruption

    return stop


def interrupted(data, folder, label="cosine", at=5, callbacks=(), **options):
    """Train, with a checkpoint after every second update, and stop after the update `at`."""
    options = {"checkpoint": folder, "checkpoint_every": 2} | options
    with pytest.raises(Interruption):
        train(data, label, callbacks=[*callbacks, stop_at(at)], **options)


def same_bits(first, second):
    other = second.state_dict()
    return all(torch.equal(value, other[name]) for name, value in first.state_dict().items())


@pytest.mark.parametrize("label", ["cosine", WEIGHTED])
@pytest.mark.parametrize(("at", "left"), [(5, [5, 6, 7, 8]), (8, [7, 8])])
def test_an_interrupted_training_ends_with_the_same_bits(data, tmp_path, label, at, left):
    whole_notes, notes, updates = Notebook(), Notebook(), []
    whole, whole_objective, history = train(data, label, callbacks=[whole_notes])
    folder = tmp_path / "checkpoint"
    interrupted(data, folder, label, at, callbacks=[Notebook()])
    resumed, objective, again = train(
        data,
        label,
        checkpoint=folder,
        callbacks=[notes, lambda update: updates.append(update.number)],
    )
    assert updates == left
    assert again.loss == history.loss and notes.notes == whole_notes.notes
    assert same_bits(whole, resumed) and same_bits(whole_objective, objective)
    assert [*tmp_path.iterdir()] == [folder]
    remove_checkpoint(folder)
    assert not [*tmp_path.iterdir()]


def test_a_training_interrupted_in_its_second_pass_ends_with_the_same_bits(data, tmp_path):
    folder, twice, left = tmp_path / "checkpoint", {"passes": 2}, []
    whole, _, history = train(data, scheme=twice)
    interrupted(data, folder, at=13, scheme=twice)
    resumed, _, again = train(
        data, scheme=twice, checkpoint=folder, callbacks=[lambda update: left.append(update.number)]
    )
    assert left == [13, 14, 15, 16]
    assert same_bits(whole, resumed) and again.loss == history.loss


def test_a_finished_training_is_read_and_not_repeated(data, tmp_path):
    whole, _, history = train(data, checkpoint=tmp_path / "checkpoint")
    read, _, again = train(data, checkpoint=tmp_path / "checkpoint", callbacks=[stop_at(8)])
    assert same_bits(whole, read) and again.loss == history.loss


def flip_bit(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)


def seal_again(folder):
    files = [file for file in folder.iterdir() if file.name != checkpoints.SEAL]
    write_seal(folder / checkpoints.SEAL, files)


def write_foreign(folder):
    (folder / checkpoints.TRAINING).write_text("[1]")
    seal_again(folder)


DAMAGES = {
    "a bit of the weights": lambda folder: flip_bit(folder, "model.safetensors"),
    "a bit of the optimiser": lambda folder: flip_bit(folder, "optimizer.bin"),
    "a bit of the history": lambda folder: flip_bit(folder, "training.json"),
    "a bit of the seal": lambda folder: flip_bit(folder, "seal.json"),
    "no seal": lambda folder: (folder / "seal.json").unlink(),
    "no schedule": lambda folder: (folder / "scheduler.bin").unlink(),
    "an empty file": lambda folder: (folder / "random_states_0.pkl").write_bytes(b""),
    "a file too many": lambda folder: (folder / "notes.txt").write_text("work"),
    "somebody's folder": lambda folder: [file.unlink() for file in folder.iterdir()],
    "sealed by somebody else": write_foreign,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_put_aside(data, tmp_path, damage):
    whole, _, _ = train(data)
    folder = tmp_path / "checkpoint"
    interrupted(data, folder)
    DAMAGES[damage](folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    updates, random_states = [], []

    def look(update):
        updates.append(update.number)
        random_states.append(torch.get_rng_state())

    with pytest.warns(UserWarning) as caught:
        again, _, _ = train(data, checkpoint=folder, callbacks=[look])
    (message,) = [str(warning.message) for warning in caught]
    assert f"checkpoint {folder} is damaged: training starts from the beginning" in message
    assert "\n" not in message
    assert updates[0] == 1 and same_bits(whole, again)
    # Nothing that was read is used.
    assert torch.equal(random_states[0], torch.manual_seed(0).get_state())
    aside = tmp_path / "checkpoint.aside"
    assert {file.name: file.read_bytes() for file in aside.iterdir()} == before


def test_what_was_put_aside_is_never_overwritten(data, tmp_path):
    folder = tmp_path / "checkpoint"
    for content in ("first", "second"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_text(content)  # a file, where a folder should be
        with pytest.warns(UserWarning, match="is damaged"):
            train(data, checkpoint=folder)
    names = ("checkpoint.aside", "checkpoint.aside2")
    assert [(tmp_path / name).read_text() for name in names] == ["first", "second"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "was written with seed 0, this training has 1"),
        ({"scheme": {"learning_rate": 1e-3}}, "with learning_rate 0.01, this training has 0.001"),
        ({"label": WEIGHTED}, "was written with weights"),
        ({"callbacks": [Notebook()]}, r"with callbacks \[\], this training has \['Notebook'\]"),
    ],
)
def test_a_checkpoint_of_another_training_is_named_and_put_aside(data, tmp_path, options, message):
    expected, _, _ = train(data, **options)
    folder = tmp_path / "checkpoint"
    interrupted(data, folder)
    with pytest.warns(UserWarning, match=message):
        again, _, _ = train(data, checkpoint=folder, **options)
    assert same_bits(expected, again)


@pytest.mark.parametrize("change", ["token_ids", "structural", "contextual", "lengths"])
def test_a_checkpoint_of_other_documents_or_teachers_is_put_aside(data, tmp_path, change):
    folder = tmp_path / "checkpoint"
    interrupted(data, folder, WEIGHTED)
    if change == "token_ids":
        data.token_ids[0].append(1)
    else:
        getattr(data, change)[:] += 1
    with pytest.warns(UserWarning, match="was written with data"):
        train(data, WEIGHTED, checkpoint=folder)


def test_a_checkpoint_of_another_number_of_processes_is_refused_and_kept(data, tmp_path):
    """Two processes see every other batch: going on with one would silently give other weights."""
    folder = tmp_path / "checkpoint"
    interrupted(data, folder)
    path = folder / checkpoints.TRAINING
    path.write_text(path.read_text().replace('"processes": 1', '"processes": 2'))
    seal_again(folder)
    with pytest.raises(ValueError, match="written with processes 2, this training has 1") as error:
        train(data, checkpoint=folder)
    assert "\n" not in str(error.value) and folder.exists()
    # It is not in the way of another training.
    with pytest.warns(UserWarning, match="training starts from the beginning"):
        train(data, checkpoint=folder, seed=1)


STEPS = ["save_state", "write_text", "rename", "second rename", "rmtree"]


@pytest.mark.parametrize("step", STEPS)
def test_a_write_killed_at_any_step_leaves_a_checkpoint_to_resume_from(
    data, tmp_path, monkeypatch, step
):
    """The write after update 4 is killed: training resumes after 2, or after 4 if that is whole."""
    folder = tmp_path / "checkpoint"
    whole, _, history = train(data)
    owner = {"save_state": checkpoints.Accelerator, "write_text": type(folder)}.get(step, os)
    if step == "rmtree":
        owner = shutil
    name = step.split()[-1]
    real, calls = getattr(owner, name), []

    def killed(*arguments, **options):
        calls.append(1)
        if len(calls) == kill_at:
            raise Interruption
        return real(*arguments, **options)

    def arm(update):
        if update.number == 4:
            calls.clear()
            monkeypatch.setattr(owner, name, killed)

    # Before `save_state` two leftovers are removed; the third `rmtree` follows the renames.
    kill_at = {"second rename": 2, "rmtree": 3}.get(step, 1)
    with pytest.raises(Interruption):
        train(data, checkpoint=folder, checkpoint_every=2, callbacks=[arm])
    monkeypatch.undo()
    updates = []
    resumed, _, again = train(
        data,
        checkpoint=folder,
        checkpoint_every=2,
        callbacks=[lambda update: updates.append(update.number)],
    )
    assert updates[0] == (5 if step in ("second rename", "rmtree") else 3)
    assert same_bits(whole, resumed) and again.loss == history.loss
    assert [*tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize("size", [100, 3000])  # too small for the weights, or for the optimiser
def test_a_full_disk_is_an_error_of_one_line_and_the_previous_checkpoint_stays(
    data, tmp_path, size
):
    folder = tmp_path / "checkpoint"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(update):
        if update.number == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    try:
        with pytest.raises(OSError, match="cannot write checkpoint .*; free space") as error:
            train(data, checkpoint=folder, checkpoint_every=2, callbacks=[fill])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(error.value)
    updates = []
    train(data, checkpoint=folder, callbacks=[lambda update: updates.append(update.number)])
    assert updates[0] == 3 and [*tmp_path.iterdir()] == [folder]


def test_nothing_in_a_checkpoint_is_unpickled_blindly(data, tmp_path):
    """A pickle of anything but tensors and plain values is refused, whatever the seal says."""
    folder = tmp_path / "checkpoint"
    interrupted(data, folder)
    torch.save({"state": os.system}, folder / "optimizer.bin")
    seal_again(folder)
    with pytest.raises(Exception, match="[Ww]eights.only"):
        train(data, checkpoint=folder)


def test_losses_survive_to_the_last_bit(data, tmp_path):
    folder = tmp_path / "checkpoint"
    _, _, history = train(data, checkpoint=folder)
    kept = json.loads((folder / checkpoints.TRAINING).read_text())["progress"]["loss"]
    assert np.array_equal(kept, history.loss)
