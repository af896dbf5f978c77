"""Notebook 10: what each ingredient adds, and students beside what needs no training."""

from dataclasses import replace

import pytest

from lib import published
from lib.config import profiles
from lib.config.schema import HeadSettings
from lib.distillation.variants import MM_MSE, parse

GRID = profiles.grid("beyond")
INGREDIENTS = {"untrained student": "Longformer"} | GRID["ingredients"]


def test_what_the_grid_names_is_there_and_by_its_one_name():
    labels = [*GRID["final"].values(), *GRID["drafts"], *GRID["students"].values()]
    labels += INGREDIENTS.values()
    assert [parse(label).identity for label in labels] == labels
    assert {*GRID["twins"], *GRID["twins"].values()} == {*GRID["drafts"].values()}
    assert set(GRID["trained_factors"]) <= set(GRID["factors"])
    known = {*HeadSettings.model_fields}
    assert {name for changes in GRID["heads"].values() for name in changes} <= known
    assert len({*INGREDIENTS.values()}) == len(INGREDIENTS)
    assert {name for pair in GRID["steps"].values() for name in pair} == {*INGREDIENTS}
    assert {*GRID["compared_students"].values()} <= {*INGREDIENTS.values()}
    plain = published.printed("fig4_10")["no-weighting"]
    assert {plain, MM_MSE} < {*INGREDIENTS.values()}, "students of Chapter 4"


def test_a_draft_differs_from_its_twin_in_one_thing_and_a_factor_has_its_weight():
    identities = {name: identity for identity, name in GRID["drafts"].items()}
    for model, twin in GRID["twins"].items():
        variants = [replace(parse(identities[name]), label="") for name in (model, twin)]
        sides = [vars(variant).items() for variant in variants]
        assert len({*sides[0]} - {*sides[1]}) == 1
    for factor, lam in GRID["trained_factors"].items():
        assert (1 - lam) / lam == pytest.approx(factor, rel=0.005)
