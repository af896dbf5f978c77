"""Differences with intervals by several readouts, as in Figure B.2."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib.figures.style import INK, labelled, panels, rows_from_top, settings, style

READOUTS = {"compare": "heads that compare", "none": "no head", "thesis": "the thesis' heads"}


@style()
def differences(data: pd.DataFrame) -> Figure:
    """Draw differences with their intervals: a row for each step, a mark for each readout.

    `data` has the columns step, readout (a name or what it is called in figures), difference, low,
    high. A step may lack a readout.
    """
    data = data.replace({"readout": READOUTS})
    steps, shown = [*data["step"].unique()], {*data["readout"]}
    names = {told: name for name, told in READOUTS.items() if told in shown}
    figure, ((axis,),) = panels(1, "figB_2")
    axis.axvline(0, color=INK, linewidth=0.9)
    shifts = np.linspace(-0.15, 0.15, len(names))
    for (readout, name), marker, shift in zip(names.items(), "osD", shifts, strict=False):
        rows = data[data["readout"] == readout].set_index("step").reindex(steps)
        ends = [rows["difference"] - rows["low"], rows["high"] - rows["difference"]]
        look = {"color": settings()["readouts"][name], "marker": marker, "label": readout}
        look |= {"xerr": ends, "linestyle": "", "markersize": 5, "linewidth": 1.2}
        axis.errorbar(rows["difference"], np.arange(len(steps)) + shift, **look)
    axis.set(xlabel="change of accuracy above chance, mean of the tasks")
    rows_from_top(axis, steps)
    figure.legend(handles=labelled([axis]), loc="outside lower center", ncols=len(names))
    return figure
