"""Figure 4.4: distances between the students' and the structural teacher's embeddings."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import gaussian_kde

from lib import published
from lib.figures.style import COLORS, INK, SIZES, style

_SIDES = {"positives": (COLORS[0], 1), "negatives": (COLORS[1], -1)}  # colour; the half above or below the row's line
_DISTANCES = ("squared L2", "cosine")
_DIAMOND = {"marker": "D", "mfc": "white", "mec": INK, "markersize": 3.5, "linestyle": ""}
_GRID = 40  # points of a violin's outline
AS_PUBLISHED = "as published"


def violin_frame(distances: pd.DataFrame) -> pd.DataFrame:
    """What the violins show, beside the published ones: the CSV of Figure 4.4.

    distances: one row per pair with the columns distance ("squared L2", a mean over dimensions, or "cosine"), model (as
        Figure 4.4 prints it), to ("positives" or "negatives"), negatives (how they were paired: "as published", the
        shifted features, or "true") and value.

    Columns: negatives, distance, model, to, value (mean), mode (of the density), q05, median, q95, pairs, published
    (mean) and published_mode; the published ones stand beside "as published" only.
    """
    keys = ["negatives", "distance", "model", "to"]
    if not np.isfinite(distances["value"]).all():
        bad = distances.loc[~np.isfinite(distances["value"]), keys].iloc[0]
        raise ValueError(f"fig4_4: a distance of {bad['model']!r} to {bad['to']} is not finite: check its embeddings")
    grouped = distances.groupby(keys, sort=False)["value"]
    frame = grouped.agg(["mean", _mode, "median", "size"])
    frame = frame.rename(columns={"mean": "value", "_mode": "mode", "size": "pairs"})
    frame["q05"], frame["q95"] = grouped.quantile(0.05), grouped.quantile(0.95)
    theirs = published.load("fig4_4").rename(columns={"mean": "published", "mode": "published_mode"})
    theirs["negatives"] = AS_PUBLISHED
    frame = frame.reset_index().merge(theirs[[*keys, "published", "published_mode"]], on=keys, how="left")
    return frame[[*keys, "value", "mode", "q05", "median", "q95", "pairs", "published", "published_mode"]]


def violins(distances: pd.DataFrame, *, title: str | None = None) -> Figure:
    """A row of panels per distance, a column per way of pairing negatives; split violins, one row per model.

    The upper half of a violin is the distance to positives, the lower to negatives; each half has the same height,
    whatever its spread. An open diamond is the published mean, in the column that is paired as published.
    """
    models = list(dict.fromkeys(distances["model"]))
    columns = [AS_PUBLISHED, *(name for name in dict.fromkeys(distances["negatives"]) if name != AS_PUBLISHED)]
    theirs = published.load("fig4_4").set_index(["distance", "model", "to"])["mean"]
    with style():
        figure, axes = plt.subplots(2, len(columns), figsize=SIZES["fig4_4"], sharey=True, sharex="row", squeeze=False)
        for row, distance in enumerate(_DISTANCES):
            for axis, column in zip(axes[row], columns, strict=True):
                shown = distances[(distances["distance"] == distance) & (distances["negatives"] == column)]
                for (model, to), values in shown.groupby(["model", "to"], sort=False)["value"]:
                    _half(axis, values.to_numpy(), models.index(model), to)
                    if column == AS_PUBLISHED and (distance, model, to) in theirs.index:
                        place = models.index(model) - 0.2 * _SIDES[to][1]
                        axis.plot(theirs[distance, model, to], place, **_DIAMOND)
                axis.set(xlabel=f"{distance} distance", ylim=(len(models) - 0.5, -0.5))
                axis.set_yticks(range(len(models)), models)
        for axis, column in zip(axes[0], columns, strict=True):
            axis.set_title("negatives as published (shifted)" if column == AS_PUBLISHED else f"{column} negatives")
        handles = [Patch(facecolor=color, edgecolor=INK, label=to) for to, (color, _) in _SIDES.items()]
        handles.append(Line2D([], [], **_DIAMOND, label="published mean"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        if title:
            figure.suptitle(title)
    return figure


def _half(axis: Axes, values: np.ndarray, row: int, to: str) -> None:
    color, side = _SIDES[to]
    places, density = _density(values)
    outline = row - side * 0.42 * density / density.max()
    axis.fill_between(places, row, outline, facecolor=color, edgecolor=INK, linewidth=0.6)


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel density between the extreme values; a spike where all values are one (a collapsed model)."""
    if np.ptp(values) < 1e-12:
        return np.array([values[0] - 1e-6, values[0], values[0] + 1e-6]), np.array([0.0, 1.0, 0.0])
    places = np.linspace(values.min(), values.max(), _GRID)
    return places, gaussian_kde(values)(places)


def _mode(values: pd.Series) -> float:
    places, density = _density(values.to_numpy())
    return float(places[density.argmax()])
