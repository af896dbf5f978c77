"""Distributions: of lengths (Figures 4.1 and 5.1 by source, 5.2 by task), of distances (4.4)."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import gaussian_kde

from lib import published
from lib.config import roles
from lib.figures.style import COLORS, DIAMOND, INK, SIZES, rows_from_top, style

_BIN = 30  # tokens
_LIMIT = 4096  # the student's longest input; what is longer is one open bin
_PUBLISHED = ("wikipedia", "news")  # the sources of the thesis; a corpus has the folders that it has
_LINES = {"test": "-", "train": "--"}
_SPLITS = ("train", "validation")
_SIDES = {"positives": (COLORS[0], 1), "negatives": (COLORS[1], -1)}  # colour; the half above or below the row's line
AS_PUBLISHED = "as published"


def histogram_frame(label: str, lengths: pd.DataFrame) -> pd.DataFrame:
    """Length histograms, ours beside the published ones (label: fig4_1 or fig5_1), counted in the published bins.

    lengths: a row per document: source (a dataset folder), split ("train" or "validation"), longformer_tokens.

    value and published are percent of the source's documents in that split; a bin is bin_lo <= tokens < bin_hi.
    """
    theirs = published.load(label)
    frames = []
    for split in _SPLITS:
        lows = theirs.loc[theirs["split"] == split, "bin_lo"].unique()
        first, *later = sorted(lows[lows <= _LIMIT])
        edges = [*range(first, 0, -_BIN), 0][::-1] + later  # continued down to 0
        bins = [*edges, np.inf]
        for source in dict.fromkeys((*_PUBLISHED, *lengths["source"])):
            tokens = lengths.loc[(lengths["split"] == split) & (lengths["source"] == source), "longformer_tokens"]
            curve = theirs[(theirs["split"] == split) & (theirs["source"] == source)]
            ours = np.histogram(tokens, bins)[0] / len(tokens) * 100 if len(tokens) else None
            drawn = np.histogram(curve["bin_lo"] + 0.5, bins, weights=curve["percent"])[0] if len(curve) else None
            frame = {"split": split, "source": source, "bin_lo": edges, "bin_hi": [*edges[1:], None], "value": ours}
            frames.append(pd.DataFrame({**frame, "published": drawn, "documents": len(tokens)}))
    return pd.concat(frames, ignore_index=True).astype({"bin_hi": "Int64", "value": float, "published": float})


@style()
def histogram(data: pd.DataFrame, label: str) -> Figure:
    """Two panels, train and validation: ours filled, the published curve as a step outline; no open bin."""
    figure, axes = plt.subplots(1, 2, figsize=SIZES[label], sharex=True, sharey=True)
    colors = dict(zip(data["source"].unique(), itertools.cycle(COLORS), strict=False))
    dark = {source: [part * 0.6 for part in to_rgb(color)] for source, color in colors.items()}
    handles = {}
    for axis, split in zip(axes, _SPLITS, strict=True):
        shown = data[data["split"] == split]
        for source, color in colors.items():
            closed = shown[(shown["source"] == source) & shown["bin_hi"].notna()]
            edges = [*closed["bin_lo"], int(closed["bin_hi"].iloc[-1])]
            if closed["value"].notna().any():
                axis.stairs(closed["value"], edges, fill=True, color=color, alpha=0.45)
                handles[f"{source}, ours"] = Patch(facecolor=color, alpha=0.45)
            if closed["published"].notna().any():
                axis.stairs(closed["published"], edges, color=dark[source], linewidth=1.2)
                handles[f"{source}, published"] = Line2D([], [], color=dark[source])
        counts = shown.groupby("source", sort=False)["documents"].first()
        axis.set_title(f"{split}: " + ", ".join(f"{n:,} {source}" for source, n in counts.items() if n))
        axis.set(xlabel="Longformer tokens", xlim=(0, _LIMIT))
    axes[0].set_ylabel("percent of the source's documents")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def ecdf_frame(lengths: pd.DataFrame) -> pd.DataFrame:
    """Cumulative length distributions of the evaluation tasks (Figure 5.2), ours and published.

    lengths: a row per document: task, split ("train" or "test", others are left out), longformer_tokens.
    """
    theirs = published.load("fig5_2").assign(curve="published", documents=np.nan)
    curves = []
    shown = lengths[lengths["split"].isin(_LINES)]
    for (task, split), tokens in shown.groupby(["task", "split"], sort=False)["longformer_tokens"]:
        tokens = np.sort(tokens.to_numpy())
        picked = np.unique(np.linspace(0, len(tokens) - 1, 200).round().astype(int))
        proportion = np.searchsorted(tokens, tokens[picked], side="right") / len(tokens)
        curve = {"task": task, "split": split, "curve": "ours", "tokens": tokens[picked], "proportion": proportion}
        curves.append(pd.DataFrame({**curve, "documents": len(tokens)}).drop_duplicates(["tokens", "proportion"]))
    frame = pd.concat([*curves, theirs], ignore_index=True)
    return frame[["task", "split", "curve", "tokens", "proportion", "documents"]].astype({"documents": "Int64"})


@style()
def ecdf(data: pd.DataFrame) -> Figure:
    """Figure 5.2: ours left, published right; a colour per task, test solid, train dashed, tokens on a log2 axis."""
    colors = dict(zip(roles.ordered(data["task"]), COLORS, strict=False))
    figure, axes = plt.subplots(1, 2, figsize=SIZES["fig5_2"], sharex=True, sharey=True)
    for axis, curve in zip(axes, ("ours", "published"), strict=True):
        for (task, color), (split, line) in itertools.product(colors.items(), _LINES.items()):
            points = data[(data["curve"] == curve) & (data["task"] == task) & (data["split"] == split)]
            axis.plot(points["tokens"], points["proportion"], line, color=color, linewidth=1.1)
        axis.set_xscale("log", base=2)
        axis.set(title=curve, xlabel="Longformer tokens", ylim=(0, 1.02))
    axes[0].set_ylabel("proportion of documents")
    handles = [Line2D([], [], color=color, label=task) for task, color in colors.items()]
    handles += [Line2D([], [], color=INK, linestyle=line, label=split) for split, line in _LINES.items()]
    figure.legend(handles=handles, loc="outside right center")
    return figure


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
    places = np.linspace(values.min(), values.max(), 40)
    return places, gaussian_kde(values)(places)


def _mode(values: pd.Series) -> float:
    places, density = _density(values.to_numpy())
    return float(places[density.argmax()])
