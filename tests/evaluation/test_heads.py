"""Heads: a plain PyTorch loop as the reference, independence of neighbours, and bad input."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.config.schema import HeadSettings
from lib.evaluation import heads
from lib.evaluation.heads import train_heads
from lib.evaluation.readouts import Trial

SIZES = {"hidden": 50, "epochs": 10, "batch_size": 32, "repeats": 1}
RATES = {"learning_rate": 1e-3, "weight_decay": 0.1, "clip": 1.0}
NOISE = {"dropout": 0.5, "label_smoothing": 0.1}
SETTINGS = HeadSettings(**SIZES, **RATES, **NOISE, features="raw", readout="thesis")


def change(**changes):
    return SETTINGS.model_copy(update=changes)


def make_trial(rows=75, dim=9, columns=2, classes=2, seed=0, data_seed=0):
    """A label is a linear function of its input; the last 30 rows are the test split."""
    random = np.random.default_rng(data_seed)
    features = random.standard_normal((40, dim)).astype(np.float32)
    inputs = random.integers(0, 40, (rows + 30, columns))
    weights = random.standard_normal((dim * columns, classes))
    labels = (features[inputs].reshape(len(inputs), -1) @ weights).argmax(1)
    train, test = np.split(np.arange(rows + 30), [rows])
    return Trial(features, inputs, labels, train, test, seed)


def plain(trial, classes, settings):
    """One head from torch's own parts, with the same random draws: its weights and predictions."""
    generator = torch.Generator().manual_seed(trial.seed)
    features, inputs = torch.tensor(trial.features), torch.tensor(trial.inputs)
    labels, train = torch.tensor(trial.labels), torch.tensor(trial.train)
    first = nn.Linear(features.shape[1] * inputs.shape[1], settings.hidden)
    second = nn.Linear(settings.hidden, classes)
    for layer in (first, second):
        bound = 1 / math.sqrt(layer.in_features)
        for tensor in (layer.weight, layer.bias):
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.AdamW(
        parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=False
    )
    size, dropout = settings.batch_size, settings.dropout
    steps = settings.epochs * math.ceil(len(train) / size)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=0)
    criterion = nn.CrossEntropyLoss(label_smoothing=settings.label_smoothing)
    for _ in range(settings.epochs):
        order = train[torch.randperm(len(train), generator=generator)]
        kept = (torch.rand(settings.hidden, len(train), generator=generator) >= dropout).T
        for rows, keep in zip(order.split(size), kept.split(size), strict=True):
            activation = torch.relu(first(features[inputs[rows]].flatten(1))) * keep / (1 - dropout)
            optimizer.zero_grad()
            criterion(second(activation), labels[rows]).backward()
            nn.utils.clip_grad_norm_(parameters, settings.clip)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        test = features[inputs[torch.tensor(trial.test)]].flatten(1)
        predictions = second(torch.relu(first(test))).argmax(1).numpy()
    return [tensor.detach() for tensor in parameters], predictions


def trained(trials, classes=2, settings=SETTINGS):
    """The weights that these heads are trained to together."""
    with torch.no_grad():
        return heads._train(heads._prepare(trials, standardized=False), classes, settings)


@pytest.mark.parametrize(
    "trial, classes, changes",
    [
        (make_trial(), 2, {}),
        (make_trial(columns=1, classes=11, rows=64), 11, {}),
        (make_trial(seed=5), 2, {"clip": 0.02}),  # always clipped
        (make_trial(), 2, {"dropout": 0.0, "label_smoothing": 0.0, "weight_decay": 0.0}),
        (make_trial(rows=20), 2, {"batch_size": 32, "hidden": 7}),  # less than one batch
    ],
)
def test_equals_a_plain_training_loop(trial, classes, changes):
    settings = change(**changes)
    expected, predictions = plain(trial, classes, settings)
    for ours, reference in zip(trained([trial], classes, settings), expected, strict=True):
        assert ours[0].shape == reference.shape
        torch.testing.assert_close(ours[0], reference, atol=1e-5, rtol=0)
    np.testing.assert_array_equal(train_heads([trial], classes, settings)[0], predictions)


