"""Scores: per task and round (Figure 5.4), of retrieval (5.5 and 5.6), and what training does (A.2 to A.4)."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.boxplots import seed_means
from lib.figures.style import CHANCE, COLORS, DIAMOND, INK, SIZES, rows_from_top, style

_DIMENSIONS = dict(zip(("100", "1024", "2048"), COLORS, strict=False))


def score_frame(label: str, records: pd.DataFrame | None = None) -> pd.DataFrame:
    """Our scores beside the published ones, for fig5_4 (accuracy), fig5_5 and fig5_6 (MAP and MRR).

    records: columns model (as Chapter 5 prints it, or a further one), task, seed, value, perhaps chance, and round or
        metric, of which the published ones are kept. None: value is the published score itself.
    """
    keys = ["round", "task", "model"] if label == "fig5_4" else ["metric", "model", "task"]
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    if records is None:
        records, theirs = theirs.assign(seed=0, value=theirs["published"]), theirs.assign(published=np.nan)
    ours = seed_means(label, records[records[keys[0]].isin(theirs[keys[0]])], keys)
    frame = ours.merge(theirs[[*keys, "published"]], on=keys, how="left")
    orders = {"model": [*_palette(frame)], "task": roles.ordered(frame["task"], roles.TABLE_5_7)}
    orders |= {"round": list(roles.ROUNDS), "metric": ["MAP", "MRR"]}
    frame = frame.sort_values(keys, key=lambda column: column.map(orders[column.name].index), ignore_index=True)
    return frame[[*keys, "value", "published", "seeds", "chance"]]


@style()
def bars(data: pd.DataFrame, *, rounds: dict[str, int | None] = roles.ROUNDS) -> Figure:
    """Figure 5.4: accuracy per task, a bar per model, a panel per round; diamonds: published; dashed: chance."""
    palette, tasks = _palette(data), roles.ordered(data["task"], roles.TABLE_5_7)
    figure, axes = plt.subplots(data["round"].nunique(), 1, figsize=SIZES["fig5_4"], sharex=True, squeeze=False)
    for axis, (size, shown) in zip(axes[:, 0], data.groupby("round", sort=False), strict=True):
        _grouped(axis, shown.set_index("task"), tasks, palette)
        axis.set(ylabel="accuracy", title=f"{roles.printed_rounds(rounds)[size]} finetuning documents", ylim=(0, 1.03))
        ceiling = axis.axhline(1, color=INK, linewidth=0.9, label="all right")
    _legend(figure, data, ceiling, Line2D([], [], **CHANCE, label="chance, ours"))
    return figure


@style()
def spans(data: pd.DataFrame) -> Figure:
    """Figure 5.5: mean of the retrieval tasks' MAP and MRR as bars, the span between the tasks as an error bar."""
    parts = data.groupby(["metric", "model"], sort=False)
    means = parts[["value", "published", "chance"]].mean().assign(low=parts["value"].min(), high=parts["value"].max())
    palette = _palette(data)
    figure, axis = plt.subplots(figsize=SIZES["fig5_5"])
    _grouped(axis, means.reset_index("model"), data["metric"].unique().tolist(), palette)
    axis.set(ylabel="mean score of the tasks", ylim=(0, None))
    span = Line2D([], [], color=INK, linewidth=1, label="span of the tasks")
    _legend(figure, data, span, Line2D([], [], **CHANCE, label="random rankings, ours"))
    return figure


@style()
def points(data: pd.DataFrame) -> Figure:
    """Figure 5.6: scores on each retrieval task; a panel per metric, a colour per task, the published ones open."""
    models, metrics = [*_palette(data)], data["metric"].unique()
    tasks = roles.ordered(data["task"], roles.TABLE_5_7)
    figure, axes = plt.subplots(1, len(metrics), figsize=SIZES["fig5_6"], sharey=True, squeeze=False)
    for axis, metric in zip(axes[0], metrics, strict=True):
        for task, color, shift in zip(tasks, COLORS, np.linspace(-0.15, 0.15, len(tasks)), strict=False):
            rows = data[(data["task"] == task) & (data["metric"] == metric)].set_index("model").reindex(models)
            heights = np.arange(len(models)) + shift
            dots = axis.plot(rows["value"], heights, "o", color=color, markersize=5, label=task)
            if rows["published"].notna().any():
                dots[0].set_label(f"{task}, ours")
                axis.plot(rows["published"], heights, **DIAMOND | {"mec": color}, label=f"{task}, published")
                axis.axvline(rows["chance"].max(), **CHANCE | {"color": color}, label=f"{task}, ours at random")
        axis.set_xlabel(metric)
        rows_from_top(axis, models)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(tasks), fontsize=8)
    return figure


