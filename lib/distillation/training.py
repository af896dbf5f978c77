"""Distillation: train a student to mimic its teachers' embeddings (thesis Chapter 3, Listing 4.1).

`distill` is the loop, on Hugging Face accelerate: one process on a laptop, many under torchrun
(docs/scale.md).
"""

import hashlib
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


@dataclass(frozen=True)
class DistillationData:
    """What one student learns from; row i of everything is document i.

    Parameters
    ----------
    token_ids : the documents as the student's token ids, special tokens included
    lengths : (documents,) the structural teacher's tokens without special tokens, which the masking
        rule counts
    structural, contextual : (documents, dim) float32 teacher embeddings, or None for a teacher that
        is not used. Batches read rows, so they may be memory-mapped.
    """

    token_ids: Sequence[list[int]]
    lengths: np.ndarray
    structural: np.ndarray | None = None
    contextual: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("lengths", "structural", "contextual"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.token_ids):
                rows = f"{len(self.token_ids)} documents but {len(values)} rows of {name}"
                raise ValueError(f"{rows}: they must match")


@dataclass(frozen=True)
class Scheme:
    """How a student is trained.

    Parameters
    ----------
    batch_size : documents per batch and process. Max-margin and contrastive losses take their
        negatives from the batch.
    learning_rate : peak rate, reached linearly in `warmup_updates`, then cosine to 0 (Table 4.4)
    weight_decay : 0.01 made the published numbers (code); Table 4.4 prints 0.1
    clip : largest norm of the gradient
    accumulation : batches per update
    precision : of the student, "fp32" or "bf16" (autocast)
    length_bucket : tokens; documents are mixed by length in buckets of this width
    passes : how often the documents are read, each time in a new order
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
    """What a callback is given: update `number` of `count` is done, with this mean loss."""

    number: int
    count: int
    loss: float
    student: Any  # the module that `distill` was given
    objective: Objective


@dataclass
class History:
    """What happened during training: the mean loss of each update."""

    loss: list[float]


class Distillation(nn.Module):
    """Student and objective as one module: token ids and teacher embeddings -> losses (batch,).

    Token ids are those of a process; teacher embeddings are those of all processes. `precision` is
    that of the student alone.
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

    Several processes train as one process with their batches joined: losses, SoftCCA's statistics
    and the history are those of all rows.

    Parameters
    ----------
    student, objective : on the device; the caller seeds the projections of the objective
    seed : of data order and dropout
    callbacks : each is called with an `Update` after every update. One with `state_dict` and
        `load_state_dict`, of values that JSON can express, is kept in checkpoints.
    checkpoint : folder to resume from if it exists, written every `checkpoint_every` updates and
        after the last. It stays until the caller removes it, with `checkpoint.remove_checkpoint`.

    Raises
    ------
    ValueError
        If the documents do not fill one update, if processes were given different data or
        settings, or if the checkpoint is of another number of processes.
    FloatingPointError
        If the loss is not finite.
    """
    accelerator = Accelerator(
        mixed_precision="no",
        cpu=not torch.cuda.is_available(),
        step_scheduler_with_optimizer=False,  # one step per update in several processes too
    )
    rank = accelerator.process_index
    batches = draw_batches(data, scheme, processes=accelerator.num_processes, seed=seed)

    torch.manual_seed(seed + (rank << 32))  # beyond all seeds: processes drop different units
    trained = Distillation(student, objective, scheme.precision)
    groups = parameter_groups(trained, scheme.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=scheme.learning_rate, fused=True)
    schedule = get_cosine_schedule_with_warmup(optimizer, scheme.warmup_updates, len(batches))
    model, optimizer, schedule = accelerator.prepare(trained, optimizer, schedule)

    history = History([])
    kept: list[Any] = [callback for callback in callbacks if hasattr(callback, "state_dict")]
    settings = _settings(accelerator, trained, data, scheme, seed, kept)
    ranks.agree(settings)
    if checkpoint is not None:
        progress = load_checkpoint(checkpoint, accelerator, settings)
        if progress is not None:
            history.loss = progress["loss"]
            for callback, state in zip(kept, progress["callbacks"], strict=True):
                callback.load_state_dict(state)
        ranks.agree({"updates in their checkpoint": len(history.loss)})

    for number, update in enumerate(batches, start=1):
        if number <= len(history.loss):
            continue  # the checkpoint has it
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
            advice = "lower the learning rate, use fp32 or embed the documents again"
            place = f"at update {number} of {len(batches)}"
            raise FloatingPointError(f"loss is {loss} {place}: {advice}")
        accelerator.clip_grad_norm_(model.parameters(), scheme.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)

        history.loss.append(loss)
        for callback in callbacks:
            callback(Update(number, len(batches), loss, student, objective))
        due = checkpoint_every and number % checkpoint_every == 0
        if checkpoint is not None and (due or number == len(batches)):
            states = [callback.state_dict() for callback in kept]
            progress = {"loss": history.loss, "callbacks": states}
            save_checkpoint(checkpoint, accelerator, settings, progress)
    model.eval()
    return history


def draw_batches(
    data: DistillationData, scheme: Scheme, *, processes: int, seed: int
) -> np.ndarray:
    """Draw the documents of every batch.

    No document is twice in an update, because no update reaches into the next pass.

    Parameters
    ----------
    data : DistillationData
        Its token ids say how many documents there are, and how long they are.
    scheme : Scheme
        Sizes of batches, and how often documents are read.
    processes : int
        How many train together; each has batches of its own.
    seed : int
        Of the order.

    Returns
    -------
    (updates, accumulation, processes, batch_size)
        Rows of `data`.

    Raises
    ------
    ValueError
        If there are too few documents for one update.
    """
    sizes = np.asarray([len(ids) for ids in data.token_ids])
    per_update = scheme.accumulation * processes * scheme.batch_size
    updates = len(sizes) // per_update
    if updates == 0:
        short = f"{len(sizes)} documents do not fill one update of {per_update}"
        raise ValueError(f"{short}: use more, or smaller batches")
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
    """Draw an order of the documents that has the corpus' mix of lengths in every stretch.

    This is the author's code. The documents of each bucket of `bucket` tokens are shuffled. The
    k-th of m goes to (k + u) / m of the epoch, with u uniform in [0, 1). A plain shuffle would by
    chance fill a batch with long documents.

    Parameters
    ----------
    lengths : (documents,)
        In tokens.
    bucket : int
        How many lengths are as good as one.
    seed : int or Generator
        Of the order.

    Returns
    -------
    (documents,)
        Rows of `lengths`.
    """
    generator = np.random.default_rng(seed)
    place = np.empty(len(lengths))
    buckets = np.asarray(lengths) // bucket
    for number in np.unique(buckets):
        members = generator.permutation(np.flatnonzero(buckets == number))
        place[members] = (np.arange(len(members)) + generator.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Trainable parameters in two groups, as in the author's code.

    Biases and normalisation weights do not decay.
    """
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _teachers(
    data: DistillationData, rows: np.ndarray, device: torch.device
) -> list[Tensor | None]:
    """Structural embeddings, contextual embeddings and lengths of a batch, for the objective."""
    return [
        None if values is None else torch.from_numpy(np.ascontiguousarray(values[rows])).to(device)
        for values in (data.structural, data.contextual, data.lengths)
    ]


def _settings(
    accelerator: Accelerator,
    trained: nn.Module,
    data: DistillationData,
    scheme: Scheme,
    seed: int,
    kept: list[Any],
) -> dict[str, Any]:
    """Plain values that identify this training: a checkpoint with other values is not resumed."""
    shapes = {name: list(tensor.shape) for name, tensor in trained.state_dict().items()}
    digest = hashlib.sha256(str([len(ids) for ids in data.token_ids]).encode())
    sample = np.arange(0, len(data.token_ids), 1 + len(data.token_ids) // 100)
    for values in (data.structural, data.contextual, data.lengths):
        if values is not None:
            digest.update(np.ascontiguousarray(values[sample]).tobytes())
    return {
        "processes": accelerator.num_processes,
        "device": accelerator.device.type,
        "seed": seed,
        **asdict(scheme),
        "weights": hashlib.sha256(str(shapes).encode()).hexdigest()[:16],
        "documents": len(data.token_ids),
        "data": digest.hexdigest()[:16],
        "callbacks": [type(callback).__name__ for callback in kept],
    }