def test_steps_are_made_in_whole_epochs_instead_of_those_of_the_settings():
    trial = make_trial()
    batches = -(-len(trial.train) // SETTINGS.batch_size)
    for steps, epochs in ((1, 1), (3 * batches, 3), (3 * batches + 1, 4)):
        expected = trained([trial], settings=change(epochs=epochs))
        assert all(map(torch.equal, trained([trial], settings=change(steps=steps)), expected))


@pytest.mark.parametrize(("dim", "classes"), [(9, 2), (100, 2), (384, 11)])
def test_a_head_is_the_same_bits_alone_and_among_any_neighbours(dim, classes):
    """Odd sizes on purpose: most fill no vector register; widths of 100 and 384 are real ones.

    It holds where MKL_CBWR is set, as every door does. Otherwise MKL chooses its kernels by the
    place of a head's matrices in memory too, and padding a stack with dummies does not help.
    """
    assert os.environ.get("MKL_CBWR") in ("AUTO", "AVX2")
    trials = []
    for seed in range(23):
        rows = 75 if seed % 3 else 53
        trials.append(make_trial(rows, dim, classes=classes, seed=seed, data_seed=seed))
    # A neighbour whose gradient is clipped hard.
    trials[4] = replace(trials[4], features=trials[4].features * 1000)
    same_size = [index for index in range(23) if index % 3]
    stacked = trained([trials[index] for index in same_size], classes)
    for chosen in ([1], [2], [22], [5, 1], same_size[3:10], same_size[::-1]):
        places = [same_size.index(index) for index in chosen]
        weights = trained([trials[index] for index in chosen], classes)
        for ours, reference in zip(weights, stacked, strict=True):
            assert torch.equal(ours, reference[places]), chosen
    together = train_heads(trials, classes, SETTINGS)
    for index in (0, 1, 4, 22):
        (alone,) = train_heads([trials[index]], classes, SETTINGS)
        np.testing.assert_array_equal(alone, together[index])


def test_standardized_by_the_texts_of_the_training_items_of_its_fold_alone():
    trial = make_trial()
    trial = replace(trial, inputs=trial.inputs % 30, train=np.arange(70))
    seen = np.unique(trial.inputs[trial.train])
    features = trial.features.copy()
    features[:, 3] = 0.1  # never changes: no infinity
    trial = replace(trial, features=features)
    spread = features[seen].std(0)
    spread[3] = np.inf
    by_hand = replace(trial, features=(features - features[seen].mean(0)) / spread)
    # A text that only a test item has, and another fold beside it.
    outlier = np.concatenate([features, np.full((1, 9), 1e6, np.float32)])
    inputs = np.concatenate([trial.inputs, [[40, 40]]])
    test, labels = np.append(trial.test, 105), np.append(trial.labels, 0)
    far = replace(trial, features=outlier, inputs=inputs, labels=labels, test=test)
    other = replace(far, train=np.arange(30, 90), test=np.arange(30))
    (expected,) = train_heads([by_hand], 2, SETTINGS)
    ours, with_outlier, _ = train_heads([trial, far, other], 2, change(features="standardized"))
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(with_outlier[:-1], expected)


def test_what_would_be_silently_wrong_is_refused():
    features = make_trial().features.copy()
    features[7, 2] = np.nan
    spoilt = replace(make_trial(), name="cosine", features=features)
    with pytest.raises(ValueError, match="cosine: NaN or infinity in the embeddings"):
        train_heads([make_trial(), spoilt], 2, SETTINGS)
    with pytest.raises(ValueError, match="infinite weights"):
        train_heads([make_trial()], 2, change(learning_rate=1e30))
