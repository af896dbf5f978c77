"""Heads: a plain PyTorch loop as the reference, independence of neighbours, and bad input."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.evaluation import heads
from lib.evaluation.heads import Job, train_heads


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_job(rows=75, dim=9, columns=2, classes=2, seed=0, data_seed=0):
    """A job whose label is a linear function of its input; the last 30 rows are the test split."""
    random = np.random.default_rng(data_seed)
    features = random.standard_normal((40, dim)).astype(np.float32)
    inputs = random.integers(0, 40, (rows + 30, columns))
    scores = features[inputs].reshape(len(inputs), -1) @ random.standard_normal(
        (dim * columns, classes)
    )
    return Job(
        features, inputs, scores.argmax(1), np.arange(rows), np.arange(rows, rows + 30), seed
    )


def plain(job, classes, **options):
    """One head from torch's own parts, with the same random draws: its weights and predictions."""
    settings = heads.Settings(classes, **options)
    generator = torch.Generator().manual_seed(job.seed)
    features, inputs = torch.tensor(job.features), torch.tensor(job.inputs)
    labels, train = torch.tensor(job.labels), torch.tensor(job.train)
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
        test = features[inputs[torch.tensor(job.test)]].flatten(1)
        predictions = second(torch.relu(first(test))).argmax(1).numpy()
    return [tensor.detach() for tensor in parameters], predictions


def trained(job, classes=2, **settings):
    """The weights that a head alone is trained to."""
    with torch.no_grad():
        return heads._train(
            [heads._check_job(job, 0, classes, {})], heads.Settings(classes, **settings)
        )


SETTINGS = {
    "hidden": 50,
    "dropout": 0.5,
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 1e-3,
    "weight_decay": 0.1,
    "label_smoothing": 0.1,
    "clip": 1.0,
}


@pytest.mark.parametrize(
    "job, classes, changes",
    [
        (make_job(), 2, {}),
        (make_job(columns=1, classes=11, rows=64), 11, {}),
        (make_job(seed=5), 2, {"clip": 0.02}),  # always clipped
        (make_job(), 2, {"dropout": 0.0, "label_smoothing": 0.0, "weight_decay": 0.0}),
        (make_job(rows=20), 2, {"batch_size": 32, "hidden": 7}),  # less than one batch
    ],
)
def test_equals_a_plain_training_loop(job, classes, changes):
    settings = SETTINGS | changes
    expected, predictions = plain(job, classes, **settings)
    for ours, reference in zip(trained(job, classes, **settings), expected, strict=True):
        assert ours[0].shape == reference.shape
        torch.testing.assert_close(ours[0], reference, atol=1e-5, rtol=0)
    result = train_heads([job], classes=classes, **settings)[0]
    np.testing.assert_array_equal(result.predictions, predictions)
    assert result.accuracy == np.mean(predictions == job.labels[job.test])


