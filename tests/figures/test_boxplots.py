"""Boxplots: the frame beside the published values, what is drawn, and bytes that repeat."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import PathPatch

from lib import figures, published
from lib.config import manifest
from lib.figures.style import INK, WIDTH
from lib.statistics.intervals import SeedNoise

NOISE = {"ours": SeedNoise(0.01, 100), "published": SeedNoise(0.005, 100)}


def make_records(models: dict[str, float], seeds: int = 1) -> pd.DataFrame:
    """One accuracy for all six tasks of a model; seed s adds 0.01 * s."""
    rows = itertools.product(models, manifest.CLASSIFICATION, range(seeds))
    records = pd.DataFrame(rows, columns=["model", "task", "seed"])
    return records.assign(value=records["model"].map(models) + 0.01 * records["seed"])


def load_models(label: str) -> pd.DataFrame:
    """Records of every model of a figure: the published accuracies."""
    frame = published.load(label)
    return frame.assign(model=frame["identity"], seed=0, value=frame["accuracy"])


def list_boxes(axis) -> list[PathPatch]:
    """The boxes of a panel from top to bottom; strips are other patches."""
    return [patch for patch in axis.patches if isinstance(patch, PathPatch)]


def list_means(axis) -> list[float]:
    return [float(line.get_xdata()[0]) for line in axis.get_lines() if line.get_marker() == "^"]


def list_guesses(axis) -> list[float]:
    return [line.get_xdata()[0] for line in axis.get_lines() if line.get_linestyle() == "--"]


def test_a_frame_by_hand():
    records = pd.concat([make_records({"MSE": 0.4}), make_records({"cosine": 0.79}, seeds=3)])
    frame = figures.boxplot_frame("fig4_2", records, NOISE)
    assert frame.columns.tolist()[:4] == ["model", "task", "value", "published"]
    # ascending mean: the best is last, at the bottom
    assert frame["model"].tolist() == ["MSE"] * 6 + ["cosine"] * 6
    assert frame["task"].tolist() == list(manifest.CLASSIFICATION) * 2
    assert frame["value"].tolist() == pytest.approx([0.4] * 6 + [0.80] * 6)  # mean of .79, .80, .81
    assert frame["seeds"].tolist() == [1] * 6 + [3] * 6
    assert frame["normalized"].tolist() == pytest.approx([0.5] * 6 + [1.0] * 6)
    assert frame["noise"].tolist() == [NOISE["ours"].least_difference] * 12
    # Published values stay those of the whole figure, where SBERT leads ARXIV with .7628.
    arxiv = frame.iloc[6]
    assert arxiv["published"] == pytest.approx(0.6268)
    assert arxiv["published_normalized"] == pytest.approx(0.6268 / 0.7628)


@pytest.mark.parametrize("label", published.BOXPLOTS)
def test_published_accuracies_as_ours_give_the_published_figure(label):
    """Alone they are on their own scale: edges and means of their boxes are the recovered ones."""
    theirs, frame = published.load(label), figures.boxplot_frame(label, load_models(label))
    assert frame[["model", "task"]].equals(theirs[["model", "task"]])
    for column in ("normalized", "published_normalized"):
        np.testing.assert_allclose(frame[column], theirs["normalized"])
    drawn = pd.read_csv(published.FOLDER / "boxplots.csv", keep_default_na=False)
    drawn = drawn[drawn["label"] == label].sort_values("row").reset_index(drop=True)
    (axis,) = figures.boxplot(frame.assign(value=np.nan), label).axes
    assert list_means(axis) == pytest.approx(drawn["mean"].to_list(), abs=1e-5)
    for box, row in zip(list_boxes(axis), drawn.itertuples(), strict=True):
        edges = box.get_path().vertices
        assert edges[:, 0].min() == pytest.approx(row.q1, abs=1e-5)
        assert edges[:, 0].max() == pytest.approx(row.q3, abs=1e-5)
        assert edges[:, 1].mean().round() == row.Index


def test_rounds_of_figure_5_3_stay_together():
    records = make_records({"DM;1k": 0.9, "SBERT;1k": 0.5, "DM;10k": 0.4, "DM;all": 0.3})
    frame = figures.boxplot_frame("fig5_3", records)
    assert frame["model"].unique().tolist() == ["DM;1k", "SBERT;1k", "DM;10k", "DM;all"]
    share = frame.set_index(["model", "task"]).at[("DM;all", "OC"), "normalized"]
    assert share == pytest.approx(0.3 / 0.9)


def test_records_that_would_give_a_wrong_mean_are_refused():
    records = make_records({"cosine": 0.7})
    with pytest.raises(ValueError, match="duplicate"):
        figures.boxplot_frame("fig4_2", pd.concat([records, records]))
    some = records.iloc[:3].assign(model="MSE")
    with pytest.raises(ValueError, match="no score on a task.*'MSE'.*'AAN'"):
        figures.boxplot_frame("fig4_2", pd.concat([records, some]))


def test_rows_means_strip_and_marks():
    """Rows are in the published order, whatever ours is."""
    records = make_records({"MSE": 0.6, "SBERT": 0.4})
    records = pd.concat([records, make_records({"cosine": 0.79}, seeds=3)]).assign(chance=0.2)
    records["collapsed"] = records["model"] == "MSE"
    data = figures.boxplot_frame("fig4_2", records, NOISE)
    ours, theirs = figures.boxplot(data, "fig4_2").axes
    assert [text.get_text() for text in ours.get_yticklabels()] == ["MSE", "SBERT", "cosine"]
    assert ours.get_ylim()[0] > ours.get_ylim()[1], "row 0 is at the top"
    assert [text.get_text() for text in ours.texts] == ["†", "", "×3"] and not theirs.texts
    # above a chance of .2, .4, .6 and .8 are 1/4, 1/2 and 3/4
    assert list_means(ours) == pytest.approx([-0.25, -0.5, 0])
    scores = published.load("fig4_2")
    score = (scores["accuracy"] - scores["chance"]) / (1 - scores["chance"])
    behind = (score - score.groupby(scores["task"]).transform("max")).groupby(scores["model"])
    expected = behind.mean()[["MSE", "SBERT", "cosine"]].to_list()
    assert list_means(theirs) == pytest.approx(expected, abs=1e-9)
    for axis, name in ((ours, "ours"), (theirs, "published")):
        strip = next(patch for patch in axis.patches if not isinstance(patch, PathPatch))
        ends = strip.get_extents().transformed(axis.transData.inverted()).intervalx
        best = max(list_means(axis))
        assert ends == pytest.approx([best - NOISE[name].least_difference, best])


def test_rows_that_the_thesis_lacks_come_first_in_the_order_of_the_means_that_are_drawn():
    """By accuracy divided by the task's best, b would be before a."""
    records = make_records({"b": 0.5, "a": 0.5}).assign(chance=0.5)
    arxiv, oc = (records["task"] == task for task in ("ARXIV", "OC"))
    records.loc[arxiv, "chance"], records.loc[arxiv & (records["model"] == "b"), "value"] = 0.1, 0.3
    records.loc[oc & (records["model"] == "b"), "value"] = 0.7
    for label, others in (("figA_1", {}), ("fig4_3", {"cosine": 0.1})):
        shown = pd.concat([records, make_records(others).assign(chance=0.0)])
        (axis, *_) = figures.boxplot(figures.boxplot_frame(label, shown), label).axes
        assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b", *others]
        assert list_means(axis)[0] < list_means(axis)[1]


