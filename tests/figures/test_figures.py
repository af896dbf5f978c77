"""Figures: the frame beside the published values, what is drawn, and bytes that repeat."""

import itertools
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import PathPatch

from lib import figures, published
from lib.config import paths, roles
from lib.figures.style import INK, WIDTH, csv_bytes
from lib.statistics.intervals import SeedNoise

BOXPLOTS = published.BOXPLOTS
NOISE = {"ours": SeedNoise(0.01, 100), "published": SeedNoise(0.005, 100)}


def records_of(models: dict[str, float], seeds: int = 1) -> pd.DataFrame:
    """One accuracy for all six tasks of a model; seed s adds 0.01 * s."""
    rows = [
        {
            "model": model,
            "task": task,
            "metric": "accuracy",
            "seed": seed,
            "value": value + 0.01 * seed,
            "seconds": 2.0,
        }
        for model, value in models.items()
        for task in roles.CLASSIFICATION
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def all_models(label: str) -> pd.DataFrame:
    """Records of every model of a figure: the published accuracies, a little worse for the later
    rows."""
    frame = published.load(label)
    value = frame["accuracy"] * (1 - 0.002 * frame["row"] % 0.01)
    return frame.assign(model=frame["identity"], metric="accuracy", seed=0, value=value)


def test_the_style_puts_back_what_it_set_and_nothing_else():
    """The first pyplot figure of a kernel makes it interactive; undone at the end of `with`, no
    later one is shown."""
    before = dict(plt.rcParams)
    try:
        plt.rcParams["interactive"] = False
        with figures.style():
            assert plt.rcParams["svg.hashsalt"] == "thesis"
            plt.rcParams["interactive"] = True
        assert {key for key in before if plt.rcParams[key] != before[key]} <= {"interactive"}
        assert plt.rcParams["interactive"] is True
    finally:
        plt.rcParams.update(before)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "figures"


def boxes_of(axis) -> list[PathPatch]:
    """The boxes of a panel from top to bottom; strips are other patches."""
    return [patch for patch in axis.patches if isinstance(patch, PathPatch)]


def means_of(axis) -> list[float]:
    return [float(line.get_xdata()[0]) for line in axis.get_lines() if line.get_marker() == "^"]


class TestBoxplotFrame:
    def test_by_hand(self):
        records = pd.concat([records_of({"MSE": 0.4}), records_of({"cosine": 0.79}, seeds=3)])
        frame = figures.boxplot_frame("fig4_2", records, NOISE)
        assert frame.columns.tolist()[:4] == ["model", "task", "value", "published"]
        assert {"seeds", "noise", "normalized", "published_normalized"} <= set(frame)
        # ascending mean: the best is last, at the bottom
        assert frame["model"].tolist() == ["MSE"] * 6 + ["cosine"] * 6
        assert frame["task"].tolist() == list(roles.CLASSIFICATION) * 2
        cosine = frame[frame["model"] == "cosine"]
        assert cosine["value"].tolist() == pytest.approx([0.80] * 6)  # mean of .79, .80, .81
        assert cosine["seeds"].tolist() == [3] * 6 and frame["seeds"].tolist()[:6] == [1] * 6
        assert frame["normalized"].tolist() == pytest.approx([0.5] * 6 + [1.0] * 6)
        assert frame["noise"].tolist() == [NOISE["ours"].least_difference] * 12
        # Published values stay those of the whole published figure: SBERT leads ARXIV there, with
        # .7628.
        arxiv = cosine.iloc[0]
        assert arxiv["published"] == pytest.approx(0.6268)
        assert arxiv["published_normalized"] == pytest.approx(0.6268 / 0.7628)

    def test_names_are_those_printed_in_the_figure(self):
        for label, printed in (("fig4_2", "cosine"), ("fig4_8", "only-structural;cosine")):
            frame = figures.boxplot_frame(label, records_of({"cosine": 0.7, "SBERT": 0.6}))
            assert frame["model"].unique().tolist() == ["SBERT", printed]
            assert frame[["noise", "published_noise"]].isna().all(axis=None)

    def test_no_weighting_is_another_student_in_each_figure(self):
        students = {
            label: published.printed(label)["no-weighting"] for label in ("fig4_10", "fig4_11")
        }
        frame = figures.boxplot_frame("fig4_10", records_of({students["fig4_10"]: 0.7}))
        assert frame["model"].unique().tolist() == ["no-weighting"]
        other = figures.boxplot_frame("fig4_10", records_of({students["fig4_11"]: 0.7}))
        assert other["model"].unique().tolist() == [students["fig4_11"]]
        assert other["published"].isna().all()

    def test_published_accuracies_as_ours_give_the_published_figure(self):
        for label in BOXPLOTS:
            theirs = published.load(label)
            records = theirs.assign(model=theirs["identity"], seed=0, value=theirs["accuracy"])
            frame = figures.boxplot_frame(label, records)
            assert frame["model"].tolist() == theirs["model"].tolist()
            assert frame["task"].tolist() == theirs["task"].tolist()
            for column in ("normalized", "published_normalized"):
                assert frame[column].to_numpy() == pytest.approx(
                    theirs["normalized"].to_numpy(), abs=1e-12
                )

    def test_rounds_of_figure_5_3_stay_together(self):
        records = records_of({"DM;1k": 0.9, "SBERT;1k": 0.5, "DM;10k": 0.4, "DM;all": 0.3})
        frame = figures.boxplot_frame("fig5_3", records)
        assert frame["model"].unique().tolist() == ["SBERT;1k", "DM;1k", "DM;10k", "DM;all"]
        assert frame.set_index(["model", "task"]).loc[
            ("DM;all", "OC"), "normalized"
        ] == pytest.approx(0.3 / 0.9)

    def test_appendix_figure_has_no_published_values(self):
        frame = figures.boxplot_frame("figA_1", records_of({"cosine;100d;S:768;C:768;mse": 0.7}))
        assert frame["published"].isna().all() and len(frame) == 6
        assert len(figures.boxplot(frame, "figA_1").axes) == 1

    def test_a_model_of_one_s_own_is_drawn_with_nothing_published(self):
        """Beside the published models, under its identity, in a figure that is one row higher."""
        for label in ("fig4_2", "fig5_3"):
            own = "own model;all" if label == "fig5_3" else "own model"
            data = figures.boxplot_frame(
                label, pd.concat([all_models(label), records_of({own: 0.99})]), NOISE
            )
            rows = data[data["model"] == own]
            assert rows[["published", "published_normalized"]].isna().all(axis=None)
            assert len(rows) == 6
            figure = figures.boxplot(data, label)
            assert figure.axes[0].get_yticklabels()[0].get_text() == own, (
                "what the thesis does not have comes first"
            )
            drawn = [
                box
                for box in boxes_of(figure.axes[1])
                if np.isfinite(box.get_path().vertices).all()
            ]
            assert len(drawn) == len(published.printed(label))

    @pytest.mark.parametrize("tasks", [["minutes"], ["zebra", "PAN", "minutes", "ARXIV"]])
    def test_tasks_of_any_name_and_number(self, tasks):
        records = pd.concat([records_of({"cosine": 0.7}), records_of({"SBERT": 0.6})])
        names = dict(zip(roles.CLASSIFICATION, tasks, strict=False))
        data = figures.boxplot_frame(
            "fig4_2", records[records["task"].isin(names)].replace({"task": names}), NOISE
        )
        expected = [task for task in ("ARXIV", "PAN") if task in tasks] + sorted(
            {*tasks} - {"ARXIV", "PAN"}
        )
        assert data["task"].tolist() == expected * 2
        assert data["published"].notna().tolist() == [
            task in ("ARXIV", "PAN") for task in data["task"]
        ]
        ours, *theirs = figures.boxplot(data, "fig4_2").axes
        assert ours.get_title() == "ours" and len(theirs) == ("PAN" in tasks)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                lambda f: pd.concat([f, f]),
                "two records for {'model': 'cosine', 'task': 'ARXIV', 'seed': 0}",
            ),
            (lambda f: f.assign(value=np.nan), "no score on a task.*'cosine'.*'AAN'"),
            (
                lambda f: pd.concat([f, f.iloc[:3].assign(model="MSE")]),
                "no score on a task.*'MSE'.*'AAN'",
            ),
        ],
    )
    def test_bad_records(self, change, message):
        with pytest.raises(ValueError, match=message):
            figures.boxplot_frame("fig4_2", change(records_of({"cosine": 0.7})))


