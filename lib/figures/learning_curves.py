"""What training does: the contextual share of the gradient (Figure A.3), scores against its length (Figure A.4)."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from lib.figures.style import COLORS, INK, SIZES, style

_MARKERS = "osD^v"


@style()
def gradient_shares(shares: pd.DataFrame, factors: pd.DataFrame) -> Figure:
    """Three panels: the share over training (median and range of each group of students), the share that a factor on
    the contextual loss gives, and how far a student then is from the one without context."""
    figure, (over_training, by_factor, apart) = plt.subplots(1, 3, figsize=SIZES["figA_3"])
    for color, (group, rows) in zip(COLORS, shares.groupby("group", sort=False), strict=False):
        spread = rows.groupby("update")["share"].agg(["min", "median", "max"])
        over_training.plot(spread["median"], color=color, label=group)
        over_training.fill_between(spread.index, spread["min"], spread["max"], color=color, alpha=0.2, linewidth=0)
    over_training.set(xlabel="update", ylabel="contextual share of the gradient", ylim=(0, None))
    over_training.legend(fontsize="small")
    for color, (loss, rows) in zip(COLORS, factors.groupby("loss", sort=False), strict=False):
        trained = rows.dropna(subset="cosine")
        by_factor.plot(rows["factor"], rows["expected"], color=color, label=f"{loss}, at the start")
        by_factor.plot(trained["factor"], trained["share"], "o", color=color, label=f"{loss}, mean over training")
        apart.plot(trained["factor"], trained["cosine"], "o-", color=color, label=f"{loss}, same seed")
        apart.axhline(rows["another_seed"].iloc[0], color=color, linestyle="--", label=f"{loss}, another seed")
    by_factor.set(ylim=(0, 1), ylabel="contextual share of the gradient")
    apart.set(ylabel="mean cosine with the student without context")
    for axis in (by_factor, apart):
        axis.set_xscale("log", base=2)
        axis.set_xticks(factors["factor"].unique(), factors["factor"].unique())
        axis.set_xlabel("factor on the contextual loss")
        axis.legend(fontsize="small")
    return figure


@style()
def length_of_training(data: pd.DataFrame) -> Figure:
    """Two panels: accuracy and MRR of halves against updates; points are seeds, lines their means, from the base on."""
    figure, axes = plt.subplots(1, 2, figsize=SIZES["figA_4"], sharex=True)
    titles = {
        "accuracy": "chance-corrected accuracy, mean over tasks",
        "halves": "MRR of the other half of a held-out document",
    }
    base = data[data["model"] == "base"]
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        start = base[column].mean()
        axis.axhline(start, color=INK, linewidth=0.8, linestyle=":", label="untrained base")
        for color, marker, name in zip(COLORS, _MARKERS, data["model"].unique()[1:], strict=False):
            rows = data[data["model"] == name]
            means = rows.groupby("updates")[column].mean()
            axis.plot([0, *means.index], [start, *means], color=color, label=name)
            axis.plot(rows["updates"], rows[column], marker, color=color, markersize=3.5, mfc="none")
        axis.set(xlabel="updates", ylabel=title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
