"""Whether numbers can speak to a finding: each check on cases that it must let pass and on cases that it must not."""

import numpy as np
import pandas as pd
import pytest

from lib import experiments
from lib.config import profiles
from lib.findings import claims, testability

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


def examples(**fields):
    """Scores of 300 examples on two tasks: of one model clear of chance, of the other near .5, fields as given."""
    rng, rows = np.random.default_rng(0), []
    for model, share in (("SBERT", fields.pop("best")), ("only-MSE", 0.5)):
        for task in TASKS:
            scores = (rng.random(300) < share).astype(float)
            rows.append({"model": model, "task": task, "seed": 0, "scores": scores, "groups": np.arange(300)})
    return pd.DataFrame(rows).assign(chance=0.5, **fields)


def test_a_round_whose_heads_guess_is_found():
    frames = [examples(round="1k", best=0.5), examples(round="all", best=0.8)]
    checked = pd.DataFrame(testability._final({"fig5_3": pd.concat(frames)}))
    assert set(checked[0]) == {"round_not_at_chance"} and set(checked[1]) == {"fig5_3"}
    by_round = checked.groupby(checked[2].str.extract(r"in round (\w+)")[0])[7].agg(["all", "any", "size"])
    assert by_round.loc["all"].tolist() == [True, True, 2] and by_round.loc["1k"].tolist() == [False, False, 2]


@pytest.mark.parametrize(("best", "passed"), [(0.8, True), (0.5, False), (1.0, False)])
def test_retrieval_is_held_against_chance_too(best, passed):
    checked = pd.DataFrame(testability._final({"fig5_6": examples(metric="MAP", best=best)}))
    assert set(checked[0]) == {"task_not_at_chance"} and set(checked[1]) == {"fig5_6"}
    assert checked[7].tolist() == [passed, passed] and checked[2].str.contains("by MAP").all()


def test_findings_over_the_smallest_round_need_that_it_is_not_at_chance():
    needed = {claim.id for claim in claims.load() if "round_not_at_chance" in claim.needed}
    assert needed == {claim.id for claim in claims.load() if "1k" in getattr(claim, "rounds", ())} and len(needed) == 4