class TestBoxplot:
    def test_rows_means_and_strip(self):
        records = pd.concat(
            [records_of({"MSE": 0.4, "SBERT": 0.6}), records_of({"cosine": 0.79}, seeds=3)]
        ).assign(chance=0.2)
        records["collapsed"] = records["model"] == "MSE"
        data = figures.boxplot_frame("fig4_2", records, NOISE)
        figure = figures.boxplot(data, "fig4_2")
        ours, theirs = figure.axes
        assert [text.get_text() for text in ours.get_yticklabels()] == ["MSE", "SBERT", "cosine"]
        bottom, top = ours.get_ylim()
        assert bottom > top  # row 0 is at the top
        assert [text.get_text() for text in ours.texts] == ["†", "", "×3"], "of our side alone"
        assert not theirs.texts
        # above a chance of .2, .4, .6 and .8 are 1/4, 1/2 and 3/4
        assert means_of(ours) == pytest.approx([-0.5, -0.25, 0])
        scores = published.load("fig4_2")
        score = (scores["accuracy"] - scores["chance"]) / (1 - scores["chance"])
        behind = (score - score.groupby(scores["task"]).transform("max")).groupby(scores["model"])
        drawn = behind.mean()[["MSE", "SBERT", "cosine"]]
        assert means_of(theirs) == pytest.approx(drawn.to_list(), abs=1e-9)
        for axis, name in ((ours, "ours"), (theirs, "published")):
            strip = next(patch for patch in axis.patches if not isinstance(patch, PathPatch))
            ends = strip.get_extents().transformed(axis.transData.inverted()).intervalx
            best = max(means_of(axis))
            assert ends == pytest.approx([best - NOISE[name].least_difference, best])

    @pytest.mark.parametrize("label", BOXPLOTS)
    def test_the_published_boxes_are_those_of_the_thesis(self, label):
        """Alone they are on its own scale: their edges and means are the recovered ones."""
        data = figures.boxplot_frame(label, all_models(label)).assign(value=np.nan)
        (theirs,) = figures.boxplot(data, label).axes
        drawn = pd.read_csv(published.FOLDER / "boxplots.csv", keep_default_na=False).query(
            "label == @label"
        )
        drawn = drawn.sort_values("row").reset_index(drop=True)
        assert means_of(theirs) == pytest.approx(drawn["mean"].to_list(), abs=1e-5)
        for box, row in zip(boxes_of(theirs), drawn.itertuples(), strict=True):
            edges = box.get_path().vertices
            assert edges[:, 0].min() == pytest.approx(row.q1, abs=1e-5)
            assert edges[:, 0].max() == pytest.approx(row.q3, abs=1e-5)
            assert edges[:, 1].mean().round() == row.Index

    def test_the_order_of_rows_is_the_published_one_or_ours(self):
        data = figures.boxplot_frame(
            "fig4_2", records_of({"MSE": 0.8, "SBERT": 0.6, "cosine": 0.4})
        )
        rows = {}
        for order in ("published", "ours"):
            figure = figures.boxplot(data, "fig4_2", order=order)
            rows[order] = [text.get_text() for text in figure.axes[0].get_yticklabels()]
            assert means_of(figure.axes[0]) == pytest.approx(
                [0, -0.2, -0.4] if order == "published" else [-0.4, -0.2, 0]
            )
        assert rows == {"published": ["MSE", "SBERT", "cosine"], "ours": ["cosine", "SBERT", "MSE"]}

    @pytest.mark.parametrize("label", ["fig4_3", "fig4_5", "fig4_7", "fig4_10", "fig5_3"])
    def test_categories_stay_apart_in_grey(self, label):
        figure = figures.boxplot(figures.boxplot_frame(label, all_models(label)), label)
        colors = {to_hex(box.get_facecolor()) for box in boxes_of(figure.axes[0])}
        lightness = sorted(np.dot(to_rgb(color), (0.299, 0.587, 0.114)) for color in colors)
        assert len(colors) > 2 and np.diff(lightness).min() > 0.06
        assert lightness[0] > 0.38, "light enough to show the median's line"

    @pytest.mark.parametrize("chance", [0.2, 0.5, None])
    def test_guessing_is_marked_in_both_columns(self, chance):
        """Ours from the records, the published one from the thesis' tasks."""
        records = records_of({"MSE": 0.4, "cosine": 0.8})
        records = records if chance is None else records.assign(chance=chance)
        data = figures.boxplot_frame("fig4_2", records)
        assert data["chance"].isna().all() if chance is None else (data["chance"] == chance).all()
        drawn = [
            [x.get_xdata()[0] for x in axis.get_lines() if x.get_linestyle() == "--"]
            for axis in figures.boxplot(data, "fig4_2").axes
        ]
        best = published.load("fig4_2").groupby("task")[["accuracy", "chance"]].max()
        theirs = ((best["chance"] - best["accuracy"]) / (1 - best["chance"])).mean()
        ours = [] if chance is None else [pytest.approx((chance - 0.8) / (1 - chance))]
        assert drawn == [ours, [pytest.approx(theirs)]]

    def test_guessing_is_behind_the_best_of_each_task(self):
        records = records_of({"cosine": 0.8}).assign(chance=0.4)
        records.loc[records["task"] == "ARXIV", ["value", "chance"]] = [0.5, 0.0]
        data = figures.boxplot_frame("fig4_2", pd.concat([records, records.assign(model="MSE")]))
        (level,) = (
            line.get_xdata()[0]
            for line in figures.boxplot(data, "fig4_2").axes[0].get_lines()
            if line.get_linestyle() == "--"
        )
        assert level == pytest.approx(-(0.5 + 5 * 0.4 / 0.6) / 6)

    def test_a_category_keeps_its_colour_when_rows_are_missing(self):
        def colors(records):
            data = figures.boxplot_frame("fig4_11", records)
            boxes = boxes_of(figures.boxplot(data, "fig4_11", order="ours").axes[0])
            return dict(
                zip(
                    data["model"].unique(),
                    (to_hex(box.get_facecolor()) for box in boxes),
                    strict=True,
                )
            )

        whole = all_models("fig4_11")
        few = colors(
            whole[whole["identity"].isin(["SBERT", published.printed("fig4_11")["None;λ=0.8"]])]
        )
        many = colors(whole)
        assert few["None;λ=0.8"] == many["None;λ=0.8"] == many["384;λ=0.8"] != many["None;λ=0.2"]
        assert few["SBERT"] == many["SBERT"] == many["Longformer"]

    @pytest.mark.parametrize("label", ["fig4_3", "fig4_8", "fig5_3"])  # the longest names
    def test_labels_whole_and_apart_at_the_published_size(self, label, folder):
        records = all_models(label).assign(collapsed=lambda f: f["row"] < 3)
        data = figures.boxplot_frame(label, records, NOISE)
        figure = figures.boxplot(data, label)
        assert figure.get_size_inches()[0] == WIDTH
        figure.draw_without_rendering()
        frame = figure.bbox
        axis_labels = [axis.xaxis.label for axis in figure.axes]
        texts = [*figure.axes[0].get_yticklabels(), *axis_labels, *figure.legends[0].get_texts()]
        for text in texts:
            box = text.get_window_extent()
            assert box.x0 >= -0.5 and box.x1 <= frame.width + 0.5 and box.y0 >= -0.5, (
                text.get_text()
            )
        rows = [text.get_window_extent() for text in figure.axes[0].get_yticklabels()]
        assert all(upper.y0 > lower.y1 for upper, lower in itertools.pairwise(rows))
        ticks = []
        for axis in figure.axes:
            low, high = axis.get_xlim()
            shown = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
            ticks += [text.get_window_extent() for place, text in shown if low <= place <= high]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(ticks))
        picture, _ = figures.save(figure, label, data, folder)
        assert picture.stat().st_size < 300_000


