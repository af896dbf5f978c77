"""Scores: per task and round (Figure 5.4), of retrieval (5.5 and 5.6), what training does (A.2 to
A.4), and what a readout does (A.5)."""

import itertools
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib import published
from lib.config import roles
from lib.figures.boxplots import name_panel, seed_means
from lib.figures.style import COLORS, INK, labelled, rows_from_top, settings, style


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores beside the published ones, for fig5_4 (accuracy), fig5_5 and fig5_6 (MAP and MRR).
    records: columns
    model (as Chapter 5 prints it, or a further one), task, seed, value, perhaps chance, and round
    or metric, of which
    the published ones are kept."""
    keys = ["round", "task", "model"] if label == "fig5_4" else ["metric", "model", "task"]
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    ours = seed_means(label, records[records[keys[0]].isin(theirs[keys[0]])], keys)
    frame = ours.merge(theirs[[*keys, "published"]], on=keys, how="left")
    orders = {"model": [*_palette(frame)], "task": roles.ordered(frame["task"], roles.TABLE_5_7)}
    orders |= {"round": list(roles.ROUNDS), "metric": ["MAP", "MRR"]}
    frame = frame.sort_values(
        keys, key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )
    return frame[[*keys, "value", "published", "seeds", "chance"]]


@style()
def bars(data: pd.DataFrame, *, rounds: dict[str, int | None] = roles.ROUNDS) -> Figure:
    """Figure 5.4: accuracy per task, a bar per model, a row of panels per round. rounds: the
    profile's."""
    classes = published.load("tab5_3").set_index("task")["classes"]
    titles = roles.printed_rounds(rounds)
    figure, panels = _panels(
        "fig5_4", data, "round", 1 / data["task"].map(classes), sharex="col", sharey=True
    )
    for axis, source, size, shown in panels:
        _grouped(axis, shown, "task", _palette(data))
        printed = titles[size] if source == "ours" else size
        axis.set(
            xlabel="",
            ylabel="accuracy",
            title=f"{source}, {printed} finetuning documents",
            ylim=(0, 1.03),
        )
        axis.axhline(1, color=INK, linewidth=0.9, label="all right")
    figure.legend(
        handles=labelled(figure.axes, _palette(data)),
        loc="outside right center",
        title="from left to right",
    )
    return figure


@style()
def spans(data: pd.DataFrame) -> Figure:
    """Figure 5.5: mean of the retrieval tasks' MAP and MRR as bars, the span between the tasks as
    an error bar."""
    figure, panels = _panels("fig5_5", data.assign(row=""), "row")
    for axis, source, _, shown in panels:
        _grouped(axis, shown, "metric", _palette(data))
        title = name_panel("fig5_5", source, data)
        axis.set(xlabel="", ylabel="mean and span of the tasks", title=title, ylim=(0, None))
    figure.legend(
        handles=labelled(figure.axes, _palette(data)),
        loc="outside right center",
        title="from left to right",
    )
    return figure


@style()
def points(data: pd.DataFrame) -> Figure:
    """Figure 5.6: scores on each retrieval task, a colour per task, a row of panels per metric."""
    models, tasks = [*_palette(data)], roles.ordered(data["task"], roles.TABLE_5_7)
    figure, panels = _panels("fig5_6", data, "metric", sharey=True)
    for axis, source, metric, shown in panels:
        for task, color, shift in zip(
            tasks, COLORS, np.linspace(-0.15, 0.15, len(tasks)), strict=False
        ):
            rows = shown[shown["task"] == task].set_index("model").reindex(models)
            axis.plot(
                rows["score"],
                np.arange(len(models)) + shift,
                "o",
                color=color,
                markersize=5,
                label=task,
            )
            if rows["chance"].notna().any():
                look = settings()["chance"] | {"color": color, "label": f"{task}, random rankings"}
                axis.axvline(rows["chance"].max(), **look)
        axis.set_title(f"{metric}, {source}")
        rows_from_top(axis, models)
    figure.legend(
        handles=labelled(figure.axes), loc="outside lower center", ncols=len(tasks), fontsize=8
    )
    return figure


