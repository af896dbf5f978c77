"""The tables and figures of Section 4.5, beside what this run's profile, grids and records say."""

from dataclasses import replace

import numpy as np
import pytest

from lib import published
from lib.chapters import contextual, hyperparameters
from lib.config import profiles
from lib.distillation.variants import parse
from tests.fake_bench import FakeBench, fake_model

GRID = profiles.grid("beyond")


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mini", "thesis"])
def test_tables_of_hyperparameters_follow_the_profile(name):
    changes = {"heads.hidden": 51, "training.accumulation": 3}
    changes |= {"final.accumulation": 7, "final.warmup_updates": 9}
    profile = profiles.load(name, overrides=changes)
    heads, training, final = (
        hyperparameters.tabulate_settings(label, profile).set_index("parameter")
        for label in ("tab5_6", "tab4_4", "tab5_2")
    )
    assert heads.at["Hidden features", "value"] == "51"
    assert training.at["Gradient accumulation steps", "value"] == "3"
    assert final.at["Gradient accumulation steps", "value"] == "7"
    assert final.at["Warmup update steps", "value"] == "9"
    mixed = "Mixed-precision training"
    assert final.at[mixed, "value"] == "Yes, where the device supports bfloat16"
    assert heads.at[mixed, "value"] == "No" and final["published"].notna().all()


@pytest.mark.parametrize(("name", "limit"), [("thesis", "384"), ("lab", ""), ("mini", "")])
def test_weightings_are_this_run_s(name, limit):
    profile = profiles.load(name)
    table = hyperparameters.tabulate_settings("tab4_9", profile).set_index("parameter")
    assert table["published"].tolist() == published.load("tab4_9")["value"].tolist()
    limit = limit or f"{profile.training.max_structural_len} (label 384)"
    assert table.loc["max_structural_len", "value"] == f"{limit}, None"
    assert table.loc["λ", "value"] == "0.95, 0.8, 0.5, 0.2"


# ---- students -----------------------------------------------------------------------------------


def test_histories_say_what_chance_gives(monkeypatch):
    """A row for each measurement of each student with a contextual loss, and of no other model."""
    watched = np.array([[0, 0.5, 0.4, 0.2], [4, 0.6, 0.5, 0.3]])
    monkeypatch.setattr(contextual, "chance_cca", lambda student, teacher: 0.1)
    student = fake_model(np.eye(3), history={"watched": watched}, prepare_rows=np.eye(3))
    bench = FakeBench("mini", model=lambda *_: student)
    name = "100d;S:768;C:768"
    models = {"Longformer": "Longformer", name: f"only-contextual;{name}", "cosine": "cosine"}
    table = contextual.collect_histories({"alone": models}, bench)
    columns = ["group", "model", "dimension", "update", "embedding", "projected", "chance", "share"]
    assert [*table] == columns and len(table) == 2
    assert table.iloc[1].tolist() == ["alone", name, "100", 4, 0.6, 0.5, 0.1, 0.3]


def test_a_draft_differs_from_its_twin_in_one_thing_and_a_factor_has_its_weight():
    identities = {name: identity for identity, name in GRID["drafts"].items()}
    for model, twin in GRID["twins"].items():
        variants = [replace(parse(identities[name]), label="") for name in (model, twin)]
        sides = [vars(variant).items() for variant in variants]
        assert len({*sides[0]} - {*sides[1]}) == 1
    for factor, lam in GRID["trained_factors"].items():
        assert (1 - lam) / lam == pytest.approx(factor, rel=0.005)