def test_steps_are_made_in_whole_epochs_instead_of_those_of_the_settings():
    job = make_job()
    batches = -(-len(job.train) // SETTINGS["batch_size"])
    for steps, epochs in ((1, 1), (3 * batches, 3), (3 * batches + 1, 4)):
        expected = trained(job, **SETTINGS | {"epochs": epochs})
        assert all(map(torch.equal, trained(job, **SETTINGS, steps=steps), expected))


@pytest.mark.parametrize(("dim", "classes"), [(9, 2), (100, 2), (384, 11)])
def test_a_head_is_the_same_bits_alone_and_among_any_neighbours(dim, classes):
    """Odd sizes on purpose: most fill no vector register; widths of 100 and 384 are real ones.

    It holds where MKL_CBWR is set, as every door does. Otherwise MKL chooses its kernels by the
    place of a head's matrices in memory too, and padding a stack with dummies does not help.
    """
    assert os.environ.get("MKL_CBWR") in ("AUTO", "AVX2")
    jobs = [
        make_job(seed=seed, data_seed=seed, rows=75 if seed % 3 else 53, dim=dim, classes=classes)
        for seed in range(23)
    ]
    # A neighbour whose gradient is clipped hard.
    jobs[4] = replace(jobs[4], features=jobs[4].features * 1000)
    data = [heads._check_job(job, index, classes, {}) for index, job in enumerate(jobs)]
    settings = heads.Settings(classes=classes, **SETTINGS)

    def bits(chosen):
        with torch.no_grad():
            weights = heads._train([data[index] for index in chosen], settings)
        return {index: [tensor[row] for tensor in weights] for row, index in enumerate(chosen)}

    same_size = [index for index in range(23) if index % 3]
    stacked = bits(same_size)
    for chosen in ([1], [2], [22], [5, 1], same_size[3:10], same_size[::-1]):
        for index, weights in bits(chosen).items():
            for ours, reference in zip(weights, stacked[index], strict=True):
                assert torch.equal(ours, reference), (index, chosen)

    together = train_heads(jobs, classes=classes, **SETTINGS)
    for index in (0, 1, 4, 22):
        alone = train_heads([jobs[index]], classes=classes, **SETTINGS)[0]
        assert alone.accuracy == together[index].accuracy
        np.testing.assert_array_equal(alone.predictions, together[index].predictions)


def test_results_come_in_the_order_of_the_jobs_whatever_their_groups():
    jobs = [
        make_job(columns=1 + index % 2, rows=60 + index // 2, seed=index, data_seed=index)
        for index in range(6)
    ]
    for job, result in zip(jobs, train_heads(jobs, classes=2, **SETTINGS), strict=True):
        _, predictions = plain(job, 2, **SETTINGS)
        np.testing.assert_array_equal(result.predictions, predictions)
    assert train_heads([], classes=2) == []


def test_seed_decides_the_head_and_repeats():
    job = make_job()
    data = [heads._check_job(replace(job, seed=seed), 0, 2, {}) for seed in (0, 0, 1)]
    with torch.no_grad():
        w1, *_ = heads._train(data, heads.Settings(classes=2, **SETTINGS))
    assert torch.equal(w1[0], w1[1])
    assert not torch.equal(w1[0], w1[2])


def test_learns_what_can_be_learnt_and_nothing_else():
    job = make_job(rows=600, dim=16)
    random = np.random.default_rng(1)
    shuffled = replace(job, labels=random.permutation(job.labels))
    learnt, chance = train_heads(
        [job, shuffled], classes=2, **(SETTINGS | {"epochs": 30, "learning_rate": 5e-3})
    )
    assert learnt.accuracy >= 0.8
    assert chance.accuracy <= 0.75


@pytest.mark.parametrize("columns", [1, 2])
def test_standardized_features_make_scale_and_offset_of_an_embedding_irrelevant(columns):
    job = make_job(columns=columns, rows=300)
    moved = replace(job, features=job.features * np.linspace(0.01, 100, 9, dtype=np.float32) + 5)
    options = SETTINGS | {"epochs": 20}
    plain_result, plain_moved = train_heads([job, moved], classes=2, **options)
    result, result_moved = train_heads([job, moved], classes=2, features="standardized", **options)
    assert (plain_result.predictions != plain_moved.predictions).any()
    np.testing.assert_array_equal(result.predictions, result_moved.predictions)


def test_unit_norm_makes_the_length_of_an_embedding_irrelevant():
    job = make_job(rows=300)
    longer = replace(
        job, features=job.features * np.linspace(0.01, 100, 40, dtype=np.float32)[:, None]
    )
    first, second = train_heads([job, longer], classes=2, features="unit norm", **SETTINGS)
    np.testing.assert_array_equal(first.predictions, second.predictions)


def test_standardized_by_the_texts_of_the_training_items_alone():
    job = make_job()
    job = replace(job, inputs=job.inputs % 30, train=np.arange(70))
    tested = np.setdiff1d(job.inputs[job.test], job.inputs[job.train])
    assert tested.size == 0
    seen = np.unique(job.inputs[job.train])
    by_hand = replace(
        job, features=(job.features - job.features[seen].mean(0)) / job.features[seen].std(0)
    )
    # A text that only a test item has.
    outlier = np.concatenate([by_hand.features, np.full((1, 9), 1e6, np.float32)])
    inputs = np.concatenate([job.inputs, [[40, 40]]])
    far = Job(
        outlier, inputs, np.append(job.labels, 0), job.train, np.append(job.test, 105), job.seed
    )
    expected = train_heads([by_hand], classes=2, **SETTINGS)[0].predictions
    ours, with_outlier = (
        train_heads([one], classes=2, features="standardized", **SETTINGS)[0].predictions
        for one in (job, far)
    )
    np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(with_outlier[:-1], expected)


def test_a_feature_that_never_changes_in_training_is_no_infinity():
    job = make_job()
    features = job.features.copy()
    features[:, 3] = 0.1
    job = replace(job, features=features)
    train_heads([job], classes=2, features="standardized", **SETTINGS)  # or it raises


def test_each_fold_is_standardized_by_its_own_training_items():
    job = make_job(rows=60)
    other = replace(job, train=np.arange(30, 90), test=np.arange(30))
    together = train_heads([job, other], classes=2, features="standardized", **SETTINGS)
    for one, beside in zip((job, other), together, strict=True):
        alone = train_heads([one], classes=2, features="standardized", **SETTINGS)[0]
        np.testing.assert_array_equal(alone.predictions, beside.predictions)


def test_jobs_of_one_model_share_its_embeddings():
    job, seen = make_job(), {}
    folds = [heads._check_job(replace(job, seed=seed), seed, 2, seen) for seed in range(3)]
    assert {fold.features.data_ptr() for fold in folds} == {job.features.ctypes.data}
    assert len(seen) == 1


def test_float64_and_tensor_features_are_accepted():
    job = make_job()
    results = train_heads(
        [
            job,
            replace(job, features=job.features.astype(np.float64)),
            replace(job, features=torch.tensor(job.features)),
        ],
        classes=2,
    )
    for result in results[1:]:
        np.testing.assert_array_equal(result.predictions, results[0].predictions)


def spoilt(value):
    features = make_job().features.copy()
    features[7, 2] = value
    return {"features": features}


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            spoilt(np.nan),
            r"job 1 \(cosine\): NaN or infinity in 1 of 40 embeddings, first in row 7",
        ),
        ({"features": np.zeros((40, 9), int)}, r"job 1 \(cosine\): features must be"),
        ({"labels": np.full(105, 2)}, r"job 1 \(cosine\): labels must lie in 0 .. 1, got 2"),
        ({"labels": np.full(105, 0.0)}, r"job 1 \(cosine\): labels must be integers"),
        (
            {"labels": np.zeros(104, int)},
            r"job 1 \(cosine\): expected inputs .* \(105, 2\) and \(104,\)",
        ),
        (
            {"inputs": np.full((105, 2), 40)},
            r"job 1 \(cosine\): inputs must lie in 0 .. 39, got 40",
        ),
        ({"train": np.array([], int)}, r"job 1 \(cosine\): train must be a non-empty"),
        ({"test": np.array([-1])}, r"job 1 \(cosine\): test must lie in 0 .. 104, got -1"),
    ],
)
def test_bad_jobs_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        train_heads([make_job(), replace(make_job(), name="cosine", **changes)], classes=2)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"classes": 1}, "classes must be at least 2"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"features": "unit"}, "features must be one of raw, unit norm, standardized, got 'unit'"),
        ({"clip": float("nan")}, "clip must be above 0"),
    ],
)
def test_impossible_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        train_heads([make_job()], **({"classes": 2} | changes))


def test_weights_that_overflow_are_reported():
    with pytest.raises(ValueError, match=r"job 0: the head's weights are no longer finite"):
        train_heads([make_job()], classes=2, learning_rate=1e30)
