"""What is compared beyond Chapter 4's grids, and the tables of hyperparameters: `params` says what
the thesis says.
"""

import pytest

from lib.chapters import hyperparameters
from lib.config import profiles
from lib.config.schema import HeadSettings
from lib.distillation.variants import NO_WEIGHTING, parse
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
