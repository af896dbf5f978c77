"""Boxplots of Chapter 4 and Figure 5.3: a row for each model, with a box over its tasks."""

import itertools
import math
import re
import textwrap
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lib import published
from lib.config import manifest
from lib.figures.style import DARK, INK, WIDTH, labelled, rows_from_top, settings, style
from lib.statistics.intervals import SeedNoise

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
_PANELS = {  # panel -> columns: score, score divided by the task's best, chance, noise
    "ours": ("value", "normalized", "chance", "noise"),
    "published": ("published", "published_normalized", "published_chance", "published_noise"),
}
_ROW, _LINE, _REST = 0.23, 0.155, 1.2  # inches for a row, a line of the legend, and the rest
_LETTERS = 92  # in a line of the legend
_AXES = {True: "normalised accuracy", False: "accuracy above chance,\nminus the best of the task"}
_BEST = {True: "best of the figure on every task", False: "best on every task"}


def boxplot_frame(
    label: str, records: pd.DataFrame, noise: Mapping[str, SeedNoise] | None = None
) -> pd.DataFrame:
    """Our accuracies next to the published ones: the data, and the CSV, of a boxplot figure.

    `records` have the columns model (identity), task, seed, value, and optionally chance and
    collapsed. Models get the names printed in that figure, else the grid's; rows ascend by mean
    accuracy divided by the task's best (normalized), in Figure 5.3 within each round. `noise` is
    that of a run's mean, "ours" and "published": columns of least differences between two runs.
    """
    records = records.assign(collapsed=records.get("collapsed", False))
    ours = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
    runs = records.pivot(index=["model", "seed"], columns="task", values="value")
    if runs.isna().any(axis=None):  # its mean would be one over other tasks
        raise ValueError(f"{label}: a run has no score on a task: {runs.isna().stack().idxmax()}")
    printed = {"accuracy": "published", "normalized": "published_normalized"}
    printed |= {"chance": "published_chance"}
    theirs = pd.DataFrame(columns=["identity", "task", *printed], dtype=object)
    if label in published.BOXPLOTS:
        theirs = published.load(label)[[*theirs]]
    names = {identity: model for model, identity in published.shown(label).items()}
    frame = ours.rename(columns={"model": "identity"})
    frame = frame.merge(theirs.rename(columns=printed), how="left")
    frame["normalized"] = frame["value"] / frame.groupby("task")["value"].transform("max")
    for side, (*_, column) in _PANELS.items():
        frame[column] = noise[side].least_difference if noise and side in noise else np.nan
    frame["model"] = frame["identity"].replace(names)
    # Rounded, so that ties keep the published order.
    frame["mean"] = frame.groupby("model")["normalized"].transform("mean").round(12)
    frame["round"] = frame["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    orders = {"round": manifest.ordered(frame["round"], manifest.ROUNDS)}
    orders |= {"mean": sorted(frame["mean"].unique())}
    orders |= {"identity": [*names, *frame["identity"]], "task": manifest.ordered(frame["task"])}
    frame = sort_rows(frame, orders)
    kept = ["model", "task", "value", "published", "normalized", "published_normalized", "seeds"]
    rest = ["noise", "published_noise", "collapsed", "chance", "published_chance", "identity"]
    return frame[[*kept, *rest]]


def seed_means(
    label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]
) -> pd.DataFrame:
    """The keys, value (mean over seeds), seeds (their number), chance and `more`.

    Raises `ValueError` for a repeated record, such as one of another split.
    """
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(f"{label}: two records for {repeated.iloc[0].to_dict()}")
    columns = {"value": ("value", "mean"), "seeds": ("seed", "nunique")}
    columns |= {"chance": ("chance", "first")} | more
    records = records.assign(chance=records.get("chance", np.nan))
    return records.groupby(keys, sort=False, as_index=False).agg(**columns)


