"""The thesis' classification head, trained for many embeddings at once (thesis Section 4.2).

    logits = W2 dropout(relu(W1 x + b1)) + b2,   x = the embedding, or both embeddings of a pair

The training follows the author's code: frozen embeddings, cross-entropy with label smoothing, AdamW
with decoupled decay on all parameters including biases, a cosine schedule to 0, no early stopping.

For speed (docs/speed.md) heads are stacked, and the backward pass is written out. With one torch
thread and `MKL_CBWR` as in `lib.config.environment`, a head has the same bits in any stack.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from lib.config.schema import HeadSettings
from lib.evaluation.readouts import Trial

_TOGETHER = 20  # heads trained together; changes no result
_ALIGN = 64  # heads fill whole cache lines, so that vectorised loops find all aligned alike


@torch.no_grad()
def train_heads(trials: Sequence[Trial], classes: int, settings: HeadSettings) -> list[np.ndarray]:
    """Train one head per trial and test it: (test,) predicted classes, int64, of each trial.

    The settings' `features` are "raw" embeddings (the author's code) or "standardized" over the
    texts of the training items: with raw ones their scale decides how far a head gets in a few
    hundred steps. `clip` is the largest norm of a head's gradient. `ValueError`, with the trial's
    name, for embeddings or trained weights that are not finite.
    """
    data = _prepare(trials, standardized=settings.features == "standardized")
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, item in enumerate(data):
        shape = (item.features.shape[1], len(item.train), item.inputs.shape[1])
        groups.setdefault(shape, []).append(index)
    predictions: dict[int, np.ndarray] = {}
    for indices in groups.values():
        for start in range(0, len(indices), _TOGETHER):
            block = indices[start : start + _TOGETHER]
            weights = _train([data[index] for index in block], classes, settings)
            for index, w1, b1, w2, b2 in zip(block, *weights, strict=True):
                item = data[index]
                hidden = linear(item.features[item.inputs[item.test]].flatten(1), w1, b1)
                predictions[index] = linear(hidden.relu(), w2, b2).argmax(1).numpy()
    return [predictions[index] for index in range(len(data))]


def _prepare(trials: Sequence[Trial], standardized: bool) -> list[Trial]:
    """Trials of tensors; those that share embeddings and training items share scaled embeddings."""
    shared: dict[tuple[int, ...], Tensor] = {}
    data = []
    for trial in trials:
        names = ("inputs", "labels", "train", "test")
        numbers: Any = {name: torch.as_tensor(getattr(trial, name)).long() for name in names}
        key = (id(trial.features), id(trial.inputs), id(trial.train))
        if key not in shared:
            features = torch.as_tensor(trial.features, dtype=torch.float32).contiguous()
            if not features.isfinite().all():
                raise ValueError(f"{trial.name}: NaN or infinity in the embeddings")
            if standardized:
                seen = features[numbers["inputs"][numbers["train"]].unique()]
                spread = seen.std(0, correction=0)
                constant = spread <= 1e-6 * seen.abs().max()  # up to rounding
                spread[constant] = math.inf  # such features become 0
                features = (features - seen.mean(0)) / spread
            shared[key] = features
        data.append(replace(trial, features=shared[key], **numbers))
    return data


def _train(data: list[Trial], classes: int, settings: HeadSettings) -> tuple[Tensor, ...]:
    """Train heads of one shape: W1 (heads, hidden, width), b1, W2 (heads, classes, hidden), b2."""
    stack = _Stack(data, classes, settings)
    batches = math.ceil(stack.rows / settings.batch_size)
    epochs = math.ceil(settings.steps / batches) if settings.steps else settings.epochs
    steps = epochs * batches
    schedule = LambdaLR(stack.optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps)))
    for _ in range(epochs):
        stack.shuffle()
        for start in range(0, stack.rows, settings.batch_size):
            stack.compute_gradients(start, min(start + settings.batch_size, stack.rows))
            stack.optimizer.step()
            schedule.step()
    for item, healthy in zip(data, stack.weights.isfinite().all(1), strict=True):
        if not healthy:
            raise ValueError(f"{item.name}: infinite weights in the head; lower the learning rate")
    return stack.parameters


class _Stack:
    """Weights, gradients, optimiser and shuffled items of heads that are stepped together."""

    def __init__(self, data: list[Trial], classes: int, settings: HeadSettings):
        self.data, self.settings, self.rows = data, settings, len(data[0].train)
        heads, units = len(data), settings.hidden
        width = data[0].features.shape[1] * data[0].inputs.shape[1]

        # Parameters, and their gradients, are views of one (heads, size) tensor.
        shapes = [(units, width), (units,), (classes, units), (classes,)]
        sizes = [math.prod(shape) for shape in shapes]
        size = math.ceil(sum(sizes) / _ALIGN) * _ALIGN
        self.weights, self.gradients = both = torch.zeros(2, heads, size)
        parts = both[:, :, : sum(sizes)].split(sizes, dim=2)
        views = [part.unflatten(2, shape) for part, shape in zip(parts, shapes, strict=True)]
        self.parameters, self.parameter_gradients = zip(*views, strict=True)
        self.generators = [torch.Generator().manual_seed(item.seed) for item in data]
        for row, generator in enumerate(self.generators):
            for tensor, fan_in in zip(self.parameters, (width, width, units, units), strict=True):
                bound = fan_in**-0.5  # the default of nn.Linear
                tensor[row].uniform_(-bound, bound, generator=generator)

        self.weights.grad = self.gradients
        rates = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
        self.optimizer = AdamW([self.weights], **rates, fused=True)

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
            order = item.train[torch.randperm(self.rows, generator=generator)]
            self.inputs.append(item.inputs[order])
            self.targets[row] = self.smoothed[item.labels[order]]
            kept = uniform.uniform_(generator=generator) >= self.settings.dropout
            torch.mul(kept, scale, out=self.gates[row])

    def compute_gradients(self, start: int, stop: int) -> None:
        """Compute the clipped gradients of the mean loss of shuffled items `start` to `stop`."""
        w1, b1, w2, b2 = self.parameters
        w1_gradient, b1_gradient, w2_gradient, b2_gradient = self.parameter_gradients
        x = self.batch[:, : stop - start]  # (heads, batch, width), without copying the data set
        for item, inputs, out in zip(self.data, self.inputs, x, strict=True):
            texts = inputs[start:stop].flatten()
            torch.index_select(item.features, 0, texts, out=out.view(len(texts), -1))

        # Hidden tensors are (heads, hidden, batch), the fastest layout for the large products.
        hidden = torch.bmm(w1, x.transpose(1, 2)).add_(b1.unsqueeze(2)).relu_()
        hidden.mul_(self.gates[:, :, start:stop])
        logits = torch.bmm(hidden.transpose(1, 2), w2.transpose(1, 2)).add_(b2.unsqueeze(1))

        # d loss / d logits = (softmax - target) / batch, as (heads, classes, batch)
        error = torch.softmax(logits, dim=2).sub_(self.targets[:, start:stop]).div_(stop - start)
        error = error.transpose(1, 2).contiguous()
        torch.bmm(error, hidden.transpose(1, 2), out=w2_gradient)
        b2_gradient.copy_(error.sum(2))

        # Units above 0 passed ReLU and dropout; the derivative of all others is 0.
        back = torch.bmm(w2.transpose(1, 2), error).mul_(hidden.sign())
        back.mul_(1 / (1 - self.settings.dropout))
        torch.bmm(back, x, out=w1_gradient)
        b1_gradient.copy_(back.sum(2))

        norms = torch.linalg.vector_norm(self.gradients, dim=1, keepdim=True)
        shrink = self.settings.clip / (norms + 1e-6)
        if bool((shrink < 1).any()):
            self.gradients.mul_(shrink.clamp_(max=1))
