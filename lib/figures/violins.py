"""Figure 4.4: distances between the students' and the structural teacher's embeddings."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import gaussian_kde

from lib import published
from lib.figures.style import COLORS, DIAMOND, INK, SIZES, rows_from_top, style

_SIDES = {"positives": (COLORS[0], 1), "negatives": (COLORS[1], -1)}  # colour; the half above or below the row's line
_GRID = 40  # points of a violin's outline
AS_PUBLISHED = "as published"


def violin_frame(distances: pd.DataFrame) -> pd.DataFrame:
    """What the violins show, beside the published ones (negatives "as published" only): the CSV of Figure 4.4.

    distances: a row per pair: distance ("squared L2", a mean over dimensions, or "cosine"), model (as printed), to
        ("positives" or "negatives"), negatives (paired "as published", from shifted features, or "true"), value.
    """
    keys = ["negatives", "distance", "model", "to"]
    grouped = distances.groupby(keys, sort=False)["value"]
    frame = grouped.agg(value="mean", mode=_mode, median="median", pairs="size")
    frame = frame.assign(q05=grouped.quantile(0.05), q95=grouped.quantile(0.95)).reset_index()
    theirs = published.load("fig4_4").rename(columns={"mean": "published", "mode": "published_mode"})
    frame = frame.merge(theirs.assign(negatives=AS_PUBLISHED), on=keys, how="left")
    return frame[[*keys, "value", "mode", "q05", "median", "q95", "pairs", "published", "published_mode"]]


@style()
def violins(distances: pd.DataFrame) -> Figure:
    """A row of panels per distance, a column per way of pairing negatives; one violin per model, positives above."""
    models = distances["model"].unique().tolist()
    columns = dict.fromkeys([AS_PUBLISHED, *distances["negatives"]])
    theirs = published.load("fig4_4").set_index(["distance", "model", "to"])["mean"]
    figure, axes = plt.subplots(2, len(columns), figsize=SIZES["fig4_4"], sharey=True, sharex="row", squeeze=False)
    for row, distance in enumerate(("squared L2", "cosine")):
        for axis, column in zip(axes[row], columns, strict=True):
            shown = distances[(distances["distance"] == distance) & (distances["negatives"] == column)]
            for (model, to), values in shown.groupby(["model", "to"], sort=False)["value"]:
                line, (color, side) = models.index(model), _SIDES[to]
                places, density = _density(values.to_numpy())
                outline = line - side * 0.42 * density / density.max()
                axis.fill_between(places, line, outline, facecolor=color, edgecolor=INK, linewidth=0.6)
                if column == AS_PUBLISHED and (distance, model, to) in theirs.index:
                    axis.plot(theirs[distance, model, to], line - 0.2 * side, **DIAMOND)
            axis.set_xlabel(f"{distance} distance")
            rows_from_top(axis, models)
    for axis, column in zip(axes[0], columns, strict=True):
        axis.set_title("negatives as published (shifted)" if column == AS_PUBLISHED else f"{column} negatives")
    handles = [Patch(facecolor=color, edgecolor=INK, label=to) for to, (color, _) in _SIDES.items()]
    handles.append(Line2D([], [], **DIAMOND, label="published mean"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel density between the extreme values; a spike where all values are one (a collapsed model)."""
    if np.ptp(values) < 1e-12:
        return np.array([values[0] - 1e-6, values[0], values[0] + 1e-6]), np.array([0.0, 1.0, 0.0])
    places = np.linspace(values.min(), values.max(), _GRID)
    return places, gaussian_kde(values)(places)


def _mode(values: pd.Series) -> float:
    places, density = _density(values.to_numpy())
    return float(places[density.argmax()])
