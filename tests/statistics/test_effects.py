"""Normalised runs and weighted differences, by hand; bad scores."""

import numpy as np
import pandas as pd
import pytest

from lib.statistics.effects import Comparison, best_means, neighbours, normalized_runs, pair


def scores(values, tasks=("IMDB", "PAN")):
    """{model: {seed: one accuracy per task}} as tidy rows."""
    rows = [
        (model, task, seed, value)
        for model, seeds in values.items()
        for seed, accuracies in seeds.items()
        for task, value in zip(tasks, accuracies, strict=True)
    ]
    return pd.DataFrame(rows, columns=["model", "task", "seed", "value"])


VALUES = {"a": {0: (0.8, 0.5), 1: (0.4, 0.3)}, "b": {0: (0.3, 0.2)}}


def test_a_run_is_divided_by_the_best_mean_over_seeds_of_its_task():
    # a's means, not its best seed
    assert best_means(scores(VALUES)) == pytest.approx({"IMDB": 0.6, "PAN": 0.4})
    runs = normalized_runs(scores(VALUES))
    np.testing.assert_allclose(runs.loc["a"], [[0.8 / 0.6, 0.5 / 0.4], [0.4 / 0.6, 0.3 / 0.4]])
    np.testing.assert_allclose(runs.loc["b"], [[0.5, 0.5]])
    doubled = normalized_runs(scores(VALUES), best={"IMDB": 1.2, "PAN": 0.8})
    np.testing.assert_allclose(doubled, runs / 2)
    assert normalized_runs(scores(VALUES).sample(frac=1, random_state=0)).equals(runs)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (scores(VALUES).iloc[:-1], "model 'b', seed 0 has no value for task 'PAN'"),
        (pd.concat([scores(VALUES), scores(VALUES).tail(1)]), "duplicate"),
        (scores(VALUES).assign(value=float("nan")), "nan"),
    ],
)
def test_scores_that_would_not_compare_are_named(broken, message):
    with pytest.raises(ValueError, match=message):
        normalized_runs(broken)


def test_an_effect_is_left_minus_right():
    single = pair("a", "b")
    assert (single.left, single.right, single.weights) == ("a", "b", {"a": 1, "b": -1})
    shared = Comparison({"a": 0.5, "b": 0.5}, {"b": 0.5, "c": 0.5}, "", "")
    assert shared.weights == {"a": 0.5, "b": 0, "c": -0.5}


def test_neighbours_stand_best_first():
    table = neighbours(pd.Series({"low": 0.1, "high": 0.9, "middle": 0.6}))
    assert table[["better", "worse"]].to_numpy().tolist() == [["high", "middle"], ["middle", "low"]]
    assert table["gap"].tolist() == pytest.approx([0.3, 0.5])
