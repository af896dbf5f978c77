"""Training of a student: on single documents and their teacher vectors, or on triplets of them."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.config.schema import NewsSettings
from lib.losses.cosine import cosine
from lib.losses.mse import mse
from lib.news.losses import complex_loss, triplet
from lib.news.students import NewsStudent

SORTED = 16  # batches whose documents are sorted by length together, so that padding is rare
COUNTED = 8192  # documents that are in memory at once


def train(
    student: NewsStudent,
    rows: Any,
    teacher: Any,
    examples: np.ndarray,
    held_out: np.ndarray,
    *,
    settings: NewsSettings,
    seed: int,
) -> list[float]:
    """Train the student in place as its design says; it keeps the best epoch's weights.

    Parameters
    ----------
    rows, teacher : token ids of documents, and their (documents, dim) vectors, which are scaled to
        length 1 here. Both may stay on disk.
    examples, held_out : (examples, 1 or 3) rows of documents; triplets for losses that take them.
    settings : after `patience` epochs without improvement training ends, and after
        `plateau_patience` the schedule `plateau` divides the rates by ten.
    seed : of the order and of dropout

    Returns
    -------
    The held-out loss after each epoch.
    """
    parts = (rows[start : start + COUNTED] for start in range(0, len(rows), COUNTED))
    lengths = np.array([len(row) for part in parts for row in part])
    order = np.random.default_rng(seed)
    torch.manual_seed(seed)
    rate = settings.rates.get(student.design.architecture, settings.rates["other"])
    # New token embeddings have a rate of their own: a step sees few of them. Those that are frozen
    # get no gradient, and Adam leaves them as they are.
    tokens = {"params": [student.embedding.weight], "lr": settings.rates.get("tokens", rate)}
    others = [weights for name, weights in student.named_parameters() if name != "embedding.weight"]
    optimizer = torch.optim.Adam([{"params": others}, tokens], lr=rate, fused=True)
    patience = settings.plateau_patience
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience)
    best, weights, history = np.inf, copy.deepcopy(student.state_dict()), list[float]()
    for _ in range(settings.epochs):
        student.train()
        for batch in sort_batches(examples, lengths, settings.batch_size, order):
            optimizer.zero_grad()
            compute_losses(student, rows, teacher, batch).mean().backward()
            optimizer.step()
        student.eval()
        with torch.no_grad():
            batches = sort_batches(held_out, lengths, settings.batch_size)
            losses = [compute_losses(student, rows, teacher, batch) for batch in batches]
            history.append(float(torch.cat(losses).mean()))
        if student.design.schedule == "plateau":
            schedule.step(history[-1])
        if history[-1] < best:
            best, weights = history[-1], copy.deepcopy(student.state_dict())
        elif len(history) - int(np.argmin(history)) > settings.patience:
            break
    student.load_state_dict(weights)
    return history


def compute_losses(student: NewsStudent, rows: Any, teacher: Any, batch: np.ndarray) -> Tensor:
    """(examples,) losses of a batch, (examples, 1 or 3) rows of documents, each embedded once."""
    design = student.design
    documents, places = batch[:, 0], None
    if design.takes_triplets:
        documents, places = np.unique(batch.T, return_inverse=True)
        places = places.reshape(3, -1)  # anchors, positives, negatives
    vectors = student(*student.pad(rows[documents]))
    if design.loss == "triplet":
        return triplet(*vectors[places].unbind())
    targets = nn.functional.normalize(torch.tensor(teacher[documents])).to(vectors.device)
    if places is None:
        return (mse if design.loss == "MSE" else cosine)(vectors, targets)
    return complex_loss(vectors[places].unbind(), targets[places].unbind(), alpha=design.alpha)


def sort_batches(
    examples: np.ndarray, lengths: np.ndarray, size: int, order: np.random.Generator | None = None
) -> list[np.ndarray]:
    """The examples in batches of similar length, shuffled if `order` is a generator."""
    examples = examples if order is None else order.permutation(examples)
    parts = []
    for start in range(0, len(examples), SORTED * size):
        group = examples[start : start + SORTED * size]
        group = group[np.argsort(lengths[group[:, 0]], kind="stable")]
        parts += [group[first : first + size] for first in range(0, len(group), size)]
    return parts if order is None else [parts[number] for number in order.permutation(len(parts))]
