"""Scores: per task and round (Figure 5.4), of retrieval (5.5 and 5.6), and what training does (A.2 to A.4)."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib import published
from lib.config import roles
from lib.figures.boxplots import seed_means
from lib.figures.style import CHANCE, COLORS, DIAMOND, INK, LOOK, SIZES, labelled, rows_from_top, style


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores beside the published ones, for fig5_4 (accuracy), fig5_5 and fig5_6 (MAP and MRR). records: columns
    model (as Chapter 5 prints it, or a further one), task, seed, value, perhaps chance, and round or metric, of which
    the published ones are kept."""
    keys = ["round", "task", "model"] if label == "fig5_4" else ["metric", "model", "task"]
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    ours = seed_means(label, records[records[keys[0]].isin(theirs[keys[0]])], keys)
    frame = ours.merge(theirs[[*keys, "published"]], on=keys, how="left")
    orders = {"model": [*_palette(frame)], "task": roles.ordered(frame["task"], roles.TABLE_5_7)}
    orders |= {"round": list(roles.ROUNDS), "metric": ["MAP", "MRR"]}
    frame = frame.sort_values(keys, key=lambda column: column.map(orders[column.name].index), ignore_index=True)
    return frame[[*keys, "value", "published", "seeds", "chance"]]


@style()
def bars(data: pd.DataFrame, *, rounds: dict[str, int | None] = roles.ROUNDS) -> Figure:
    """Figure 5.4: accuracy per task, a bar per model, a panel per round; diamonds: published; dashed: chance."""
    figure, axes = plt.subplots(data["round"].nunique(), 1, figsize=SIZES["fig5_4"], sharex=True, squeeze=False)
    for axis, (size, shown) in zip(axes[:, 0], data.groupby("round", sort=False), strict=True):
        _grouped(axis, shown.set_index("task"), roles.ordered(data["task"], roles.TABLE_5_7), _palette(data))
        axis.set(ylabel="accuracy", title=f"{roles.printed_rounds(rounds)[size]} finetuning documents", ylim=(0, 1.03))
        axis.axhline(1, color=INK, linewidth=0.9, label="all right")
    figure.legend(handles=labelled(figure.axes, _palette(data)), loc="outside right center", title="from left to right")
    return figure


@style()
def spans(data: pd.DataFrame) -> Figure:
    """Figure 5.5: mean of the retrieval tasks' MAP and MRR as bars, the span between the tasks as an error bar."""
    parts = data.groupby(["metric", "model"], sort=False)
    means = parts[["value", "published", "chance"]].mean().assign(low=parts["value"].min(), high=parts["value"].max())
    figure, axis = plt.subplots(figsize=SIZES["fig5_5"])
    _grouped(axis, means.reset_index("model"), data["metric"].unique().tolist(), _palette(data))
    axis.set(ylabel="mean score of the tasks", ylim=(0, None))
    figure.legend(handles=labelled(figure.axes, _palette(data)), loc="outside right center", title="from left to right")
    return figure


@style()
def points(data: pd.DataFrame) -> Figure:
    """Figure 5.6: scores on each retrieval task; a panel per metric, a colour per task, the published ones open."""
    models, metrics = [*_palette(data)], data["metric"].unique()
    tasks = roles.ordered(data["task"], roles.TABLE_5_7)
    ours = ", ours" if data["published"].notna().any() else ""
    figure, axes = plt.subplots(1, len(metrics), figsize=SIZES["fig5_6"], sharey=True, squeeze=False)
    for axis, metric in zip(axes[0], metrics, strict=True):
        for task, color, shift in zip(tasks, COLORS, np.linspace(-0.15, 0.15, len(tasks)), strict=False):
            rows = data[(data["task"] == task) & (data["metric"] == metric)].set_index("model").reindex(models)
            heights = np.arange(len(models)) + shift
            axis.plot(rows["value"], heights, "o", color=color, markersize=5, label=f"{task}{ours}")
            if ours:
                axis.plot(rows["published"], heights, **DIAMOND | {"mec": color}, label=f"{task}, published")
                axis.axvline(rows["chance"].max(), **CHANCE | {"color": color}, label=f"{task}, ours at random")
        axis.set_xlabel(metric)
        rows_from_top(axis, models)
    figure.legend(handles=labelled(axes[0]), loc="outside lower center", ncols=len(tasks), fontsize=8)
    return figure


