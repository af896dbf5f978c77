"""The smallest student and its documents, for tests of the training loop."""

import numpy as np
import torch
from torch import nn

from lib.config import profiles
from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData
from lib.distillation.variants import parse

VOCABULARY, DIM, CONTEXTUAL_DIM, LIMIT = 50, 8, 4, 20
WEIGHTED = "cosine;100d;S:768(ReLU)x768;C:768;384;λ=0.5"


class Bag(nn.Module):
    """An encoder with the student's interface: the mean of its token embeddings."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_ids):
        means = torch.stack([self.table(torch.tensor(ids)).mean(0) for ids in token_ids])
        return self.dropout(self.norm(means))


def documents(count=48, kind="float32"):
    generator = np.random.default_rng(0)
    sizes = generator.integers(3, 40, count)
    return DistillationData(
        [generator.integers(0, VOCABULARY, size).tolist() for size in sizes],
        sizes,
        generator.normal(size=(count, DIM)).astype(kind),
        generator.normal(size=(count, CONTEXTUAL_DIM)).astype(kind),
    )


def models(label, kind="float32", dropout=0.0):
    torch.manual_seed(0)
    student = Bag(dropout)
    options = {"width": 8 / 768, "max_structural_len": LIMIT}
    objective = Objective(parse(label), DIM, CONTEXTUAL_DIM, **options)
    dtype = getattr(torch, kind)
    return student.to(dtype), objective.to(dtype)


def settings(**changes):
    """Batches of six, and an eighth of the updates to warm up."""
    plain = {"batch_size": 6, "learning_rate": 1e-2, "warmup_share": 1 / 8, "accumulation": 1}
    return profiles.load("smoke").training.model_copy(update=plain | changes)


def train(data, label="cosine", *, seed=0, kind="float32", dropout=0.0, scheme=None, **options):
    """Train in batches of six: (student, objective, history). scheme: settings to change."""
    student, objective = models(label, kind, dropout)
    every = {"checkpoint_every": options.pop("checkpoint_every", 1000)}
    chosen = settings(**(scheme or {}), **every)
    history = training.distill(student, objective, data, chosen, seed=seed, **options)
    return student, objective, history
