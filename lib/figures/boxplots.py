"""Boxplots of Chapter 4 and Figure 5.3: one row per model, the tasks' normalised accuracy, best at the bottom."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.means import in_order, seed_means
from lib.figures.style import COLORS, DIAMOND, INK, LIGHT, NEUTRAL, SIZES, rows_from_top, style
from lib.published import figure_models

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
BASELINE = "baseline or teacher"
_APPENDIX = re.compile(r"fig[A-Z]_\d+")  # shows what the thesis does not
_LAMBDAS = ("0.2", "0.5", "0.8", "0.95")
# Figure -> pattern of models -> what the published figure colours them by, the first that fits.
_PROJECTIONS = {r"(\d+)d;S:.*": r"\1-dimensional teacher", ".*": BASELINE}
_WEIGHTINGS = {".*λ=(.*)": r"λ = \1", "no-weighting": "no-weighting", ".*": BASELINE}
_CATEGORIES = {
    "fig4_3": {
        "max-margin;([^;]*).*": r"max-margin, \1",
        "contrastive": "contrastive",
        "|".join(UNTRAINED): BASELINE,
        ".*": "simple",
    },
    "fig4_5": {r".*\+.*": "DM + DBOW", "([^;]*).*": r"\1"},
    **dict.fromkeys(("fig4_7", "fig4_8", "fig4_9"), _PROJECTIONS),
    **dict.fromkeys(("fig4_10", "fig4_11"), _WEIGHTINGS),
    "fig5_3": {"[^;]*;([^;]*).*": r"\1 finetuning documents"},
}
# Categories in the order of the legend; others come after them.
_ORDERS = {
    "fig4_3": ("simple", "contrastive", "max-margin, cosine", "max-margin, MSE"),
    "fig4_5": ("DM", "DBOW", "DM + DBOW"),
    **dict.fromkeys(("fig4_7", "fig4_8", "fig4_9"), [f"{size}-dimensional teacher" for size in (100, 1024, 2048)]),
    "fig5_3": [f"{size} finetuning documents" for size in roles.ROUNDS],
}


def boxplot_frame(label: str, records: pd.DataFrame, *, band: float | None) -> pd.DataFrame:
    """Our accuracies beside the published ones: the data, and the CSV, of a boxplot figure.

    records: columns model (identity), task, seed and value, and perhaps metric (all but "accuracy" is left out) and
        collapsed (every score is a class share).
    band: two pooled standard deviations, over seeds, of a model's mean normalised accuracy; None if unknown.

    Columns: model (as printed in that figure, else as the grid names it, else its identity), task, value and published
    (accuracies, ours averaged over seeds), normalized and published_normalized (each divided by the best accuracy of
    the task in its own column), seeds (how many), band, collapsed, identity. Published columns are empty for what the
    thesis does not have. Rows are sorted as drawn: ascending mean of `normalized`, in Figure 5.3 within each round.

    Raises `ValueError` for an unknown label, a repeated record, a missing task and a value that is no accuracy.
    """
    ours = _accuracies(label, records)
    columns = ["identity", "task", "published", "published_normalized"]
    if _APPENDIX.fullmatch(label):
        names, theirs = {}, pd.DataFrame(columns=columns, dtype=object)
    else:
        names = {identity: model for model, identity in figure_models.shown(label).items()}
        theirs = published.load(label).rename(columns={"accuracy": columns[2], "normalized": columns[3]})[columns]
    names |= {identity: identity for identity in ours["identity"].unique() if identity not in names}
    frame = ours.merge(theirs, on=["identity", "task"], how="left")
    frame["normalized"] = frame["value"] / frame.groupby("task")["value"].transform("max")
    frame["band"] = np.nan if band is None else float(band)
    frame["model"] = frame["identity"].map(names)
    frame["mean"] = frame.groupby("model")["normalized"].transform("mean").round(12)  # ties: in published order
    frame["round"] = frame["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    orders = {
        "round": roles.ordered(frame["round"], roles.ROUNDS),
        "mean": sorted(frame["mean"].unique()),
        "identity": list(names),
        "task": roles.ordered(frame["task"]),
    }
    kept = ["model", "task", "value", "published", "normalized", "published_normalized", "seeds", "band", "collapsed"]
    return in_order(frame, orders)[[*kept, "identity"]]


@style()
def boxplot(data: pd.DataFrame, label: str) -> Figure:
    """Draw `boxplot_frame`'s data, rows in its order.

    Left: ours, a box per model over the tasks, the mean a black triangle. Right: the published means of the same models
    as open diamonds, on their own scale; in a reproduced ranking they run to the right without turning back. Means
    inside the shaded strip, the seed noise around the best row, are not told apart from the best.
    """
    rows = data["model"].unique().tolist()
    categories = [_category(label, row) for row in rows]
    colors = _palette(label, categories)
    theirs = data.groupby("model")["published_normalized"].mean()[rows]
    columns = 2 if theirs.notna().any() else 1
    width, height = _size(label, len(rows))
    narrow = width < 7
    ratios = [2.7 if narrow else 5, 1][:columns]  # narrow figures: room for two tick labels on the right
    figure, (axes,) = plt.subplots(1, columns, figsize=(width, height), sharey=True, width_ratios=ratios, squeeze=False)
    thin = {"color": INK, "linewidth": 0.8}
    drawn = axes[0].boxplot(
        [data.loc[data["model"] == row, "normalized"].to_numpy() for row in rows],
        positions=range(len(rows)), orientation="horizontal", widths=0.65, patch_artist=True, showmeans=True,
        meanprops={"marker": "^", "mfc": "black", "mec": "white", "markersize": 6, "markeredgewidth": 0.4},
        medianprops={"color": INK, "linewidth": 1.2}, boxprops={"edgecolor": INK, "linewidth": 0.8},
        whiskerprops=thin, capprops=thin,
        flierprops={"marker": "o", "markersize": 3, "markerfacecolor": "none", "markeredgecolor": INK},
    )  # fmt: skip
    for box, category in zip(drawn["boxes"], categories, strict=True):
        box.set_facecolor(colors[category])
    handles = [Patch(facecolor=color, edgecolor=INK, label=name) for name, color in colors.items() if name]
    handles.append(Line2D([], [], marker="^", color="black", linestyle="", label="mean of the tasks"))
    band = float(data["band"].iloc[0])
    if np.isfinite(band):
        center = data.loc[data["model"] == rows[-1], "normalized"].mean()
        strip = axes[0].axvspan(center - band, center + band, color=COLORS[8], alpha=0.5, lw=0, zorder=0.5)
        strip.set_label("seed noise, 2 sd around the best row")
        handles.append(strip)
    if columns == 2:
        diamond = DIAMOND | {"markersize": 4}
        low, high = theirs.min(), theirs.max()
        room = max(0.08 * (high - low), 0.01)
        axes[1].plot(theirs, range(len(rows)), **diamond)
        axes[1].set(xlabel="published", xlim=(low - room, high + room))
        ends = [low, high] if high - low >= 0.02 else [high]  # two labels only where there is room for both
        axes[1].set_xticks(ends, [f"{end:.2f}" for end in ends])
        axes[1].tick_params(axis="x", labelsize=8)
        axes[1].tick_params(axis="y", labelleft=False)
        handles.append(Line2D([], [], label="published mean", **diamond))
    axes[0].set_xlabel("normalised accuracy")
    # Long projections in a 6 inch figure: no more than 55 % of the width for the labels (0.6 em a character).
    longest = max(len(row) for row in rows) + 3
    rows_from_top(axes[0], _row_labels(data, rows), fontsize=min(8.8, 0.55 * width * 72 / (0.6 * longest)))
    for axis in axes:
        axis.grid(axis="y", visible=False)
    sizes = {"fontsize": 8, "title_fontsize": 8, "columnspacing": 1.4, "ncols": 2 if narrow else 3}
    figure.legend(handles=handles, loc="outside lower center", title=_note(data), **sizes)
    return figure


def _accuracies(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """identity, task, value (mean over seeds), seeds, collapsed; checked."""
    if "metric" in records:
        records = records[records["metric"] == "accuracy"]
    if records.empty:
        raise ValueError(f"{label}: no records with metric accuracy; did `only` filter every variant out?")
    impossible = records.loc[~records["value"].between(0, 1), ["model", "task", "value"]]
    if len(impossible):
        model, task, value = impossible.iloc[0]
        raise ValueError(f"{label}: {model!r} on {task} has value {value}: expected an accuracy between 0 and 1")
    records = records.assign(collapsed=records["collapsed"].astype(bool) if "collapsed" in records else False)
    means = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
    counts = means.groupby("model").size()
    if counts.nunique() > 1:
        short = counts.idxmin()
        raise ValueError(f"{label}: {short!r} has {counts.min()} tasks, others {counts.max()}: all need the same")
    return means.rename(columns={"model": "identity"})


def _row_labels(data: pd.DataFrame, rows: list[str]) -> list[str]:
    facts = data.groupby("model")[["seeds", "collapsed"]].max().loc[rows].itertuples()
    return [row + " †" * bool(collapsed) + (f" ×{seeds}" if seeds > 1 else "") for row, seeds, collapsed in facts]


def _note(data: pd.DataFrame) -> str:
    several = data.loc[data["seeds"] > 1, "seeds"]
    note = f"1 seed unless marked ×{several.max()}" if len(several) else "1 seed each"
    note += "; no seed noise band" if data["band"].isna().all() else ""
    return note + ("; †: collapsed, every score is a class share" if data["collapsed"].any() else "")


def _size(label: str, rows: int) -> tuple[float, float]:
    """The published size; less high by the rows that are missing, higher by those that the thesis does not have."""
    width, height = SIZES.get(label, (7, 6))
    count = rows if _APPENDIX.fullmatch(label) else len(figure_models.printed(label))
    fixed = 1.4  # inches of axis labels and legend
    return width, fixed + (height - fixed) * rows / count if rows > 1 else fixed + 0.6


def _category(label: str, model: str) -> str:
    """What the published figure colours by; "" where it uses one colour."""
    for pattern, category in _CATEGORIES.get(label, {}).items():
        if match := re.fullmatch(pattern, model):
            return match.expand(category)
    return ""


def _palette(label: str, drawn: list[str]) -> dict[str, str]:
    """Category -> colour, in the order of the legend; the same category has the same colour whatever rows are drawn."""
    if label in ("fig4_10", "fig4_11"):
        lambdas = {*_LAMBDAS, *(name.removeprefix("λ = ") for name in drawn if name.startswith("λ"))}
        shades = seaborn.light_palette(COLORS[0], n_colors=len(lambdas) + 2).as_hex()[1:-1]
        palette = {f"λ = {lam}": shade for lam, shade in zip(sorted(lambdas, key=float), shades, strict=True)}
        palette["no-weighting"] = LIGHT[1]
    else:
        names = dict.fromkeys(name for name in (*_ORDERS.get(label, ()), *drawn) if name != BASELINE)
        palette = dict(zip(names, itertools.cycle(LIGHT), strict=False))
    return {name: color for name, color in (palette | {BASELINE: NEUTRAL}).items() if name in drawn}
