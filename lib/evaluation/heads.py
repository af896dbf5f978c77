"""The thesis' classification head, trained for many embeddings at once (thesis Section 4.2, author's code).

    logits = W2 dropout(relu(W1 x + b1)) + b2,   x = the embedding, or the two embeddings of a pair side by side

As in the author's code: cross-entropy with label smoothing, AdamW with decoupled decay on all parameters, biases too,
cosine schedule to 0 over all steps, no early stopping. The embeddings are frozen.

A head alone leaves a core idle: its matrices are small and most of a step is bookkeeping. Here the heads of a task are
stacked, the backward pass is written out, and one fused optimiser step serves the whole stack. Each head has a random
generator of its own and no operation mixes heads, so with one torch thread and `MKL_CBWR` AUTO or AVX2,
which every door sets, a head's result is the same bits whatever stands beside it.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim.adamw import adamw

FEATURES = ("raw", "unit norm", "standardized")
_TOGETHER = 20  # heads stepped together; no result depends on it. With both moments a head of 1536 inputs is 1.2 MB
_ALIGN = 64  # parameters of a head fill whole cache lines, so that vectorised loops meet every head in one alignment
_EVALUATION_ROWS = 1024


@dataclass(frozen=True)
class Job:
    """One head to train and test.

    features: (n, dim) float32, one row per text. Jobs of one model should share one array: it is never copied.
    inputs: (m, 1) or (m, 2) rows of `features`; a pair is the concatenation of its two embeddings.
    labels: (m,) classes, 0 .. classes - 1. train, test: indices into `inputs`.
    seed: decides initial weights, order and dropout. name: what an error message calls the job.
    """

    features: np.ndarray | Tensor
    inputs: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray
    seed: int
    name: str = ""


@dataclass(frozen=True)
class HeadResult:
    """A head's share of `test` items classified correctly, and its predictions (test,) int64, in the order given."""

    accuracy: float
    predictions: np.ndarray


class _Data(NamedTuple):
    """A checked job as tensors. `inputs` and `labels` are in the order of `train`."""

    features: Tensor
    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: np.ndarray
    seed: int
    name: str


@dataclass(frozen=True)
class Settings:
    """How heads are trained; the defaults are the author's code. `clip` bounds each head's own gradient norm.

    features: "raw" embeddings (the author's code), embeddings of "unit norm", or "standardized", to mean 0 and standard
    deviation 1 over the texts of the job's training items. The losses leave the scale of an embedding open, and with
    raw ones it decides how far a head of a few hundred steps gets.

    rate_width: the width that the rate is for; as AdamW moves all weights equally far, narrower ones have a higher one,
    and of epochs `narrow_epochs`.
    """

    classes: int
    hidden: int = 50
    dropout: float = 0.5
    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-4
    weight_decay: float = 0.1
    label_smoothing: float = 0.1
    clip: float = 1.0
    features: str = "raw"
    rate_width: int | None = None
    narrow_epochs: int | None = None

    def __post_init__(self) -> None:
        for names, expected, possible in (
            (("hidden", "epochs", "batch_size"), "be at least 1", lambda value: value >= 1),
            (("classes",), "be at least 2", lambda value: value >= 2),
            (("dropout", "label_smoothing"), "lie in [0, 1)", lambda value: 0 <= value < 1),
            (("learning_rate", "clip"), "be above 0", lambda value: value > 0),
        ):
            for name in names:
                if not possible(getattr(self, name)):
                    raise ValueError(f"heads: {name} must {expected}, got {getattr(self, name)}")
        if self.features not in FEATURES:
            raise ValueError(
                f"heads: features must be one of {', '.join(FEATURES)}, got {self.features!r}"
            )


def train_heads(jobs: Sequence[Job], *, classes: int, **options: Any) -> list[HeadResult]:
    """Train one head per job and return its test accuracy and predictions, in the order of `jobs`.

    Jobs with equal input width and equally many training items share one batched computation; others go to another one,
    which changes no result. options: fields of `Settings`.

    Raises ValueError, naming the job, for NaN or infinite features, labels outside the classes, an empty split, an
    index out of range, wrong shapes, and weights that are no longer finite after training.
    """
    settings = Settings(classes, **options)
    finite: dict[int, Tensor] = {}
    data = [_checked(job, index, classes, finite) for index, job in enumerate(jobs)]
    if settings.features != "raw":
        data = _scaled(jobs, data, settings.features)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, item in enumerate(data):
        groups.setdefault((*item.features.shape[1:], *item.inputs.shape), []).append(index)
    results: dict[int, HeadResult] = {}
    with torch.no_grad():
        for indices in groups.values():
            for start in range(0, len(indices), _TOGETHER):
                block = indices[start : start + _TOGETHER]
                weights = _train([data[index] for index in block], settings)
                for row, index in enumerate(block):
                    results[index] = _evaluate(data[index], [tensor[row] for tensor in weights])
    return [results[index] for index in range(len(data))]


