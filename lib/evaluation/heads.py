"""The thesis' classification head, trained for many embeddings at once (thesis Section 4.2).

    logits = W2 dropout(relu(W1 x + b1)) + b2,   x = the embedding, or both embeddings of a pair

The training follows the author's code: frozen embeddings, cross-entropy with label smoothing, AdamW
with decoupled decay on all parameters including biases, a cosine schedule to 0 over all steps, and
no early stopping.

A single head does not keep a core busy: its matrices are small, and most of a step is bookkeeping.
So the heads of a task are stacked, the backward pass is written out, and one fused optimiser step
updates the whole stack. This is two (pairs) to five times (single texts) as fast as autograd, with
the same accuracies. The reference in `tests/evaluation/test_heads.py` is a plain loop.

Each head has its own random generator, and no operation mixes heads. With one torch thread and
`MKL_CBWR` set to AUTO or AVX2, as all commands of this project do, a head's result therefore has
the same bits in any stack.
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
# Heads trained together; no result depends on this number. A head with 1536 inputs takes 1.2 MB,
# including both moments of AdamW.
_TOGETHER = 20
# The parameters of a head fill whole cache lines, so that vectorised loops find all heads aligned
# in the same way.
_ALIGN = 64
_EVALUATION_ROWS = 1024


@dataclass(frozen=True)
class Job:
    """One head to train and test.

    Parameters
    ----------
    features : (n, dim) float32, one row per text. Jobs of one model should share one array, which
        is never copied.
    inputs : (m, 1) or (m, 2) row numbers of `features`; the head reads the two embeddings of a pair
        concatenated
    labels : (m,) classes, 0 .. classes - 1
    train, test : indices into `inputs`
    seed : seed of initial weights, order and dropout
    name : name of the job in error messages
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
    """A head's accuracy on its `test` items, and its predictions, (test,) int64, in their order."""

    accuracy: float
    predictions: np.ndarray


class _Data(NamedTuple):
    """A checked job as tensors; `inputs` and `labels` are the training items."""

    features: Tensor
    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: np.ndarray
    seed: int
    name: str


