"""What is trained and drawn: the published models of a figure, and those that a person adds to its
grid.
"""

import functools
import operator

import pandas as pd
import pytest

from lib import figures, published
from lib.chapters import chapter4
from lib.config import profiles
from lib.distillation.variants import parse


@pytest.mark.parametrize("label", published.CHAPTER_4)
def test_the_grids_add_nothing_to_the_published_figures(label):
    assert [*published.shown(label).items()] == [*published.printed(label).items()]


CONTEXT = "only-contextual;1024d;S:512x1024;C:-"
WIDE = "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-"
ADDED = [  # a grid, a list in it, what a person adds to it, a figure, and the models that it gains
    ("structural", ("max_margin", "gammas"), 2, "fig4_3", {"max-margin;MSE;γ=2.0"}),
    ("pv", ("dimensions",), 256, "fig4_5", {"DM;256;stem;2", "DBOW;256;None;10%"}),
    ("projections", ("only-contextual", 1, "student"), "512×1024", "fig4_7", {CONTEXT}),
    ("weighting", ("lam",), 0.05, "fig4_10", {f"{WIDE};384;λ=0.05", f"{WIDE};None;λ=0.05"}),
]


@pytest.mark.parametrize(("name", "keys", "value", "label", "gained"), ADDED)
def test_what_is_added_to_a_grid_is_trained_and_drawn(
    monkeypatch, name, keys, value, label, gained
):
    once = chapter4.list_models(label, profiles.load("mini"))
    grid = profiles.grid(name)
    functools.reduce(operator.getitem, keys, grid).append(value)
    monkeypatch.setattr(profiles, "grid", {name: grid}.get)
    shown = chapter4.list_models(label, profiles.load("mini"))
    new = {*shown.values()} - {*once.values()}
    assert {*once} <= {*shown} and gained <= new == {parse(name).identity for name in new}
    rows = [(model, task, 0, 0.5) for model in shown.values() for task in ("OC", "PAN")]
    records = pd.DataFrame(rows, columns=["model", "task", "seed", "value"])
    data = figures.boxplot_frame(label, records).set_index("model")
    known = data.index.isin([*published.printed(label)])
    assert data[known]["published"].notna().all() and data[~known]["published"].isna().all()
    assert len(data) == len(rows), "the new ones are drawn, too"


def test_a_filter_chooses_among_the_models_of_the_requested_figures():
    names = published.names
    assert "cosine" in names(["fig4_2", "tab4_3"])
    assert "DM;100;stem;2" not in names(["fig4_2", "tab4_3"])
    assert names(["tab5_7"]) == names(published.CHAPTER_4), "a page shows them all"
    assert {"CNN-1;MSE", "bag;cosine"} <= names(["news_tab3"])
    assert "RuBERT Tiny;fine-tuned" not in names(["news_tab3"])
