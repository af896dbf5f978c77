"""Boxplots, a row for each model (Chapter 4, Figure 5.3); block diagrams (Figures 3.1 and 4.6)."""

import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lib import published
from lib.config import manifest
from lib.evaluation.metrics import normalized_accuracy
from lib.figures.style import DARK, INK, WIDTH, labelled, panels, rows_from_top, settings, style
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import SeedNoise

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
_PANELS = {  # panel -> columns: score, score divided by the task's best, chance, noise
    "ours": ("value", "normalized", "chance", "noise"),
    "published": ("published", "published_normalized", "published_chance", "published_noise"),
}
_PRINTED = dict(zip(("accuracy", "normalized", "chance"), _PANELS["published"], strict=False))
_COLUMNS = ["model", "task", "value", "published", "normalized", "published_normalized", "seeds"]
_COLUMNS += "noise published_noise collapsed chance published_chance perfect identity".split()
_ROW, _LINE, _REST = 0.23, 0.155, 1.2  # inches for a row, a line of the legend, and the rest


def boxplot_frame(
    label: str, records: pd.DataFrame, noise: Mapping[str, SeedNoise] | None = None
) -> pd.DataFrame:
    """Our accuracies next to the published ones: the data, and the CSV, of a boxplot figure.

    `records` have the columns model (identity), task, seed, value, and optionally chance, collapsed
    and perfect (the accuracy of perfect vectors by the same heads). Models get their names in that
    figure. Rows are as drawn: in the published order, behind models that the thesis lacks, which
    ascend by mean chance-corrected accuracy. `noise` is that of a run's mean, "ours", "published".
    """
    ours = seed_means(records, ["model", "task"]).rename(columns={"model": "identity"})
    runs = records.pivot(index=["model", "seed"], columns="task", values="value")
    if runs.isna().any(axis=None):  # its mean would be one over other tasks
        raise ValueError(f"{label}: a run has no score on a task: {runs.isna().stack().idxmax()}")
    theirs = pd.DataFrame(columns=["identity", "task", *_PRINTED], dtype=object)
    if label in published.BOXPLOTS:
        theirs = published.load(label)[[*theirs]]
    names = {identity: model for model, identity in published.shown(label).items()}
    frame = ours.merge(theirs.rename(columns=_PRINTED), how="left")
    frame["normalized"] = normalized_accuracy(frame["value"], frame["task"])
    for side, (*_, column) in _PANELS.items():
        frame[column] = noise[side].least_difference if noise and side in noise else np.nan
    frame["model"] = frame["identity"].replace(names)
    places = {identity: row for row, identity in enumerate(published.printed(label).values())}
    frame["place"] = frame["identity"].map(places).fillna(-1)
    score = chance_corrected(frame.fillna({"chance": 0.0}))
    frame["mean"] = score.groupby(frame["model"]).transform("mean").round(12)
    frame["column"] = frame["task"].map(manifest.ordered(frame["task"]).index)
    return frame.sort_values(["place", "mean", "model", "column"], ignore_index=True)[_COLUMNS]


