"""Seed noise: by hand, against simulation, bad input."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.statistics.noise import noise_band


def frame(values, tasks=("IMDB", "PAN")):
    """{model: {seed: one accuracy per task}} as tidy rows."""
    rows = [
        (model, task, seed, accuracy)
        for model, seeds in values.items()
        for seed, accuracies in seeds.items()
        for task, accuracy in zip(tasks, accuracies, strict=True)
    ]
    return pd.DataFrame(rows, columns=["model", "task", "seed", "accuracy"])


# Best per task: IMDB .8, PAN .5. Means of normalised accuracy: a: 1, .8, .9; b: .5, .6.
VALUES = {
    "a": {0: (0.8, 0.5), 1: (0.64, 0.4), 2: (0.72, 0.45)},
    "b": {0: (0.4, 0.25), 1: (0.48, 0.3)},
}


def test_by_hand():
    band = noise_band(frame(VALUES))
    # Squared deviations: a .01 + .01 + 0, b .0025 + .0025; 2 + 1 degrees of freedom.
    assert band.sd == pytest.approx(math.sqrt(0.025 / 3))
    assert band.df == 3
    assert band.band == pytest.approx(2 * band.sd)
    # t(.975, 3) = 3.182446 (any t table).
    assert band.least_difference == pytest.approx(3.182446 * math.sqrt(2) * band.sd, rel=1e-6)


def test_a_model_with_one_seed_only_competes():
    band = noise_band(frame(VALUES | {"c": {0: (0.1, 0.1)}}))
    assert band == noise_band(frame(VALUES))
    better = noise_band(frame(VALUES | {"c": {0: (1.6, 1.0)}}))  # doubles the best of both tasks
    assert better.sd == pytest.approx(noise_band(frame(VALUES)).sd / 2)
    given = noise_band(frame(VALUES), best={"IMDB": 1.6, "PAN": 1.0})
    assert given.sd == pytest.approx(better.sd) and given.df == 3


def test_it_recovers_a_known_noise():
    rng = np.random.default_rng(0)
    values = {f"m{m}": {s: tuple(0.5 + 0.02 * rng.normal(size=2)) for s in range(3)} for m in range(300)}
    band = noise_band(frame(values), best={"IMDB": 1.0, "PAN": 1.0})
    # The mean of two tasks: .02 / sqrt(2); 600 degrees of freedom estimate it to about 3 %.
    assert band.sd == pytest.approx(0.02 / math.sqrt(2), rel=0.08)
    assert band.df == 600


def test_it_ignores_the_order_of_rows():
    shuffled = frame(VALUES).sample(frac=1, random_state=0)
    assert noise_band(shuffled) == pytest.approx(noise_band(frame(VALUES)))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (frame(VALUES).drop(columns="seed"), "'seed' is not in"),
        (frame({"a": {0: (0.8, 0.5)}, "b": {0: (0.4, 0.3)}}), "no model has two seeds"),
        (frame(VALUES).iloc[:-1], "model 'b', seed 1 has no accuracy for task 'PAN'"),
        (pd.concat([frame(VALUES), frame(VALUES).tail(1)]), "model 'b', task 'PAN', seed 1 is listed more than once"),
        (frame(VALUES).assign(accuracy=float("nan")), "nan"),
    ],
)
def test_errors(broken, message):
    with pytest.raises(ValueError, match=message):
        noise_band(broken)
