"""Distillation: train a student to mimic its teachers' embeddings (thesis Chapter 3, Listing 4.1).

`distill` is the loop, on Hugging Face accelerate: one process on a laptop, many under torchrun
(docs/scale.md).
"""

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather, gather_object
from torch import Tensor, distributed, nn
from transformers import get_cosine_schedule_with_warmup

from lib.distillation.objective import Objective
from lib.store import hash_arrays

NEGATIVES_SEED = 11  # so that a document's negatives do not depend on the student's seed


@dataclass(frozen=True)
class DistillationData:
    """The data that one student learns from. Row i of every field is document i.

    `token_ids` are the student's, special tokens included; `lengths`, (documents,), are what
    `losses.structural_mask` reads. Embeddings are (documents, dim) float32, or None for a teacher
    that is not used; they may be memory-mapped, as only the rows of a batch are read. `ValueError`
    if the fields differ in their number of documents.
    """

    token_ids: Sequence[list[int]]
    lengths: np.ndarray
    structural: Any = None
    contextual: Any = None

    def __post_init__(self) -> None:
        for name in ("lengths", "structural", "contextual"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.token_ids):
                raise ValueError(
                    f"{len(self.token_ids)} documents but {len(values)} rows of {name}"
                )

    def teachers(self, rows: Any, device: torch.device | str) -> list[Any]:
        """Structural and contextual embeddings and lengths of some documents."""
        fields = (self.structural, self.contextual, self.lengths)
        return [
            None if each is None else torch.from_numpy(np.ascontiguousarray(each[rows])).to(device)
            for each in fields
        ]


@dataclass(frozen=True)
class WithNegatives:
    """Embeddings (documents, dim), each followed by those of `count` documents drawn at random.

    Indexed by documents, it gives (rows, 1 + count, dim), the same in every call. Negatives repeat
    only if there are fewer other documents.
    """

    values: Any
    count: int

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> np.ndarray:
        drawn = np.stack([self.draw(row) for row in np.arange(len(self))[rows]])
        return self.values[drawn.ravel()].reshape(*drawn.shape, -1)

    def draw(self, row: int) -> np.ndarray:
        """(1 + count,): the document itself, then its negatives."""
        others = len(self) - 1
        generator = np.random.default_rng([NEGATIVES_SEED, row])
        drawn = generator.choice(others, self.count, replace=self.count > others)
        return np.append(row, drawn + (drawn >= row))


