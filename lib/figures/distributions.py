"""Distributions of lengths (Figures 4.1 and 5.1 by source, 5.2 by task) and distances (4.4)."""

import math
from itertools import cycle, product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib import published
from lib.config import manifest
from lib.figures.style import COLORS, labelled, panels, rows_from_top, settings, style

_BIN = 30  # tokens, as published
_COARSE = 120  # tokens of a bin for scaled lengths: 15 of ours times eight
_LIMIT = 4096  # tokens that the student reads; longer texts are one open bin
_TEACHER_LIMIT = 384  # tokens that the structural teacher reads
_PUBLISHED = ("wikipedia", "news")  # the sources of the thesis; a corpus has folders of its own
_TOKENS = {16: "16", 128: "128", 1024: "1k", 8192: "8k"}  # ticks of Figure 5.2
_LINES = {"test": "-", "train": "--"}
_SPLITS = ("train", "validation")
_ROWS = {"ours": ("value", "over_384"), "published": ("published", "over_384_published")}
_PAIRED = {  # ways of pairing negatives
    "as published": "negatives as in the thesis: the\nsame text, its features shifted",
    "true": "true negatives:\nthe other texts of a batch",
}


def histogram_frame(label: str, lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Length histograms (fig4_1 or fig5_1), ours next to the published ones, on the thesis' scale.

    `lengths` have the columns split, source, longformer_tokens, sbert_tokens; `scale` is a factor
    on them, and if it is not 1, four published bins become one. value and published are percent of
    the source's documents with bin_lo <= tokens < bin_hi; over_384 is that of the whole split.
    """
    theirs = published.load(label)
    shares = published.load(label.replace("fig", "tab")).set_index("split")["over_384_percent"]
    over = 100 * (lengths["sbert_tokens"] * scale > _TEACHER_LIMIT).groupby(lengths["split"]).mean()
    frames, step = [], _BIN if scale == 1 else _COARSE
    for split, source in product(_SPLITS, dict.fromkeys((*_PUBLISHED, *lengths["source"]))):
        low = [0, *range(theirs.loc[theirs["split"] == split, "bin_lo"].min(), _LIMIT, step)]
        frame = pd.DataFrame({"split": split, "source": source, "bin_lo": low})
        frame = frame.assign(bin_hi=[*low[1:], None], value=np.nan, published=np.nan)
        tokens = lengths.query("split == @split and source == @source")["longformer_tokens"]
        curve = theirs.query("split == @split and source == @source")
        if len(tokens):
            frame["value"] = np.histogram(tokens * scale, [*low, np.inf])[0] / len(tokens) * 100
        if len(curve):
            places = np.digitize(curve["bin_lo"], low) - 1
            frame["published"] = np.bincount(places, curve["percent"], len(low))
        frame = frame.assign(documents=len(tokens), scale=scale, over_384=over.get(split))
        frames.append(frame.assign(over_384_published=shares[split]))
    return pd.concat(frames, ignore_index=True).astype({"bin_hi": "Int64"})


@style()
def histogram(data: pd.DataFrame, label: str) -> Figure:
    """A panel each for train and validation, ours above, published below; without the open bin."""
    rows = {name: columns for name, columns in _ROWS.items() if data[columns[0]].notna().any()}
    height = settings()["heights"][label] * (0.4 + 0.3 * len(rows))
    figure, axes = panels(2, height, rows=len(rows), sharex=True, sharey="row")
    colors = dict(zip(data["source"].unique(), cycle(COLORS), strict=False))
    for axis, (name, split) in zip(axes.flat, product(rows, _SPLITS), strict=True):
        column, share = rows[name]
        shown = data[(data["split"] == split) & data["bin_hi"].notna() & data[column].notna()]
        for source, bins in shown.groupby("source", sort=False):
            edges, look = [*bins["bin_lo"], int(bins["bin_hi"].iloc[-1])], {"fc": colors[source]}
            axis.stairs(bins[column], edges, fill=True, lw=0, alpha=0.7, label=source, **look)
        count = shown.drop_duplicates("source")["documents"].sum()
        told = f", {count:,} documents" if name == "ours" else ""
        over = f"above the limit: {shown[share].max():.0f}%"
        axis.set_title(f"{name}, {split}{told}\n{over}", fontsize=9)
        axis.axvline(_TEACHER_LIMIT, **settings()["limit"])
        axis.set_xlim(0, _LIMIT)
    return _finish(figure, axes, data, "percent of the source's documents")


def _finish(figure: Figure, axes: np.ndarray, data: pd.DataFrame, counted: str) -> Figure:
    figure.supxlabel(f"Longformer tokens, ours × {data['scale'].iloc[0]:g}", fontsize=9)
    figure.supylabel(counted, fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper center", ncols=4)
    return figure


def ecdf_frame(lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Cumulative lengths of texts (Figure 5.2); columns as for `histogram_frame`, and task."""
    curves, shown = [], lengths[lengths["split"].isin(_LINES)]
    for (task, split), texts in shown.groupby(["task", "split"], sort=False):
        tokens = texts["longformer_tokens"].sort_values() * scale
        curve = {"task": task, "split": split, "curve": "ours", "tokens": tokens}
        curve |= {"proportion": tokens.rank(method="max", pct=True), "documents": len(tokens)}
        curve |= {"over_384": 100 * (texts["sbert_tokens"] * scale > _TEACHER_LIMIT).mean()}
        picked = np.linspace(0, len(tokens) - 1, 200).round().astype(int)
        curves.append(pd.DataFrame(curve).iloc[picked].drop_duplicates("tokens"))
    theirs = published.load("fig5_2").assign(curve="published", documents=None, over_384=np.nan)
    shares = pd.concat([published.load("tab5_4"), published.load("tab5_5").assign(split="test")])
    shares = shares.rename(columns={"over_384_percent": "over_384_published"})
    shares = shares[["task", "split", "over_384_published"]]
    frame = pd.concat([*curves, theirs]).merge(shares, how="left").assign(scale=scale)
    return frame.astype({"documents": "Int64"})


@style()
def ecdf(data: pd.DataFrame) -> Figure:
    """Figure 5.2: a panel for each task; with texts of ours, only for tasks that have some."""
    own = data[data["curve"] == "ours"]
    tasks = manifest.ordered((data if own.empty else own)["task"])
    rows = math.ceil(len(tasks) / 4)
    height = settings()["heights"]["fig5_2"] * max(rows, 1.3) / 2
    figure, axes = panels(4, height, rows=rows, sharex=True, sharey=True)
    for axis, task in zip(axes.flat, tasks, strict=False):
        shown = data[data["task"] == task].sort_values("split", ascending=False, kind="stable")
        for (curve, split), points in shown.groupby(["curve", "split"], sort=False):
            look = {"linestyle": _LINES[split], "color": settings()["sides"][curve]}
            label = f"{curve}, {split}"
            axis.plot(points["tokens"], points["proportion"], lw=1.1, label=label, **look)
        over = shown.bfill().filter(like="over_384").iloc[0].set_axis(["", "published "])
        told = ", ".join(f"{name}{share:.0f}%" for name, share in over.dropna().items())
        axis.set_title(f"{task}\n{told}", fontsize=8)
        told = f"{_TEACHER_LIMIT} tokens (titles: train above it)"
        axis.axvline(_TEACHER_LIMIT, **settings()["limit"] | {"label": told})
        axis.set_xscale("log", base=2)
        axis.set_xticks([*_TOKENS], [*_TOKENS.values()])
        axis.xaxis.set_tick_params(labelbottom=True)  # what is below it may be gone
    for axis in axes.flat[len(tasks) :]:
        axis.remove()
    return _finish(figure, axes, data, "proportion of documents")


@style()
def violins(distances: pd.DataFrame) -> Figure:
    """Distances to the teacher, a panel for each kind of distance and way of pairing negatives.
    `distances` have the columns model, distance, negatives (the way), to ("positives", which are
    drawn above a model's line, or "negatives") and value, which is missing where none is ours.
    """
    theirs = published.load("fig4_4").assign(negatives="as published")
    models, halves = [*distances["model"].unique()], settings()["halves"]
    parts, kinds = distances.groupby(["distance", "negatives"], sort=False), distances["distance"]
    figure, axes = panels(len(parts), "fig4_4", sharex=kinds.nunique() == 1, sharey=True)
    for axis, ((distance, pairing), part) in zip(axes.flat, parts, strict=True):
        for (model, to), values in part.dropna().groupby(["model", "to"], sort=False)["value"]:
            half, look = halves[to], {"side": halves[to]["side"]} | settings()["violins"]
            (body,) = axis.violinplot(values, [models.index(model)], **look)["bodies"]
            body.set(facecolor=half["color"], label=half["label"], linewidth=0, alpha=0.85)
        shown = theirs.query("distance == @distance and negatives == @pairing")
        for row in shown[shown["model"].isin(models)].itertuples():
            half, height = halves[row.to], models.index(row.model) + halves[row.to]["mean"]
            axis.hlines(height, row.support_lo, row.support_hi, color=half["color"], linewidth=1.2)
            label = f"published {half['label']}: mean and range"
            axis.plot(row.mean, height, "D", color=half["color"], mfc="none", ms=5, label=label)
        axis.set(xlabel=f"{distance} distance", title=_PAIRED[pairing])
    short = pd.Series(models).replace(settings()["short"]["fig4_3"], regex=True)
    rows_from_top(axes[0, 0], [*short])
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=1)
    return figure
