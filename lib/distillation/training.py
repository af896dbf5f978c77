"""The loop that trains a student to mimic its teachers' embeddings (Chapter 3, Listing 4.1).

It is on Hugging Face accelerate: one process on a laptop, many under torchrun (docs/scale.md).
"""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from transformers import get_cosine_schedule_with_warmup

from lib.config.schema import TrainingSettings
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
    negatives: int = 0  # drawn for each document, from all others

    def __post_init__(self) -> None:
        fields = (self.token_ids, self.lengths, self.structural, self.contextual)
        counts = [len(each) for each in fields if each is not None]
        if len({*counts}) > 1:
            raise ValueError(f"token ids, lengths and teachers have {counts} rows")

    def teachers(self, rows: Any, device: torch.device | str) -> list[Tensor | None]:
        """Structural embeddings, followed by those of negatives, contextual ones, and lengths."""
        fields = (self.structural, self.contextual, self.lengths)
        values = [None if each is None else each[rows] for each in fields]
        if self.negatives:
            drawn, documents = [], np.arange(len(self.lengths))
            for row in documents[rows]:
                generator = np.random.default_rng([NEGATIVES_SEED, row])
                others = np.delete(documents, row)
                repeat = self.negatives > len(others)
                drawn.append([row, *generator.choice(others, self.negatives, replace=repeat)])
            values[0] = self.structural[np.ravel(drawn)].reshape(*np.shape(drawn), -1)
        return [None if each is None else torch.tensor(each, device=device) for each in values]


class History(dict[str, list]):
    """`loss`, the mean of each update, and `measured`, the tuples that callbacks returned."""

    state_dict = dict.copy  # with these two names a checkpoint keeps it
    load_state_dict = dict.update


def distill(
    student: nn.Module,
    objective: Objective,
    data: DistillationData,
    settings: TrainingSettings,
    *,
    seed: int,
    callbacks: Sequence[Callable[[int, float], Any]] = (),
    checkpoint: Path | None = None,
) -> History:
    """Train `student` in place on `data`; a pass leaves out its last update if it is not full.

    Student and objective are on the device of the training. `seed` is for the order of documents
    and dropout. Several processes train like one with their batches joined. `callbacks` get the
    number of each update, from 1, and its mean loss; tuples that they return are `measured`. A
    training goes on from the last state in the folder `checkpoint`, its own.
    """
    accelerator = Accelerator(
        gradient_accumulation_steps=settings.accumulation,
        mixed_precision="no",
        cpu=not torch.cuda.is_available(),
        step_scheduler_with_optimizer=False,  # else each process would add a step
    )
    mixed = settings.precision == "bf16"
    batches = draw_batches(data, settings, processes=accelerator.num_processes, seed=seed)
    # Ranks are added above the range of seeds, so that processes drop out different units.
    torch.manual_seed(seed + (accelerator.process_index << 32))
    models = nn.ModuleList([student, objective])
    groups = parameter_groups(models, settings.weight_decay)
    adam = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
    warmup = round(settings.warmup_share * len(batches))
    half_cosine = get_cosine_schedule_with_warmup(adam, warmup, len(batches))
    embed, optimizer, schedule = accelerator.prepare(student, adam, half_cosine)
    history = History(loss=[], measured=[])
    accelerator.register_for_checkpointing(history, objective)
    kept = [] if checkpoint is None else checkpoint.glob("[0-9]*")
    if newest := max(kept, key=lambda path: int(path.name), default=None):
        accelerator.load_state(newest)
    done = len(history["loss"])
    _check_agreement(data, batches, f"seed {seed}, {settings}, {done} updates done")

    for number, update in enumerate(batches[done:], start=done + 1):
        models.train()
        loss = _compute_gradients(accelerator, embed, objective, data, update, mixed)
        if not np.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at update {number} of {len(batches)}")
        accelerator.clip_grad_norm_(models.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        history["loss"].append(loss)
        values = [callback(number, loss) for callback in callbacks]
        history["measured"] += [each for each in values if isinstance(each, tuple)]
        due = number == len(batches) or number % settings.checkpoint_every == 0
        if checkpoint is not None and due:
            save_checkpoint(checkpoint, accelerator, number)
    models.eval()
    return history


def _compute_gradients(
    accelerator: Accelerator,
    embed: nn.Module,
    objective: Objective,
    data: DistillationData,
    update: np.ndarray,
    mixed: bool,
) -> float:
    """Add the gradients of one update, (accumulation, processes, batch_size); its mean loss."""
    device, losses = accelerator.device, []
    for rows in update:
        token_ids = [data.token_ids[row] for row in rows[accelerator.process_index]]
        teachers = data.teachers(rows.ravel(), device)
        with accelerator.accumulate(embed):
            with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
                embedding = embed(token_ids)
            # Correlations need at least float32.
            embedding = embedding.to(torch.promote_types(embedding.dtype, torch.float32))
            if accelerator.num_processes > 1:
                # Each process computes the loss of all rows. Their gradients for its own rows add
                # up, and DistributedDataParallel divides them by the number of processes.
                embedding = torch.cat(all_gather(embedding))
            loss = objective(embedding, *teachers).mean()
            accelerator.backward(loss)
        losses.append(loss.item())
    return float(np.mean(losses))


def save_checkpoint(folder: Path, accelerator: Accelerator, number: int) -> None:
    """Keep the state after an update, then remove older ones. All processes call it."""
    partial, whole = folder / ".partial", folder / str(number)
    accelerator.save_state(partial)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        os.sync()
        partial.rename(whole)
        for older in {*folder.iterdir()} - {whole}:
            shutil.rmtree(older)
    accelerator.wait_for_everyone()


def _check_agreement(data: DistillationData, batches: np.ndarray, settings: str) -> None:
    """Raise ValueError in all processes if settings, or what the first update reads, differ."""
    rows = batches[0].ravel()
    teachers = [each for each in data.teachers(rows, "cpu") if each is not None]
    read = hash_arrays(batches, *(data.token_ids[row] for row in rows), *teachers)
    everyone = gather_object([f"{settings}, data {read}"])
    if len({*everyone}) > 1:
        raise ValueError(f"the processes train differently: {'; '.join(everyone)}")


def draw_batches(
    data: DistillationData, settings: TrainingSettings, *, processes: int, seed: int
) -> np.ndarray:
    """Draw rows of `data`, (updates, accumulation, processes, batch_size), mixed by length.

    No update has a document twice or extends into the next pass; `ValueError` if none is full.
    """
    sizes = np.asarray([len(ids) for ids in data.token_ids])
    updates = settings.count_updates(len(sizes), processes)
    update = (settings.accumulation, processes, settings.batch_size)
    if updates == 0:
        raise ValueError(f"{len(sizes)} documents do not fill one update of {math.prod(update)}")
    bucket, generator = settings.length_bucket, np.random.default_rng(seed)
    whole = updates // settings.passes * math.prod(update)
    orders = [length_mixed_order(sizes, bucket, generator)[:whole] for _ in range(settings.passes)]
    return np.concatenate(orders).reshape(updates, *update)


def length_mixed_order(
    lengths: np.ndarray, bucket: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw an order of the documents in which every stretch has the corpus' mix of lengths.

    As in the author's code, documents are grouped into buckets of similar length, `bucket` tokens
    wide, and each bucket is shuffled. The k-th of its m documents (k from 0) is placed at (k + u) /
    m of the epoch, with u uniform in [0, 1). Returns rows of `lengths`, (documents,).
    """
    place = np.empty(len(lengths))
    buckets = lengths // bucket
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
