"""Aligned distillation: what a student says inside a long text is held to a teacher of short ones.

The text is cut into stretches that the teacher reads whole. The student reads spans, some stretches
in a row, in one pass. The mean of its states on each stretch learns the teacher's vector of that
stretch, its vector of the span learns the mean of those vectors, weighted by length; of a whole
document it may learn another vector instead. The idea is Dewey's (arXiv 2503.20376).
"""

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import get_linear_schedule_with_warmup

from lib.losses.cosine import cosine
from lib.losses.same_document import same_document
from lib.losses.similarity import similarity

SPAN = (4, 8)  # stretches of a span that is no whole document: 512 to 1,024 tokens
CHECKS = 4  # batches of held-out documents, whose mean loss chooses the checkpoint
Embed = Callable[[list[np.ndarray], list[np.ndarray]], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class StretchedDocument:
    """A document, and what the teacher says of its stretches.

    Parameters
    ----------
    ids : (tokens,) int
        Without special tokens.
    ends : (stretches,) int
        Where each stretch ends in `ids`; the next one begins there.
    stretches : (stretches, dim) float32
        The teacher's vectors.
    whole : (dim,) float32, optional
        What the vector of the whole document is to be, if not the mean of its stretches.
    """

    ids: np.ndarray
    ends: np.ndarray
    stretches: np.ndarray
    whole: np.ndarray | None = None

    def __post_init__(self) -> None:
        if len(self.ends) != len(self.stretches) or not len(self.ends):
            told = f"{len(self.ends)} stretches but {len(self.stretches)} vectors"
            raise ValueError(f"a document has {told}: they must match, and be one at least")
        if self.ends[-1] != len(self.ids) or (self.sizes < 1).any():
            raise ValueError(
                f"stretches must fill its {len(self.ids)} tokens, got ends {self.ends}"
            )

    @property
    def sizes(self) -> np.ndarray:
        """(stretches,) tokens of each stretch."""
        return np.diff(self.ends, prepend=0)


class Span(NamedTuple):
    """Stretches `first` to `last` - 1 of a document."""

    document: int
    first: int
    last: int


@dataclass(frozen=True)
class AlignedScheme:
    """How an aligned student is trained.

    Parameters
    ----------
    updates, tokens : int
        Updates, and the tokens of the spans of one update, about.
    learning_rate : float
        Reached linearly over the share `warmup` of the updates, then linearly to 0. AdamW, without
        decay of weights.
    clip : float
        Largest norm of the gradient.
    precision : str
        Of the student, "fp32" or "bf16" (autocast).
    similarity : float
        Weight of the squared errors of similarities between stretches.
    crops : float
        Weight of the contrast between documents.
    shares : (single stretches, spans, whole documents)
        Of the tokens of an update.
    check_every : int
        Updates between two looks at held-out documents.
    """

    updates: int = 400
    tokens: int = 8192
    learning_rate: float = 1e-4
    warmup: float = 0.05
    clip: float = 1.0
    precision: str = "fp32"
    similarity: float = 20.0
    crops: float = 0.0
    shares: tuple[float, float, float] = (0.4, 0.4, 0.2)
    check_every: int = 50


@dataclass
class AlignedHistory:
    """What happened: the loss of each update, and (update, loss) of held-out documents.

    best: the update whose weights were kept, 0 for the start.
    """

    loss: list[float] = field(default_factory=list)
    held_out: list[tuple[int, float]] = field(default_factory=list)

    @property
    def best(self) -> int:
        return min(self.held_out, key=lambda check: check[1])[0]


def average_stretches(sizes: np.ndarray, stretches: np.ndarray) -> np.ndarray:
    """The mean of stretches, weighted by their tokens.

    Parameters
    ----------
    sizes : (stretches,)
        Tokens.
    stretches : (stretches, dim)

    Returns
    -------
    (dim,)

    Examples
    --------
    >>> import numpy as np
    >>> from lib.distillation.aligned import average_stretches
    >>> average_stretches(np.array([3, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([0.75, 0.25])
    """
    return sizes @ stretches / sizes.sum()


def draw_spans(
    documents: Sequence[StretchedDocument], scheme: AlignedScheme, generator: np.random.Generator
) -> list[Span]:
    """Draw the spans of one update: single stretches, spans and whole documents.

    Each kind gets its share of the tokens, and one span at least, so an update may have more tokens
    than it should. A document may have so few stretches that a span is all of it. With a contrast
    between documents, single stretches and spans are drawn in pairs of one document.

    Parameters
    ----------
    documents : sequence of StretchedDocument
    scheme : AlignedScheme
        Its `tokens`, `shares` and `crops`.
    generator : Generator
    """
    counts = np.array([len(document.ends) for document in documents])
    by_length = counts / counts.sum()
    spans: list[Span] = []
    for kind, share in enumerate(scheme.shares):
        whole, left = kind == 2, share * scheme.tokens
        while left > 0:
            row = int(generator.choice(len(documents), p=None if whole else by_length))
            for _ in range(1 if whole or not scheme.crops else 2):
                length = 1 if kind == 0 else int(generator.integers(SPAN[0], SPAN[1] + 1))
                length = int(counts[row]) if whole else min(length, int(counts[row]))
                first = int(generator.integers(counts[row] - length + 1))
                spans.append(Span(row, first, first + length))
                left -= documents[row].sizes[first : first + length].sum()
    return spans


def aligned_loss(
    stretches: Tensor,
    spans: Tensor,
    stretch_targets: Tensor,
    span_targets: Tensor,
    *,
    weight: float = 20.0,
) -> Tensor:
    """Loss of one batch of spans.

        mean of 1 - cos over stretches and spans + weight x mean of similarity over stretches

    Parameters
    ----------
    stretches, stretch_targets : (stretches, dim)
        By the student, and by the teacher.
    spans, span_targets : (spans, dim)
    weight : float
        Of `lib.losses.similarity.similarity`, the squared errors of cosines between stretches.

    Returns
    -------
    () tensor

    Examples
    --------
    >>> import torch
    >>> from lib.distillation.aligned import aligned_loss
    >>> x = torch.eye(2)
    >>> aligned_loss(x, x[:1], x, x[1:])  # two stretches as they should be, a span that is not
    tensor(0.3333)
    """
    rows = cosine(torch.cat([stretches, spans]), torch.cat([stretch_targets, span_targets]))
    if not weight:
        return rows.mean()
    return rows.mean() + weight * similarity(stretches, stretch_targets).mean()


def train_aligned(
    student: nn.Module,
    embed: Embed,
    documents: Sequence[StretchedDocument],
    held_out: Sequence[StretchedDocument],
    special: tuple[Sequence[int], Sequence[int]],
    scheme: AlignedScheme,
    *,
    seed: int,
    checkpoint: Path | None = None,
    advance: Callable[[int, float], Any] = lambda update, loss: None,
) -> AlignedHistory:
    """Train a student in place, and leave it with the weights that were best on held-out documents.

    The start counts, too: a training that only harms leaves the student as it was.

    Parameters
    ----------
    student : nn.Module
        Those of its parameters that require gradients are trained.
    embed : callable
        From spans, token ids with special tokens, and the tokens of each of their stretches, to
        vectors of all stretches and of the spans: `lib.student.stretches.embed_stretches`.
    documents, held_out : sequences of StretchedDocument
    special : (opening, closing)
        Special tokens around a span.
    scheme : AlignedScheme
    seed : int
        Of the spans, and of dropout.
    checkpoint : Path, optional
        A file that a training which was stopped goes on from, with the same numbers. It is written
        at each look at held-out documents, and the caller removes it. It is of this training
        alone: nothing checks that.
    advance : callable
        Is told after each update which one it was, and its loss.

    Raises
    ------
    ValueError
        Without documents or held-out documents.
    FloatingPointError
        If the loss is not finite.
    """
    if not documents or not held_out:
        told = f"{len(documents)} and {len(held_out)}"
        raise ValueError(f"expected documents to train on and held-out ones, got {told}")
    trained = [parameter for parameter in student.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=scheme.learning_rate, weight_decay=0, fused=True)
    warmup = round(scheme.warmup * scheme.updates)
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, scheme.updates)
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    device, history = trained[0].device, AlignedHistory()
    best: dict[str, Tensor] = {}
    parts = {"student": student, "optimizer": optimizer, "schedule": schedule}

    def compute_loss(texts: Sequence[StretchedDocument], spans: list[Span]) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=scheme.precision == "bf16"):
            vectors = embed(*_read_spans(texts, spans, special))
        targets = [values.to(device) for values in _read_targets(texts, spans)]
        loss = aligned_loss(*vectors, *targets, weight=scheme.similarity)
        if scheme.crops:
            rows = torch.tensor([span.document for span in spans], device=device)
            loss = loss + scheme.crops * same_document(vectors[1], targets[1], rows).mean()
        return loss

    def check(update: int) -> None:
        student.eval()
        fixed = np.random.default_rng(0)  # the same spans in each look
        with torch.inference_mode():
            losses = [
                compute_loss(held_out, draw_spans(held_out, scheme, fixed)).item()
                for _ in range(CHECKS)
            ]
        history.held_out.append((update, float(np.mean(losses))))
        if history.best == update:
            best.update(copy.deepcopy(student.state_dict()))
        if checkpoint is not None:
            states = {name: part.state_dict() for name, part in parts.items()}
            states |= {"best": best, "history": vars(history), "torch": torch.get_rng_state()}
            new = checkpoint.with_suffix(".new")
            torch.save(states | {"spans": generator.bit_generator.state}, new)
            os.replace(new, checkpoint)

    if checkpoint is not None and checkpoint.exists():
        states = torch.load(checkpoint, map_location=device, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(states[name])
        best.update(states["best"])
        history = AlignedHistory(**states["history"])
        torch.set_rng_state(states["torch"].cpu())
        generator.bit_generator.state = states["spans"]
    else:
        check(0)
    for update in range(len(history.loss) + 1, scheme.updates + 1):
        student.train()
        loss = compute_loss(documents, draw_spans(documents, scheme, generator))
        if not torch.isfinite(loss):
            told = f"loss is {loss.item()} at update {update} of {scheme.updates}"
            raise FloatingPointError(f"{told}: lower the learning rate or use fp32")
        loss.backward()
        nn.utils.clip_grad_norm_(trained, scheme.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        history.loss.append(loss.item())
        advance(update, history.loss[-1])
        if update % scheme.check_every == 0 or update == scheme.updates:
            check(update)
    student.load_state_dict(best)
    student.eval()
    return history


def _read_spans(
    documents: Sequence[StretchedDocument],
    spans: Sequence[Span],
    special: tuple[Sequence[int], Sequence[int]],
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Token ids of spans, with special tokens, and the tokens of each of their stretches."""
    opening, closing = special
    ids = []
    for row, first, last in spans:
        document = documents[row]
        start = document.ends[first] - document.sizes[first]
        part = document.ids[start : document.ends[last - 1]]
        ids.append(np.concatenate([opening, part, closing]).astype(np.int64))
    return ids, [documents[row].sizes[first:last] for row, first, last in spans]


def _read_targets(
    documents: Sequence[StretchedDocument], spans: Sequence[Span]
) -> Iterator[Tensor]:
    """Targets of all stretches of spans, and of the spans."""
    stretches, wholes = [], []
    for row, first, last in spans:
        document = documents[row]
        part = document.stretches[first:last]
        stretches.append(part)
        if document.whole is not None and last - first == len(document.ends):
            wholes.append(document.whole)
        else:
            wholes.append(average_stretches(document.sizes[first:last], part))
    yield torch.from_numpy(np.concatenate(stretches)).float()
    yield torch.from_numpy(np.stack(wholes)).float()
