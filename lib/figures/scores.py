"""Scores of Chapter 5 as dots (Figures 5.4 to 5.6), and differences of scores (Figure B.2)."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from lib import published
from lib.config import manifest
from lib.figures.boxplots import UNTRAINED, seed_means, sort_rows
from lib.figures.style import INK, labelled, panels, rows_from_top, settings, style
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores

# Not trained here, the same by every seed.
GIVEN = (*UNTRAINED, "TF-IDF", "SBERT, mean of chunks", "LSA", "chunks + LSA")
READOUT_WORDS = {"compare": "heads that compare", "none": "no head", "thesis": "the thesis' heads"}
_SHIFTS = (-0.15, 0.15, 0)  # of a readout's marks
# Figure -> columns that tell its rows and its columns of panels.
_PANELS = {"fig5_4": ("round", "task"), "fig5_5": ("", "metric"), "fig5_6": ("metric", "task")}


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores next to the published ones: accuracy (fig5_4), or MAP and MRR (fig5_5, fig5_6).

    `records` have the columns model, task, seed, value, optionally chance, scores and groups (of
    test examples), and round or metric; only those that were published are kept. low and high bound
    our value over seeds and test texts (95%), from 0 to 1; NaN without scores of examples.
    """
    keys = ["round", "task", "model"] if label == "fig5_4" else ["metric", "model", "task"]
    group, parts = keys[0], []
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    for name, shown in records[records[group].isin(theirs[group])].groupby(group, sort=False):
        part = seed_means(shown, keys)
        metric, readout = ("accuracy", "thesis") if group == "round" else (name, "retrieval")
        half = _half_intervals(shown, PROCESSOR_SD[readout]) if "scores" in shown else {}
        part["half"] = pd.MultiIndex.from_frame(part[["model", "task"]]).map(half)
        part["published_chance"] = part["task"].map(published.load_chances("test", metric))
        parts.append(part)
    frame = pd.concat(parts).merge(theirs[[*keys, "published"]], on=keys, how="left")
    frame["low"] = (frame["value"] - frame["half"]).clip(lower=0)
    frame["high"] = (frame["value"] + frame["half"]).clip(upper=1)
    orders = {"round": list(manifest.ROUNDS), "metric": ["MAP", "MRR"]}
    orders["model"] = manifest.ordered(frame["model"], published.CHAPTER_5)
    orders["task"] = manifest.ordered(frame["task"], manifest.TABLE_5_7)
    columns = ["value", "low", "high", "published", "seeds", "chance", "published_chance"]
    return sort_rows(frame, {key: orders[key] for key in keys})[[*keys, *columns]]


def _half_intervals(records: pd.DataFrame, processor_sd: float) -> dict[tuple[str, str], float]:
    """(model, task) -> half the width of a score's 95% interval over seeds and test texts."""
    halves, noise = {}, {"given": GIVEN, "processor_sd": processor_sd}
    noise["class_of"] = lambda model: str(model in ("DM", "PV"))  # noisy in their own way
    for task, scores in task_scores(records).items():
        evidence = from_examples({task: scores}, **noise)
        errors, freedom = evidence.errors(np.eye(len(evidence.means)))
        half = stats.t.ppf(0.975, freedom) * errors * (1 - scores.chance)
        halves |= zip(((model, task) for model in evidence.means.index), half, strict=True)
    return halves


@style()
def dots(data: pd.DataFrame, label: str, *, rounds: Mapping = manifest.ROUNDS) -> Figure:
    """Draw the data of `score_frame`: a row for each model, ours filled, published hollow.

    The scale is chance-corrected: 0 is guessing, 1 is perfect. Figure 5.5 has means over tasks,
    whose intervals take tasks as independent. `rounds` are those of the profile.
    """
    models = manifest.ordered(data["model"], published.CHAPTER_5)
    by_row, by_column = _PANELS[label]
    ours, theirs = data["chance"].fillna(0), data["published_chance"].fillna(0)
    data = data.assign(
        ours=(data["value"] - ours) / (1 - ours),
        theirs=(data["published"] - theirs) / (1 - theirs),
        # The side that 0 or 1 does not cut off.
        half=np.fmax(data["high"] - data["value"], data["value"] - data["low"]) / (1 - ours),
        least=-ours / (1 - ours),
    )
    if not by_row:
        by_row, tasks = "tasks", f"mean of {' and '.join(data['task'].unique())}"
        groups = data.groupby([by_column, "model"], sort=False)
        half = groups["half"].agg(lambda part: np.sqrt((part**2).sum()) / len(part))
        means = groups[["ours", "theirs", "least"]].mean()
        data = means.assign(half=half, tasks=tasks).reset_index()
    rows, columns = data[by_row].unique(), data[by_column].unique()
    height = 1 + len(rows) * (0.35 + 0.19 * len(models))
    figure, axes = panels(len(columns), height, rows=len(rows), sharex=True, sharey=True)
    colors, places = settings()["sides"], np.arange(len(models))
    names = manifest.printed_rounds(rounds)
    for (row, column), axis in zip(product(rows, columns), axes.flat, strict=True):
        part = data[(data[by_row] == row) & (data[by_column] == column)]
        shown = part.set_index("model").reindex(models)
        if shown["theirs"].notna().any():
            look = {"mfc": "none", "ms": 5, "mew": 1.3, "color": colors["published"]}
            axis.plot(shown["theirs"], places, "o", **look, label="published")
        if shown["ours"].notna().any():
            look = {"ms": 4, "elinewidth": 1.3, "color": colors["ours"]}
            look |= {"fmt": "o", "label": "ours, with a 95% interval"}
            room = [shown["ours"] - shown["least"], 1 - shown["ours"]]
            axis.errorbar(shown["ours"], places, xerr=np.minimum(room, shown["half"]), **look)
        axis.axvline(0, **settings()["chance"], label="guessing")
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.grid(axis="y", visible=False)
        if row == rows[0]:
            axis.set_title(column)
        if column == columns[0]:
            rows_from_top(axis, models)
            axis.set_ylabel(f"{names[row]} labels" if by_row == "round" else row)
    figure.supxlabel("score above chance: 0 is guessing, 1 is perfect", fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper right", ncols=3)
    return figure


@style()
def differences(data: pd.DataFrame) -> Figure:
    """Draw differences with their intervals: a row for each step, a mark for each readout. `data`
    has the columns step, readout (a name or what it is called in figures), difference, low, high. A
    step may lack a readout.
    """
    data, steps = data.replace({"readout": READOUT_WORDS}), [*data["step"].unique()]
    figure, ((axis,),) = panels(1, "figB_2")
    axis.axvline(0, color=INK, linewidth=0.9)
    for (name, readout), marker, shift in zip(READOUT_WORDS.items(), "osD", _SHIFTS, strict=True):
        rows = data[data["readout"] == readout]
        ends = [rows["difference"] - rows["low"], rows["high"] - rows["difference"]]
        look = {"color": settings()["readouts"][name], "fmt": marker, "ms": 5, "linewidth": 1.2}
        if len(rows):
            places = rows["step"].map(steps.index) + shift
            axis.errorbar(rows["difference"], places, xerr=ends, label=readout, **look)
    axis.set(xlabel="change of accuracy above chance, mean of the tasks")
    rows_from_top(axis, steps)
    figure.legend(handles=labelled([axis]), loc="outside lower center", ncols=3)
    return figure
