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
from lib.config import roles
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

    A model has the name printed in that figure, or else the grid's, or else its identity. Columns
    normalized are accuracies divided by the task's best in the same panel. Columns noise and
    published_noise are the least differences that distinguish two runs. Rows ascend by mean
    normalised accuracy, in Figure 5.3 within each round.

    Parameters
    ----------
    records
        Columns model (identity), task, seed, value, and optionally chance (of the task) and
        collapsed (of the model).
    noise
        Noise of a run's mean chance-corrected accuracy, for "ours" and "published" if known.

    Raises
    ------
    ValueError
        If a record is repeated, or a value is not an accuracy from 0 to 1.
    """
    records = records.assign(collapsed=records.get("collapsed", False))
    ours = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
    runs = records.pivot(index=["model", "seed"], columns="task", values="value")
    values = runs.stack(future_stack=True)
    for (model, seed, task), value in values[~values.between(0, 1)].items():
        raise ValueError(f"{label}: {model!r}, seed {seed}, on {task} has {value}: expected 0 to 1")
    printed = {"accuracy": "published", "normalized": "published_normalized"}
    printed |= {"chance": "published_chance"}
    theirs = pd.DataFrame(columns=["identity", "task", *printed], dtype=object)
    if not label.startswith("figA_"):
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
    orders = {"round": roles.ordered(frame["round"], roles.ROUNDS)}
    orders |= {"mean": sorted(frame["mean"].unique())}
    orders |= {"identity": [*names, *frame["identity"]], "task": roles.ordered(frame["task"])}
    frame = frame.sort_values(
        [*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )
    kept = ["model", "task", "value", "published", "normalized", "published_normalized", "seeds"]
    rest = ["noise", "published_noise", "collapsed", "chance", "published_chance", "identity"]
    return frame[[*kept, *rest]]


@style()
def boxplot(
    data: pd.DataFrame,
    label: str,
    *,
    order: str = "published",
    rounds: dict[str, int | None] = roles.ROUNDS,
    untrained: str = "",
) -> Figure:
    """Draw the data of `boxplot_frame`: our boxes and the published ones in two panels.

    With our accuracies, the scale is chance-corrected accuracy minus the task's best, so two means
    differ by as much as the ledger says. Without ours it is that of the thesis, accuracy divided by
    the task's best. In the order "published", models that the thesis lacks come first; the other is
    "ours". `rounds` are those of the profile; `untrained` describes our models of `UNTRAINED`.
    """
    printed = roles.printed_rounds(rounds).items()
    ends = {f";{re.escape(name)}$": f";{text}" for name, text in printed}
    data = data.replace({"model": ends}, regex=True)
    data["short"] = data["model"].replace(settings()["short"].get(label, {}), regex=True)
    identities = published.printed(label).values()
    places = {identity: place for place, identity in enumerate(identities)}
    if order == "published":
        row_of = data["identity"].map(places).fillna(-1)
        data = data.loc[row_of.sort_values(kind="stable").index]
    models = data.groupby("model", sort=False)
    categories = [_category(label, row) for row, _ in models]
    colors = _palette(categories)
    sides = [name for name, columns in _PANELS.items() if data[columns[0]].notna().any()]
    figure, (axes,) = plt.subplots(1, len(sides), sharex=True, sharey=True, squeeze=False)
    as_printed = sides == ["published"]
    for axis, name in zip(axes, sides, strict=True):
        _draw_panel(axis, data, name, [colors[category] for category in categories], as_printed)
        axis.set_xlabel(_AXES[as_printed])
    rows = models[["short", "seeds", "collapsed"]].max()
    # Long names get at most 0.45 of the width, at 0.6 em per character.
    longest = max(map(len, rows["short"]))
    rows_from_top(axes[0], [*rows["short"]], fontsize=min(8.8, 0.45 * WIDTH * 72 / 0.6 / longest))
    if sides[0] == "ours":
        _mark_runs(axes[0], rows)
    edge = {"edgecolor": DARK, "linewidth": 0.5}
    named = {name: color for name, color in colors.items() if name}
    handles = [Patch(facecolor=color, **edge, label=name) for name, color in named.items()]
    bases = data["identity"].str.partition(";")[0]  # without the round of Figure 5.3
    told = [
        settings()["orders_told"][order if places else "ours"],
        *_notes(data),
        *settings()["explained"].get(label, []),
        *([untrained] if untrained and bases.isin(UNTRAINED).any() else []),
    ]
    handles += labelled(axes)
    told = [part for line in told for part in textwrap.wrap(line, _LETTERS, break_on_hyphens=False)]
    lines = len(told) + 1.2 * math.ceil(len(handles) / settings()["boxes_legend"]["ncols"])
    figure.set_size_inches(WIDTH, _REST + _ROW * len(models) + _LINE * lines)
    figure.legend(handles=handles, title="\n".join(told), **settings()["boxes_legend"])
    return figure


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
    shared = roles.ordered(data.loc[data["published"].notna(), "task"])
    if name == "published" and {*shared} != {*roles.CLASSIFICATION}:
        name += ",\n" + textwrap.fill(f"but on {' '.join(shared)} only", 24)  # as wide as a panel
    axis.set_title(name)
    axis.grid(axis="y", visible=False)


def _mark_runs(axis: Axes, rows: pd.DataFrame) -> None:
    """Mark, right of our boxes, rows with more seeds than others, and collapsed models."""
    look = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 7.5}
    look |= {"xytext": (3, 0), "textcoords": "offset points"}
    for place, row in enumerate(rows.itertuples(index=False)):
        count = f"×{row.seeds}" if row.seeds > rows["seeds"].min() else ""
        axis.annotate(f"{count}{'†' if row.collapsed else ''}", (1, place), **look)


def seed_means(
    label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]
) -> pd.DataFrame:
    """The keys, value (mean over seeds), seeds (their number), chance and `more`.

    Raises `ValueError` for a repeated record.
    """
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(
            f"{label}: two records for {repeated.iloc[0].to_dict()}; pass one split of one run"
        )
    columns = {"value": ("value", "mean"), "seeds": ("seed", "nunique")}
    columns |= {"chance": ("chance", "first")} | more
    records = records.assign(chance=records.get("chance", np.nan))
    return records.groupby(keys, sort=False, as_index=False).agg(**columns)


def _notes(data: pd.DataFrame) -> list[str]:
    """How many seeds our rows have, and what the marks mean."""
    if data["value"].isna().all():
        return ["one run each"]
    least, most = data["seeds"].min(), data["seeds"].max()
    seeds = "1 seed" if least == 1 else f"{least} seeds"
    marks = [f"ours: {seeds} each" if least == most else f"ours: {seeds} unless marked ×{most}"]
    if data["collapsed"].any():
        marks.append("†: collapsed, all embeddings point one way")
    if data["published"].notna().any():
        marks[0] += "; published: one run"
    return marks


def _category(label: str, model: str) -> str:
    """The category that gives a model its colour; "" if the figure has one colour."""
    for pattern, name in settings()["categories"].get(label, {}).items():
        if match := re.fullmatch(pattern, model):
            return match.expand(name)
    return ""


def _palette(drawn: list[str]) -> dict[str, str]:
    """Category -> colour, in the order of the legend; a category has its colour in every figure."""
    fills = settings()["fills"]
    others = dict.fromkeys(name for name in drawn if name not in fills)
    colors = {name: color for name, color in fills.items() if name in drawn}
    return colors | dict(zip(others, itertools.cycle(settings()["others"]), strict=False))