def seed_means(records: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Keys, value (a mean), seeds (how many), chance, perfect, collapsed."""
    columns = {"value": ("value", "mean"), "seeds": ("seed", "nunique")}
    columns |= {name: (name, "first") for name in ("chance", "perfect")}
    columns["collapsed"] = ("collapsed", "any")
    missing = {"chance": np.nan, "perfect": np.nan, "collapsed": False}
    records = records.assign(**missing | dict(records))
    return records.groupby(keys, sort=False, as_index=False).agg(**columns)


def sort_rows(frame: pd.DataFrame, orders: Mapping[str, list]) -> pd.DataFrame:
    """Sort by columns, each in the order that is listed for it."""
    options = {"key": lambda column: column.map(orders[column.name].index), "ignore_index": True}
    return frame.sort_values([*orders], **options)


@style()
def boxplot(
    data: pd.DataFrame, label: str, *, rounds: Mapping = manifest.ROUNDS, untrained: str = ""
) -> Figure:
    """Draw the data of `boxplot_frame`: our boxes and the published ones in two panels.

    The scale is chance-corrected accuracy minus the task's best, so two means differ by as much as
    the ledger says; without ours it is the thesis', accuracy divided by the task's best. `rounds`
    are those of the profile; `untrained` describes our models of `UNTRAINED`.
    """
    printed = manifest.printed_rounds(rounds)
    ends = {f";{re.escape(name)}$": f";{text}" for name, text in printed.items()}
    data = data.replace({"model": ends}, regex=True)
    models = data["model"].unique()
    names = pd.Series(models).replace(settings()["short"].get(label, {}), regex=True)
    categories, colors = _categorize(label, models)
    sides = [name for name, (column, *_) in _PANELS.items() if data[column].notna().any()]
    figure, (axes,) = panels(len(sides), 1, sharex=True, sharey=True)
    for axis, name in zip(axes, sides, strict=True):
        _draw_panel(axis, data, name, [colors[category] for category in categories], sides)
    # Long names get at most 0.45 of the width, at 0.6 em per character.
    size = min(8.8, 0.45 * WIDTH * 72 / 0.6 / names.str.len().max())
    rows_from_top(axes[0], [*names], fontsize=size)
    edge = {"edgecolor": DARK, "linewidth": 0.5}
    handles = [Patch(facecolor=colors[name], **edge, label=name) for name in colors if name]
    handles += labelled(axes)
    told = _explain(data, label, untrained)
    lines = len(told) + 1.2 * math.ceil(len(handles) / settings()["boxes_legend"]["ncols"])
    figure.set_size_inches(WIDTH, _REST + _ROW * len(models) + _LINE * lines)
    figure.legend(handles=handles, title="\n".join(told), **settings()["boxes_legend"])
    return figure


def _draw_panel(axis: Axes, data: pd.DataFrame, name: str, fills: list, sides: list) -> None:
    """Draw a box for each model; right of ours, mark rows with more seeds, and collapsed models."""
    column, normalized, chance, noise = _PANELS[name]
    scores, chances, tasks = data[column].astype(float), data[chance].astype(float), data["task"]
    best = (scores / data[normalized].astype(float)).groupby(tasks).transform("max").fillna(0)
    as_printed = sides == ["published"]
    if as_printed:  # the thesis' scale
        first, shown, guessed = 1, scores / best, chances / best
        scale, leader = "normalised accuracy", "best of the figure on every task"
    else:
        room = 1 - chances.fillna(0)
        first, shown, guessed = 0, (scores - best) / room, (chances - best) / room
        scale, leader = "accuracy above chance,\nminus the best of the task", "best on every task"
    models = shown.groupby(data["model"], sort=False)
    boxes = [box.dropna().to_numpy() for _, box in models]
    drawn = axis.boxplot(boxes, positions=range(len(boxes)), **settings()["boxes"])
    drawn["means"][0].set_label("mean of the tasks")
    for box, fill in zip(drawn["boxes"], fills, strict=True):
        box.set(facecolor=fill, edgecolor=DARK, linewidth=0.8)
    front, width = models.mean().max(), data[noise].iloc[0]
    if np.isfinite(width) and not as_printed:
        axis.axvspan(front - width, front, **settings()["noise"])
    axis.axvline(first, color=INK, linewidth=0.9, zorder=0.6, label=leader)
    if np.isfinite(level := guessed.groupby(tasks).first().mean()):
        axis.axvline(level, **settings()["chance"], label="guessing, mean of the tasks")
    shared = manifest.ordered(data.loc[data["published"].notna(), "task"])
    if name == "published" and {*shared} != {*manifest.CLASSIFICATION}:
        name += ",\n" + textwrap.fill(f"but on {' '.join(shared)} only", 24)  # as wide as a panel
    axis.set(title=name, xlabel=scale)
    axis.grid(axis="y", visible=False)
    if column == "value":
        perfect = (data["perfect"].astype(float) - best) / room
        if perfect.notna().any():
            places = perfect.groupby(data["model"], sort=False).mean()
            axis.plot(places, range(len(boxes)), **settings()["perfect"])
        rows = data.groupby("model", sort=False)[["seeds", "collapsed"]].max()
        look = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 7.5}
        for place, row in enumerate(rows.itertuples()):
            count = f"×{row.seeds}" if row.seeds > rows["seeds"].min() else ""
            axis.text(1.01, place, count + "†" * row.collapsed, **look)


def _explain(data: pd.DataFrame, label: str, untrained: str) -> list[str]:
    """The lines above the legend: the order of rows, how many seeds, what marks mean."""
    own = data["published"].isna().all()
    order = "best row" if own else "rows in the published order, the published best"
    told = [f"{order} at the bottom"]
    if data["value"].notna().any():
        least, most = data["seeds"].min(), data["seeds"].max()
        seeds = "1 seed" if least == 1 else f"{least} seeds"
        told.append(f"ours: {seeds} " + ("each" if least == most else f"unless marked ×{most}"))
        if data["collapsed"].any():
            told.append("†: collapsed, all embeddings point one way")
        if data["perfect"].notna().any():
            told.append(settings()["perfect_told"])
    if not own:
        told.append("published: one run each")
    told += settings()["explained"].get(label, [])
    if untrained and data["identity"].str.partition(";")[0].isin(UNTRAINED).any():
        told.append(untrained)
    # 92 letters fit in a line of the legend.
    return [part for line in told for part in textwrap.wrap(line, 92, break_on_hyphens=False)]


def _categorize(label: str, models: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """A category for each model, and category -> colour, in the order of the legend."""
    patterns, fills = settings()["categories"].get(label, {".*": ""}), settings()["fills"]
    drawn = []
    for model in models:
        matches = ((re.fullmatch(pattern, model), name) for pattern, name in patterns.items())
        drawn.append(next(match.expand(name) for match, name in matches if match))
    others = dict.fromkeys(name for name in drawn if name not in fills)
    colors = {name: color for name, color in fills.items() if name in drawn}
    return drawn, colors | dict(zip(others, itertools.cycle(settings()["others"]), strict=False))


@style()
def block_diagram(label: str) -> tuple[Figure, pd.DataFrame]:
    """Draw Figure 3.1 or 4.6 as laid out in `params/figures.yaml`; also returns its arrows."""
    parts, boxes = settings()["diagram_parts"], settings()["diagrams"][label]
    figure, ((axes,),) = panels(1, 4.2)
    axes.set(xlim=(0.1, 7.1), ylim=(0.1, 4.9))
    axes.axis("off")
    drawn, rows = {}, []
    for name, box in boxes.items():
        look = parts["box"] | {"facecolor": parts["colours"][box["role"]]}
        text = axes.text(*box["at"], box["text"], bbox=look, **parts["centred"], fontsize=9.5)
        drawn[name] = text.get_bbox_patch()
    for end, box in boxes.items():
        for start, text in box["inputs"].items():
            other = boxes[start]
            look = parts["arrow"] | {"patchA": drawn[start], "patchB": drawn[end]}
            axes.annotate("", xytext=other["at"], xy=box["at"], arrowprops=look)
            middle = np.mean([other["at"], box["at"]], axis=0)
            axes.text(*middle, text, **parts["centred"], fontsize=8.5, bbox=parts["behind"])
            rows.append((other["text"], box["text"], text))
    colours = {box["role"]: parts["colours"][box["role"]] for box in boxes.values()}
    handles = [Patch(fc=fill, label=role, **parts["edge"]) for role, fill in colours.items()]
    axes.legend(handles=handles, loc="upper left", ncols=4, fontsize=8.5, frameon=False)
    table = pd.DataFrame(rows, columns=["from", "to", "label"])
    return figure, table.replace({"\n": " ", r"\$": ""}, regex=True)