@style()
def curves(data: pd.DataFrame) -> Figure:
    """Of `contextual.collect_histories`, a column per objective: embeddings above projections, a
    line per student."""
    groups = data.groupby("group", sort=False)
    figure, axes = plt.subplots(
        2,
        len(groups),
        figsize=settings()["sizes"]["figA_2"],
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for column, (group, shown) in zip(axes.T, groups, strict=True):
        for axis, name, words in zip(
            column, ("embedding", "projected"), ("embeddings", "projections"), strict=True
        ):
            for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                look = settings()["dimensions"][dimension] | {
                    "label": f"{dimension}-dimensional teacher"
                }
                axis.plot(line["update"], line[name], linewidth=1, markersize=3.5, **look)
            axis.set(xlabel="updates", ylabel=f"mean correlation\nof the {words}")
            axis.label_outer()
        column[0].axhline(shown["chance"].mean(), **settings()["paired_at_random"])
        column[0].set_title(group)
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def gradient_shares(shares: pd.DataFrame, factors: pd.DataFrame) -> Figure:
    """Three panels: the share over training (median and range of each group of students), the share
    that a factor on
    the contextual loss gives, and how far a student then is from the one without context."""
    figure, (over_training, by_factor, apart) = plt.subplots(
        1, 3, figsize=settings()["sizes"]["figA_3"]
    )
    middle = {
        "estimator": "median",
        "errorbar": ("pi", 100),
        "palette": COLORS[: shares["group"].nunique()],
    }
    seaborn.lineplot(
        shares, x="update", y="share", hue="group", style="group", ax=over_training, **middle
    )
    over_training.set(ylabel="contextual share of the gradient", ylim=(0, None))
    for color, (loss, rows) in zip(COLORS, factors.groupby("loss", sort=False), strict=False):
        trained = rows.dropna(subset="cosine")
        by_factor.plot(rows["factor"], rows["expected"], color=color, label=f"{loss}, at the start")
        by_factor.plot(
            trained["factor"],
            trained["share"],
            "o",
            color=color,
            label=f"{loss}, mean over training",
        )
        apart.plot(
            trained["factor"], trained["cosine"], "o-", color=color, label=f"{loss}, same seed"
        )
        apart.axhline(
            rows["another_seed"].iloc[0], color=color, linestyle="--", label=f"{loss}, another seed"
        )
    ticks = {"xticks": factors["factor"].unique(), "xticklabels": factors["factor"].unique()}
    for axis in (by_factor, apart):
        axis.set_xscale("log", base=2)
        axis.set(
            xlabel="factor on the contextual loss",
            ylabel="contextual share of the gradient",
            **ticks,
        )
    by_factor.set(ylim=(0, 1))
    apart.set(ylabel="mean cosine with the student without context")
    for axis in figure.axes:
        axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return figure


@style()
def length_of_training(data: pd.DataFrame) -> Figure:
    """Three panels against updates: cosine to the teacher, and accuracy by two readouts.

    Points are seeds; lines are their means, from the base on.
    """
    titles = {
        "cosine": "cosine to the teacher, held-out documents",
        "no head": "accuracy above chance, without a head",
        "heads": "accuracy above chance, with heads",
    }
    size = settings()["sizes"]["figA_4"]
    figure, axes = plt.subplots(1, len(titles), figsize=size, sharex=True)
    base = data[data["model"] == "base"]
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        start = base[column].mean()
        axis.axhline(start, color=INK, linewidth=0.8, linestyle=":", label="untrained base")
        for color, marker, name in zip(COLORS, "osD^v", data["model"].unique()[1:], strict=False):
            rows = data[data["model"] == name]
            means = rows.groupby("updates")[column].mean()
            axis.plot(
                [0, *means.index],
                [start, *means],
                f"{marker}-",
                color=color,
                markersize=5,
                label=name,
            )
            axis.plot(
                rows["updates"], rows[column], marker, color=color, markersize=3.5, mfc="none"
            )
        axis.set(xlabel="updates", ylabel=title)
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=3)
    return figure


@style()
def readouts(scores: pd.DataFrame, told: Mapping[str, str]) -> Figure:
    """Mean scores of the same models by several readouts: a row for each model, a mark for each
    readout, the best by the first readout on top.

    Parameters
    ----------
    scores : DataFrame
        Columns model and one for each readout.
    told : mapping
        Column -> what the legend says of this readout, the one that orders the rows first.
    """
    first, *_ = told
    rows = scores.sort_values(first, ascending=False)
    places = np.arange(len(rows))
    figure, axis = plt.subplots(figsize=settings()["sizes"]["figA_5"])
    values = rows[[*told]].to_numpy()
    axis.hlines(places, values.min(axis=1), values.max(axis=1), color="0.8", linewidth=1.5)
    for color, marker, (column, words) in zip(COLORS, "osD", told.items(), strict=False):
        axis.plot(rows[column], places, marker, color=color, markersize=6, label=words)
    axis.set(xlabel="accuracy above chance, mean of the tasks")
    rows_from_top(axis, [*rows["model"]])
    figure.legend(handles=labelled([axis]), loc="outside lower center", ncols=len(told))
    return figure


def _panels(
    label: str, data: pd.DataFrame, rows: str, chance: Any = np.nan, **shared: Any
) -> tuple[Figure, list[Any]]:
    """A row of panels for each value of the column `rows`, a column for ours and one for the
    published scores, if there
    are any: axis, whose, value, and the data with columns score and chance. chance: of the
    published scores."""
    ours = data.assign(score=data["value"])
    theirs = data.assign(score=data["published"], chance=chance)
    frames = [
        (name, frame)
        for name, frame in (("ours", ours), ("published", theirs))
        if any(frame["score"].notna())
    ]
    parts = [
        (name, value, frame[frame[rows] == value])
        for value in data[rows].unique()
        for name, frame in frames
    ]
    size = np.multiply(settings()["sizes"][label], [0.4 + 0.3 * len(frames), 1])
    figure, axes = plt.subplots(
        len(parts) // len(frames), len(frames), figsize=size, squeeze=False, **shared
    )
    return figure, [(axis, *part) for axis, part in zip(axes.flat, parts, strict=True)]


def _grouped(axis: Axes, shown: pd.DataFrame, group: str, palette: dict[str, str]) -> None:
    """A group of bars for each value of the column `group`, with lines from the least to the
    largest of its scores."""
    colors = {"palette": palette, "hue_order": [*palette], **settings()["bars"]}
    seaborn.barplot(shown, x=group, y="score", hue="model", ax=axis, **colors).get_legend().remove()
    chance = shown.groupby(group, sort=False)["chance"].mean()
    starts = np.arange(len(chance)) - 0.45
    axis.hlines(
        chance,
        starts,
        starts + 0.9,
        **settings()["chance"],
        label="by chance" if any(chance.notna()) else "",
    )


def _palette(frame: pd.DataFrame) -> dict[str, str]:
    """Chapter 5's models first, each with its colour, which it keeps when another is missing."""
    shown = frame["model"].unique()
    places = dict.fromkeys((*published.CHAPTER_5, *shown))
    return {
        model: color
        for model, color in zip(places, itertools.cycle((*COLORS, INK)), strict=False)
        if model in shown
    }