class TestSave:
    def test_files(self, folder):
        records = records_of({"MSE": 0.4, "cosine": 0.8})
        data = figures.boxplot_frame("fig4_2", records, NOISE)
        files = figures.save(figures.boxplot(data, "fig4_2"), "fig4_2", data, folder)
        assert files == [folder / "fig4_2.svg", folder / "fig4_2.csv"]
        assert sorted(folder.iterdir()) == sorted(files)  # no leftovers
        saved = pd.read_csv(files[1])
        pd.testing.assert_frame_equal(saved, data.round(6), check_dtype=False)
        head = files[0].read_text(encoding="utf-8")[:3000]
        # 6.5 inches are 468 points; fewer rows make the figure lower, never narrower.
        assert re.search(r'width="468pt"', head) and "<dc:date>" not in head

    def test_ink_follows_the_page_and_the_ground_is_transparent(self, folder):
        data = figures.boxplot_frame("fig4_2", records_of({"MSE": 0.4, "cosine": 0.8}))
        picture, _ = figures.save(figures.boxplot(data, "fig4_2"), "fig4_2", data, folder)
        text = picture.read_text(encoding="utf-8")
        assert "prefers-color-scheme:dark" in text and "currentColor" in text
        assert INK not in text
        (ground,) = re.findall(r'<g id="patch_1">.*?style="([^"]*)"', text, re.DOTALL)
        assert "opacity: 0" in ground or "fill: none" in ground

    def test_bytes_repeat_in_another_process(self, folder, tmp_path):
        data = figures.boxplot_frame("fig4_3", all_models("fig4_3"), NOISE)
        files = figures.save(figures.boxplot(data, "fig4_3"), "fig4_3", data, folder)
        code = (
            "import sys; from pathlib import Path; from lib import figures\n"
            "sys.path[:0] = ['tests/figures']; import test_figures as t\n"
            "data = figures.boxplot_frame('fig4_3', t.all_models('fig4_3'), t.NOISE)\n"
            "figure = figures.boxplot(data, 'fig4_3')\n"
            f"figures.save(figure, 'fig4_3', data, Path({str(tmp_path)!r}))"
        )
        environment = {"PYTHONHASHSEED": "7", "MPLBACKEND": "Agg", "HOME": str(tmp_path)}
        environment |= {"PYTHONPATH": str(paths.ROOT), "PATH": "/usr/bin:/bin"}
        subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, env=environment, check=True)
        for file in files:
            assert (tmp_path / file.name).read_bytes() == file.read_bytes()

    def test_nothing_to_save(self, folder):
        with pytest.raises(ValueError, match="fig4_2: there is nothing to save"):
            figures.save(plt.figure(), "fig4_2", pd.DataFrame({"model": []}), folder)

    def test_csv_bytes(self):
        frame = pd.DataFrame(
            {
                "model": ["γ=1.0;λ", "a,b"],
                "value": [1 / 3, -1e-9],
                "seeds": [1, 3],
                "gap": [None, 2.0],
            }
        )
        assert (
            csv_bytes(frame).decode()
            == 'model,value,seeds,gap\nγ=1.0;λ,0.333333,1,\n"a,b",0.000000,3,2.000000\n'
        )