def test_bars_show_what_heads_read_of_perfect_vectors_whatever_the_best_is():
    records = make_records({"MSE;1k": 0.4, "SBERT;all": 0.8}).assign(chance=0.2)
    records["perfect"] = records["model"].map({"MSE;1k": 0.6, "SBERT;all": 1.0})
    data = figures.boxplot_frame("fig5_3", records)
    figure = figures.boxplot(data, "fig5_3")
    (bars,) = (line for line in figure.axes[0].get_lines() if line.get_marker() == "|")
    assert bars.get_xdata().tolist() == pytest.approx([-0.25, 0.25])
    assert list_means(figure.axes[0]) == pytest.approx([-0.5, 0])
    assert "perfect vectors" in figure.legends[0].get_title().get_text()


def test_guessing_is_marked_behind_the_best_of_each_task_in_both_columns():
    """Ours from the records, the published one from the thesis' tasks."""
    records = make_records({"MSE": 0.4, "cosine": 0.8}).assign(chance=0.2)
    records.loc[records["task"] == "ARXIV", ["value", "chance"]] = [0.5, 0.0]
    best = published.load("fig4_2").groupby("task")[["accuracy", "chance"]].max()
    theirs = ((best["chance"] - best["accuracy"]) / (1 - best["chance"])).mean()
    figure = figures.boxplot(figures.boxplot_frame("fig4_2", records), "fig4_2")
    drawn = [list_guesses(axis) for axis in figure.axes]
    assert drawn == [[pytest.approx(-(0.5 + 5 * 0.6 / 0.8) / 6)], [pytest.approx(theirs)]]


@pytest.mark.parametrize("label", ["fig4_8", "fig5_3"])  # the longest names
def test_labels_are_whole_and_apart_at_the_published_size(label):
    records = load_models(label).assign(collapsed=lambda f: f["row"] < 3)
    figure = figures.boxplot(figures.boxplot_frame(label, records, NOISE), label)
    assert figure.get_size_inches()[0] == WIDTH
    figure.draw_without_rendering()
    rows = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
    others = [*(axis.xaxis.label for axis in figure.axes), *figure.legends[0].get_texts()]
    for box in [*rows, *(text.get_window_extent() for text in others)]:
        assert box.x0 >= -0.5 and box.x1 <= figure.bbox.width + 0.5 and box.y0 >= -0.5, box
    assert all(upper.y0 > lower.y1 for upper, lower in itertools.pairwise(rows))
    ticks = []
    for axis in figure.axes:
        low, high = axis.get_xlim()
        shown = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
        ticks += [text.get_window_extent() for place, text in shown if low <= place <= high]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(ticks))


def test_saved_are_the_data_and_a_picture_that_fits_any_page_with_the_same_bytes(tmp_path):
    data = figures.boxplot_frame("fig4_3", load_models("fig4_3"), NOISE)
    for name in ("one", "two"):
        figures.save(figures.boxplot(data, "fig4_3"), "fig4_3", data, tmp_path / name)
    table, picture = files = sorted((tmp_path / "one").iterdir())  # no leftovers
    assert [file.name for file in files] == ["fig4_3.csv", "fig4_3.svg"]
    pd.testing.assert_frame_equal(pd.read_csv(table), data.round(6), check_dtype=False)
    text = picture.read_text(encoding="utf-8")
    # 6.5 inches are 468 points; fewer rows make the figure lower, never narrower.
    assert 'width="468pt"' in text and "<dc:date>" not in text and len(text) < 300_000
    assert "prefers-color-scheme:dark" in text and "currentColor" in text and INK not in text
    (ground,) = re.findall(r'<g id="patch_1">.*?style="([^"]*)"', text, re.DOTALL)
    assert "opacity: 0" in ground or "fill: none" in ground
    again = sorted((tmp_path / "two").iterdir())
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in files]
