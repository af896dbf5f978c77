"""Training of a student: on single documents and their teacher vectors, or on triplets of documents of events."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lib.config.schema import NewsSettings
from lib.losses import cosine, mse
from lib.news.losses import complex, triplet
from lib.news.students import LazyRows, Rows, Student, check_tokens, padded

SORTED = 16  # batches whose documents are sorted by length together, so that hardly any is padded
CHECKED = 8192  # teacher vectors that are looked at together


def train(
    student: Student,
    rows: Rows,
    teacher: np.ndarray,
    parts: Sequence[np.ndarray],
    *,
    seed: int,
    settings: NewsSettings,
) -> list[float]:
    """Train the student as its design says; returns the held-out loss after each epoch. The best epoch's weights stay.

    rows: token ids of documents. teacher: (documents, dim) their vectors, scaled to length 1 here. parts: the examples
    to train on and those held out, (examples, 1 or 3) rows of documents, triplets for the losses that take them. seed:
    of the order and of dropout; the same seed gives the same bits. settings: of them `epochs`, `batch_size`, `rates`
    (that of new token embeddings apart, most of which a step does not see), `patience`, the epochs without improvement
    that end the training, and `plateau_patience`, those after which the schedule `plateau` lowers the rates. Raises
    `ValueError` for a document without a token or without a teacher vector that has a direction, and for examples that
    are none or not what the loss takes.
    """
    check_tokens(rows)
    if len(teacher) != len(rows):
        raise ValueError(
            f"every document needs a teacher vector: {len(rows)} documents, {len(teacher)} vectors"
        )
    for start in range(0, len(teacher), CHECKED):
        norms = np.linalg.norm(teacher[start : start + CHECKED], axis=1)
        for fine, told in (
            (np.isfinite(norms), "NaN in vector {}"),
            (norms > 0, "vector {} is zero"),
        ):
            if not fine.all():
                raise ValueError(
                    f"every document needs a teacher vector: {told.format(start + fine.argmin())}"
                )
    examples, held_out = parts
    wanted = 3 if student.design.loss in ("triplet", "complex") else 1
    for part, name in ((examples, "examples"), (held_out, "held-out examples")):
        if not len(part) or part.shape[1:] != (wanted,):
            raise ValueError(
                f"expected {name} of {wanted} documents for {student.design.loss}, got {part.shape}"
            )
    device = student.embedding.weight.device
    targets = LazyRows(
        teacher, lambda part: nn.functional.normalize(torch.from_numpy(part), dim=-1).to(device)
    )
    lengths = np.array([len(row) for row in rows])
    # Adam leaves a token that no document has as it is; without those a step has less to do and gives the same bits.
    table = student.embedding
    seen = np.zeros(table.num_embeddings, dtype=bool)
    for row in rows:
        seen[row] = True
    renumbered, present = LazyRows(rows, (np.cumsum(seen) - 1).__getitem__), np.flatnonzero(seen)
    student.embedding = nn.Embedding.from_pretrained(
        table.weight.detach()[present], not table.weight.requires_grad
    )
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    own = [weights for name, weights in student.named_parameters() if name != "embedding.weight"]
    tokens = [weights for weights in student.embedding.parameters() if weights.requires_grad]
    rate = settings.rates.get(student.design.architecture, settings.rates["other"])
    groups = [
        {"params": own, "lr": rate},
        {"params": tokens, "lr": settings.rates.get("tokens", rate)},
    ]
    optimizer = torch.optim.Adam(
        [group for group in groups if group["params"]], lr=rate, fused=True
    )
    best, weights, history = np.inf, copy.deepcopy(student.state_dict()), list[float]()
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, patience=settings.plateau_patience
    )  # by 10
    for _ in range(settings.epochs):
        student.train()
        for batch in batches(examples, lengths, settings.batch_size, order):
            optimizer.zero_grad()
            loss(student, renumbered, targets, batch).mean().backward()
            optimizer.step()
        student.eval()
        with torch.no_grad():
            losses, end = (
                torch.empty(len(held_out), device=device),
                0,
            )  # of batches, each would keep its memory apart
            for batch in batches(held_out, lengths, settings.batch_size):
                start, end = end, end + len(batch)
                losses[start:end] = loss(student, renumbered, targets, batch)
        history.append(float(losses.mean()))
        if student.design.schedule == "plateau":
            scheduler.step(history[-1])
        if history[-1] < best:
            best, weights = history[-1], copy.deepcopy(student.state_dict())
        elif len(history) - int(np.argmin(history)) > settings.patience:
            break
    student.load_state_dict(weights)
    with torch.no_grad():
        table.weight[present] = student.embedding.weight
    student.embedding = table
    student.eval()
    return history


def loss(student: Student, rows: Rows, targets: LazyRows | Tensor, batch: np.ndarray) -> Tensor:
    """(examples,) losses of a batch of examples, (examples, 1 or 3) rows of documents, each embedded once."""
    documents, places = batch[:, 0], None
    if batch.shape[1] == 3:  # neighbouring triplets share documents
        documents, places = np.unique(batch.T, return_inverse=True)
    vectors = student(*padded([rows[document] for document in documents]))
    if places is None:
        return (mse if student.design.loss == "MSE" else cosine)(vectors, targets[documents])
    embedded = vectors[places.reshape(3, -1)].unbind()  # anchors, positives, negatives
    if student.design.loss == "triplet":
        return triplet(*embedded)
    return complex(embedded, targets[batch.T].unbind(), alpha=student.design.alpha)


def batches(
    examples: np.ndarray, lengths: np.ndarray, size: int, order: np.random.Generator | None = None
) -> list[np.ndarray]:
    """The examples in batches of documents of similar length, in a random order if there is a generator."""
    examples = examples if order is None else order.permutation(examples)
    parts = []
    for start in range(0, len(examples), SORTED * size):
        group = examples[start : start + SORTED * size]
        group = group[np.argsort(lengths[group[:, 0]], kind="stable")]
        parts += [group[first : first + size] for first in range(0, len(group), size)]
    return parts if order is None else [parts[number] for number in order.permutation(len(parts))]
