"""Runs above chance and weighted differences, by hand; bad scores."""

import numpy as np
import pandas as pd
import pytest

from lib.statistics.effects import corrected_runs

ROWS = [("a", 0, 0.8, 0.5), ("a", 1, 0.4, 0.3), ("b", 0, 0.3, 0.2)]
TABLE = pd.DataFrame(ROWS, columns=["model", "seed", "IMDB", "PAN"])
SCORES = TABLE.melt(["model", "seed"], var_name="task")


def test_a_run_is_corrected_by_the_chance_of_its_task():
    frame = SCORES.assign(chance=lambda rows: rows["task"].map({"IMDB": 0.5, "PAN": 0.1}))
    runs = corrected_runs(frame)
    np.testing.assert_allclose(runs.loc["a"], [[0.6, 4 / 9], [-0.2, 2 / 9]])
    np.testing.assert_allclose(runs.loc["b"], [[-0.4, 1 / 9]])
    assert corrected_runs(frame.sample(frac=1, random_state=0)).equals(runs)


def test_a_repeated_run_is_refused():
    repeated = pd.concat([SCORES, SCORES.tail(1)])
    with pytest.raises(ValueError, match="duplicate"):
        corrected_runs(repeated.assign(chance=0.5))
