"""Whether numbers can speak to a finding: each check on cases that it must let pass and on cases that it must not."""

import pandas as pd
import pytest

from lib import experiments
from lib.config import profiles
from lib.findings import testability

TASKS = ("ARXIV", "PAN")


def accuracies(**models):
    rows = [(model, task, 0, value, 0.5) for model, value in models.items() for task in TASKS]
    return pd.DataFrame(rows, columns=["model", "task", "seed", "value", "chance"])


@pytest.mark.parametrize(
    ("longer", "passed", "low", "high"),
    [
        ({"SBERT": 0.804, "Longformer": 0.598}, True, -0.004, 0.008),
        ({"SBERT": 0.82, "Longformer": 0.581}, False, -0.038, 0.04),  # the mean of what they gain and lose is .001
        ({"SBERT": 0.80, "Longformer": 0.59}, False, -0.02, 0.0),
    ],
)
def test_heads_converged_if_no_model_moves(monkeypatch, longer, passed, low, high):
    """Each by itself: rankings change where one gains what another loses."""
    profile = profiles.load("mini")
    before = accuracies(SBERT=0.8, Longformer=0.6).assign(seed=profile.seeds[0])
    monkeypatch.setattr(experiments, "run", lambda *_, **__: accuracies(**longer))
    (row,) = testability._heads(before, profile)
    assert row[3:6] == pytest.approx((max(-low, high), low, high)) and row[-1] is passed
    assert row[0] == "heads_converged" and row[2].endswith("SBERT" if high >= -low else "Longformer")
