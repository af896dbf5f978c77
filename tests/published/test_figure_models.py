"""What is trained and drawn: the published models of a figure and those that a person adds to its
grid.
"""

import shutil

import matplotlib.pyplot as plt
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
def test_the_thesis_grids_are_the_published_figures(label):
    """What grids leave out is the baselines and the students shown besides."""
    counts = {
        "fig4_3": 11,
        "fig4_5": 36 + 9,
        "fig4_7": 16,
        "fig4_8": 12,
        "fig4_9": 14,
        "fig4_10": 8,
        "fig4_11": 8,
    }
    assert len(published.list_grid(label)) >= counts.get(label, 0)
    others = set(published.printed(label)) - set(published.list_grid(label))
    students = {"no-weighting", "only-structural;cosine", "only-structural;mm-MSE"}
    teachers = {"Longformer", "SBERT", "DM;100d", "DBOW;1024d", "PV;2048d"}
    assert (
        others <= students | teachers
        if label not in ("fig4_2", "fig4_12")
        else not published.list_grid(label)
    )


ADDED = [
    (
        "structural",
        "- 1.5\n",
        "- 1.5\n    - 2\n",
        {"fig4_3": ["max-margin;MSE;γ=2.0", "max-margin;cosine;γ=2.0"]},
        "",
    ),
    ("pv", "- 1024\n", "- 1024\n  - 256\n", {"fig4_5": ["DM;256;stem;2", "DBOW;256;None;10%"]}, ""),
    (
        "pv",
        'dm: ["DM;768;stem;2"',
        'dm: ["DM;100;stem;2"',
        {"fig4_5": ["DM;100;stem;2+DBOW;1024;stem;2"]},
        "",
    ),
    (
        "projections",
        '["768(ReLU)x1024", "1024"]',
        '["1024", "512x1024"]',
        {"fig4_7": ["1024d;S:512x1024;C:-"]},
        "only-contextual;",
    ),
    (
        "weighting",
        "0.2]",
        "0.2, 0.05]",
        {"fig4_10": ["384;λ=0.05", "None;λ=0.05"]},
        "cosine;2048d;S:768(ReLU)x4096(ReLU)x2048;C:-;",
    ),
    (
        "weighting",
        "0.2]",
        "0.2, 0.05]",
        {"fig4_11": ["384;λ=0.05"]},
        "mm-MSE;100d;S:768(ReLU)x1024(ReLU)x768;C:768;",
    ),
]


@pytest.mark.parametrize(("grid", "before", "after", "expected", "prefix"), ADDED)
def test_what_is_added_to_a_grid_is_trained_and_drawn_in_its_figure(
    edit, grid, before, after, expected, prefix
):
    edit(grid, before, after)
    for label, names in expected.items():
        shown = chapter4.list_models(label, profiles.load("mini"))
        assert {*published.printed(label)} <= {*shown}, "nothing published is lost"
        for name in names:
            assert shown[name] == prefix + name == parse(prefix + name).identity
        records = pd.DataFrame(
            [
                {"model": model, "task": task, "seed": 0, "value": 0.5}
                for model in shown.values()
                for task in ("OC", "PAN")
            ]
        )
        data = figures.boxplot_frame(label, records).set_index("model")
        assert data.loc[names, ["published", "published_normalized"]].isna().all(axis=None)
        assert (
            data.drop(index=list(set(shown) - set(published.printed(label))))["published"]
            .notna()
            .all()
        )
        plt.close(figures.boxplot(data.reset_index(), label))


def test_taking_an_entry_out_of_a_grid_takes_only_what_is_not_published(edit):
    edit("weighting", "0.95, 0.8, 0.5, 0.2]", "0.3]")
    assert list(published.shown("fig4_10"))[-2:] == ["384;λ=0.3", "None;λ=0.3"]
    assert len(published.shown("fig4_10")) == len(published.printed("fig4_10")) + 2


def test_a_loss_that_nobody_wrote_is_refused_before_anything_is_trained(edit):
    edit("structural", "losses:\n", "losses:\n  - hubr\n")
    with pytest.raises(ValueError, match="unknown model 'hubr'"):
        chapter4.list_models("fig4_3", profiles.load("mini"))


@pytest.mark.parametrize(
    ("grid", "before", "after", "label"),
    [
        ("structural", "- MSE\n", "- MSE\n  - MSE\n", "fig4_3"),
        ("pv", "- 1024\n", "- 1024\n  - 100\n", "fig4_5"),
        (
            "projections",
            '["768(ReLU)x1024", "1024"]',
            '["768(ReLU)x1024", "1024", "1024"]',
            "fig4_7",
        ),
        ("weighting", '"None"]', '"None", "384"]', "fig4_10"),
    ],
)
def test_what_stands_in_a_grid_twice_is_one_model(edit, grid, before, after, label):
    once = published.list_grid(label)
    edit(grid, before, after)
    assert list(published.list_grid(label).items()) == list(once.items())


def test_a_multiplication_sign_in_a_projection_is_an_x(edit):
    edit("projections", '["768(ReLU)x1024", "1024"]', '["768(ReLU)x1024", "1024", "512×1024"]')
    assert (
        "only-contextual;1024d;S:512x1024;C:-"
        in chapter4.list_models("fig4_7", profiles.load("mini")).values()
    )


def test_a_filter_chooses_among_the_models_of_the_requested_figures():
    assert "cosine" in published.names(["fig4_2", "tab4_3"])
    assert "DM;100;stem;2" not in published.names(["fig4_2", "tab4_3"])
    assert published.names(["tab5_7"]) == published.names(published.CHAPTER_4), (
        "a page shows them all"
    )
    news = published.names(["news_tab3", "news_fig1"])
    assert {"CNN-1;MSE", "bag;cosine"} <= news
    assert "cosine" not in news
    assert "RuBERT Tiny;fine-tuned" not in news
    assert published.names(["fig4_2", "news_tab3"]) == news | published.names(["fig4_2"])