class TestLengths:
    def test_histogram_by_hand(self):
        rows = [("train", "wikipedia", [0, 5, 40, 40]), ("train", "news", [1300, 5000])]
        rows += [("validation", "wikipedia", [3]), ("validation", "news", [1300])]
        lengths = pd.concat(
            [
                pd.DataFrame(
                    {"split": split, "source": source, "longformer_tokens": n, "sbert_tokens": n}
                )
                for split, source, n in rows
            ]
        )
        frame = figures.histogram_frame("fig4_1", lengths)
        curve = frame[(frame["split"] == "train") & (frame["source"] == "wikipedia")].set_index(
            "bin_lo"
        )
        # The published bins of the training split are [1, 31), [31, 61), ...; one bin below them
        # catches the rest.
        assert curve["value"][[0, 1, 31]].tolist() == [25.0, 25.0, 50.0]
        assert curve["published"][[1, 31]].tolist() == pytest.approx([0.664344, 6.383464])
        assert frame.groupby(["split", "source"])["value"].sum().tolist() == pytest.approx(
            [100] * 4
        )
        assert frame.groupby(["split", "source"])["published"].sum().tolist() == pytest.approx(
            [100] * 4, abs=1e-2
        )
        last = frame[(frame["split"] == "train") & frame["bin_hi"].isna()].set_index("source")
        assert last["value"].to_dict() == {"wikipedia": 0, "news": 50}
        assert last["bin_lo"].max() <= 4096
        assert frame.groupby("split")["over_384"].first().tolist() == pytest.approx([100 / 3, 50])
        assert len(figures.histogram(frame, "fig4_1").axes) == 4

    def test_lengths_of_a_model_at_one_eighth_lie_on_the_thesis_axis(self):
        """15 of our tokens are 120 of the thesis', so a bin of four published ones holds as many of
        our lengths."""
        tokens = list(range(1, 31))
        lengths = {
            "split": "train",
            "source": "news",
            "longformer_tokens": tokens,
            "sbert_tokens": [48] * 29 + [49],
        }
        frame = figures.histogram_frame("fig4_1", pd.DataFrame(lengths), scale=8)
        ours = frame[(frame["split"] == "train") & (frame["source"] == "news")].set_index("bin_lo")
        assert ours.index[:4].tolist() == [0, 1, 121, 241]
        assert ours["value"].tolist()[:4] == pytest.approx([0, 50, 50, 0])
        assert ours["published"].sum() == pytest.approx(100, abs=1e-2)
        assert ours["over_384"].iloc[0] == pytest.approx(100 / 30)  # 48 times eight is read whole
        figure = figures.histogram(frame, "fig4_1")
        assert [line.get_xdata()[0] for axis in figure.axes for line in axis.get_lines()] == [
            384
        ] * 4
        curve = pd.DataFrame(lengths | {"task": "OC"}).drop(columns="source")
        drawn = (
            figures.ecdf_frame(curve, scale=8).iloc[-1:],
            figures.ecdf_frame(curve, scale=8).iloc[:1],
        )
        assert (
            drawn[0]["tokens"].item() > 1000 and drawn[1]["tokens"].item() == 8
        )  # published as they are, ours scaled

    def test_histogram_of_folders_that_the_thesis_does_not_have(self):
        lengths = pd.DataFrame(
            {"split": ["train", "validation"], "source": "letters", "longformer_tokens": [3, 5]}
        )
        lengths["sbert_tokens"] = [1, 3]
        frame = figures.histogram_frame("fig5_1", lengths)
        assert frame["source"].unique().tolist() == ["wikipedia", "news", "letters"]
        ours = frame[frame["source"] == "letters"]
        assert ours["value"].sum() == 200 and ours["published"].isna().all()
        assert frame.loc[frame["source"] != "letters", "value"].isna().all()
        handles = figures.histogram(frame, "fig5_1").legends[0].get_texts()
        assert "letters" in [text.get_text() for text in handles]

    def test_ecdf_by_hand(self):
        lengths = pd.DataFrame(
            {"task": "OC", "split": "test", "longformer_tokens": [30, 10, 10, 20]}
        )
        lengths["sbert_tokens"] = [385, 384, 1, 1]
        frame = figures.ecdf_frame(lengths)
        ours = frame[frame["curve"] == "ours"]
        assert ours["tokens"].tolist() == [10, 20, 30]
        assert ours["proportion"].tolist() == [0.5, 0.75, 1.0]
        assert ours["documents"].tolist() == [4, 4, 4]
        assert len(frame) - len(ours) == len(published.load("fig5_2"))
        many = pd.DataFrame(
            {"task": "OC", "split": "test", "longformer_tokens": range(5000), "sbert_tokens": 1}
        )
        assert (figures.ecdf_frame(many)["curve"] == "ours").sum() == 200
        assert len(figures.ecdf(frame).axes) == 1, "no panels without texts of ours"
        assert len(figures.ecdf(frame[frame["curve"] == "published"]).axes) == 8


