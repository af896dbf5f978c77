"""Notebook 10: what each ingredient adds, and students beside what needs no training."""

from lib import published
from lib.config import profiles
from lib.config.schema import HeadSettings
from lib.distillation.variants import MM_MSE, parse

GRID = profiles.grid("beyond")
INGREDIENTS = {"untrained student": "Longformer"} | GRID["ingredients"]
EXAMPLES = 60


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
