"""Seed noise by hand and against simulation; what the bootstrap resamples; the tests, exact where they can be."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.statistics.intervals import SeedNoise, interval, paired, seed_noise, seed_test, sign_flip


def runs(values):
    """{model: {seed: one normalised accuracy per task}} as a (model, seed) x task table."""
    table = {(model, seed): row for model, seeds in values.items() for seed, row in seeds.items()}
    return pd.DataFrame.from_dict(table, orient="index").set_axis(pd.MultiIndex.from_tuples(table), axis=0).rename_axis(
        ["model", "seed"]
    )  # fmt: skip


# Means of the runs: a 1, .8, .9; b .5, .6; c .1.
VALUES = {"a": {0: (0.9, 1.1), 1: (0.8, 0.8), 2: (0.9, 0.9)}, "b": {0: (0.5, 0.5), 1: (0.7, 0.5)}, "c": {0: (0.1, 0.1)}}


def test_seed_noise_by_hand():
    noise = seed_noise(runs(VALUES))
    # Squared deviations: a .01 + .01 + 0, b .0025 + .0025; 2 + 1 degrees of freedom; c has one seed and adds nothing.
    assert noise.sd == pytest.approx(math.sqrt(0.025 / 3)) and noise.df == 3
    assert noise.band == pytest.approx(2 * noise.sd)
    # t(.975, 3) = 3.182446 (any t table).
    assert noise.least_difference == pytest.approx(3.182446 * math.sqrt(2) * noise.sd, rel=1e-6)


def test_seed_noise_recovers_a_known_one():
    rng = np.random.default_rng(0)
    noise = seed_noise(runs({f"m{m}": {s: 0.5 + 0.02 * rng.normal(size=2) for s in range(3)} for m in range(300)}))
    # The mean of two tasks: .02 / sqrt(2); 600 degrees of freedom estimate it to about 3 %.
    assert noise.sd == pytest.approx(0.02 / math.sqrt(2), rel=0.08) and noise.df == 600


def test_one_seed_each_is_no_noise():
    with pytest.raises(ValueError, match="no model has two seeds"):
        seed_noise(runs({"a": {0: (0.8, 0.5)}, "b": {0: (0.4, 0.3)}}))


def test_the_bootstrap_is_paired_over_tasks():
    hard = np.array([[0.1, 0.5, 0.9, 0.3, 0.7, 0.2]])
    assert interval({"a": hard + 0.01, "b": hard}, {"a": 1, "b": -1}) == pytest.approx((0.01, 0.01))


def test_two_tasks_give_the_two_differences_as_interval():
    bounds = interval({"a": np.array([[0.5, 0.9]]), "b": np.array([[0.4, 0.6]])}, {"a": 1, "b": -1})
    assert bounds == pytest.approx((0.1, 0.3))


def test_seeds_widen_the_interval_and_one_seed_of_one_task_has_none():
    single = np.array([[0.5] * 6])
    several = np.array([[0.6] * 6, [0.7] * 6, [0.8] * 6])
    weights = {"a": 1, "b": -1}
    assert interval({"a": several, "b": single}, weights) == pytest.approx((0.1, 0.3), abs=0.02)
    assert interval({"a": several[:, :1], "b": single[:, :1]}, weights)[1] > 0.25
    assert all(np.isnan(interval({"a": single[:, :1], "b": single[:, :1]}, weights)))


def test_pairs_are_resampled_singly_or_by_task():
    index = pd.MultiIndex.from_product([["IMDB", "PAN"], [0, 1, 2]], names=["task", "seed"])
    right = pd.Series(0.5, index)
    left = right + [0.1, 0.1, 0.1, 0.2, 0.3, 0.4]
    by_task = paired(left, right, over="task")
    assert by_task[:3] == pytest.approx((0.2, 0.1, 0.3))  # the means of the two tasks
    single = paired(left, right)
    assert single.difference == pytest.approx(0.2) and 0.1 < single.low < 0.15 and 0.25 < single.high < 0.35
    assert single.p == by_task.p == pytest.approx(2 / 64)  # all of six pairs on one side
    assert paired(left, left) == (0, 0, 0, 1)


def test_the_sign_flip_test_is_exact():
    assert sign_flip(np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.4])) == pytest.approx(2 / 64)
    assert sign_flip(np.array([0.1, -0.1])) == pytest.approx(1)
    assert np.isnan(sign_flip(np.array([0.1])))


@pytest.mark.parametrize("norm", [1.0, 0.5])
def test_the_seed_test_agrees_with_the_least_difference(norm):
    noise = SeedNoise(0.002, 8)
    assert seed_test(norm * noise.least_difference, noise, norm=norm) == pytest.approx(0.05, abs=1e-9)