@dataclass(frozen=True)
class Settings:
    """How heads are trained. The defaults are those of the author's code.

    Parameters
    ----------
    clip : largest norm of the gradient, for each head separately
    features : "raw" embeddings (the author's code), embeddings of "unit norm", or "standardized" to
        mean 0 and standard deviation 1 over the texts of the job's training items. The students'
        losses do not determine the scale of embeddings. With raw ones, this scale decides how far
        a head gets in a few hundred steps.
    steps : smallest number of updates of a head. If it is given, the number of epochs is as large
        as this requires, and `epochs` is ignored.

    Raises
    ------
    ValueError
        For a setting out of range.
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
    steps: int | None = None

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
            known = ", ".join(FEATURES)
            raise ValueError(f"heads: features must be one of {known}, got {self.features!r}")


def train_heads(jobs: Sequence[Job], *, classes: int, **options: Any) -> list[HeadResult]:
    """Train one head per job and test it.

    Jobs with equal input width and equally many training items share one batched computation, which
    changes no result.

    Parameters
    ----------
    jobs : heads to train
    classes : number of classes
    options : other fields of `Settings`

    Returns
    -------
    One result per job, in the order of `jobs`.

    Raises
    ------
    ValueError
        For NaN or infinite features, labels outside the classes, an empty split, an index out of
        range, wrong shapes, and weights that are not finite after training. The message names the
        job.
    """
    settings = Settings(classes, **options)
    finite: dict[int, Tensor] = {}
    data = [_check_job(job, index, classes, finite) for index, job in enumerate(jobs)]
    if settings.features != "raw":
        data = _scale_features(jobs, data, settings.features)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, item in enumerate(data):
        shape = (*item.features.shape[1:], *item.inputs.shape)
        groups.setdefault(shape, []).append(index)
    results: dict[int, HeadResult] = {}
    with torch.no_grad():
        for indices in groups.values():
            for start in range(0, len(indices), _TOGETHER):
                block = indices[start : start + _TOGETHER]
                weights = _train([data[index] for index in block], settings)
                for row, index in enumerate(block):
                    results[index] = _evaluate(data[index], [tensor[row] for tensor in weights])
    return [results[index] for index in range(len(data))]


def _scale_features(jobs: Sequence[Job], data: list[_Data], features: str) -> list[_Data]:
    """Scale features. Jobs that share embeddings and training items share the result."""
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
                constant = spread <= 1e-6 * seen.abs().max()  # up to rounding
                spread[constant] = math.inf  # such features become 0
                shared[key] = (item.features - seen.mean(0)) / spread
        scaled.append(item._replace(features=shared[key]))
    return scaled


def _train(data: list[_Data], settings: Settings) -> list[Tensor]:
    """Train heads of equal shapes together.

    Returns
    -------
    W1 (heads, hidden, width), b1 (heads, hidden), W2 (heads, classes, hidden), b2 (heads, classes)
    """
    stack = _Stack(data, settings)
    batches, epochs = math.ceil(stack.rows / settings.batch_size), settings.epochs
    if settings.steps is not None:
        epochs = math.ceil(settings.steps / batches)
    steps = epochs * batches
    step = 0
    for _ in range(epochs):
        stack.shuffle()
        for start in range(0, stack.rows, settings.batch_size):
            stack.compute_gradients(start, min(start + settings.batch_size, stack.rows))
            stack.clip_gradients()
            stack.update(lr=settings.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps)))
            step += 1
    for item, healthy in zip(data, stack.weights.isfinite().all(1), strict=True):
        if not healthy:
            problem = "the head's weights are no longer finite; lower the learning rate"
            raise ValueError(f"{item.name}: {problem}")
    return stack.parameters


class _Stack:
    """Weights, gradients, optimiser and shuffled items of heads that are stepped together."""

    def __init__(self, data: list[_Data], settings: Settings):
        self.data, self.settings = data, settings
        self.rows, columns = data[0].inputs.shape
        heads, units, classes = len(data), settings.hidden, settings.classes
        width = data[0].features.shape[1] * columns

        # The parameters of all heads are views of one (heads, size) tensor, and so are the
        # gradients.
        shapes = [(units, width), (units,), (classes, units), (classes,)]
        used = sum(math.prod(shape) for shape in shapes)
        size = math.ceil(used / _ALIGN) * _ALIGN
        self.weights, self.gradients = torch.zeros(heads, size), torch.zeros(heads, size)
        self.parameters = _views(self.weights, shapes)
        self.parameter_gradients = _views(self.gradients, shapes)
        self.generators = [torch.Generator().manual_seed(item.seed) for item in data]
        for row, generator in enumerate(self.generators):
            for tensor, fan_in in zip(self.parameters, (width, width, units, units), strict=True):
                bound = fan_in**-0.5  # the default of nn.Linear
                tensor[row].uniform_(-bound, bound, generator=generator)

        # A step of `torch.optim.AdamW` without its bookkeeping, which takes as long as the step
        # itself.
        moments = [torch.zeros_like(self.weights)], [torch.zeros_like(self.weights)]
        state: Any = ([self.weights], [self.gradients], *moments, [], [torch.zeros(())])
        constants: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
        constants |= {"weight_decay": settings.weight_decay}
        constants |= {"fused": True, "amsgrad": False, "maximize": False}
        self.update = functools.partial(adamw, *state, **constants)

        smoothing = settings.label_smoothing
        self.smoothed = torch.eye(classes) * (1 - smoothing) + smoothing / classes
        self.inputs: list[Tensor] = []
        self.targets = torch.empty(heads, self.rows, classes)
        self.gates = torch.empty(heads, units, self.rows)
        self.batch = torch.empty(heads, min(settings.batch_size, self.rows), width)

    def shuffle(self) -> None:
        """Draw each head's order of training items and their dropout for one epoch."""
        self.inputs = []
        scale = 1 / (1 - self.settings.dropout)
        uniform = torch.empty(self.gates.shape[1:])
        for row, (item, generator) in enumerate(zip(self.data, self.generators, strict=True)):
            order = torch.randperm(self.rows, generator=generator)
            self.inputs.append(item.inputs[order])
            self.targets[row] = self.smoothed[item.labels[order]]
            kept = uniform.uniform_(generator=generator) >= self.settings.dropout
            torch.mul(kept, scale, out=self.gates[row])

    def compute_gradients(self, start: int, stop: int) -> None:
        """Compute the gradients of the mean loss of the shuffled items `start` to `stop`."""
        w1, b1, w2, b2 = self.parameters
        w1_gradient, b1_gradient, w2_gradient, b2_gradient = self.parameter_gradients
        x = self._read_batch(start, stop)

        # Hidden tensors are (heads, hidden, batch), the fastest layout for the large products.
        hidden = torch.bmm(w1, x.transpose(1, 2)).add_(b1.unsqueeze(2)).relu_()
        hidden.mul_(self.gates[:, :, start:stop])
        logits = torch.bmm(hidden.transpose(1, 2), w2.transpose(1, 2)).add_(b2.unsqueeze(1))

        # d loss / d logits = (softmax - target) / batch, as (heads, classes, batch)
        error = torch.softmax(logits, dim=2).sub_(self.targets[:, start:stop]).div_(stop - start)
        error = error.transpose(1, 2).contiguous()
        torch.bmm(error, hidden.transpose(1, 2), out=w2_gradient)
        b2_gradient.copy_(error.sum(2))

        # Hidden units above 0 passed ReLU and dropout, so their derivative is multiplied by the
        # scale of dropout. The derivative of all other units is 0.
        back = torch.bmm(w2.transpose(1, 2), error).mul_(hidden.sign())
        back.mul_(1 / (1 - self.settings.dropout))
        torch.bmm(back, x, out=w1_gradient)
        b1_gradient.copy_(back.sum(2))

    def clip_gradients(self) -> None:
        norms = torch.linalg.vector_norm(self.gradients, dim=1, keepdim=True)
        shrink = self.settings.clip / (norms + 1e-6)
        if bool((shrink < 1).any()):
            self.gradients.mul_(shrink.clamp_(max=1))

    def _read_batch(self, start: int, stop: int) -> Tensor:
        """Read the embeddings of a batch, (heads, batch, width), without copying the data set."""
        x = self.batch[:, : stop - start]
        for item, inputs, out in zip(self.data, self.inputs, x, strict=True):
            texts = inputs[start:stop].flatten()
            torch.index_select(item.features, 0, texts, out=out.view(len(texts), -1))
        return x


