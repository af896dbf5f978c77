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

from lib.distillation.training import Distillation
from tests.distillation import tiny
from tests.distillation.tiny import models

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
UNEQUAL = ("contrastive", f"mm-MSE;{TWO_TEACHERS};384;λ=0.8", f"only-contextual;{TWO_TEACHERS}")


def documents(kind):
    return tiny.documents(DOCUMENTS, kind)


def train(label, data=None, kind="float64", dropout=0.0, scheme=None, **options):
    """What a training ends with: the weights, SoftCCA's statistics among them, and the losses."""
    scheme = {"warmup_updates": 2} | (scheme or {})
    data = data or documents(kind)
    options |= {"kind": kind, "dropout": dropout, "scheme": scheme}
    student, objective, history = tiny.train(data, label, **options)
    return nn.ModuleList([student, objective]).state_dict(), history.loss


def gradients_of(label, rows, everyone, wrap=lambda module: module):
    """Those of one batch of documents, of which this process embeds `rows`."""
    data = documents("float32")
    module = wrap(Distillation(*models(label, "float32"), "fp32"))
    teachers = (
        torch.from_numpy(values[everyone])
        for values in (data.structural, data.contextual, data.lengths)
    )
    module([data.token_ids[row] for row in rows], *teachers).mean().backward()
    return [parameter.grad for parameter in module.parameters()]


def interrupt(label, number, **options):
    def stop(update):
        if update.number == number:
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
    """The errors when the second process has other data, another setting, or another checkpoint."""
    messages, data, mine = [], documents("float64"), folder / f"half of {rank}"
    if rank == 0:
        shutil.copy(folder / "half", mine)
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
    }
    # A checkpoint of two processes after ten updates.
    interrupt("cosine", 11, checkpoint=folder / "half", checkpoint_every=10)
    rows = range(DOCUMENTS)[: 2 * BATCH]
    own = rows[:3] if rank == 0 else rows[3:]
    wrap = nn.parallel.DistributedDataParallel
    seen["unequal"] = {label: gradients_of(label, own, list(rows), wrap) for label in UNEQUAL}
    seen["messages"] = disagreements(folder, rank)
    torch.save(seen, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