class TestViolins:
    def distances(self):
        rng, parts = np.random.default_rng(0), []
        for row in published.load("fig4_4").itertuples():
            for way in ("as published", "true"):
                names = {"distance": row.distance, "model": row.model, "to": row.to}
                values = {"negatives": way, "value": rng.normal(row.mean, 0.1, 60)}
                parts.append(pd.DataFrame(names | values))
        return pd.concat(parts, ignore_index=True)

    def test_published_ranges_lie_over_the_thesis_negatives(self, folder):
        figure = figures.violins(self.distances())
        shifted, true = figure.axes
        assert shifted.get_xlim() == true.get_xlim()
        theirs = published.load("fig4_4").query("distance == 'cosine'")
        means = [line for line in shifted.get_lines() if line.get_marker() == "D"]
        assert [line.get_xdata()[0] for line in means] == pytest.approx(theirs["mean"].to_list())
        above = theirs["to"].eq("positives").to_list()
        assert [line.get_ydata()[0] % 1 > 0.5 for line in means] == above
        assert not true.get_lines(), "the thesis has no true negatives"
        picture, _ = figures.save(figure, "fig4_4", theirs, folder)
        assert picture.stat().st_size < 300_000

    def test_published_ranges_alone_have_a_panel_for_each_distance(self):
        figure = figures.violins(self.distances().iloc[:0])
        names = {axis.get_xlabel() for axis in figure.axes}
        assert names == {"squared L2 distance", "cosine distance"}

    def test_a_collapsed_model_is_drawn(self):
        figures.violins(self.distances().assign(value=0.25)).draw_without_rendering()

    def test_violins_stand_on_their_side_of_the_line(self):
        for body, (to, _) in zip(
            figures.violins(self.distances()).axes[0].collections,
            [("positives", 0), ("negatives", 0)],
            strict=False,
        ):
            heights = body.get_paths()[0].vertices[:, 1]
            assert (heights.max() <= 1e-9) if to == "positives" else (heights.min() >= -1e-9), to


