"""Boxplots of Chapter 4 and Figure 5.3: one row per model, the tasks' normalised accuracy, best at the bottom."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.style import CHANCE, COLORS, DIAMOND, INK, LIGHT, LOOK, NEUTRAL, SHADES, SIZES, rows_from_top, style
from lib.published import figure_models

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
_APPENDIX = ("figA_", "figB_")  # how labels begin of what the thesis does not show
_BASELINE = "baseline or teacher"  # this category has the same neutral colour in every figure


def boxplot_frame(label: str, records: pd.DataFrame, *, band: float | None) -> pd.DataFrame:
    """Our accuracies beside the published ones: the data, and the CSV, of a boxplot figure, rows as drawn.

    records: columns model (identity), task, seed, value, perhaps chance (of the task) and collapsed (of the model).
    band: two pooled standard deviations, over seeds, of a model's mean normalised accuracy; None if unknown.

    Model is the name printed in that figure, else the grid's, else the identity; normalized divides by the best
    accuracy of the task in its own column. Rows ascend by mean normalised accuracy, in Figure 5.3 within each round.
    """
    records = records.assign(collapsed=records.get("collapsed", False))
    ours = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
    runs = records.pivot(index=["model", "seed"], columns="task", values="value").stack(future_stack=True)
    for (model, seed, task), value in runs[~runs.between(0, 1)].items():
        raise ValueError(f"{label}: {model!r}, seed {seed}, on {task} has {value}: expected an accuracy from 0 to 1")
    twins = {"accuracy": "published", "normalized": "published_normalized"}
    names, theirs = {}, pd.DataFrame(columns=["identity", "task", *twins], dtype=object)
    if not label.startswith(_APPENDIX):
        names = {identity: model for model, identity in figure_models.shown(label).items()}
        theirs = published.load(label)[[*theirs]]
    names |= {identity: names.get(identity, identity) for identity in ours["model"]}
    frame = ours.rename(columns={"model": "identity"}).merge(theirs.rename(columns=twins), how="left")
    frame["normalized"] = frame["value"] / frame.groupby("task")["value"].transform("max")
    frame["band"] = np.nan if band is None else band
    frame["model"] = frame["identity"].map(names)
    frame["mean"] = frame.groupby("model")["normalized"].transform("mean").round(12)  # ties: in published order
    frame["round"] = frame["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    orders = {"round": roles.ordered(frame["round"], roles.ROUNDS), "mean": sorted(frame["mean"].unique())}
    orders |= {"identity": list(names), "task": roles.ordered(frame["task"])}
    frame = frame.sort_values([*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True)
    kept = "model task value published normalized published_normalized seeds band collapsed chance identity"
    return frame[kept.split()]


@style()
def boxplot(data: pd.DataFrame, label: str, *, rounds: dict[str, int | None] = roles.ROUNDS) -> Figure:
    """Draw `boxplot_frame`'s data, rows in its order. rounds: the profile's, for Figure 5.3.

    Left: ours, a box per model over the tasks, the mean a black triangle. Right: the published means of the same models
    as open diamonds, on their own scale. Means inside the shaded strip lie within seed noise of the best row. Dashed:
    the tasks' mean chance, divided as accuracies are; an arrow where that is far below all boxes.
    """
    printed = {f";{re.escape(name)}$": f";{text}" for name, text in roles.printed_rounds(rounds).items()}
    data = data.replace({"model": printed}, regex=True)
    models = data.groupby("model", sort=False)
    rows, boxes = zip(*models["normalized"], strict=True)
    categories = [_category(label, row) for row in rows]
    colors = _palette(label, categories)
    theirs = data.groupby("model")["published_normalized"].mean()[list(rows)]
    columns = 2 if theirs.notna().any() else 1
    # The published size; less high by the rows that are missing, higher by those that the thesis does not have.
    width, height = SIZES.get(label, (7, 6))
    count = len(rows) if label.startswith(_APPENDIX) else len(figure_models.printed(label))
    fixed = 1.4  # inches of axis labels and legend
    height = fixed + (height - fixed) * len(rows) / count if len(rows) > 1 else fixed + 0.6
    narrow = width < 7
    ratios = [2.7 if narrow else 5, 1][:columns]  # narrow figures: room for two tick labels on the right
    figure, (axes,) = plt.subplots(1, columns, figsize=(width, height), sharey=True, width_ratios=ratios, squeeze=False)
    drawn = axes[0].boxplot([box.to_numpy() for box in boxes], positions=range(len(rows)), **LOOK["boxes"])
    for box, category in zip(drawn["boxes"], categories, strict=True):
        box.set(facecolor=colors[category], edgecolor=INK, linewidth=0.8)
    handles = [Patch(facecolor=color, edgecolor=INK, label=name) for name, color in colors.items() if name]
    handles.append(Line2D([], [], marker="^", color="black", linestyle="", label="mean of the tasks"))
    band = data["band"].iloc[0]
    if np.isfinite(band):
        strip = {"color": COLORS[8], "alpha": 0.5, "lw": 0, "label": "seed noise, 2 sd around the best row"}
        handles.append(axes[0].axvspan(boxes[-1].mean() - band, boxes[-1].mean() + band, zorder=0.5, **strip))
    if columns == 2:
        low, high = theirs.min(), theirs.max()
        room = max(0.08 * (high - low), 0.01)
        axes[1].plot(theirs, range(len(rows)), **DIAMOND)
        axes[1].set(xlabel="published", xlim=(low - room, high + room))
        ends = [low, high] if high - low >= 0.02 else [high]  # two labels only where there is room for both
        axes[1].set_xticks(ends, [f"{end:.2f}" for end in ends], fontsize=8)
        handles.append(Line2D([], [], label="published mean", **DIAMOND))
    handles.append(axes[0].axvline(1, color=INK, linewidth=0.9, zorder=0.6, label="best of the figure on every task"))
    chance = (data.groupby("task")["chance"].first() / data.groupby("task")["value"].max()).mean()
    if chance > 1.25 * data["normalized"].min() - 0.25:  # near enough: the axis need not stretch over empty space
        handles.append(axes[0].axvline(chance, **CHANCE, label=f"mean chance ({chance:.2f})"))
    elif np.isfinite(chance):
        axes[0].annotate(f"← chance {chance:.2f}", (0.01, 0.01), xycoords="axes fraction", fontsize=8)
    axes[0].set_xlabel("normalised accuracy")
    # Long projections in a 6 inch figure: no more than 55 % of the width for the labels (0.6 em a character).
    facts = models[["seeds", "collapsed"]].max().itertuples()
    names = [row + " †" * bool(collapsed) + f" ×{seeds}" * (seeds > 1) for row, seeds, collapsed in facts]
    rows_from_top(axes[0], names, fontsize=min(8.8, 0.55 * width * 72 / (0.6 * (3 + max(map(len, names))))))
    for axis in axes:
        axis.grid(axis="y", visible=False)
    sizes = {"fontsize": 8, "title_fontsize": 8, "columnspacing": 1.4, "ncols": 2 if narrow else 3}
    figure.legend(handles=handles, loc="outside lower center", title=_note(data), **sizes)
    return figure


def seed_means(label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """The keys, value (a mean over seeds), seeds (how many), chance and `more`; `ValueError` for a repeated record."""
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(f"{label}: two records for {repeated.iloc[0].to_dict()}: pass one split of one run")
    groups = records.assign(chance=records.get("chance", np.nan)).groupby(keys, sort=False, as_index=False)
    return groups.agg(value=("value", "mean"), seeds=("seed", "nunique"), chance=("chance", "first"), **more)


def _note(data: pd.DataFrame) -> str:
    least, most = data["seeds"].min(), data["seeds"].max()
    note = f"{least} seed{'s' if least > 1 else ''} " + ("each" if least == most else f"unless marked ×{most}")
    note += "; no seed noise band" if data["band"].isna().all() else ""
    return note + ("; †: collapsed, all embeddings point one way" if data["collapsed"].any() else "")


def _category(label: str, model: str) -> str:
    """What the published figure colours by; "" where it uses one colour."""
    matches = ((re.fullmatch(pattern, model), name) for pattern, name in LOOK["categories"].get(label, {}).items())
    return next((match.expand(name) for match, name in matches if match), "")


def _palette(label: str, drawn: list[str]) -> dict[str, str]:
    """Category -> colour, in the order of the legend; the same category has the same colour whatever rows are drawn."""
    names = dict.fromkeys(name for name in (*LOOK["orders"].get(label, ()), *drawn) if name != _BASELINE)
    shades = SHADES if label in figure_models.WEIGHTINGS else LIGHT
    palette = dict(zip(names, itertools.cycle(shades), strict=False)) | {_BASELINE: NEUTRAL}
    return {name: color for name, color in palette.items() if name in drawn}
