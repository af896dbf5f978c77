"""Distributions: of lengths (Figures 4.1 and 5.1 by source, 5.2 by task), of distances (4.4)."""

import math
from itertools import cycle, product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import gaussian_kde

from lib import published
from lib.config import roles
from lib.figures.style import INK, labelled, rows_from_top, settings, style

_BIN = 30  # tokens, as published
_COARSE = 120  # tokens, for scaled lengths: 15 of ours times eight
_LIMIT = 4096  # tokens that the student reads; longer texts are one open bin
_TEACHER_LIMIT = 384  # tokens that the structural teacher reads
_PUBLISHED = ("wikipedia", "news")  # the sources of the thesis; a corpus has folders of its own
_LINES = {"test": "-", "train": "--"}
_SPLITS = ("train", "validation")
_ROWS = {"ours": ("value", "over_384"), "published": ("published", "over_384_published")}
AS_PUBLISHED = "as published"


def histogram_frame(label: str, lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Length histograms (fig4_1 or fig5_1), ours beside the published ones, on the thesis' axis.

    Parameters
    ----------
    label : {"fig4_1", "fig5_1"}
    lengths : DataFrame
        As of `data_statistics.count_corpus_tokens`.
    scale : float
        What our lengths are multiplied by. If it is not 1, four published bins become one.

    Returns
    -------
    DataFrame
        value and published are percent of the source's documents in that split; a bin is bin_lo <=
        tokens < bin_hi. over_384 and its published twin are the percent of the split that exceeds
        the structural teacher's limit.
    """
    theirs, shares = (
        published.load(label),
        published.load(label.replace("fig", "tab")).set_index("split"),
    )
    over, frames = (
        100 * (lengths["sbert_tokens"] * scale > _TEACHER_LIMIT).groupby(lengths["split"]).mean(),
        [],
    )
    for split, source in product(_SPLITS, dict.fromkeys((*_PUBLISHED, *lengths["source"]))):
        first = theirs.loc[
            theirs["split"] == split, "bin_lo"
        ].min()  # where the published bins begin
        edges = [0, *range(first, _LIMIT, _BIN if scale == 1 else _COARSE)]
        bins = [*edges, np.inf]
        tokens = lengths.loc[
            (lengths["split"] == split) & (lengths["source"] == source), "longformer_tokens"
        ]
        curve = theirs[(theirs["split"] == split) & (theirs["source"] == source)]
        ours = np.histogram(tokens * scale, bins)[0] / len(tokens) * 100 if len(tokens) else None
        drawn = (
            np.histogram(curve["bin_lo"] + 0.5, bins, weights=curve["percent"])[0]
            if len(curve)
            else None
        )
        frame = {
            "split": split,
            "source": source,
            "bin_lo": edges,
            "bin_hi": [*edges[1:], None],
            "value": ours,
        }
        frame |= {
            "published": drawn,
            "documents": len(tokens),
            "scale": scale,
            "over_384": over.get(split),
        }
        frames.append(
            pd.DataFrame(frame | {"over_384_published": shares["over_384_percent"][split]})
        )
    return pd.concat(frames, ignore_index=True).astype(
        {"bin_hi": "Int64", "value": float, "published": float}
    )


@style()
def histogram(data: pd.DataFrame, label: str) -> Figure:
    """A panel each for train and validation, ours above, the published ones below on their own
    axis; no open bin."""
    rows = {name: columns for name, columns in _ROWS.items() if data[columns[0]].notna().any()}
    size = np.multiply(settings()["sizes"][label], [1, 0.4 + 0.6 * len(rows)])
    figure, axes = plt.subplots(
        len(rows), 2, figsize=size, sharex=True, sharey="row", squeeze=False
    )
    colors = dict(zip(data["source"].unique(), cycle(settings()["fills"]["others"]), strict=False))
    for axis, ((name, (column, share)), split) in zip(
        axes.flat, product(rows.items(), _SPLITS), strict=True
    ):
        shown = data[(data["split"] == split) & data["bin_hi"].notna() & data[column].notna()]
        for source, bins in shown.groupby("source", sort=False):
            look = {
                "fc": colors[source],
                "ec": INK,
                "linewidth": 0.5,
                "alpha": 0.7,
                "label": source,
            }
            axis.stairs(
                bins[column], [*bins["bin_lo"], int(bins["bin_hi"].iloc[-1])], fill=True, **look
            )
        count = (
            f", {shown.drop_duplicates('source')['documents'].sum():,} documents"
            if name == "ours"
            else ""
        )
        axis.set_title(
            f"{name}, {split}{count}\nabove the limit: {shown[share].max():.0f} %", fontsize=9
        )
        axis.axvline(_TEACHER_LIMIT, **settings()["limit"])
        axis.set_xlim(0, _LIMIT)
    figure.supxlabel(f"Longformer tokens, ours × {data['scale'].iloc[0]:g}", fontsize=9)
    figure.supylabel("percent of the source's documents", fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper center", ncols=4)
    return figure


def ecdf_frame(lengths: pd.DataFrame, *, scale: float = 1.0) -> pd.DataFrame:
    """Cumulative lengths of the evaluation tasks (Figure 5.2), ours and published.

    Parameters
    ----------
    lengths : DataFrame
        As of `data_statistics.count_task_tokens`; its splits "train" and "test" are drawn.
    scale : float
        What our lengths are multiplied by, to be on the thesis' axis.
    """
    curves, shown = [], lengths[lengths["split"].isin(_LINES)]
    for (task, split), texts in shown.groupby(["task", "split"], sort=False):
        tokens = texts["longformer_tokens"].sort_values() * scale
        curve = {"task": task, "split": split, "curve": "ours", "tokens": tokens}
        curve |= {"proportion": tokens.rank(method="max", pct=True), "documents": len(tokens)}
        curve |= {"over_384": 100 * (texts["sbert_tokens"] * scale > _TEACHER_LIMIT).mean()}
        picked = np.linspace(0, len(tokens) - 1, 200).round().astype(int)
        curves.append(pd.DataFrame(curve).iloc[picked].drop_duplicates("tokens"))
    frame = pd.concat(
        [
            *curves,
            published.load("fig5_2").assign(curve="published", documents=None, over_384=np.nan),
        ]
    )
    shares = pd.concat([published.load("tab5_4"), published.load("tab5_5").assign(split="test")])
    shares = shares.rename(columns={"over_384_percent": "over_384_published"})[
        ["task", "split", "over_384_published"]
    ]
    return frame.merge(shares, how="left").assign(scale=scale).astype({"documents": "Int64"})


@style()
def ecdf(data: pd.DataFrame) -> Figure:
    """Figure 5.2: a panel per task, ours over the published curve; test solid, train dashed, tokens
    on a log2 axis."""
    tasks = roles.ordered(data["task"])
    rows, (width, height) = math.ceil(len(tasks) / 4), settings()["sizes"]["fig5_2"]
    colors = settings()["length_curves"]
    figure, axes = plt.subplots(
        rows, 4, figsize=(width, height / 2 * max(rows, 2)), sharex=True, sharey=True
    )
    for axis, task in zip(axes.flat, tasks, strict=False):
        shown = data[data["task"] == task]
        for (curve, split), points in shown.groupby(["curve", "split"], sort=False):
            axis.plot(
                points["tokens"],
                points["proportion"],
                _LINES[split],
                color=colors[curve],
                linewidth=1.1,
            )
        over = (
            shown[["over_384", "over_384_published"]]
            .iloc[0]
            .set_axis(["", "published "])
            .dropna()
            .items()
        )
        told = ", ".join(f"{name}{share:.0f} %" for name, share in over)
        axis.set_title(f"{task}\n{shown['split'].iloc[0]}: {told}", fontsize=8)
        axis.axvline(_TEACHER_LIMIT, **settings()["limit"])
        axis.set_xscale("log", base=2)
    figure.supxlabel(f"Longformer tokens, ours × {data['scale'].iloc[0]:g}", fontsize=9)
    figure.supylabel("proportion of documents", fontsize=9)
    handles = [Line2D([], [], color=colors[curve], label=curve) for curve in data["curve"].unique()]
    handles += [
        Line2D([], [], color=INK, linestyle=line, label=split) for split, line in _LINES.items()
    ]
    handles += [
        Line2D(
            [],
            [],
            **settings()["limit"]
            | {"label": f"{settings()['limit']['label']}; in titles, the share above it"},
        )
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def violin_frame(distances: pd.DataFrame) -> pd.DataFrame:
    """The CSV of Figure 4.4: what its violins show, beside the published ones.

    Of the published ones there are only negatives "as published".

    Parameters
    ----------
    distances : DataFrame
        As of `teacher_distances.measure_students`: a row for each pair of a document and a
        teacher's embedding.
    """
    keys = ["negatives", "distance", "model", "to"]
    grouped = distances.groupby(keys, sort=False)["value"]
    shares = (
        grouped.quantile([0.05, 0.5, 0.95]).unstack().set_axis(["q05", "median", "q95"], axis=1)
    )
    ours = (
        grouped.agg(value="mean", mode=_mode)
        .join(shares)
        .assign(pairs=grouped.size())
        .reset_index()
    )
    theirs = published.load("fig4_4").assign(negatives=AS_PUBLISHED)[[*keys, "mean", "mode"]]
    return ours.merge(
        theirs.set_axis([*keys, "published", "published_mode"], axis=1), on=keys, how="left"
    )


@style()
def violins(distances: pd.DataFrame) -> Figure:
    """A row of panels per distance, a column for each way of pairing negatives, the last for the
    published violins, of
    which range, mode and mean are known. Positives stand above a model's line, negatives below."""
    theirs, ways = published.load("fig4_4"), list(dict.fromkeys(distances["negatives"]))
    models = distances["model"].unique().tolist() or theirs["model"].unique().tolist()
    figure, axes = plt.subplots(
        2, len(ways) + 1, figsize=settings()["sizes"]["fig4_4"], sharey=True, squeeze=False
    )
    for row, distance in zip(axes, ("squared L2", "cosine"), strict=True):
        for axis, way in zip(row[:-1], ways, strict=True):
            shown = distances[(distances["distance"] == distance) & (distances["negatives"] == way)]
            for (model, to), values in shown.groupby(["model", "to"], sort=False)["value"]:
                color, side = settings()["halves"][to]["color"], settings()["halves"][to]["side"]
                (body,) = axis.violinplot(
                    values, [models.index(model)], side=side, **settings()["violins"]
                )["bodies"]
                body.set(facecolor=color, edgecolor=INK, linewidth=0.6, alpha=1, label=to)
            axis.sharex(row[0])
            axis.set_title(
                f"ours, negatives {'shifted' if way == AS_PUBLISHED else way}", fontsize=9
            )
        for half in theirs[
            (theirs["distance"] == distance) & theirs["model"].isin(models)
        ].itertuples():
            color, height = (
                settings()["halves"][half.to]["color"],
                models.index(half.model) + settings()["halves"][half.to]["mean"],
            )
            row[-1].hlines(
                height, half.support_lo, half.support_hi, color=color, linewidth=3, label=half.to
            )
            row[-1].plot(half.mode, height, "|", color=INK, markersize=9, label="published mode")
            row[-1].plot(half.mean, height, **settings()["published_mean"])
        row[-1].set_title("published, negatives shifted", fontsize=9)
        for axis in row:
            axis.set_xlabel(f"{distance} distance")
        rows_from_top(row[0], models)
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=4)
    return figure


def _mode(values: pd.Series) -> float:
    """Where a Gaussian kernel density between the extreme values is highest; the value of a
    collapsed model."""
    places = np.linspace(values.min(), values.max(), 40)
    return float(
        places[0] if np.ptp(values) < 1e-12 else places[gaussian_kde(values)(places).argmax()]
    )
