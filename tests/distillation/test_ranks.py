"""Training in two processes (torchrun, gloo) is training in one with the double batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from lib.config import paths
from tests.distillation import two_processes

DOUBLE = {"batch_size": 2 * two_processes.BATCH}
UPDATES, LABELS = two_processes.UPDATES, two_processes.LABELS
LAUNCHED = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def ranks(folder):
    """What the two processes saw, by rank. One launch serves all tests: it takes the longest."""
    script = str(Path(__file__).with_name("two_processes.py"))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [sys.executable, *launcher, script, folder]
    environment = {name: value for name, value in os.environ.items() if name not in LAUNCHED}
    environment |= {"PYTHONPATH": str(paths.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("label", LABELS)
def test_weights_statistics_and_losses_are_those_of_the_double_batch(ranks, label):
    """In float64, as AdamW magnifies the rounding of float32 (docs/scale.md)."""
    weights, losses = two_processes.train(label, scheme=LABELS[label] | DOUBLE)
    assert len(losses) == UPDATES // LABELS[label].get("accumulation", 1)
    assert any("phi" in name for name in weights) == (
        two_processes.TWO_TEACHERS in label and label[-3:] not in ("mse", "cca")
    )
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
        teacher, documents, rate, checkpoint = two["messages"]
        assert "the processes train differently: " in teacher and len({teacher, documents}) == 2
        assert "learning_rate=0.01" in rate and "learning_rate=0.02" in rate
        assert "10 updates done" in checkpoint and "0 updates done" in checkpoint
