"""Figure A.2: held-out correlation with the contextual teacher while a student trains."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib.figures.style import COLORS, INK, SIZES, style

_ROWS = {"embedding": "embeddings", "projected": "projections"}
_DIMENSIONS = dict(zip(("100", "1024", "2048"), COLORS, strict=False))


def curves(data: pd.DataFrame) -> Figure:
    """A column per training objective, above the embeddings, below the projections; a line per student.

    data: columns group, model, dimension (of the contextual teacher, text), update, embedding, projected, chance.
    """
    groups = list(dict.fromkeys(data["group"]))
    with style():
        figure, axes = plt.subplots(2, len(groups), figsize=SIZES["figA_2"], sharex=True, sharey="row", squeeze=False)
        for column, group in enumerate(groups):
            shown = data[data["group"] == group]
            for axis, (name, words) in zip(axes[:, column], _ROWS.items(), strict=True):
                for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                    axis.plot(
                        line["update"], line[name], color=_DIMENSIONS[dimension], linewidth=1, marker="o", markersize=2
                    )
                if name == "embedding":
                    axis.axhline(shown["chance"].mean(), color=INK, linestyle="--", linewidth=0.9)
                    axis.set_title(group)
                if column == 0:
                    axis.set_ylabel(f"mean correlation\nof the {words}")
            axes[1, column].set_xlabel("updates")
        present = [dimension for dimension in _DIMENSIONS if dimension in set(data["dimension"])]
        handles = [
            Line2D([], [], color=_DIMENSIONS[dimension], label=f"{dimension}-dimensional teacher")
            for dimension in present
        ]
        handles.append(Line2D([], [], color=INK, linestyle="--", label="documents paired at random"))
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure
