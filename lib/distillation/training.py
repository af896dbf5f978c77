"""Distillation: train a student to mimic its teachers' embeddings (thesis, Chapter 3 and Listing 4.1).

`distill` is the loop, on Hugging Face accelerate: one process on a laptop, many under torchrun (docs/scale.md).
"""

import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import get_cosine_schedule_with_warmup

from lib.distillation import checkpoint as checkpoints
from lib.distillation import ranks
from lib.distillation.objective import Objective
from lib.store.files import fingerprint

Watch = Callable[
    [nn.Module, Objective], tuple[float, ...]
]  # student and objective in evaluation mode


@dataclass(frozen=True)
class DistillationData:
    """What one student learns from, row i of everything being document i.

    token_ids: the documents as the student's token ids, special tokens included.
    lengths: (documents,) the structural teacher's tokens without special tokens: the masking rule counts these.
    structural, contextual: (documents, dim) float32 teacher embeddings, perhaps memory-mapped, as batches read rows;
        None for a teacher that is not used.
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
                    f"{len(self.token_ids)} documents but {len(values)} rows of {name}: they must match"
                )


class Distillation(nn.Module):
    """Student and objective: token ids are a process' own, teachers those of all. precision: of the student alone."""

    def __init__(self, student: nn.Module, objective: Objective, precision: str):
        super().__init__()
        self.student = student
        self.objective = objective
        self.mixed = precision == "bf16"

    def forward(self, token_ids: list[list[int]], *teachers: Tensor | None) -> Tensor:
        device = next(self.student.parameters()).device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed):
            embedding = self.student(token_ids)
        embedding = embedding.to(
            torch.promote_types(embedding.dtype, torch.float32)
        )  # which correlations need
        return self.objective(ranks.gathered(embedding), *teachers)


def length_mixed_order(lengths: np.ndarray, *, bucket: int, seed: int) -> np.ndarray:
    """A random order of the documents in which every stretch has about the corpus' mix of lengths (author's code).

    The k-th of the m documents of a bucket of `bucket` tokens, shuffled, stands at (k + u) / m of the epoch, u uniform
    in [0, 1). A plain shuffle would by chance fill a batch with long documents.
    """
    generator = np.random.default_rng(seed)
    place = np.empty(len(lengths))
    buckets = np.asarray(lengths) // bucket
    for number in np.unique(buckets):
        members = generator.permutation(np.flatnonzero(buckets == number))
        place[members] = (np.arange(len(members)) + generator.random(len(members))) / len(members)
    return np.argsort(place, kind="stable")


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    """Trainable parameters in two groups: biases and normalisation weights are not decayed (thesis code)."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trainable if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim <= 1], "weight_decay": 0.0},
    ]


@dataclass
class History:
    """What happened during training: the mean loss of each update, and (update, *values) for each call of `watch`."""

    loss: list[float]
    watched: list[tuple]


def distill(
    student: nn.Module,
    objective: Objective,
    data: DistillationData,
    *,
    batch_size: int,
    learning_rate: float,
    seed: int,
    warmup_updates: int,
    weight_decay: float = 0.01,
    clip: float = 1.0,
    accumulation: int = 1,
    precision: str = "fp32",
    length_bucket: int = 512,
    negatives: int | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 0,
    watch: Watch | None = None,
    watch_every: int = 0,
    on_update: Callable[[int, int, float], None] | None = None,
) -> History:
    """Train `student` in place for one epoch over `data`, aside from the last incomplete update.

    Several processes are one with their batches joined: every loss, SoftCCA's statistics and the history are of all.

    batch_size: documents per batch and process, which max-margin and contrastive losses take their negatives from.
    learning_rate: peak rate, reached linearly in `warmup_updates`, then cosine to 0 (Table 4.4).
    weight_decay: 0.01 made the published numbers (code); Table 4.4 prints 0.1.
    accumulation: batches per update. clip: maximum norm of the gradient. precision: "fp32" or "bf16" (autocast).
    seed: of data order, negatives and dropout; the projections, which exist before, are the caller's to seed.
    negatives: of a max-margin loss, drawn for each batch from all its mask leaves, less its rows; None takes these.
    checkpoint: file to resume from if it exists, written every `checkpoint_every` updates and after the last. It stays:
        whoever has saved the student deletes it.
    watch: called every `watch_every` updates, for held-out measures. on_update: called after each update with its
        number, the number of updates, and its loss.
    """
    accelerator = Accelerator(mixed_precision="no", cpu=not torch.cuda.is_available())
    processes, rank = accelerator.num_processes, accelerator.process_index
    sizes = np.asarray([len(ids) for ids in data.token_ids])
    order = length_mixed_order(sizes, bucket=length_bucket, seed=seed)
    per_update = batch_size * accumulation * processes
    updates = len(order) // per_update
    if updates == 0:
        raise ValueError(
            f"{len(order)} documents do not fill one update of {per_update}: use more, or smaller batches"
        )
    batches = order[: updates * per_update].reshape(updates, accumulation, processes, batch_size)
    bank = np.flatnonzero(
        data.lengths <= (objective.max_structural_len or np.inf)
    )  # documents that may be negatives
    negatives = negatives and min(negatives, len(bank))

    torch.manual_seed(seed + (rank << 32))  # beyond all seeds: no two processes drop the same units
    trained = Distillation(student, objective, precision)
    optimizer = torch.optim.AdamW(
        parameter_groups(trained, weight_decay), lr=learning_rate, fused=True
    )
    schedule = get_cosine_schedule_with_warmup(optimizer, warmup_updates, updates)
    history = History([], [])
    # What another training would have otherwise: a checkpoint with other settings is not resumed.
    settings = dict(
        processes=processes,
        device=accelerator.device.type,
        seed=seed,
        documents=len(order),
        clip=clip,
    )
    settings |= dict(batch_size=batch_size, learning_rate=learning_rate, weight_decay=weight_decay)
    settings |= dict(
        warmup_updates=warmup_updates, accumulation=accumulation, length_bucket=length_bucket
    )
    shapes = {name: list(tensor.shape) for name, tensor in _trained(trained).items()}
    settings |= dict(precision=precision, weights=fingerprint(shapes), negatives=negatives)
    # Of the data the length of each document, and what the teachers say of some hundred.
    teachers = _batch(
        data, order[None, :: 1 + len(order) // 100], rank=0, device=torch.device("cpu")
    )[1:]
    seen = [None if rows is None else rows.tolist() for rows in teachers]
    settings["data"] = fingerprint([zlib.crc32(sizes.tobytes()), seen])
    ranks.agree(settings)
    model, optimizer = accelerator.prepare(
        trained, optimizer
    )  # `model` may be a wrapper that synchronises `trained`
    if checkpoint is not None:
        state = checkpoints.read(checkpoint, settings, rank=rank)
        if state is not None:
            trained.load_state_dict(
                state["model"], strict=False
            )  # what is frozen is not in the checkpoint
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
            history = History(*state["history"])
        ranks.agree({"updates in their checkpoint": len(history.loss)})

    model.train()
    for update in range(len(history.loss), updates):
        mean_loss = 0.0
        for number, rows in enumerate(batches[update], 1):
            with nullcontext() if number == accumulation else accelerator.no_sync(model):
                batch = _batch(data, rows, rank, accelerator.device)
                if negatives is not None:
                    chosen = np.random.default_rng((seed, update, number)).choice(
                        bank, negatives, replace=False
                    )
                    batch += (
                        _rows(data.structural, np.setdiff1d(chosen, rows), accelerator.device),
                    )
                loss = model(*batch).mean()
                accelerator.backward(loss / accumulation)
            mean_loss += loss.item() / accumulation
        done = update + 1
        if not np.isfinite(mean_loss):
            text = f"loss is {mean_loss} at update {done} of {updates}"
            raise FloatingPointError(
                f"{text}: lower the learning rate, use fp32 or embed the documents again"
            )
        accelerator.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        history.loss.append(mean_loss)
        if watch is not None and watch_every and done % watch_every == 0 and done < updates:
            model.eval()
            with (
                torch.no_grad(),
                torch.random.fork_rng(devices=[]),
            ):  # no trace: the random state as before
                history.watched.append((done, *watch(student, objective)))
            model.train()
        due = done == updates or (checkpoint_every and done % checkpoint_every == 0)
        if checkpoint is not None and due:
            parts = {
                "model": _trained(trained),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            }
            checkpoints.write(
                checkpoint,
                settings,
                parts | {"history": (history.loss, history.watched)},
                rank=rank,
            )
        if on_update is not None:
            on_update(done, updates, mean_loss)
    model.eval()
    return history


def _trained(model: nn.Module) -> dict[str, Tensor]:
    """The weights and buffers that training changes; the base's checkpoint still holds the frozen ones."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    return {name: value for name, value in model.state_dict().items() if name not in frozen}


def _batch(data: DistillationData, rows: np.ndarray, rank: int, device: torch.device) -> tuple:
    """One batch, `rows` (processes, batch_size): the token ids of this process' rows, what the teachers say of all."""
    teachers = (
        _rows(values, rows.ravel(), device)
        for values in (data.structural, data.contextual, data.lengths)
    )
    return [data.token_ids[row] for row in rows[rank]], *teachers


def _rows(values: np.ndarray | None, rows: np.ndarray, device: torch.device) -> Tensor | None:
    return (
        None if values is None else torch.from_numpy(np.ascontiguousarray(values[rows])).to(device)
    )
