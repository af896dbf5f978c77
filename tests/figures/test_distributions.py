"""Lengths, distances, scores and differences: what is drawn are the numbers given."""

import numpy as np
import pandas as pd
import pytest

from lib import figures, published


def make_lengths(rows) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["split", "source", "longformer_tokens"])
    frame = frame.explode("longformer_tokens").astype({"longformer_tokens": int})
    return frame.assign(sbert_tokens=frame["longformer_tokens"])


def test_a_histogram_by_hand():
    """The published bins of the training split are [1, 31), [31, 61), ...; one bin below them
    catches the rest.
    """
    rows = [("train", "wikipedia", [0, 5, 40, 40]), ("train", "news", [1300, 5000])]
    rows += [("validation", "wikipedia", [3]), ("validation", "letters", [1300])]
    frame = figures.histogram_frame("fig4_1", make_lengths(rows))
    curve = frame[(frame["split"] == "train") & (frame["source"] == "wikipedia")]
    curve = curve.set_index("bin_lo")
    assert curve["value"][[0, 1, 31]].tolist() == [25.0, 25.0, 50.0]
    assert curve["published"][[1, 31]].tolist() == pytest.approx([0.664344, 6.383464])
    for column, within in (("value", 1e-9), ("published", 1e-2)):
        sums = frame.groupby(["split", "source"])[column].sum()
        assert sums[sums > 0].tolist() == pytest.approx([100] * 4, abs=within)
    assert frame[frame["bin_hi"].isna()]["value"].tolist()[:2] == [0, 50]
    assert frame.groupby("split")["over_384"].first().tolist() == pytest.approx([100 / 3, 50])
    handles = figures.histogram(frame, "fig4_1").legends[0].get_texts()
    assert "letters" in [text.get_text() for text in handles]


def test_lengths_of_a_model_at_one_eighth_lie_on_the_thesis_axis():
    """15 of our tokens are 120 of the thesis', which are a bin of four published ones."""
    lengths = make_lengths([("train", "news", list(range(1, 31)))])
    lengths["sbert_tokens"] = [48] * 29 + [49]
    frame = figures.histogram_frame("fig4_1", lengths, scale=8)
    ours = frame.query("split == 'train' and source == 'news'").iloc[:4]
    assert ours["bin_lo"].tolist() == [0, 1, 121, 241]
    assert ours["value"].tolist() == pytest.approx([0, 50, 50, 0])
    assert ours["over_384"].iloc[0] == pytest.approx(100 / 30)  # 48 times eight is read whole
    tokens = figures.ecdf_frame(lengths.assign(task="OC"), scale=8)["tokens"]
    assert tokens.iloc[0] == 8 and tokens.iloc[-1] > 1000, "published as they are, ours scaled"


def test_a_cumulated_share_by_hand():
    lengths = make_lengths([("test", "", [30, 10, 10, 20])]).assign(task="OC")
    frame = figures.ecdf_frame(lengths)
    ours = frame[frame["curve"] == "ours"]
    assert ours["tokens"].tolist() == [10, 20, 30]
    assert ours["proportion"].tolist() == [0.5, 0.75, 1.0]
    assert len(frame) - len(ours) == len(published.load("fig5_2"))
    theirs = frame[frame["curve"] == "published"]
    assert len(figures.ecdf(frame).axes) == 1 and len(figures.ecdf(theirs).axes) == 8
    told = {axis.get_title() for axis in figures.ecdf(theirs).axes}
    assert {"PAN\npublished 70%", "GAMES\npublished 100%"} <= told, "train has 70, test 61%"


def test_published_ranges_lie_over_the_thesis_negatives():
    rng, parts = np.random.default_rng(0), []
    for row in published.load("fig4_4").itertuples():
        for way in ("as published", "true"):
            names = {"distance": row.distance, "model": row.model, "to": row.to}
            values = {"negatives": way, "value": rng.normal(row.mean, 0.1, 60)}
            parts.append(pd.DataFrame(names | values))
    distances = pd.concat(parts, ignore_index=True).query("distance == 'cosine'")
    shifted, true = figures.violins(distances).axes
    assert shifted.get_xlim() == true.get_xlim()
    theirs = published.load("fig4_4").query("distance == 'cosine'")
    means = [line for line in shifted.get_lines() if line.get_marker() == "D"]
    assert [line.get_xdata()[0] for line in means] == pytest.approx(theirs["mean"].to_list())
    above = theirs["to"].eq("positives").to_list()
    assert [line.get_ydata()[0] % 1 > 0.5 for line in means] == above
    assert not true.get_lines(), "the thesis has no true negatives"
    bodies = [body.get_paths()[0].vertices[:, 1] for body in shifted.collections[:2]]
    assert bodies[0].max() <= 1e-9 and bodies[1].min() >= -1e-9, "each on its side of the line"


