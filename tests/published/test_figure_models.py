"""What is trained and drawn: the published models of a figure, and those that a person adds to its
grid."""

import shutil

import pandas as pd
import pytest

from lib import figures, published
from lib.chapters import chapter4
from lib.config import paths, profiles
from lib.distillation.variants import parse


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """A copy of `params` whose grids can be edited: `edit("weighting", "0.2]", "0.2, 0.05]")`."""
    shutil.copytree(paths.PARAMS, tmp_path / "params")
    monkeypatch.setattr(paths, "PARAMS", tmp_path / "params")

    def replace(grid, before, after):
        path = tmp_path / "params" / "grids" / f"{grid}.yaml"
        text = path.read_text(encoding="utf-8")
        assert before in text
        path.write_text(text.replace(before, after), encoding="utf-8")

    return replace


@pytest.mark.parametrize("label", published.CHAPTER_4)
def test_the_grids_add_nothing_to_the_published_figures(label):
    assert [*published.shown(label).items()] == [*published.printed(label).items()]


CONTEXT = "only-contextual;1024d;S:512x1024;C:-"
WIDE = "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-"
ADDED = [  # a grid's last entry, what stands there instead, a figure, and the models that it gains
    ("structural", "- 1.5\n", "- 1.5\n    - 2\n", "fig4_3", {"max-margin;MSE;γ=2.0"}),
    ("pv", "- 1024\n", "- 1024\n  - 256\n", "fig4_5", {"DM;256;stem;2", "DBOW;256;None;10%"}),
    ("projections", '"1024"]', '"1024", "512×1024"]', "fig4_7", {CONTEXT}),
    ("weighting", "0.2]", "0.2, 0.05]", "fig4_10", {f"{WIDE};384;λ=0.05", f"{WIDE};None;λ=0.05"}),
]


@pytest.mark.parametrize(("grid", "before", "after", "label", "gained"), ADDED)
def test_what_is_added_to_a_grid_is_trained_and_drawn(edit, grid, before, after, label, gained):
    once = chapter4.list_models(label, profiles.load("mini"))
    edit(grid, before, after)
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
