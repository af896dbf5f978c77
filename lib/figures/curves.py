"""Figure A.2: held-out correlation with the contextual teacher while a student trains."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib.figures.style import COLORS, INK, SIZES, style

_DIMENSIONS = dict(zip(("100", "1024", "2048"), COLORS, strict=False))


@style()
def curves(data: pd.DataFrame) -> Figure:
    """A column per training objective, above the embeddings, below the projections; a line per student.

    data: `lib.findings.contextual.figure_histories`.
    """
    groups = data["group"].unique()
    figure, axes = plt.subplots(2, len(groups), figsize=SIZES["figA_2"], sharex=True, sharey="row", squeeze=False)
    for (above, below), group in zip(axes.T, groups, strict=True):
        shown = data[data["group"] == group]
        for axis, name in ((above, "embedding"), (below, "projected")):
            for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                look = {"color": _DIMENSIONS[dimension], "linewidth": 1, "marker": "o", "markersize": 2}
                axis.plot(line["update"], line[name], **look)
        above.axhline(shown["chance"].mean(), color=INK, linestyle="--", linewidth=0.9)
        above.set_title(group)
        below.set_xlabel("updates")
    for axis, words in zip(axes[:, 0], ("embeddings", "projections"), strict=True):
        axis.set_ylabel(f"mean correlation\nof the {words}")
    colors = {name: color for name, color in _DIMENSIONS.items() if name in set(data["dimension"])}
    handles = [Line2D([], [], color=color, label=f"{name}-dimensional teacher") for name, color in colors.items()]
    handles.append(Line2D([], [], color=INK, linestyle="--", label="documents paired at random"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure
