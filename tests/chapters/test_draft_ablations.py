"""The drafts' ablations: each beside its twin, with an interval and a test."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters import contextual
from lib.distillation.variants import parse
from lib.statistics import verdicts
from lib.statistics.effects import corrected_runs
from lib.statistics.intervals import from_examples, seed_noise, task_scores

TASKS = ("ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN")


def records(shifts):
    """Three seeds of every model on 300 examples, each a group of its own; a seed has one in a
    hundred more right.
    """
    rows, order = [], np.random.default_rng(0)
    for model in contextual.load_drafts().values():
        for number, task in enumerate(TASKS):
            for seed in range(3):
                value = 0.6 + 0.05 * number + 0.01 * seed + shifts.get(model, 0)
                scores = (np.arange(300) < round(300 * value)).astype(float)
                row = {"model": model, "task": task, "seed": seed, "value": value, "chance": 0.5}
                rows.append(
                    row
                    | {"scores": order.permutation(scores), "groups": np.arange(300).astype(str)}
                )
    return pd.DataFrame(rows)


def test_an_ablation_differs_from_its_twin_in_one_thing():
    identities = {name: identity for identity, name in contextual.load_drafts().items()}
    for ablation, twin in contextual.load_twins().items():
        one, other = vars(parse(identities[ablation])), vars(parse(identities[twin]))
        assert len({key for key in one if one[key] != other[key]}) == 1


def test_a_shift_is_found_and_no_shift_is_not():
    # as notebook 05 compares them
    scores = from_examples(task_scores(records({"cosine, [CLS]": -0.1})))
    table = verdicts.compare(contextual.load_twins().items(), scores).set_index("left")
    assert table.loc["cosine, [CLS]", "difference"] == pytest.approx(-0.2), (
        "half of the scale is above chance"
    )
    assert table.loc["cosine, [CLS]", "high"] < 0 and table.loc["cosine, [CLS]", "p"] < 0.001
    assert table.loc["cosine + 2048d, MSE", "difference"] == pytest.approx(0, abs=1e-9)
    assert table.loc["cosine + 2048d, MSE", "low"] < -0.01, "other texts, not only other seeds"


def test_band_pools_all_models():
    """By hand: a seed adds .01, .02 above chance; the sd of 0, 1, 2 steps is one step."""
    noise = seed_noise(corrected_runs(records({})))
    assert noise.df == 2 * len(contextual.load_drafts())
    assert noise.sd == pytest.approx(0.02, rel=1e-9)