def _scaled(jobs: Sequence[Job], data: list[_Data], features: str) -> list[_Data]:
    """The same data with scaled features; jobs that share embeddings and training items share the result."""
    shared: dict[tuple[int, int, int], Tensor] = {}
    scaled = []
    for job, item in zip(jobs, data, strict=True):
        key = (id(job.features), id(job.inputs), id(job.train))
        if key not in shared:
            if features == "unit norm":
                shared[key] = torch.nn.functional.normalize(item.features, dim=1)
            else:
                seen = item.features[item.inputs.unique()]
                spread = seen.std(0, correction=0)
                spread[spread <= 1e-6 * seen.abs().max()] = (
                    math.inf
                )  # what is constant, up to rounding, becomes 0
                shared[key] = (item.features - seen.mean(0)) / spread
        scaled.append(item._replace(features=shared[key]))
    return scaled


def _train(data: list[_Data], settings: Settings) -> list[Tensor]:
    """Trained W1 (heads, hidden, width), b1 (heads, hidden), W2 (heads, classes, hidden), b2 (heads, classes)."""
    heads, rows, columns = len(data), len(data[0].labels), data[0].inputs.shape[1]
    classes, units, width = settings.classes, settings.hidden, data[0].features.shape[1] * columns
    shapes = [(units, width), (units,), (classes, units), (classes,)]
    size = -(-sum(map(math.prod, shapes)) // _ALIGN) * _ALIGN
    weights, gradients = torch.zeros(heads, size), torch.zeros(heads, size)
    w1, b1, w2, b2 = _views(weights, shapes)
    g1, h1, g2, h2 = _views(gradients, shapes)

    generators = [torch.Generator().manual_seed(item.seed) for item in data]
    for row, generator in enumerate(generators):
        for tensor, fan_in in ((w1, width), (b1, width), (w2, units), (b2, units)):
            tensor[row].uniform_(
                -(fan_in**-0.5), fan_in**-0.5, generator=generator
            )  # the default of nn.Linear

    # A step of `torch.optim.AdamW`, without bookkeeping that takes as long as the step itself.
    state: Any = (
        [weights],
        [gradients],
        [torch.zeros_like(weights)],
        [torch.zeros_like(weights)],
        [],
        [torch.zeros(())],
    )
    fixed: Any = dict(fused=True, beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False, maximize=False)
    update = functools.partial(adamw, *state, weight_decay=settings.weight_decay, **fixed)
    smooth, scale = settings.label_smoothing, 1 / (1 - settings.dropout)
    smoothed = torch.eye(classes) * (1 - smooth) + smooth / classes
    features_of = [item.features for item in data]
    batch = torch.empty(heads, min(settings.batch_size, rows), width)
    targets = torch.empty(heads, rows, classes)
    uniform, gates = torch.empty(units, rows), torch.empty(heads, units, rows)
    narrower = (settings.rate_width or 0) / data[0].features.shape[1]
    rate = settings.learning_rate * max(1.0, narrower)
    epochs = (settings.narrow_epochs if narrower > 1 else None) or settings.epochs
    step, steps = 0, epochs * -(-rows // settings.batch_size)
    for _ in range(epochs):
        texts: list[Any] = [None] * heads
        for row, (item, generator) in enumerate(zip(data, generators, strict=True)):
            order = torch.randperm(rows, generator=generator)
            texts[row] = item.inputs[order].flatten().split(settings.batch_size * columns)
            targets[row] = smoothed[item.labels[order]]
            torch.mul(
                uniform.uniform_(generator=generator) >= settings.dropout, scale, out=gates[row]
            )
        for start, *chosen in zip(range(0, rows, settings.batch_size), *texts, strict=True):
            stop = min(start + settings.batch_size, rows)
            x = batch[:, : stop - start]
            into = x.view(heads, (stop - start) * columns, -1)
            for features, select, out in zip(
                features_of, chosen, into, strict=True
            ):  # no copy of a whole data set
                torch.index_select(features, 0, select, out=out)

            # Everything hidden is (heads, hidden, batch): the two large products then run in their fastest orientation.
            hidden = (
                torch.bmm(w1, x.transpose(1, 2))
                .add_(b1.unsqueeze(2))
                .relu_()
                .mul_(gates[:, :, start:stop])
            )
            logits = torch.bmm(hidden.transpose(1, 2), w2.transpose(1, 2)).add_(b2.unsqueeze(1))
            error = torch.softmax(logits, dim=2).sub_(targets[:, start:stop]).div_(stop - start)
            error = error.transpose(
                1, 2
            ).contiguous()  # (heads, classes, batch): derivative of the mean loss
            # What is above 0 was kept: its derivative through ReLU and dropout is `scale`, that of the rest is 0.
            back = torch.bmm(w2.transpose(1, 2), error).mul_(hidden.sign()).mul_(scale)
            torch.bmm(back, x, out=g1)
            torch.bmm(error, hidden.transpose(1, 2), out=g2)
            h1.copy_(back.sum(2))
            h2.copy_(error.sum(2))

            shrink = settings.clip / (
                torch.linalg.vector_norm(gradients, dim=1, keepdim=True) + 1e-6
            )
            if bool((shrink < 1).any()):
                gradients.mul_(shrink.clamp_(max=1))
            update(lr=rate * 0.5 * (1 + math.cos(math.pi * step / steps)))
            step += 1

    for item, healthy in zip(data, weights.isfinite().all(1), strict=True):
        if not healthy:
            raise ValueError(
                f"{item.name}: the head's weights are no longer finite; lower the learning rate"
            )
    return [w1, b1, w2, b2]


def _views(flat: Tensor, shapes: list[tuple[int, ...]]) -> list[Tensor]:
    """The parameters of all heads as views of one (heads, size) tensor."""
    parts = flat.split(
        [*map(math.prod, shapes), flat.shape[1] - sum(map(math.prod, shapes))], dim=1
    )
    return [part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=False)]


def _evaluate(item: _Data, weights: list[Tensor]) -> HeadResult:
    w1, b1, w2, b2 = weights
    predictions = []
    for rows in item.test_inputs.split(_EVALUATION_ROWS):
        hidden = torch.relu(torch.nn.functional.linear(item.features[rows].flatten(1), w1, b1))
        predictions.append(torch.nn.functional.linear(hidden, w2, b2).argmax(1))
    predicted = torch.cat(predictions).numpy()
    return HeadResult(float(np.mean(predicted == item.test_labels)), predicted)


def _checked(job: Job, index: int, classes: int, finite: dict[int, Tensor]) -> _Data:
    """The job as tensors; `finite` remembers feature arrays already checked, by identity."""
    name = f"job {index}" + (f" ({job.name})" if job.name else "")
    features = finite.get(id(job.features))
    if features is None:
        features = torch.as_tensor(job.features).detach()
        if features.ndim != 2 or not features.is_floating_point():
            raise ValueError(
                f"{name}: features must be (n, dim) floats, got {tuple(features.shape)} {features.dtype}"
            )
        features = finite[id(job.features)] = features.to("cpu", torch.float32).contiguous()
        bad = (~features.isfinite().all(1)).nonzero().flatten().tolist()
        if bad:
            count = f"{len(bad)} of {len(features)} embeddings"
            raise ValueError(f"{name}: NaN or infinity in {count}, first in row {bad[0]}")
    inputs, labels = np.asarray(job.inputs), np.asarray(job.labels)
    if inputs.ndim != 2 or inputs.shape[1] not in (1, 2) or labels.shape != inputs.shape[:1]:
        shapes = f"{inputs.shape} and {labels.shape}"
        raise ValueError(f"{name}: expected inputs (m, 1) or (m, 2) and labels (m,), got {shapes}")
    _check_range(name, "inputs", inputs, len(features))
    _check_range(name, "labels", labels, classes)
    train, test = np.asarray(job.train), np.asarray(job.test)
    for split, items in (("train", train), ("test", test)):
        if items.ndim != 1 or not len(items):
            raise ValueError(
                f"{name}: {split} must be a non-empty list of indices, got shape {items.shape}"
            )
        _check_range(name, split, items, len(labels))
    rows, labels = torch.from_numpy(inputs.astype(np.int64)), labels.astype(np.int64)
    return _Data(
        features,
        rows[train],
        torch.from_numpy(labels[train]),
        rows[test],
        labels[test],
        int(job.seed),
        name,
    )


def _check_range(name: str, what: str, values: np.ndarray, limit: int) -> None:
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name}: {what} must be integers, got {values.dtype}")
    if values.size and (values.min() < 0 or values.max() >= limit):
        wrong = values[(values < 0) | (values >= limit)].flat[0]
        raise ValueError(f"{name}: {what} must lie in 0 .. {limit - 1}, got {wrong}")
