"""Length distributions: Figures 4.1 and 5.1 (histograms per source) and 5.2 (cumulative, per task)."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.style import COLORS, INK, SIZES, style

_BIN = 30  # tokens
_LIMIT = 4096  # the student's longest input; what is longer is one open bin
_PUBLISHED = ("wikipedia", "news")  # the sources of the thesis; a corpus has the folders that it has
_LINES = {"test": "-", "train": "--"}
_SPLITS = ("train", "validation")


def histogram_frame(label: str, lengths: pd.DataFrame) -> pd.DataFrame:
    """Length histograms, ours beside the published ones (label: fig4_1 or fig5_1), counted in the published bins.

    lengths: a row per document: source (a dataset folder), split ("train" or "validation"), longformer_tokens.

    value and published are percent of the source's documents in that split; a bin is bin_lo <= tokens < bin_hi.
    """
    theirs = published.load(label)
    frames = []
    for split in _SPLITS:
        drawn = theirs.loc[theirs["split"] == split, "bin_lo"].unique()
        first, *later = sorted(drawn[drawn <= _LIMIT])
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
    for axis, split in zip(axes, _SPLITS, strict=True):
        shown = data[data["split"] == split]
        for source, color in colors.items():
            closed = shown[(shown["source"] == source) & shown["bin_hi"].notna()]
            edges = [*closed["bin_lo"], int(closed["bin_hi"].iloc[-1])]
            if closed["value"].notna().any():
                axis.stairs(closed["value"], edges, fill=True, color=color, alpha=0.45)
            if closed["published"].notna().any():
                axis.stairs(closed["published"], edges, color=dark[source], linewidth=1.2)
        counts = shown.groupby("source", sort=False)["documents"].first()
        axis.set_title(f"{split}: " + ", ".join(f"{n:,} {source}" for source, n in counts.items() if n))
        axis.set(xlabel="Longformer tokens", xlim=(0, _LIMIT))
    axes[0].set_ylabel("percent of the source's documents")
    handles = []
    for source, color in colors.items():
        drawn = data[data["source"] == source]
        if drawn["value"].notna().any():
            handles.append(Patch(facecolor=color, alpha=0.45, label=f"{source}, ours"))
        if drawn["published"].notna().any():
            handles.append(Line2D([], [], color=dark[source], label=f"{source}, published"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
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