def list_dots(axis, *, hollow: bool) -> list[float]:
    """Where dots are, row by row; the published ones are hollow."""
    lines = [line for line in axis.get_lines() if line.get_marker() == "o"]
    (line,) = [line for line in lines if (line.get_markerfacecolor() == "none") == hollow]
    return [x for x in line.get_xdata() if np.isfinite(x)]


def halve_scores(label):
    """The published scores halved, with scores of examples."""
    theirs = published.load(label).rename(columns={"accuracy": "value", "score": "value"})
    rng, records = np.random.default_rng(0), theirs.assign(seed=0, chance=0.1, folds=1)
    records["value"] /= 2
    records["scores"] = [rng.binomial(1, value, 200).astype(float) for value in records["value"]]
    records["groups"] = [np.arange(200).astype(str)] * len(records)
    return records


def test_figure_5_4_corrects_for_chance_and_has_intervals_of_test_texts():
    records = halve_scores("fig5_4")
    extra = records[records["model"] == "DM"].assign(model="TF-IDF")
    few = records.assign(round="1k")
    frame = figures.score_frame("fig5_4", pd.concat([extra, records, few]))
    assert frame["round"].unique().tolist() == ["10k", "all"]
    known = frame["model"] != "TF-IDF"
    assert frame[known]["value"].tolist() == pytest.approx((frame["published"] / 2)[known].tolist())
    assert frame[~known]["published"].isna().all()
    figure = figures.dots(frame, "fig5_4", rounds={"1k": 7, "10k": 100, "all": None})
    assert len(figure.axes) == 12 and len({axis.get_xlim() for axis in figure.axes}) == 1
    first = frame[(frame["round"] == "10k") & (frame["task"] == "ARXIV")]
    ours = ((first["value"] - 0.1) / 0.9).to_list()
    theirs = ((first["published"] - 0.1164) / (1 - 0.1164)).dropna().to_list()
    assert list_dots(figure.axes[0], hollow=False) == pytest.approx(ours)
    assert list_dots(figure.axes[0], hollow=True) == pytest.approx(theirs)
    keys = ["round", "task", "model"]
    row = frame.set_index(keys).loc[("all", "OC", "SBERT")]
    scores = records.set_index(keys).at[("all", "OC", "SBERT"), "scores"]
    error = scores.std() / np.sqrt(len(scores))  # 200 examples, each a group of its own
    assert (row["high"] - row["low"]) / 2 == pytest.approx(1.98 * error, rel=0.05)
    trained = frame[frame["model"] == "only-MSE"]
    assert trained["low"].isna().all(), "one seed does not tell what another would change"


def test_figures_5_5_and_5_6():
    records = halve_scores("fig5_5")
    frame = figures.score_frame("fig5_5", records)
    assert frame["published"].tolist() == pytest.approx((2 * frame["value"]).tolist())
    means = ((frame["value"] - 0.1) / 0.9).groupby([frame["metric"], frame["model"]]).mean()
    expected = means["MAP"][[*published.CHAPTER_5]].to_list()
    by_map, _ = figures.dots(frame, "fig5_5").axes
    assert list_dots(by_map, hollow=False) == pytest.approx(expected)
    assert len(figures.dots(frame, "fig5_6").axes) == 4, "two metrics, two tasks"
    with pytest.raises(ValueError, match="duplicate"):
        figures.score_frame("fig5_5", pd.concat([records, records]))


def test_no_score_above_1_is_drawn():
    """One of 200 wrong is .995 with about .01 to both sides, and a mean over two tasks has .007."""
    records = halve_scores("fig5_5").query("model == 'SBERT'").assign(value=0.995)
    records["scores"] = [np.arange(200) > 0.0] * len(records)
    frame = figures.score_frame("fig5_5", records)
    assert (frame["high"] == 1).all() and frame["low"].max() < 0.99
    axis, _ = figures.dots(frame, "fig5_5").axes
    (low, *_, high) = np.sort(np.concatenate(axis.containers[0].lines[2][0].get_segments())[:, 0])
    assert high == pytest.approx(1) and low == pytest.approx((0.988 - 0.1) / 0.9, abs=0.001)


def test_a_step_has_a_mark_and_an_interval_for_each_readout():
    rows = [(step, readout, 0.1, 0.0, 0.3) for readout in ("none", "compare") for step in "ab"]
    data = pd.DataFrame(rows, columns=["step", "readout", "difference", "low", "high"])
    (axis,) = figures.differences(data).axes
    marks = [each for each in axis.containers if hasattr(each, "lines")]
    assert [each.get_label() for each in marks] == ["heads that compare", "no head"]
    for each in marks:
        point, _, (bars,) = each.lines
        ends = [np.reshape(segment, (-1, 2))[:, 0].tolist() for segment in bars.get_segments()]
        assert list(point.get_xdata()) == [0.1, 0.1] and ends == [pytest.approx([0, 0.3])] * 2
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b"]
