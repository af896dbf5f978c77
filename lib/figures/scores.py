"""Chapter 5's scores: per task and round (Figure 5.4), on the retrieval tasks (5.5 and 5.6)."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.means import in_order, seed_means
from lib.figures.style import COLORS, DIAMOND, INK, SIZES, rows_from_top, style

_RETRIEVAL = ["metric", "model", "task"]
_KEYS = {"fig5_4": ["round", "task", "model"], "fig5_5": _RETRIEVAL, "fig5_6": _RETRIEVAL}


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores beside the published ones, for fig5_4 (accuracy), fig5_5 and fig5_6 (MAP and MRR).

    records: columns model (as Chapter 5 prints it, or a further one), task, seed and value, and for fig5_4 round, of
        which "10k" and "all" are kept, otherwise metric, of which "MAP" and "MRR" are kept.

    Columns: round, task, model or metric, model, task; value (mean over seeds), published (empty for what the thesis
    does not have), seeds. Raises `ValueError` for a repeated record or if nothing is left.
    """
    if label not in _KEYS:
        raise ValueError(f"{label!r} shows no scores per task; expected one of {', '.join(_KEYS)}")
    keys = _KEYS[label]
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    ours = records[records[keys[0]].isin(theirs[keys[0]].unique())]
    if ours.empty:
        raise ValueError(f"{label}: no records with {keys[0]} in {', '.join(theirs[keys[0]].unique())}")
    frame = seed_means(label, ours, keys).merge(theirs[[*keys, "published"]], on=keys, how="left")
    orders = {"model": _models(frame), "task": roles.ordered(frame["task"], roles.TABLE_5_7)}
    orders |= {"round": list(roles.ROUNDS), "metric": ["MAP", "MRR"]}
    return in_order(frame, {key: orders[key] for key in keys})[[*keys, "value", "published", "seeds"]]


@style()
def bars(data: pd.DataFrame) -> Figure:
    """Figure 5.4: accuracy per task, a bar per model, a panel per round; the published value a diamond on each bar."""
    figure, axes = plt.subplots(data["round"].nunique(), 1, figsize=SIZES["fig5_4"], sharex=True, squeeze=False)
    for axis, (size, shown) in zip(axes[:, 0], data.groupby("round", sort=False), strict=True):
        _grouped(axis, shown, roles.ordered(data["task"], roles.TABLE_5_7), "task", _models(data))
        axis.set(ylabel="accuracy", title=f"{size} finetuning documents")
    _legend(figure, _models(data))
    return figure


@style()
def spans(data: pd.DataFrame) -> Figure:
    """Figure 5.5: mean of the retrieval tasks' MAP and MRR as bars, the span between the tasks as an error bar."""
    means = data.groupby(["metric", "model"], sort=False).agg(
        value=("value", "mean"), low=("value", "min"), high=("value", "max"), published=("published", "mean")
    )
    figure, axis = plt.subplots(figsize=SIZES["fig5_5"])
    _grouped(axis, means.reset_index(), data["metric"].unique().tolist(), "metric", _models(data))
    axis.set_ylabel("mean score of the tasks")
    _legend(figure, _models(data), Line2D([], [], color=INK, linewidth=1, label="span of the tasks"))
    return figure


@style()
def points(data: pd.DataFrame) -> Figure:
    """Figure 5.6: scores on each retrieval task; a panel per metric, a colour per task, the published ones open."""
    models, metrics = _models(data), data["metric"].unique()
    tasks = roles.ordered(data["task"], roles.TABLE_5_7)
    figure, axes = plt.subplots(1, len(metrics), figsize=SIZES["fig5_6"], sharey=True, squeeze=False)
    for axis, metric in zip(axes[0], metrics, strict=True):
        for task, color, shift in zip(tasks, COLORS, np.linspace(-0.15, 0.15, len(tasks)), strict=False):
            rows = data[(data["task"] == task) & (data["metric"] == metric)].set_index("model").reindex(models)
            heights = np.arange(len(models)) + shift
            axis.plot(rows["value"], heights, "o", color=color, markersize=5, label=f"{task}, ours")
            axis.plot(rows["published"], heights, **DIAMOND | {"mec": color}, label=f"{task}, published")
        axis.set_xlabel(metric)
        rows_from_top(axis, models)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(tasks), fontsize=8)
    return figure


def _grouped(axis: Axes, shown: pd.DataFrame, groups: list[str], column: str, models: list[str]) -> None:
    width = 0.85 / len(models)
    for index, (model, color) in enumerate(zip(models, _colors(models), strict=True)):
        rows = shown[shown["model"] == model].set_index(column).reindex(groups)
        places = np.arange(len(groups)) + (index - (len(models) - 1) / 2) * width
        axis.bar(places, rows["value"], width, color=color, edgecolor="white", linewidth=0.3)
        if "low" in rows:
            axis.vlines(places, rows["low"], rows["high"], color=INK, linewidth=1)
        axis.plot(places, rows["published"], **DIAMOND)
    axis.set_xticks(range(len(groups)), groups)
    axis.set_ylim(0, 1 if column == "task" else None)
    axis.grid(axis="x", visible=False)


def _legend(figure: Figure, models: list[str], *more: Line2D) -> None:
    handles = [Patch(facecolor=color, label=model) for model, color in zip(models, _colors(models), strict=True)]
    handles += [*more, Line2D([], [], label="published", **DIAMOND)]
    figure.legend(handles=handles, loc="outside right center")


def _colors(models: list[str]) -> list[str]:
    # Ten colours are told apart; a model keeps its colour when another is missing.
    places = list(dict.fromkeys((*published.CHAPTER_5, *models)))
    return [COLORS[places.index(model) % len(COLORS)] for model in models]


def _models(frame: pd.DataFrame) -> list[str]:
    models = frame["model"].unique()
    return [model for model in dict.fromkeys((*published.CHAPTER_5, *models)) if model in models]
