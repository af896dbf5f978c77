"""Training of a student: on single documents and their teacher vectors, or on triplets of them."""

import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.linalg import vector_norm

from lib.config.schema import NewsSettings
from lib.losses.cosine import cosine, unit_rows
from lib.losses.mse import mse
from lib.news.students import NewsStudent

MARGIN = 0.5  # with which the organisers' reproduction trains the teacher
SORTED = 16  # batches whose documents are sorted by length together, so that padding is rare

Three = tuple[Tensor, Tensor, Tensor]  # of anchors, positives and negatives


def triplet(
    anchor: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    negative: Float[Tensor, "batch dim"],
) -> Float[Tensor, " batch"]:
    """Triplet loss of rows scaled to length 1, with Euclidean distances (news paper, Eq. 1).

        triplet_i = max(0, |a_i - p_i| - |a_i - n_i| + margin)

    A document that is its own positive has distance 0 to it, and no gradient from that distance.
    """
    # `stack` refuses shapes that differ, which the difference would broadcast.
    anchor, positive, negative = map(unit_rows, torch.stack([anchor, positive, negative]))
    near, far = (vector_norm(anchor - other, dim=1) for other in (positive, negative))
    return (near - far + MARGIN).relu()


def complex_loss(students: Three, teachers: Three, *, alpha: float) -> Float[Tensor, " batch"]:
    """Triplet loss and distillation together, for anchors, positives and negatives (Eq. 1).

    complex_i = alpha * triplet_i
                + (1 - alpha) * 1/3 * sum of MSE(student, teacher) over the three documents
    """
    copied = sum(mse(*pair) for pair in zip(students, teachers, strict=True)) / 3
    return alpha * triplet(*students) + (1 - alpha) * copied


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
    """Train the student in place; it keeps the best epoch's weights. Returns held-out losses.

    `rows` are token ids of documents, `teacher` their (documents, dim) vectors, scaled to length 1
    here; both may stay on disk. `examples` and `held_out`, (examples, 1 or 3), are rows of
    documents, triplets for losses that take them. After `patience` epochs without improvement
    training ends; after `plateau_patience` the schedule `plateau` divides the rates by ten.
    """
    order = np.random.default_rng(seed)
    torch.manual_seed(seed)  # of dropout
    rate = settings.rates.get(student.design.architecture, settings.rates["other"])
    # New token embeddings have a rate of their own: a step sees few of them. Those that are frozen
    # get no gradient, and Adam leaves them as they are.
    tokens = {"params": [student.embedding.weight], "lr": settings.rates.get("tokens", rate)}
    others = [weights for name, weights in student.named_parameters() if name != "embedding.weight"]
    optimizer = torch.optim.Adam([{"params": others}, tokens], lr=rate, fused=True)
    patience = settings.plateau_patience
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience)
    weights, history = {}, list[float]()
    for _ in range(settings.epochs):
        student.train()
        for batch in sort_batches(examples, rows, settings.batch_size, order):
            optimizer.zero_grad()
            compute_losses(student, rows, teacher, batch).mean().backward()
            optimizer.step()
        student.eval()
        with torch.no_grad():
            batches = sort_batches(held_out, rows, settings.batch_size)
            losses = [compute_losses(student, rows, teacher, batch) for batch in batches]
        history.append(float(torch.cat(losses).mean()))
        if student.design.schedule == "plateau":
            schedule.step(history[-1])
        since = len(history) - 1 - int(np.argmin(history))
        if since == 0:
            weights = copy.deepcopy(student.state_dict())
        elif since >= settings.patience:
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
    examples: np.ndarray, rows: Any, size: int, order: np.random.Generator | None = None
) -> list[np.ndarray]:
    """The examples in batches of similar length, shuffled if `order` is a generator."""
    examples = examples if order is None else order.permutation(examples)
    parts = []
    for start in range(0, len(examples), SORTED * size):
        group = examples[start : start + SORTED * size]
        lengths = [len(row) for row in rows[group[:, 0]]]
        group = group[np.argsort(lengths, kind="stable")]
        parts += [group[first : first + size] for first in range(0, len(group), size)]
    return parts if order is None else [parts[number] for number in order.permutation(len(parts))]