@style()
def curves(data: pd.DataFrame) -> Figure:
    """Of `contextual.figure_histories`, a column per objective: embeddings above projections, a line per student."""
    groups = data.groupby("group", sort=False)
    figure, axes = plt.subplots(2, len(groups), figsize=SIZES["figA_2"], sharex=True, sharey="row", squeeze=False)
    for column, (group, shown) in zip(axes.T, groups, strict=True):
        for axis, name, words in zip(column, ("embedding", "projected"), ("embeddings", "projections"), strict=True):
            for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                look = LOOK["dimensions"][dimension] | {"label": f"{dimension}-dimensional teacher"}
                axis.plot(line["update"], line[name], linewidth=1, markersize=3.5, **look)
            axis.set(xlabel="updates", ylabel=f"mean correlation\nof the {words}")
            axis.label_outer()
        column[0].axhline(shown["chance"].mean(), **LOOK["paired_at_random"])
        column[0].set_title(group)
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def gradient_shares(shares: pd.DataFrame, factors: pd.DataFrame) -> Figure:
    """Three panels: the share over training (median and range of each group of students), the share that a factor on
    the contextual loss gives, and how far a student then is from the one without context."""
    figure, (over_training, by_factor, apart) = plt.subplots(1, 3, figsize=SIZES["figA_3"])
    middle = {"estimator": "median", "errorbar": ("pi", 100), "palette": COLORS[: shares["group"].nunique()]}
    seaborn.lineplot(shares, x="update", y="share", hue="group", style="group", ax=over_training, **middle)
    over_training.set(ylabel="contextual share of the gradient", ylim=(0, None))
    for color, (loss, rows) in zip(COLORS, factors.groupby("loss", sort=False), strict=False):
        trained = rows.dropna(subset="cosine")
        by_factor.plot(rows["factor"], rows["expected"], color=color, label=f"{loss}, at the start")
        by_factor.plot(trained["factor"], trained["share"], "o", color=color, label=f"{loss}, mean over training")
        apart.plot(trained["factor"], trained["cosine"], "o-", color=color, label=f"{loss}, same seed")
        apart.axhline(rows["another_seed"].iloc[0], color=color, linestyle="--", label=f"{loss}, another seed")
    ticks = {"xticks": factors["factor"].unique(), "xticklabels": factors["factor"].unique()}
    for axis in (by_factor, apart):
        axis.set_xscale("log", base=2)
        axis.set(xlabel="factor on the contextual loss", ylabel="contextual share of the gradient", **ticks)
    by_factor.set(ylim=(0, 1))
    apart.set(ylabel="mean cosine with the student without context")
    for axis in figure.axes:
        axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15))
    return figure


@style()
def length_of_training(data: pd.DataFrame) -> Figure:
    """Two panels: accuracy and MRR of halves against updates; points are seeds, lines their means, from the base on."""
    figure, axes = plt.subplots(1, 2, figsize=SIZES["figA_4"], sharex=True)
    titles = ("chance-corrected accuracy, mean over tasks", "MRR of the other half of a held-out document")
    base = data[data["model"] == "base"]
    for axis, column, title in zip(axes, ("accuracy", "halves"), titles, strict=True):
        start = base[column].mean()
        axis.axhline(start, color=INK, linewidth=0.8, linestyle=":", label="untrained base")
        for color, marker, name in zip(COLORS, "osD^v", data["model"].unique()[1:], strict=False):
            rows = data[data["model"] == name]
            means = rows.groupby("updates")[column].mean()
            axis.plot([0, *means.index], [start, *means], f"{marker}-", color=color, markersize=5, label=name)
            axis.plot(rows["updates"], rows[column], marker, color=color, markersize=3.5, mfc="none")
        axis.set(xlabel="updates", ylabel=title)
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=3)
    return figure


def _grouped(axis: Axes, shown: pd.DataFrame, groups: list[str], palette: dict[str, str]) -> None:
    """A group of bars for each of `groups`, by which `shown` is indexed."""
    width = 0.85 / len(palette)
    for index, (model, color) in enumerate(palette.items()):
        rows = shown[shown["model"] == model].reindex(groups)
        places = np.arange(len(groups)) + (index - (len(palette) - 1) / 2) * width
        axis.bar(places, rows["value"], width, color=color, edgecolor="white", linewidth=0.3, label=model)
        if "low" in rows:
            axis.vlines(places, rows["low"], rows["high"], color=INK, linewidth=1, label="span of the tasks")
        axis.plot(places, rows["published"], **DIAMOND, label="published" if any(rows["published"].notna()) else "")
    chance, places = shown.groupby(level=0)["chance"].max().reindex(groups), np.arange(len(groups))
    label = "by chance, ours" if any(chance.notna()) else ""
    axis.hlines(chance, places - 0.45, places + 0.45, **CHANCE, label=label)
    axis.set_xticks(range(len(groups)), groups)
    axis.grid(axis="x", visible=False)


def _palette(frame: pd.DataFrame) -> dict[str, str]:
    """Chapter 5's models first, each with its colour, which it keeps when another is missing."""
    shown = frame["model"].unique()
    places = dict.fromkeys((*published.CHAPTER_5, *shown))
    return {model: color for model, color in zip(places, itertools.cycle(COLORS), strict=False) if model in shown}
