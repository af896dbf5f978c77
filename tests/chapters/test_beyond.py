"""What is compared beyond Chapter 4's grids, Section 5.4 (notebook 10), and the tables of
hyperparameters: `params` says what the thesis says.
"""

import numpy as np
import pandas as pd
import pytest

from lib.chapters import beyond, hyperparameters
from lib.config import profiles
from lib.config.schema import HeadSettings
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.vectors.names import BASE, STUDENT
from tests.fake_bench import FakeBench

GRID = profiles.grid("beyond")


def test_students_are_called_by_their_identities_and_combine_both_teachers_as_the_thesis_does():
    labels = [*GRID["final"].values(), *GRID["drafts"], *GRID["students"].values()]
    students = [label for label in labels if parse(label).kind == "student"]
    assert [parse(label).identity for label in students] == students and len(students) >= 10
    combined = {label for label in students if parse(label).contextual and parse(label).structural}
    assert len(combined) == 5
    assert {";".join(label.split(";")[:4]) for label in combined} == set(NO_WEIGHTING.values())


def test_twins_are_drafts_that_are_drawn_and_a_factor_is_that_of_its_weight():
    assert {*GRID["twins"], *GRID["twins"].values()} == {*GRID["drafts"].values()}
    assert set(GRID["trained_factors"]) <= set(GRID["factors"])


def test_heads_differ_in_settings_that_heads_have():
    assert {name for changes in GRID["heads"].values() for name in changes} <= {
        *HeadSettings.model_fields
    }


@pytest.mark.parametrize("name", ["mini", "thesis"])
def test_tables_of_hyperparameters_follow_the_profile(name):
    changes = {
        "heads.hidden": 51,
        "training.accumulation": 3,
        "final.accumulation": 7,
        "final.warmup_updates": 9,
    }
    bench = FakeBench(profiles.load(name, overrides=changes))
    labels = {
        "Hidden features": "tab5_6",
        "Gradient accumulation steps": "tab4_4",
        "Warmup update steps": "tab5_2",
    }
    found = {
        row: hyperparameters.tabulate_settings(label, bench).set_index("parameter")
        for row, label in labels.items()
    }
    assert [found[row].at[row, "value"] for row in labels] == ["51", "3", "9"]
    assert found["Warmup update steps"].at["Gradient accumulation steps", "value"] == "7"
    mixed = found["Warmup update steps"].at["Mixed-precision training", "value"]
    assert mixed == "Yes, where the device supports bfloat16"
    assert found["Hidden features"].at["Mixed-precision training", "value"] == "No", "heads"
    assert found["Warmup update steps"]["published"].notna().all()


# ---- notebook 10 --------------------------------------------------------------------------------

EXAMPLES = 60


def make_records(levels, *, readout="compare", seeds=(0, 1), tasks=("OC", "PAN")):
    """Records whose models have these accuracies, the same examples right with each seed."""
    rows = [
        {
            "model": model,
            "task": task,
            "seed": seed,
            "readout": readout,
            "value": level,
            "chance": 0.5,
            "scores": (np.arange(EXAMPLES) < level * EXAMPLES).astype(float),
            "groups": np.arange(EXAMPLES),
        }
        for model, level in levels.items()
        for task in tasks
        for seed in seeds
    ]
    return pd.DataFrame(rows)


def test_ingredients_are_identities_and_steps_are_between_them():
    ingredients = beyond.list_ingredients()
    assert all(parse(label).identity == label for label in ingredients.values())
    assert len({*ingredients.values()}) == len(ingredients)
    assert {name for pair in GRID["steps"].values() for name in pair} == {*ingredients}
    assert {*GRID["compared_students"].values()} <= {*ingredients.values()}
    assert {NO_WEIGHTING["cosine"], MM_MSE} < {*ingredients.values()}, "students of Chapter 4"


def test_a_step_changes_what_its_name_says():
    variants = {name: parse(label) for name, label in beyond.list_ingredients().items()}
    left, right = (variants[name] for name in GRID["steps"]["chunks in place of the beginning"])
    assert left.reads_chunks and not right.reads_chunks
    left, right = (variants[name] for name in GRID["steps"]["128 negatives in place of 5"])
    assert (left.negatives, right.negatives) == (128, 0)
    for step, pair in GRID["steps"].items():
        if step.startswith("LSA"):
            taught = [(variants[name].contextual or "").split("+") for name in pair]
            assert "LSA" in taught[0] and "LSA" not in taught[1], step


def test_students_run_with_the_reference_seeds_by_both_readouts():
    asked = []

    def run(bench, models, *, seeds):
        asked.append((bench.readout, {*seeds}, {tuple(part) for part in seeds.values()}))
        return pd.DataFrame({"model": models})

    bench = FakeBench("mini", run=run)
    records = beyond.run_ingredients(bench)
    students = {*GRID["ingredients"].values()}
    wanted = {tuple(sorted({*bench.profile.seeds, *bench.profile.reference_seeds}))}
    assert asked == [(readout, students, wanted) for readout in beyond.READOUTS]
    assert {*records["model"]} == {*beyond.list_ingredients()}


def test_a_step_is_the_left_student_minus_the_right_one():
    levels = dict.fromkeys(beyond.list_ingredients(), 0.6) | {"SBERT + LSA": 0.8}
    levels["LSA alone"] = 0.55
    frames = [make_records(levels, readout=readout) for readout in beyond.READOUTS]
    steps = beyond.judge_steps(pd.concat(frames, ignore_index=True))
    assert [*steps["readout"].unique()] == [*beyond.READOUTS.values()]
    found = steps[steps["readout"] == "no head"].set_index("step")["difference"]
    assert found["LSA added to SBERT"] == pytest.approx(0.4)  # (.8 - .6) / (1 - .5)
    assert found["LSA in place of DBOW, alone"] == pytest.approx(-0.1)
    assert found["PV added to SBERT"] == pytest.approx(0, abs=1e-9)
    told = beyond.describe_step(steps, "LSA added to SBERT")
    assert "by heads that compare, SBERT + LSA is ahead of SBERT by .400" in told
    assert "; without a head, SBERT + LSA is ahead" in told


def test_students_are_put_beside_what_needs_no_training():
    untrained = make_records(dict.fromkeys(beyond.UNTRAINED, 0.6), seeds=(0,))
    students = make_records(dict.fromkeys(GRID["compared_students"], 0.9))
    costs = dict.fromkeys((*beyond.UNTRAINED, STUDENT), 1.0) | {STUDENT: 2.0}
    data = beyond.tabulate_models(pd.concat([untrained, students], ignore_index=True), costs)
    assert [*data["model"]] == [*beyond.UNTRAINED, *GRID["compared_students"]]
    assert data["score"].tolist() == pytest.approx([0.2] * 7 + [0.8] * 2)
    assert (data["low"] <= data["score"]).all() and (data["score"] <= data["high"]).all()
    rows = data.set_index("model")
    assert np.isnan(rows.loc[BASE, "difference"])
    assert rows.loc["student: SBERT", ["difference", "milliseconds"]].tolist() == (
        pytest.approx([0.6, 2.0])
    )
    assert rows["trained"].tolist() == [False] * 7 + [True] * 2
    told = beyond.describe_model(data, "student: SBERT")
    assert told.startswith("student: SBERT is ahead of base by .600")
    assert told.endswith(", at 2 ms a document")
