"""Trainings of tiny students, which `test_ranks.py` runs in two processes and in one.

Each process writes what it saw to `<folder>/<rank>.pt`.
"""

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from tests.distillation import tiny

BATCH, UPDATES = 6, 20  # BATCH of each process
DOCUMENTS = 2 * BATCH * UPDATES
TWO_TEACHERS = "100d;S:768(ReLU)x768;C:768"
LABELS = {
    "MSE": {},
    "cosine": {},
    "contrastive": {},
    "max-margin;MSE;γ=1.0": {},
    "max-margin;cosine;γ=0.5": {},
    f"MSE;{TWO_TEACHERS};384;λ=0.5": {},
    f"cosine;{TWO_TEACHERS}": {},
    f"contrastive;{TWO_TEACHERS};384;λ=0.5": {},
    f"mm-MSE;{TWO_TEACHERS};384;λ=0.8": {"accumulation": 2},
    f"only-contextual;{TWO_TEACHERS}": {},
    f"only-contextual;{TWO_TEACHERS};mse": {},
    f"only-contextual;{TWO_TEACHERS};cca": {},
}


def documents(kind):
    return tiny.documents(DOCUMENTS, kind)


def train(label, data=None, kind="float64", dropout=0.0, scheme=None, **options):
    """What a training ends with: the weights, SoftCCA's statistics among them, and the losses."""
    scheme = {"warmup_updates": 2} | (scheme or {})
    data = data or documents(kind)
    options |= {"kind": kind, "dropout": dropout, "scheme": scheme}
    student, objective, history = tiny.train(data, label, **options)
    return nn.ModuleList([student, objective]).state_dict(), history.loss


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
    messages, data, mine = [], documents("float64"), folder / f"half of {rank}"
    interrupt("cosine", 11, checkpoint=folder / "half", checkpoint_every=10)
    if rank == 0:
        shutil.copytree(folder / "half", mine)
    for given, options in (
        (replace(data, structural=data.structural + rank), {}),
        (replace(data, token_ids=data.token_ids[:: 1 - 2 * rank]), {}),
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