def dots_of(axis, *, hollow: bool) -> dict[int, float]:
    """Row -> where its dot is; the published ones are hollow."""
    lines = [line for line in axis.get_lines() if line.get_marker() == "o"]
    (line,) = [line for line in lines if (line.get_markerfacecolor() == "none") == hollow]
    return {int(y): x for x, y in line.get_xydata() if np.isfinite(x)}


class TestScores:
    def records(self, label):
        """The published scores halved, with scores of examples."""
        theirs = published.load(label).rename(columns={"accuracy": "value", "score": "value"})
        rng, records = np.random.default_rng(0), theirs.assign(seed=0, chance=0.1)
        records["value"] /= 2
        records["scores"] = [
            rng.binomial(1, value, 200).astype(float) for value in records["value"]
        ]
        records["groups"] = [np.arange(200).astype(str)] * len(records)
        return records

    def test_figure_5_4(self):
        records = self.records("fig5_4")
        extra = records[records["model"] == "DM"].assign(model="TF-IDF")
        frame = figures.score_frame(
            "fig5_4", pd.concat([extra, records, records.assign(round="1k")])
        )
        assert frame["round"].unique().tolist() == ["10k", "all"]
        assert frame["model"].unique().tolist()[-2:] == ["only-MSE", "TF-IDF"]
        known = frame[frame["model"] != "TF-IDF"]
        assert known["value"].to_numpy() == pytest.approx(known["published"].to_numpy() / 2)
        assert frame.loc[frame["model"] == "TF-IDF", "published"].isna().all()
        assert (frame.loc[frame["task"] == "AAN", "published_chance"] == 0.51).all()
        figure = figures.dots(frame, "fig5_4", rounds={"1k": 7, "10k": 100, "all": None})
        assert len(figure.axes) == 12
        first = frame[(frame["round"] == "10k") & (frame["task"] == "ARXIV")]
        ours = dots_of(figure.axes[0], hollow=False)
        assert [*ours.values()] == pytest.approx(((first["value"] - 0.1) / 0.9).to_list())
        theirs = dots_of(figure.axes[0], hollow=True)
        corrected = (first["published"] - 0.1164) / (1 - 0.1164)
        assert [*theirs.values()] == pytest.approx(corrected.dropna().to_list())
        assert len({axis.get_xlim() for axis in figure.axes}) == 1, "one scale"

    def test_intervals_are_those_of_test_texts_where_nothing_was_trained(self):
        """By hand: 200 examples, each a group of its own."""
        records = self.records("fig5_4")
        frame = figures.score_frame("fig5_4", records)
        names = ["round", "task", "model"]
        row = frame.set_index(names).loc[("all", "OC", "SBERT")]
        scores = records.set_index(names).loc[("all", "OC", "SBERT"), "scores"]
        error = scores.std() / np.sqrt(len(scores))
        assert (row["high"] - row["low"]) / 2 == pytest.approx(1.98 * error, rel=0.05)
        trained = frame[frame["model"] == "only-MSE"]
        assert trained["low"].isna().all(), "one seed does not tell what another would change"

    def test_figures_5_5_and_5_6(self):
        frame = figures.score_frame("fig5_5", self.records("fig5_5"))
        assert frame["published"].to_numpy() == pytest.approx(2 * frame["value"].to_numpy())
        assert len(frame) == 28
        map_, _ = figures.dots(frame, "fig5_5").axes
        means = ((frame["value"] - 0.1) / 0.9).groupby([frame["metric"], frame["model"]]).mean()
        expected = means["MAP"][[*published.CHAPTER_5]].to_list()
        assert [*dots_of(map_, hollow=False).values()] == pytest.approx(expected)
        assert len(figures.dots(frame, "fig5_6").axes) == 4, "two metrics, two tasks"

    @pytest.mark.parametrize("label", ["fig5_4", "fig5_5", "fig5_6"])
    def test_published_scores_alone(self, label):
        theirs = published.load(label).rename(columns={"accuracy": "value", "score": "value"})
        frame = figures.score_frame(label, theirs.assign(seed=0)).assign(value=np.nan)
        axis = figures.dots(frame, label).axes[0]
        assert len(dots_of(axis, hollow=True)) == 7
        assert len([line for line in axis.get_lines() if line.get_marker() == "o"]) == 1

    def test_bad_records(self):
        theirs = published.load("fig5_5").assign(seed=0, value=0.1)
        with pytest.raises(ValueError, match="two records"):
            figures.score_frame("fig5_5", pd.concat([theirs, theirs]))


def test_a_diagram_explains_the_colours_that_it_has():
    for label, roles_drawn in {
        "fig3_1": ["data", "frozen", "trained", "loss"],
        "fig4_6": ["trained", "frozen", "loss"],
    }.items():
        figure, _ = figures.block_diagram(label)
        assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == roles_drawn
