"""Distillation: train a student to mimic its teachers' embeddings (thesis Chapter 3, Listing 4.1).

`distill` is the loop, on Hugging Face accelerate: one process on a laptop, many under torchrun
(docs/scale.md).
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import get_cosine_schedule_with_warmup

from lib.distillation import ranks
from lib.distillation.checkpoint import load_checkpoint, save_checkpoint
from lib.distillation.objective import Objective
from lib.store import hash_arrays


@dataclass(frozen=True)
class DistillationData:
    """The data that one student learns from. Row i of every field is document i.

    `token_ids` are the student's, special tokens included. `lengths`, (documents,), are numbers of
    the structural teacher's tokens, without special ones and before truncation; the mask depends on
    them (`losses.structural_mask`). Embeddings are (documents, dim) float32, or None for a teacher
    that is not used; they may be memory-mapped, as only the rows of a batch are read. `ValueError`
    if the fields differ in their number of documents.
    """

    token_ids: Sequence[list[int]]
    lengths: np.ndarray
    structural: np.ndarray | None = None
    contextual: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("lengths", "structural", "contextual"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.token_ids):
                raise ValueError(
                    f"{len(self.token_ids)} documents but {len(values)} rows of {name}"
                )


@dataclass(frozen=True)
class Scheme:
    """How a student is trained.

    `batch_size` is that of one process; `accumulation` counts batches per update and process.
    The `learning_rate` is the peak, reached linearly in `warmup_updates`; it then falls to 0 along
    a cosine (Table 4.4). The published numbers were made with a `weight_decay` of 0.01 (the
    author's code), although Table 4.4 prints 0.1. `clip` is the largest norm of the gradient.
    `precision`, "fp32" or "bf16" (autocast), is that of the student's forward pass. `length_bucket`
    is a width in tokens, see `length_mixed_order`. Each of the `passes` has a new order.
    """

    batch_size: int
    learning_rate: float
    warmup_updates: int
    weight_decay: float = 0.01
    clip: float = 1.0
    accumulation: int = 1
    precision: str = "fp32"
    length_bucket: int = 512
    passes: int = 1


@dataclass(frozen=True)
class Update:
    """What a callback receives after update `number` (from 1) of `count`, with its mean loss."""

    number: int
    count: int
    loss: float
    student: Any  # the module that `distill` was given
    objective: Objective


@dataclass
class History:
    """The course of a training: the mean loss of each update."""

    loss: list[float]


class Distillation(nn.Module):
    """Student and objective as one module: token ids and teacher embeddings -> losses (batch,).

    Token ids are those of one process; teacher embeddings are those of all processes. `precision`
    applies to the student alone.
    """

    def __init__(self, student: nn.Module, objective: Objective, precision: str):
        super().__init__()
        self.student = student
        self.objective = objective
        self.mixed = precision == "bf16"

    def forward(self, token_ids: list[list[int]], *teachers: Tensor | None) -> Tensor:
        device = next(self.student.parameters()).device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed):
            embedding = self.student(token_ids)
        # Correlations need at least float32.
        embedding = embedding.to(torch.promote_types(embedding.dtype, torch.float32))
        return self.objective(ranks.gathered(embedding), *teachers)


def distill(
    student: nn.Module,
    objective: Objective,
    data: DistillationData,
    scheme: Scheme,
    *,
    seed: int,
    callbacks: Sequence[Callable[[Update], Any]] = (),
    checkpoint: Path | None = None,
    checkpoint_every: int = 0,
) -> History:
    """Train `student` in place on `data`. Each pass leaves out the last update if it is not full.

    Student and objective are on the device of the training. The caller sets the seed before making
    the objective, whose projections are random; `seed` is for the order of the data and dropout.
    Several processes train like one process with their batches joined: losses, SoftCCA's statistics
    and the history are those of all rows.

    `callbacks` get an `Update` after every update; those with `state_dict` and `load_state_dict`
    are saved in checkpoints. Training resumes from the file `checkpoint` if it exists, which is
    written after the last update and every `checkpoint_every` updates (0: only then). Its name must
    tell this training from others, and the caller removes it (`remove_checkpoint`).

    `ValueError` if the documents do not fill one update, if processes have different data or
    settings, or if the checkpoint was written for other batches. `FloatingPointError` if the loss
    is not finite.
    """
    accelerator = Accelerator(
        mixed_precision="no",
        cpu=not torch.cuda.is_available(),
        step_scheduler_with_optimizer=False,  # else each process would add a step of the schedule
    )
    rank = accelerator.process_index
    batches = draw_batches(data, scheme, processes=accelerator.num_processes, seed=seed)

    # Ranks are added above the range of seeds, so that processes drop out different units.
    torch.manual_seed(seed + (rank << 32))
    trained = Distillation(student, objective, scheme.precision)
    groups = parameter_groups(trained, scheme.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=scheme.learning_rate, fused=True)
    schedule = get_cosine_schedule_with_warmup(optimizer, scheme.warmup_updates, len(batches))
    model, optimizer, schedule = accelerator.prepare(trained, optimizer, schedule)

    history = History([])
    name, rows = hash_arrays(batches), batches[0].ravel()
    teachers = [each for each in _teachers(data, rows, torch.device("cpu")) if each is not None]
    read = hash_arrays(*(data.token_ids[row] for row in rows), *teachers)
    ranks.agree({"seed": seed, **asdict(scheme), "batches": name, "data": read})
    parts = [trained, optimizer, schedule]
    parts += [callback for callback in callbacks if hasattr(callback, "state_dict")]
    if checkpoint is not None:
        history.loss = load_checkpoint(checkpoint, accelerator, parts, name) or []
        ranks.agree({"updates in their checkpoint": len(history.loss)})

    for number, update in enumerate(batches, start=1):
        if number <= len(history.loss):
            continue  # done before the checkpoint was written
        model.train()
        loss = 0.0
        for step, rows in enumerate(update, start=1):
            last = step == scheme.accumulation
            with nullcontext() if last else accelerator.no_sync(model):
                token_ids = [data.token_ids[row] for row in rows[rank]]
                part = model(token_ids, *_teachers(data, rows.ravel(), accelerator.device)).mean()
                accelerator.backward(part / scheme.accumulation)
            loss += part.item() / scheme.accumulation
        if not np.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at update {number} of {len(batches)}: "
                "lower the learning rate, use fp32 or embed the documents again"
            )
        accelerator.clip_grad_norm_(model.parameters(), scheme.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)

        history.loss.append(loss)
        for callback in callbacks:
            callback(Update(number, len(batches), loss, student, objective))
        due = checkpoint_every and number % checkpoint_every == 0
        if checkpoint is not None and (due or number == len(batches)):
            save_checkpoint(checkpoint, accelerator, parts, name, history.loss)
    model.eval()
    return history


def draw_batches(
    data: DistillationData, scheme: Scheme, *, processes: int, seed: int
) -> np.ndarray:
    """Draw rows of `data`, (updates, accumulation, processes, batch_size), mixed by length.

    No update contains a document twice, because none extends into the next pass. `ValueError` if
    there are too few documents for one update.
    """
    sizes = np.asarray([len(ids) for ids in data.token_ids])
    per_update = scheme.accumulation * processes * scheme.batch_size
    updates = len(sizes) // per_update
    if updates == 0:
        raise ValueError(f"{len(sizes)} documents do not fill one update of {per_update}")
    generator = np.random.default_rng(seed)
    orders = [
        length_mixed_order(sizes, bucket=scheme.length_bucket, seed=generator)
        for _ in range(scheme.passes)
    ]
    rows = np.concatenate([order[: updates * per_update] for order in orders])
    return rows.reshape(-1, scheme.accumulation, processes, scheme.batch_size)


def length_mixed_order(
    lengths: np.ndarray, *, bucket: int, seed: int | np.random.Generator
) -> np.ndarray:
    """Draw an order of the documents in which every stretch has the corpus' mix of lengths.

    This follows the author's code. Documents are grouped into buckets of similar length (`bucket`
    is their width in tokens), and each bucket is shuffled. The k-th of its m documents (k from 0)
    is placed at (k + u) / m of the epoch, with u uniform in [0, 1). A plain shuffle would sometimes
    fill a batch with long documents. Returns rows of `lengths`, (documents,).
    """
    generator = np.random.default_rng(seed)
    place = np.empty(len(lengths))
    buckets = np.asarray(lengths) // bucket
    for number in np.unique(buckets):
        members = generator.permutation(np.flatnonzero(buckets == number))
        place[members] = (np.arange(len(members)) + generator.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Groups for AdamW, as in the author's code: biases and normalisation weights do not decay."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _teachers(
    data: DistillationData, rows: np.ndarray, device: torch.device
) -> list[Tensor | None]:
    return [
        None if values is None else torch.from_numpy(np.ascontiguousarray(values[rows])).to(device)
        for values in (data.structural, data.contextual, data.lengths)
    ]