@style()
def curves(data: pd.DataFrame) -> Figure:
    """A column per training objective, above the embeddings, below the projections; a line per student.

    data: `lib.findings.contextual.figure_histories`.
    """
    groups = data["group"].unique()
    figure, axes = plt.subplots(2, len(groups), figsize=SIZES["figA_2"], sharex=True, sharey="row", squeeze=False)
    for (above, below), group in zip(axes.T, groups, strict=True):
        shown = data[data["group"] == group]
        for axis, name in ((above, "embedding"), (below, "projected")):
            for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                axis.plot(line["update"], line[name], "o-", color=_DIMENSIONS[dimension], linewidth=1, markersize=2)
        above.axhline(shown["chance"].mean(), color=INK, linestyle="--", linewidth=0.9)
        above.set_title(group)
        below.set_xlabel("updates")
    for axis, words in zip(axes[:, 0], ("embeddings", "projections"), strict=True):
        axis.set_ylabel(f"mean correlation\nof the {words}")
    colors = {name: color for name, color in _DIMENSIONS.items() if name in set(data["dimension"])}
    handles = [Line2D([], [], color=color, label=f"{name}-dimensional teacher") for name, color in colors.items()]
    handles.append(Line2D([], [], color=INK, linestyle="--", label="documents paired at random"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


@style()
def gradient_shares(shares: pd.DataFrame, factors: pd.DataFrame) -> Figure:
    """Three panels: the share over training (median and range of each group of students), the share that a factor on
    the contextual loss gives, and how far a student then is from the one without context."""
    figure, (over_training, by_factor, apart) = plt.subplots(1, 3, figsize=SIZES["figA_3"])
    for color, (group, rows) in zip(COLORS, shares.groupby("group", sort=False), strict=False):
        spread = rows.groupby("update")["share"].agg(["min", "median", "max"])
        over_training.plot(spread["median"], color=color, label=group)
        over_training.fill_between(spread.index, spread["min"], spread["max"], color=color, alpha=0.2, linewidth=0)
    over_training.set(xlabel="update", ylabel="contextual share of the gradient", ylim=(0, None))
    for color, (loss, rows) in zip(COLORS, factors.groupby("loss", sort=False), strict=False):
        trained = rows.dropna(subset="cosine")
        by_factor.plot(rows["factor"], rows["expected"], color=color, label=f"{loss}, at the start")
        by_factor.plot(trained["factor"], trained["share"], "o", color=color, label=f"{loss}, mean over training")
        apart.plot(trained["factor"], trained["cosine"], "o-", color=color, label=f"{loss}, same seed")
        apart.axhline(rows["another_seed"].iloc[0], color=color, linestyle="--", label=f"{loss}, another seed")
    by_factor.set(ylim=(0, 1), ylabel="contextual share of the gradient")
    apart.set(ylabel="mean cosine with the student without context")
    for axis in (by_factor, apart):
        axis.set_xscale("log", base=2)
        axis.set_xticks(factors["factor"].unique(), factors["factor"].unique())
        axis.set_xlabel("factor on the contextual loss")
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
            axis.plot([0, *means.index], [start, *means], color=color, label=name)
            axis.plot(rows["updates"], rows[column], marker, color=color, markersize=3.5, mfc="none")
        axis.set(xlabel="updates", ylabel=title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _grouped(axis: Axes, shown: pd.DataFrame, groups: list[str], palette: dict[str, str]) -> None:
    """A group of bars for each of `groups`, by which `shown` is indexed."""
    width = 0.85 / len(palette)
    for index, (model, color) in enumerate(palette.items()):
        rows = shown[shown["model"] == model].reindex(groups)
        places = np.arange(len(groups)) + (index - (len(palette) - 1) / 2) * width
        axis.bar(places, rows["value"], width, color=color, edgecolor="white", linewidth=0.3)
        if "low" in rows:
            axis.vlines(places, rows["low"], rows["high"], color=INK, linewidth=1)
        axis.plot(places, rows["published"], **DIAMOND)
    chance = shown.groupby(level=0)["chance"].max().reindex(groups)
    axis.hlines(chance, np.arange(len(groups)) - 0.45, np.arange(len(groups)) + 0.45, **CHANCE)
    axis.set_xticks(range(len(groups)), groups)
    axis.grid(axis="x", visible=False)


def _legend(figure: Figure, data: pd.DataFrame, mark: Line2D, chance: Line2D) -> None:
    handles = [*(Patch(facecolor=color, label=model) for model, color in _palette(data).items()), mark]
    handles += [chance] if data["chance"].notna().any() else []
    handles += [Line2D([], [], label="published", **DIAMOND)] if data["published"].notna().any() else []
    figure.legend(handles=handles, loc="outside right center", title="from left to right")


def _palette(frame: pd.DataFrame) -> dict[str, str]:
    """Chapter 5's models first, each with its colour, which it keeps when another is missing."""
    shown = frame["model"].unique()
    places = dict.fromkeys((*published.CHAPTER_5, *shown))
    return {model: color for model, color in zip(places, itertools.cycle(COLORS), strict=False) if model in shown}
