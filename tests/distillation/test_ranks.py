"""Training in two processes (torchrun, gloo) is training in one with the double batch.

Torchrun runs this file: each process writes what it saw to `<folder>/<rank>.pt`.
"""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lib.config import paths
from tests.distillation import tiny

BATCH, UPDATES = 6, 20  # BATCH of each process
DOCUMENTS = 2 * BATCH * UPDATES
TWO_TEACHERS = "100d;S:768(ReLU)x768;C:768"
LABELS = {
    "contrastive": {},
    "max-margin;cosine;γ=0.5": {},
    f"MSE;{TWO_TEACHERS};384;λ=0.5": {},
    f"cosine;{TWO_TEACHERS}": {},
    f"contrastive;{TWO_TEACHERS};384;λ=0.5": {},
    f"mm-MSE;{TWO_TEACHERS};384;λ=0.8": {"accumulation": 2},
    f"only-contextual;{TWO_TEACHERS}": {},
    f"only-contextual;{TWO_TEACHERS};mse": {},
    f"only-contextual;{TWO_TEACHERS};cca": {},
}


def train(label, data=None, scheme=None, **options):
    """What a training ends with: the weights, SoftCCA's statistics among them, and the losses."""
    data = data or tiny.documents(DOCUMENTS, "float64")
    options |= {"kind": "float64", "scheme": {"warmup_share": 0.1} | (scheme or {})}
    student, objective, history = tiny.train(data, label, **options)
    return nn.ModuleList([student, objective]).state_dict(), history["loss"]


def interrupt(label, number, **options):
    def stop(done, loss):
        if done == number:
            raise InterruptedError

    with suppress(InterruptedError):
        train(label, callbacks=[stop], **options)


def resumed(folder):
    """A student with dropout, trained whole, and interrupted after five updates and trained on."""
    label = f"only-contextual;{TWO_TEACHERS}"
    options = {"dropout": 0.5, "checkpoint": folder / "resumed", "checkpoint_every": 2}
    whole = train(label, dropout=0.5)
    interrupt(label, 5, **options)
    return whole, train(label, **options), torch.initial_seed()


def disagreements(folder, rank):
    """The errors when the second process has other data, another setting, or no checkpoint."""
    messages, data, mine = [], tiny.documents(DOCUMENTS, "float64"), folder / f"half of {rank}"
    interrupt("cosine", 11, checkpoint=folder / "half", checkpoint_every=10)
    if rank == 0:
        shutil.copytree(folder / "half", mine)
    for given, options in (
        (replace(data, structural=data.structural + rank), {}),
        (data, {"scheme": {"learning_rate": (0.01, 0.02)[rank]}}),
        (data, {"checkpoint": mine}),
    ):
        try:
            train("cosine", given, **options)
        except ValueError as error:
            messages.append(str(error))
    return messages


def main(folder):
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    seen = {
        "trained": {label: train(label, scheme=scheme) for label, scheme in LABELS.items()},
        "resumed": resumed(folder),
        "messages": disagreements(folder, rank),
    }
    torch.save(seen, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What the two processes saw, by rank. One launch serves all tests: it takes the longest."""
    folder = tmp_path_factory.mktemp("ranks")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [sys.executable, *launcher, __file__, folder]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("label", LABELS)
def test_weights_statistics_and_losses_are_those_of_the_double_batch(ranks, label):
    """In float64, as AdamW magnifies the rounding of float32 (docs/scale.md)."""
    weights, losses = train(label, scheme=LABELS[label] | {"batch_size": 2 * BATCH})
    assert len(losses) == UPDATES // LABELS[label].get("accumulation", 1)
    for two in ranks:
        assert_close(two["trained"][label][0], weights, atol=1e-5, rtol=0)
        # In both processes it is the loss of all rows.
        assert two["trained"][label][1] == pytest.approx(losses, abs=1e-5)


def test_two_processes_resume_with_the_same_bits_each_with_its_own_dropout(ranks):
    for two in ranks:
        (weights, losses), (again, losses_again), _ = two["resumed"]
        assert losses == losses_again
        assert all(torch.equal(value, again[name]) for name, value in weights.items())
    assert ranks[0]["resumed"][2] != ranks[1]["resumed"][2]


def test_processes_that_train_differently_are_refused(ranks):
    for two in ranks:
        teacher, rate, checkpoint = two["messages"]
        assert "the processes train differently: " in teacher
        assert "learning_rate=0.01" in rate and "learning_rate=0.02" in rate
        assert "10 updates done" in checkpoint and "0 updates done" in checkpoint


if __name__ == "__main__":
    main(Path(sys.argv[1]))
