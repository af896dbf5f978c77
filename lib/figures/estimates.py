"""Estimates with intervals: models and their costs (Figure B.1), added ingredients (Figure B.2)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.figures.style import COLORS, INK, labelled, panels, rows_from_top, settings, style


@style()
def costs(data: pd.DataFrame) -> Figure:
    """Draw scores with their intervals, and next to them the time per document.

    `data` has a row for each model: model, trained, score, low, high, milliseconds.
    """
    figure, ((scores, times),) = panels(2, "figB_1", sharey=True, width_ratios=[3, 2])
    places = np.arange(len(data))
    looks = {False: (COLORS[0], "o", "needs no training"), True: (COLORS[1], "s", "student")}
    for trained, (color, marker, words) in looks.items():
        chosen = (data["trained"] == trained).to_numpy()
        rows = data[chosen]
        _mark(scores, rows, "score", places[chosen], color=color, marker=marker, label=words)
        times.plot(rows["milliseconds"], places[chosen], marker, color=color, markersize=5)
    times.set(
        xscale="log",
        xlim=(data["milliseconds"].min() / 2, data["milliseconds"].max() * 12),
        xlabel="milliseconds\nfor a document",
    )
    for place, value in zip(places, data["milliseconds"], strict=True):
        two_digits = float(f"{value:.2g}")
        times.text(value, place, f"  {two_digits:g}", va="center", fontsize=8)
    scores.set(xlabel="accuracy above chance,\nmean of the tasks")
    rows_from_top(scores, [*data["model"]])
    figure.legend(handles=labelled([scores]), loc="outside lower center", ncols=2)
    return figure


@style()
def differences(data: pd.DataFrame) -> Figure:
    """Draw differences with their intervals: a row for each step, a mark for each readout.

    `data` has the columns step, readout, difference, low, high. A step may lack a readout.
    """
    steps, readouts = [*data["step"].unique()], [*data["readout"].unique()]
    figure, ((axis,),) = panels(1, "figB_2")
    axis.axvline(0, color=INK, linewidth=0.9)
    shifts = np.linspace(-0.15, 0.15, len(readouts))
    known = settings()["readouts"]
    colors = [known["compare"], known["none"], *COLORS]  # the order of `beyond.READOUTS`
    for color, marker, shift, readout in zip(colors, "osD", shifts, readouts, strict=False):
        rows = data[data["readout"] == readout].set_index("step").reindex(steps)
        places = np.arange(len(steps)) + shift
        _mark(axis, rows, "difference", places, color=color, marker=marker, label=readout)
    axis.set(xlabel="change of accuracy above chance, mean of the tasks")
    rows_from_top(axis, steps)
    figure.legend(handles=labelled([axis]), loc="outside lower center", ncols=len(readouts))
    return figure


def _mark(axis: Axes, rows: pd.DataFrame, column: str, places: np.ndarray, **look: str) -> None:
    """Draw the values of a column as marks and their intervals as lines."""
    ends = [rows[column] - rows["low"], rows["high"] - rows[column]]
    look |= {"linestyle": "", "markersize": 5, "linewidth": 1.2}
    axis.errorbar(rows[column], places, xerr=ends, **look)