@dataclass(frozen=True)
class Scheme:
    """How a student is trained. Defaults are the author's."""

    batch_size: int  # of one process
    learning_rate: float  # the peak; it then falls to 0 along a cosine (Table 4.4)
    warmup_updates: int  # in which the rate rises linearly
    weight_decay: float = 0.01  # Table 4.4 prints 0.1
    clip: float = 1.0  # the largest norm of the gradient
    accumulation: int = 1  # batches per update and process
    precision: str = "fp32"  # of the student's forward pass, or "bf16" (autocast)
    length_bucket: int = 512  # in tokens, see `length_mixed_order`
    passes: int = 1  # over the documents, each in a new order


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

    def state_dict(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loss = state["loss"]


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
        return self.objective(gathered(embedding), *teachers)


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
    """Train `student` in place on `data`; a pass leaves out its last update if it is not full.

    Student and objective are on the device of the training. The caller seeds the objective's random
    projections; `seed` is for the order of documents and dropout. Several processes train like one
    with their batches joined. `callbacks` get an `Update` after every update.

    The folder `checkpoint`, whose name must tell this training from others, keeps the state, also
    of callbacks with a `state_dict`, after the last update and every `checkpoint_every` updates.
    A training goes on from it; the caller removes it. `ValueError` if the documents do not fill an
    update, or processes train differently; `FloatingPointError` if the loss is not finite.
    """
    on_cpu = not torch.cuda.is_available()
    # Else each process would add a step of the schedule.
    accelerator = Accelerator(mixed_precision="no", cpu=on_cpu, step_scheduler_with_optimizer=False)
    batches = draw_batches(data, scheme, processes=accelerator.num_processes, seed=seed)
    # Ranks are added above the range of seeds, so that processes drop out different units.
    torch.manual_seed(seed + (accelerator.process_index << 32))
    trained = Distillation(student, objective, scheme.precision)
    model, optimizer, schedule = accelerator.prepare(
        trained, *_build_optimizer(trained, scheme, len(batches))
    )
    history = History([])
    stateful = [callback for callback in callbacks if hasattr(callback, "state_dict")]
    accelerator.register_for_checkpointing(history, *stateful)
    if checkpoint is not None and (kept := find_checkpoint(checkpoint)):
        accelerator.load_state(kept)
    done = len(history.loss)
    _check_agreement(data, batches, f"seed {seed}, {scheme}, {done} updates done")

    for number, update in enumerate(batches[done:], start=done + 1):
        loss = _compute_gradients(accelerator, model, data, update)
        if not np.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at update {number} of {len(batches)}")
        accelerator.clip_grad_norm_(model.parameters(), scheme.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        history.loss.append(loss)
        for callback in callbacks:
            callback(Update(number, len(batches), loss, student, objective))
        due = number == len(batches) or (checkpoint_every and number % checkpoint_every == 0)
        if checkpoint is not None and due:
            save_checkpoint(checkpoint, accelerator, number)
    model.eval()
    return history


def _compute_gradients(
    accelerator: Accelerator, model: nn.Module, data: DistillationData, update: np.ndarray
) -> float:
    """Add the gradients of one update, (accumulation, processes, batch_size); its mean loss."""
    model.train()
    loss = 0.0
    for step, rows in enumerate(update, start=1):
        last = step == len(update)
        with nullcontext() if last else accelerator.no_sync(model):
            token_ids = [data.token_ids[row] for row in rows[accelerator.process_index]]
            part = model(token_ids, *data.teachers(rows.ravel(), accelerator.device)).mean()
            accelerator.backward(part / len(update))
        loss += part.item() / len(update)
    return loss


# ---- checkpoints and processes ------------------------------------------------------------------


def find_checkpoint(folder: Path) -> Path | None:
    """The newest whole state of a training: a folder that is named by its number of updates."""
    return max(folder.glob("[0-9]*"), key=lambda path: int(path.name), default=None)


def save_checkpoint(folder: Path, accelerator: Accelerator, number: int) -> None:
    """Keep the state after an update, then remove older ones. All processes call it."""
    partial, whole = folder / ".partial", folder / str(number)
    accelerator.save_state(partial)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        for path in partial.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        partial.rename(whole)
        for older in {*folder.iterdir()} - {whole}:
            shutil.rmtree(older)
    accelerator.wait_for_everyone()


def gathered(rows: Tensor) -> Tensor:
    """Join the rows of all processes in the order of ranks, (all rows, dim); all have as many.

    All compute the loss of the joined rows, and each the gradient of its own rows, times the
    number of processes, because DistributedDataParallel divides by it.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    blocks = [*gather(rows.detach()).split(len(rows))]
    own = rows.clone()
    own.register_hook(lambda gradient: gradient * len(blocks))
    blocks[distributed.get_rank()] = own
    return torch.cat(blocks)


def _check_agreement(data: DistillationData, batches: np.ndarray, settings: str) -> None:
    """Raise ValueError in all processes if settings, or what the first update reads, differ."""
    rows = batches[0].ravel()
    teachers = [each for each in data.teachers(rows, "cpu") if each is not None]
    read = hash_arrays(batches, *(data.token_ids[row] for row in rows), *teachers)
    everyone = gather_object([f"{settings}, data {read}"])
    if len({*everyone}) > 1:
        raise ValueError(f"the processes train differently: {'; '.join(everyone)}")


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

    As in the author's code, documents are grouped into buckets of similar length, `bucket` tokens
    wide, and each bucket is shuffled. The k-th of its m documents (k from 0) is placed at (k + u) /
    m of the epoch, with u uniform in [0, 1). Returns rows of `lengths`, (documents,).
    """
    generator = np.random.default_rng(seed)
    place = np.empty(len(lengths))
    buckets = np.asarray(lengths) // bucket
    for number in np.unique(buckets):
        members = generator.permutation(np.flatnonzero(buckets == number))
        place[members] = (np.arange(len(members)) + generator.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def _build_optimizer(module: nn.Module, scheme: Scheme, updates: int) -> tuple[Any, Any]:
    groups = parameter_groups(module, scheme.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=scheme.learning_rate, fused=True)
    return optimizer, get_cosine_schedule_with_warmup(optimizer, scheme.warmup_updates, updates)


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Groups for AdamW, as in the author's code: biases and normalisation weights do not decay."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]