def _views(flat: Tensor, shapes: list[tuple[int, ...]]) -> list[Tensor]:
    """Return consecutive parts of a (heads, size) tensor as views with these shapes per head."""
    views, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        views.append(flat[:, start:stop].unflatten(1, shape))
        start = stop
    return views


def _evaluate(item: _Data, weights: list[Tensor]) -> HeadResult:
    w1, b1, w2, b2 = weights
    predictions = []
    for rows in item.test_inputs.split(_EVALUATION_ROWS):
        hidden = torch.relu(torch.nn.functional.linear(item.features[rows].flatten(1), w1, b1))
        predictions.append(torch.nn.functional.linear(hidden, w2, b2).argmax(1))
    predicted = torch.cat(predictions).numpy()
    return HeadResult(float(np.mean(predicted == item.test_labels)), predicted)


def _check_job(job: Job, index: int, classes: int, finite: dict[int, Tensor]) -> _Data:
    """Check a job and turn it into tensors; `finite` holds checked feature arrays, by identity."""
    name = f"job {index} ({job.name})" if job.name else f"job {index}"
    features = finite.get(id(job.features))
    if features is None:
        features = finite[id(job.features)] = _check_features(name, job.features)
    inputs, labels = np.asarray(job.inputs), np.asarray(job.labels)
    if inputs.ndim != 2 or inputs.shape[1] not in (1, 2) or labels.shape != inputs.shape[:1]:
        shapes = f"{inputs.shape} and {labels.shape}"
        raise ValueError(f"{name}: expected inputs (m, 1) or (m, 2) and labels (m,), got {shapes}")
    _check_range(name, "inputs", inputs, len(features))
    _check_range(name, "labels", labels, classes)
    train, test = np.asarray(job.train), np.asarray(job.test)
    for split, items in (("train", train), ("test", test)):
        if items.ndim != 1 or not len(items):
            expected = f"{split} must be a non-empty list of indices"
            raise ValueError(f"{name}: {expected}, got shape {items.shape}")
        _check_range(name, split, items, len(labels))
    rows, labels = torch.from_numpy(inputs.astype(np.int64)), labels.astype(np.int64)
    return _Data(
        features=features,
        inputs=rows[train],
        labels=torch.from_numpy(labels[train]),
        test_inputs=rows[test],
        test_labels=labels[test],
        seed=int(job.seed),
        name=name,
    )


def _check_features(name: str, values: np.ndarray | Tensor) -> Tensor:
    features = torch.as_tensor(values).detach()
    if features.ndim != 2 or not features.is_floating_point():
        got = f"{tuple(features.shape)} {features.dtype}"
        raise ValueError(f"{name}: features must be (n, dim) floats, got {got}")
    features = features.to("cpu", torch.float32).contiguous()
    bad = (~features.isfinite().all(1)).nonzero().flatten().tolist()
    if bad:
        count = f"{len(bad)} of {len(features)} embeddings"
        raise ValueError(f"{name}: NaN or infinity in {count}, first in row {bad[0]}")
    return features


def _check_range(name: str, what: str, values: np.ndarray, limit: int) -> None:
    if not np.issubdtype(values.dtype, np.integer):
        raise ValueError(f"{name}: {what} must be integers, got {values.dtype}")
    if values.size and (values.min() < 0 or values.max() >= limit):
        wrong = values[(values < 0) | (values >= limit)].flat[0]
        raise ValueError(f"{name}: {what} must lie in 0 .. {limit - 1}, got {wrong}")
