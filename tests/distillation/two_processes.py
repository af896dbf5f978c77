"""What `test_ranks.py` runs by torchrun in two processes, and the same functions in one: trainings of tiny students.

Each process writes what it saw to `<folder>/<rank>.pt`.
"""

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.training import Distillation, DistillationData
from lib.distillation.variants import parse

DIM, BATCH, UPDATES, LIMIT = 8, 6, 20, 20  # BATCH of each process
DOCUMENTS = 2 * BATCH * UPDATES
TWO_TEACHERS = "100d;S:768(ReLU)x768;C:768"
LABELS = {
    "MSE": {},
    "cosine": {},
    "contrastive": {},
    "max-margin;MSE;γ=1.0": {},
    "max-margin;cosine;γ=0.5": {},
    "max-margin;MSE;γ=0.5": {"negatives": 9},
    f"MSE;{TWO_TEACHERS};384;λ=0.5": {},
    f"cosine;{TWO_TEACHERS}": {},
    f"contrastive;{TWO_TEACHERS};384;λ=0.5": {},
    f"mm-MSE;{TWO_TEACHERS};384;λ=0.8": {"accumulation": 2},
    f"max-margin;cosine;γ=0.5;{TWO_TEACHERS};384;λ=0.8": {"negatives": 9},
    f"only-contextual;{TWO_TEACHERS}": {},
    f"only-contextual;{TWO_TEACHERS};mse": {},
    f"only-contextual;{TWO_TEACHERS};cca": {},
}
UNEQUAL = ("contrastive", f"mm-MSE;{TWO_TEACHERS};384;λ=0.8", f"only-contextual;{TWO_TEACHERS}")


class Bag(nn.Module):
    """The smallest encoder with the student's interface: the mean of its token embeddings."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.table, self.norm, self.dropout = (
            nn.Embedding(50, DIM),
            nn.LayerNorm(DIM),
            nn.Dropout(dropout),
        )

    def forward(self, token_ids):
        return self.dropout(
            self.norm(torch.stack([self.table(torch.tensor(ids)).mean(0) for ids in token_ids]))
        )


def documents(kind):
    generator = np.random.default_rng(0)
    ids = [generator.integers(0, 50, generator.integers(3, 40)).tolist() for _ in range(DOCUMENTS)]
    structural, contextual = (
        generator.normal(size=(DOCUMENTS, dim)).astype(kind) for dim in (DIM, 4)
    )
    return DistillationData(ids, np.array([len(row) for row in ids]), structural, contextual)


def models(label, kind, dropout=0.0):
    torch.manual_seed(0)
    parts = Bag(dropout), Objective(parse(label), DIM, 4, width=8 / 768, max_structural_len=LIMIT)
    return [part.to(torch.from_numpy(np.zeros(0, kind)).dtype) for part in parts]


def train(label, data=None, kind="float64", dropout=0.0, **settings):
    """What a training ends with: the weights, SoftCCA's statistics among them, and the losses."""
    student, objective = models(label, kind, dropout)
    settings = {
        "batch_size": BATCH,
        "learning_rate": 1e-2,
        "warmup_updates": 2,
        "clip": 1.0,
    } | settings
    history = training.distill(student, objective, data or documents(kind), seed=0, **settings)
    return nn.ModuleList([student, objective]).state_dict(), history.loss


def first_gradients(label, **settings):
    """The gradients of the first update, in float32 and not clipped."""
    gradients = []

    def stop(optimizer, *_):
        gradients.extend(
            p.grad.clone() for group in optimizer.param_groups for p in group["params"]
        )
        raise InterruptedError

    hook = register_optimizer_step_pre_hook(stop)
    try:
        train(label, kind="float32", clip=1e9, **settings)
    except InterruptedError:
        return gradients
    finally:
        hook.remove()


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


def resumed(folder):
    """A student with dropout, trained whole, and interrupted after five updates and trained on."""

    def stop(done, *_):
        if done == 5:
            raise InterruptedError

    label, checkpoint = (
        f"only-contextual;{TWO_TEACHERS}",
        {"checkpoint": folder / "resumed.pt", "checkpoint_every": 2},
    )
    whole = train(label, dropout=0.5)
    try:
        train(label, dropout=0.5, on_update=stop, **checkpoint)
    except InterruptedError:
        pass
    return whole, train(label, dropout=0.5, **checkpoint), torch.initial_seed()


@contextmanager
def noted(messages):
    try:
        yield
    except ValueError as error:
        messages.append(str(error))


def disagreements(folder, rank):
    """What is said when the second process has other data, another setting, or another checkpoint."""
    messages = []
    data = documents("float64")
    for change in (
        {"structural": data.structural + rank},
        {"token_ids": data.token_ids[:: 1 - 2 * rank]},
    ):
        with noted(messages):
            train("cosine", replace(data, **change))
    with noted(messages):
        train("cosine", learning_rate=(0.01, 0.02)[rank])
    with noted(messages):
        folder = folder / str(rank)
        folder.mkdir()
        if rank == 0:
            (folder / "half.pt").write_bytes((folder.parent / "half.pt").read_bytes())
        train("cosine", checkpoint=folder / "half.pt")
    return messages


def interrupted(folder):
    """`half.pt`, a checkpoint of two processes after ten updates."""

    def stop(done, *_):
        if done == 10:
            raise InterruptedError

    try:
        train("cosine", checkpoint=folder / "half.pt", checkpoint_every=10, on_update=stop)
    except InterruptedError:
        pass


def main(folder):
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    seen = {
        "gradients": {
            label: first_gradients(label, **settings) for label, settings in LABELS.items()
        },
        "trained": {label: train(label, **settings) for label, settings in LABELS.items()},
        "resumed": resumed(folder),
    }
    interrupted(folder)
    rows = range(DOCUMENTS)[: 2 * BATCH]
    own = rows[:3] if rank == 0 else rows[3:]
    wrap = nn.parallel.DistributedDataParallel
    seen["unequal"] = {label: gradients_of(label, own, list(rows), wrap) for label in UNEQUAL}
    seen["messages"] = disagreements(folder, rank)
    torch.save(seen, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
