"""Training of a student: on single documents and their teacher vectors, or on triplets of them."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.config.schema import NewsSettings
from lib.losses import cosine, mse
from lib.news.designs import Design
from lib.news.losses import complex_loss, triplet
from lib.news.students import LazyRows, NewsStudent, Rows, Sizes, check_tokens, pad

SORTED = 16  # batches whose documents are sorted by length together, so that padding is rare
CHECKED = 8192  # teacher vectors that are checked at a time


@dataclass(frozen=True)
class NewsLesson:
    """All that makes a student and its vectors, as values that can be sent to other processes.

    Attributes
    ----------
    design, sizes
        The student's.
    settings : NewsSettings
        Only the settings that `train` names are read.
    seed : int
        Seed of the initial weights, the order and dropout.
    rows : sequence of (tokens,) int
        Token ids of the documents to learn from, special tokens included.
    teacher : (documents, dim)
        The teacher's vectors of these documents, which may stay on disk.
    examples, held_out : (examples, 1 or 3)
        Rows of documents; triplets for the losses that take them.
    clustered : dict
        {use: token ids of documents that the student embeds after its training}.
    """

    design: Design
    sizes: Sizes
    settings: NewsSettings
    seed: int
    rows: Rows
    teacher: Sequence[Any]
    examples: np.ndarray
    held_out: np.ndarray
    clustered: dict[str, Rows]


def train_and_embed(
    lesson: NewsLesson, tokens: np.ndarray | None, device: str
) -> dict[str, np.ndarray]:
    """Train a student, and embed the documents that are clustered.

    Parameters
    ----------
    lesson : NewsLesson
    tokens : (vocabulary, at least the student's width) or None
        Token embeddings to start from; None for random ones.
    device : str

    Returns
    -------
    dict
        {use: (documents, dim) vectors}, `megabytes`, and `held_out`, the loss after each epoch.
    """
    torch.manual_seed(lesson.seed)
    student = NewsStudent(lesson.design, lesson.sizes)
    if tokens is not None:
        table = student.embedding
        with torch.no_grad():
            table.weight.copy_(torch.from_numpy(tokens)[:, : table.embedding_dim])
    student.to(device)
    clustered, rows = lesson.clustered, lesson.rows
    if lesson.design.architecture == "bag":  # a plain mean of word vectors has no special tokens
        clustered = {use: LazyRows(part, _drop_special) for use, part in clustered.items()}
        rows = LazyRows(rows, _drop_special)
    history = train(
        student,
        rows,
        lesson.teacher,
        lesson.examples,
        lesson.held_out,
        settings=lesson.settings,
        seed=lesson.seed,
    )
    vectors = {use: student.encode(part) for use, part in clustered.items()}
    return vectors | {"megabytes": np.array(student.megabytes), "held_out": np.array(history)}


def _drop_special(row: np.ndarray) -> np.ndarray:
    return row[1:-1]


def train(
    student: NewsStudent,
    rows: Rows,
    teacher: Sequence[Any],
    examples: np.ndarray,
    held_out: np.ndarray,
    *,
    settings: NewsSettings,
    seed: int,
) -> list[float]:
    """Train the student in place as its design says; it keeps the best epoch's weights.

    Parameters
    ----------
    student : NewsStudent
    rows, teacher, examples, held_out
        As in `NewsLesson`. Teacher vectors are scaled to length 1 here.
    settings : NewsSettings
        `epochs`, `batch_size`, `rates` (learning rates; new token embeddings have their own,
        because a step sees few of them), `patience` (training ends after so many epochs without
        improvement) and `plateau_patience` (after so many, the schedule `plateau` divides the rates
        by ten).
    seed : int
        Seed of the order and of dropout.

    Returns
    -------
    list of float
        The held-out loss after each epoch.

    Raises
    ------
    ValueError
        If a document has no token, or no finite teacher vector other than zero, or if there are no
        examples or not the kind that the loss takes.
    """
    _check(student.design, rows, teacher, {"examples": examples, "held-out examples": held_out})
    device = student.embedding.weight.device
    targets = LazyRows(
        teacher, lambda part: nn.functional.normalize(torch.from_numpy(part), dim=-1).to(device)
    )
    lengths = np.array([len(row) for row in rows])
    with shrink_vocabulary(student, rows) as renumbered:
        torch.manual_seed(seed)
        order = np.random.default_rng(seed)
        optimizer = _make_optimizer(student, settings)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=settings.plateau_patience
        )
        best, weights, history = np.inf, copy.deepcopy(student.state_dict()), list[float]()
        for _ in range(settings.epochs):
            student.train()
            for batch in sort_batches(examples, lengths, settings.batch_size, order):
                optimizer.zero_grad()
                compute_losses(student, renumbered, targets, batch).mean().backward()
                optimizer.step()
            student.eval()
            batches = sort_batches(held_out, lengths, settings.batch_size)
            history.append(measure_loss(student, renumbered, targets, batches))
            if student.design.schedule == "plateau":
                schedule.step(history[-1])
            if history[-1] < best:
                best, weights = history[-1], copy.deepcopy(student.state_dict())
            elif len(history) - int(np.argmin(history)) > settings.patience:
                break
        student.load_state_dict(weights)
    return history


@contextlib.contextmanager
def shrink_vocabulary(student: NewsStudent, rows: Rows) -> Iterator[LazyRows]:
    """Within the block, leave out the embeddings of tokens that no document has.

    Adam updates the whole table at every step, although three quarters of its rows have no gradient
    and never change. Without these rows a step is faster and gives the same weights.

    Yields
    ------
    LazyRows
        The documents' token ids, renumbered for the smaller table.
    """
    table = student.embedding
    seen = np.zeros(table.num_embeddings, dtype=bool)
    for row in rows:
        seen[row] = True
    present, number_of = np.flatnonzero(seen), np.cumsum(seen) - 1
    frozen = not table.weight.requires_grad
    student.embedding = nn.Embedding.from_pretrained(table.weight.detach()[present], frozen)
    yield LazyRows(rows, number_of.__getitem__)
    with torch.no_grad():
        table.weight[present] = student.embedding.weight
    student.embedding = table


def _make_optimizer(student: NewsStudent, settings: NewsSettings) -> torch.optim.Adam:
    rate = settings.rates.get(student.design.architecture, settings.rates["other"])
    others = [weights for name, weights in student.named_parameters() if name != "embedding.weight"]
    groups: list[dict[str, Any]] = [{"params": others, "lr": rate}]
    if student.embedding.weight.requires_grad:
        tokens = {"params": [student.embedding.weight], "lr": settings.rates.get("tokens", rate)}
        groups.append(tokens)
    return torch.optim.Adam([group for group in groups if group["params"]], lr=rate, fused=True)


def compute_losses(
    student: NewsStudent, rows: Rows, targets: LazyRows | Tensor, batch: np.ndarray
) -> Tensor:
    """(examples,) losses of a batch, which has (examples, 1 or 3) rows of documents.

    Neighbouring triplets share documents, and each document is embedded once.
    """
    design = student.design
    if not design.takes_triplets:
        documents = batch[:, 0]
        vectors = student(*pad([rows[document] for document in documents]))
        return (mse if design.loss == "MSE" else cosine)(vectors, targets[documents])
    documents, places = np.unique(batch.T, return_inverse=True)
    places = places.reshape(3, -1)  # anchors, positives, negatives
    students = student(*pad([rows[document] for document in documents]))[places].unbind()
    if design.loss == "triplet":
        return triplet(*students)
    return complex_loss(students, targets[documents][places].unbind(), alpha=design.alpha)


@torch.no_grad()
def measure_loss(
    student: NewsStudent, rows: Rows, targets: LazyRows | Tensor, batches: Sequence[np.ndarray]
) -> float:
    """The mean loss of all examples in these batches."""
    # One tensor for all losses: small tensors between large temporary ones would fragment memory.
    losses = torch.empty(sum(map(len, batches)), device=student.embedding.weight.device)
    end = 0
    for batch in batches:
        start, end = end, end + len(batch)
        losses[start:end] = compute_losses(student, rows, targets, batch)
    return float(losses.mean())


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


def _check(
    design: Design, rows: Rows, teacher: Sequence[Any], parts: dict[str, np.ndarray]
) -> None:
    check_tokens(rows)
    told = "every document needs a teacher vector"
    if len(teacher) != len(rows):
        raise ValueError(f"{told}: {len(rows)} documents, {len(teacher)} vectors")
    for start in range(0, len(teacher), CHECKED):
        norms = np.linalg.norm(teacher[start : start + CHECKED], axis=1)
        if not np.isfinite(norms).all():
            raise ValueError(f"{told}: NaN in vector {start + np.isfinite(norms).argmin()}")
        if not norms.all():
            raise ValueError(f"{told}: vector {start + norms.argmin()} is zero")
    wanted = 3 if design.takes_triplets else 1
    for name, part in parts.items():
        if not len(part) or part.shape[1:] != (wanted,):
            expected = f"expected {name} of {wanted} documents for {design.loss}"
            raise ValueError(f"{expected}, got {part.shape}")
