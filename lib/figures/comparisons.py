"""Differences with their intervals (as in Figure B.2), and all findings in one picture."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib.config import manifest
from lib.figures.style import INK, labelled, panels, rows_from_top, settings, style
from lib.statistics.verdicts import MARGIN, NUMBER

READOUTS = {"compare": "heads that compare", "none": "no head", "thesis": "the thesis' heads"}
_SPELT = {"mm": "max-margin", "mse": "MSE", "pv": "PV", "dbow": "DBOW", "sbert": "SBERT"}  # in ids
_TICKS = (-0.4, -0.1, 0, 0.1, 0.4)  # of the ledger's axis
# Title -> the judgements that are drawn (prefix of columns -> shift from the row's line), and the
# column of the verdict that colours them.
_QUESTIONS = {
    "on the published\nnumbers": ({"published_": 0.0}, "published_verdict"),
    "repeats here?": ({"": 0.0}, "verdict"),
    "survives other\nreadouts?": ({"compare_": -0.17, "none_": 0.17}, "survives"),
}


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


@style()
def ledger(findings: pd.DataFrame) -> Figure:
    """All findings in one picture: a row for each, a column for each question, coloured by verdict.

    The axis has signed square roots, so that small and large effects both show.
    """
    findings = findings[findings["verdict"] != NUMBER]
    names, places = [], {}  # of the rows; finding -> its row
    for label in manifest.load():
        if label in {*findings["label"]}:
            names.append(manifest.full_name(label))
        for finding, name in findings.loc[findings["label"] == label, "id"].items():
            places[finding] = len(names)
            names.append(" ".join(_SPELT.get(word, word) for word in name.split("-")))
    figure, axes = panels(len(_QUESTIONS), 1.1 + 0.15 * len(names), sharex=True, sharey=True)
    for axis, (title, (prefixes, verdict)) in zip(axes.flat, _QUESTIONS.items(), strict=True):
        roots = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x))
        axis.set_xscale("function", functions=roots)
        for prefix, shift in prefixes.items():
            for finding, row in findings.iterrows():
                _draw_judgement(axis, row, prefix, places[finding] + shift, row[verdict])
        axis.axvspan(-MARGIN, MARGIN, color="0.6", alpha=0.2, lw=0)
        axis.axvline(0, color=INK, linewidth=0.8)
        axis.set(title=title, xlim=(-0.8, 0.8))
        axis.set_xticks(_TICKS, [f"{tick:g}".replace("0.", ".") for tick in _TICKS])
        axis.grid(axis="y", visible=False)
    rows_from_top(axes[0, 0], names, fontsize=7.4)
    axes[0, 0].yaxis.set_tick_params(length=0)
    for place in {*range(len(names))} - {*places.values()}:
        axes[0, 0].get_yticklabels()[place].set(fontweight="bold")
    words = "effect on accuracy above chance, with a 95% interval, on a scale of square roots;\n"
    figure.supxlabel(f"{words}right of 0: as the thesis says", fontsize=8.5)
    drawn = {*findings[[verdict for _, verdict in _QUESTIONS.values()]].to_numpy().ravel()}
    looks = {word: look for word, look in settings()["verdicts"].items() if word in drawn}
    handles = [Line2D([], [], ms=4.5, **look, label=word) for word, look in looks.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _draw_judgement(axis: Axes, row: pd.Series, prefix: str, place: float, verdict: str) -> None:
    """Draw an effect with its interval; nothing if it was not judged."""
    effect, low, high = (row.get(f"{prefix}{end}") for end in ("effect", "low", "high"))
    look = settings()["verdicts"].get(verdict)
    if look is None or pd.isna(effect):
        return
    if not pd.isna(low):
        axis.plot([low, high], [place, place], color=look["color"], linewidth=1.2)
    axis.plot(effect, place, ms=3.4, **look)
