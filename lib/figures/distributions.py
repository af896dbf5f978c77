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

_BIN, _COARSE = 30, 120  # tokens, as published and for scaled lengths: 120 are 15 of ours times eight
_LIMIT, _TEACHER_LIMIT = 4096, 384  # what the student reads, longer texts are one open bin; the structural teacher
_MARK = {"color": INK, "linestyle": ":", "linewidth": 1.2, "label": "limit of the structural teacher (384)"}
_PUBLISHED = ("wikipedia", "news")  # the sources of the thesis; a corpus has the folders that it has
_LINES = {"test": "-", "train": "--"}
_CURVES = {"published": "#8c8c8c", "ours": COLORS[0]}
_SPLITS = ("train", "validation")
_SIDES = {"positives": (COLORS[0], 1), "negatives": (COLORS[1], -1)}  # colour; the half above or below the row's line
AS_PUBLISHED = "as published"


def histogram_frame(label: str, lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Length histograms (fig4_1 or fig5_1), ours beside the published ones, on the thesis' axis.

    lengths: a row per document: source (a dataset folder), split ("train" or "validation"), longformer_tokens and
        sbert_tokens. scale: what ours are multiplied by; if that is not 1, four published bins are one.

    value and published are percent of the source's documents in that split, a bin is bin_lo <= tokens < bin_hi;
    over_384 and its published twin are the percent of the split that exceeds the structural teacher's limit.
    """
    theirs, shares = published.load(label), published.load(label.replace("fig", "tab")).set_index("split")
    over, frames = 100 * (lengths["sbert_tokens"] * scale > _TEACHER_LIMIT).groupby(lengths["split"]).mean(), []
    for split in _SPLITS:
        first = theirs.loc[theirs["split"] == split, "bin_lo"].min()  # where the published bins begin
        edges = [0, *range(first, _LIMIT, _BIN if scale == 1 else _COARSE)]
        bins = [*edges, np.inf]
        for source in dict.fromkeys((*_PUBLISHED, *lengths["source"])):
            tokens = lengths.loc[(lengths["split"] == split) & (lengths["source"] == source), "longformer_tokens"]
            curve = theirs[(theirs["split"] == split) & (theirs["source"] == source)]
            ours = np.histogram(tokens * scale, bins)[0] / len(tokens) * 100 if len(tokens) else None
            drawn = np.histogram(curve["bin_lo"] + 0.5, bins, weights=curve["percent"])[0] if len(curve) else None
            frame = {"split": split, "source": source, "bin_lo": edges, "bin_hi": [*edges[1:], None], "value": ours}
            frame |= {"published": drawn, "documents": len(tokens), "scale": scale, "over_384": over.get(split)}
            frames.append(pd.DataFrame(frame | {"over_384_published": shares["over_384_percent"][split]}))
    return pd.concat(frames, ignore_index=True).astype({"bin_hi": "Int64", "value": float, "published": float})


@style()
def histogram(data: pd.DataFrame, label: str) -> Figure:
    """Two panels, train and validation: ours filled, the published curve as a step outline; no open bin."""
    figure, axes = plt.subplots(1, 2, figsize=SIZES[label], sharex=True, sharey=True)
    colors = dict(zip(data["source"].unique(), itertools.cycle(COLORS), strict=False))
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
                dark = [part * 0.6 for part in to_rgb(color)]
                axis.stairs(closed["published"], edges, color=dark, linewidth=1.2)
                handles[f"{source}, published"] = Line2D([], [], color=dark)
        counts = shown.groupby("source", sort=False)["documents"].first()
        title = f"{split}: " + ", ".join(f"{n:,} {source}" for source, n in counts.items() if n)
        axis.set_title(f"{title}\nabove the limit: {_above(shown.iloc[0])}", fontsize=9)
        axis.set(xlabel=f"Longformer tokens, ours × {data['scale'].iloc[0]:g}", xlim=(0, _LIMIT))
        handles[_MARK["label"]] = axis.axvline(_TEACHER_LIMIT, **_MARK)
    axes[0].set_ylabel("percent of the source's documents")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    return figure


def ecdf_frame(lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Cumulative length distributions of the evaluation tasks (Figure 5.2), ours and published, on the thesis' axis.

    lengths: a row per document: task, split ("train" or "test", others are left out), and as in `histogram_frame`.
    """
    curves, shown = [], lengths[lengths["split"].isin(_LINES)]
    for (task, split), texts in shown.groupby(["task", "split"], sort=False):
        tokens = texts["longformer_tokens"].sort_values() * scale
        curve = {"task": task, "split": split, "curve": "ours", "tokens": tokens}
        curve |= {"proportion": tokens.rank(method="max", pct=True), "documents": len(tokens)}
        curve |= {"over_384": 100 * (texts["sbert_tokens"] * scale > _TEACHER_LIMIT).mean()}
        picked = np.linspace(0, len(tokens) - 1, 200).round().astype(int)
        curves.append(pd.DataFrame(curve).iloc[picked].drop_duplicates("tokens"))
    frame = pd.concat([*curves, published.load("fig5_2").assign(curve="published")], ignore_index=True)
    shares = pd.concat([published.load("tab5_4"), published.load("tab5_5").assign(split="test")])
    shares = shares.rename(columns={"over_384_percent": "over_384_published"})[["task", "split", "over_384_published"]]
    return frame.merge(shares, how="left").assign(scale=scale).astype({"documents": "Int64"})


@style()
def ecdf(data: pd.DataFrame) -> Figure:
    """Figure 5.2: a panel per task, ours over the published curve; test solid, train dashed, tokens on a log2 axis."""
    tasks = roles.ordered(data["task"])
    rows, (width, height) = -(-len(tasks) // 4), SIZES["fig5_2"]
    figure, axes = plt.subplots(rows, 4, figsize=(width, height / 2 * max(rows, 2)), sharex=True, sharey=True)
    for axis, task in zip(axes.flat, tasks, strict=False):
        shown = data[data["task"] == task]
        for (curve, split), points in shown.groupby(["curve", "split"], sort=False):
            axis.plot(points["tokens"], points["proportion"], _LINES[split], color=_CURVES[curve], linewidth=1.1)
        axis.set_title(f"{task}\n{shown['split'].iloc[0]}: {_above(shown.iloc[0])}", fontsize=8)
        axis.axvline(_TEACHER_LIMIT, **_MARK)
        axis.set_xscale("log", base=2)
    figure.supxlabel(f"Longformer tokens, ours × {data['scale'].iloc[0]:g}", fontsize=9)
    figure.supylabel("proportion of documents", fontsize=9)
    handles = [Line2D([], [], color=color, label=curve) for curve, color in _CURVES.items()]
    handles += [Line2D([], [], color=INK, linestyle=line, label=split) for split, line in _LINES.items()]
    figure.legend(handles=[*handles, Line2D([], [], **_MARK)], loc="outside upper center", ncols=5)
    return figure


def violin_frame(distances: pd.DataFrame) -> pd.DataFrame:
    """What the violins show, beside the published ones (negatives "as published" only): the CSV of Figure 4.4.

    distances: a row per pair: distance ("squared L2", a mean over dimensions, or "cosine"), model (as printed), to
        ("positives" or "negatives"), negatives (paired "as published", from shifted features, or "true"), value.
    """
    keys = ["negatives", "distance", "model", "to"]
    grouped = distances.groupby(keys, sort=False)["value"]
    shares = grouped.quantile([0.05, 0.5, 0.95]).unstack().set_axis(["q05", "median", "q95"], axis=1)
    ours = grouped.agg(value="mean", mode=_mode).join(shares).assign(pairs=grouped.size()).reset_index()
    theirs = published.load("fig4_4").assign(negatives=AS_PUBLISHED)[[*keys, "mean", "mode"]]
    return ours.merge(theirs.set_axis([*keys, "published", "published_mode"], axis=1), on=keys, how="left")


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


def _above(row: pd.Series) -> str:
    ours, theirs = ("-" if pd.isna(share) else f"{share:.0f} %" for share in row[["over_384", "over_384_published"]])
    return f"{ours} (published {theirs})"


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel density between the extreme values; a spike where all values are one (a collapsed model)."""
    if np.ptp(values) < 1e-12:
        return np.array([values[0] - 1e-6, values[0], values[0] + 1e-6]), np.array([0.0, 1.0, 0.0])
    places = np.linspace(values.min(), values.max(), 40)
    return places, gaussian_kde(values)(places)


def _mode(values: pd.Series) -> float:
    places, density = _density(values.to_numpy())
    return float(places[density.argmax()])