def sort_rows(frame: pd.DataFrame, orders: Mapping[str, list]) -> pd.DataFrame:
    """Sort by columns, each in the order that is listed for it."""
    return frame.sort_values(
        [*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )


@style()
def boxplot(
    data: pd.DataFrame,
    label: str,
    *,
    order: str = "published",
    rounds: dict[str, int | None] = manifest.ROUNDS,
    untrained: str = "",
) -> Figure:
    """Draw the data of `boxplot_frame`: our boxes and the published ones in two panels.

    The scale is chance-corrected accuracy minus the task's best, so two means differ by as much as
    the ledger says; without ours it is the thesis', accuracy divided by the task's best. In the
    order "published", models that the thesis lacks come first; the other is "ours". `rounds` are
    those of the profile; `untrained` describes our models of `UNTRAINED`.
    """
    data = _arrange(data, label, order, rounds)
    models = data.groupby("model", sort=False)
    categories, colors = _categorize(label, [model for model, _ in models])
    sides = [name for name, columns in _PANELS.items() if data[columns[0]].notna().any()]
    figure, (axes,) = plt.subplots(1, len(sides), sharex=True, sharey=True, squeeze=False)
    as_printed = sides == ["published"]
    for axis, name in zip(axes, sides, strict=True):
        _draw_panel(axis, data, name, [colors[category] for category in categories], as_printed)
    rows = models[["short", "seeds", "collapsed"]].max()
    # Long names get at most 0.45 of the width, at 0.6 em per character.
    size = min(8.8, 0.45 * WIDTH * 72 / 0.6 / max(map(len, rows["short"])))
    rows_from_top(axes[0], [*rows["short"]], fontsize=size)
    if sides[0] == "ours":
        _mark_runs(axes[0], rows)
    edge = {"edgecolor": DARK, "linewidth": 0.5}
    named = [(name, color) for name, color in colors.items() if name]
    handles = [Patch(facecolor=color, **edge, label=name) for name, color in named]
    handles += labelled(axes)
    told = _explain(data, label, order, untrained)
    lines = len(told) + 1.2 * math.ceil(len(handles) / settings()["boxes_legend"]["ncols"])
    figure.set_size_inches(WIDTH, _REST + _ROW * len(models) + _LINE * lines)
    figure.legend(handles=handles, title="\n".join(told), **settings()["boxes_legend"])
    return figure


def _arrange(
    data: pd.DataFrame, label: str, order: str, rounds: dict[str, int | None]
) -> pd.DataFrame:
    """The rows in their order, with rounds as the profile has them, and short names."""
    printed = manifest.printed_rounds(rounds)
    ends = {f";{re.escape(name)}$": f";{text}" for name, text in printed.items()}
    data = data.replace({"model": ends}, regex=True)
    data["short"] = data["model"].replace(settings()["short"].get(label, {}), regex=True)
    if order == "published":
        places = {identity: row for row, identity in enumerate(published.printed(label).values())}
        rows = data["identity"].map(places).fillna(-1).sort_values(kind="stable")
        return data.loc[rows.index]
    return data


def _draw_panel(
    axis: Axes, data: pd.DataFrame, name: str, colors: list[str], as_printed: bool
) -> None:
    column, normalized, chance, noise = _PANELS[name]
    scores, chances = data[column].astype(float), data[chance].astype(float)
    tasks = data["task"]
    best = (scores / data[normalized].astype(float)).groupby(tasks).transform("max")
    if as_printed:
        shown, guessed, first = scores / best, chances / best, 1
    else:
        rest = 1 - chances.fillna(0)
        shown, guessed, first = (scores - best) / rest, (chances - best) / rest, 0
    models = shown.groupby(data["model"], sort=False)
    boxes = [box.dropna().to_numpy() for _, box in models]
    drawn = axis.boxplot(boxes, positions=range(len(boxes)), **settings()["boxes"])
    drawn["means"][0].set_label("mean of the tasks")
    for box, color in zip(drawn["boxes"], colors, strict=True):
        box.set(facecolor=color, edgecolor=DARK, linewidth=0.8)
    front, width = models.mean().max(), data[noise].iloc[0]
    if np.isfinite(width) and not as_printed:
        axis.axvspan(front - width, front, **settings()["noise"])
    axis.axvline(first, color=INK, linewidth=0.9, zorder=0.6, label=_BEST[as_printed])
    if np.isfinite(level := guessed.groupby(tasks).first().mean()):
        axis.axvline(level, **settings()["chance"], label="guessing, mean of the tasks")
    shared = manifest.ordered(data.loc[data["published"].notna(), "task"])
    if name == "published" and {*shared} != {*manifest.CLASSIFICATION}:
        name += ",\n" + textwrap.fill(f"but on {' '.join(shared)} only", 24)  # as wide as a panel
    axis.set(title=name, xlabel=_AXES[as_printed])
    axis.grid(axis="y", visible=False)


def _mark_runs(axis: Axes, rows: pd.DataFrame) -> None:
    """Mark, right of our boxes, rows with more seeds than others, and collapsed models."""
    look = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 7.5}
    look |= {"xytext": (3, 0), "textcoords": "offset points"}
    for place, row in enumerate(rows.itertuples(index=False)):
        count = f"×{row.seeds}" if row.seeds > rows["seeds"].min() else ""
        axis.annotate(f"{count}{'†' if row.collapsed else ''}", (1, place), **look)


def _explain(data: pd.DataFrame, label: str, order: str, untrained: str) -> list[str]:
    """The lines above the legend: the order of rows, how many seeds, what marks mean."""
    told = [settings()["orders_told"][order if label in published.BOXPLOTS else "ours"]]
    if data["value"].isna().all():
        told.append("one run each")
    else:
        least, most = data["seeds"].min(), data["seeds"].max()
        seeds = "1 seed" if least == 1 else f"{least} seeds"
        told.append(f"ours: {seeds} " + ("each" if least == most else f"unless marked ×{most}"))
        if data["published"].notna().any():
            told[-1] += "; published: one run"
        if data["collapsed"].any():
            told.append("†: collapsed, all embeddings point one way")
    told += settings()["explained"].get(label, [])
    if untrained and data["identity"].str.partition(";")[0].isin(UNTRAINED).any():
        told.append(untrained)
    return [part for line in told for part in textwrap.wrap(line, _LETTERS, break_on_hyphens=False)]


def _categorize(label: str, models: list[str]) -> tuple[list[str], dict[str, str]]:
    """A category for each model, and category -> colour, in the order of the legend."""
    patterns, fills = settings()["categories"].get(label, {".*": ""}), settings()["fills"]
    drawn = []
    for model in models:
        matches = ((re.fullmatch(pattern, model), name) for pattern, name in patterns.items())
        drawn.append(next(match.expand(name) for match, name in matches if match))
    others = dict.fromkeys(name for name in drawn if name not in fills)
    colors = {name: color for name, color in fills.items() if name in drawn}
    return drawn, colors | dict(zip(others, itertools.cycle(settings()["others"]), strict=False))
