"""The ledger in one picture, and the verdicts that other rules change."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib.config import manifest
from lib.figures.style import INK, panels, rows_from_top, settings, style
from lib.statistics.verdicts import DISAGREE, MARGIN, NUMBER

_SPELT = {"mm": "max-margin", "mse": "MSE", "pv": "PV", "dbow": "DBOW", "sbert": "SBERT"}  # in ids
_UNSEEN = {"color": "none"}  # for verdicts that are not drawn
_TICKS = (-0.4, -0.1, 0, 0.1, 0.4)  # of the ledger's axis
# Title -> the judgements that are drawn (prefix of columns -> shift from the row's line), and the
# column of the verdict that colours them.
_QUESTIONS = {
    "on the published\nnumbers": ({"published_": 0.0}, "published_verdict"),
    "repeats here?": ({"": 0.0}, "verdict"),
    "survives other\nreadouts?": ({"compare_": -0.17, "none_": 0.17}, "survives"),
}


@style()
def ledger(findings: pd.DataFrame) -> Figure:
    """All findings in one picture: a row for each, a column for each question, coloured by verdict.

    `findings` are all of the ledger or some. The axis has signed square roots, so that small and
    large effects both show.
    """
    findings = findings[findings["verdict"] != NUMBER]
    order = [label for label in manifest.load() if label in {*findings["label"]}]
    places, names, headings = {}, [], []
    for label in order:
        headings.append(len(names))
        names.append(manifest.full_name(label))
        for place, name in findings.loc[findings["label"] == label, "id"].items():
            places[place] = len(names)
            names.append(" ".join(_SPELT.get(word, word) for word in name.split("-")))
    looks = settings()["verdicts"]
    height = 1.1 + 0.15 * len(names)
    figure, axes = panels(len(_QUESTIONS), height, sharex=True, sharey=True)
    for axis, (title, (judgements, verdict)) in zip(axes.flat, _QUESTIONS.items(), strict=True):
        roots = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x))
        axis.set_xscale("function", functions=roots)
        for prefix, shift in judgements.items():
            for place, row in findings.iterrows():
                _draw_judgement(axis, row, prefix, places[place] + shift, looks.get(row[verdict]))
        axis.axvspan(-MARGIN, MARGIN, color="0.6", alpha=0.2, lw=0)
        axis.axvline(0, color=INK, linewidth=0.8)
        axis.set(title=title, xlim=(-0.8, 0.8))
        axis.set_xticks(_TICKS, [f"{tick:g}".replace("0.", ".") for tick in _TICKS])
        axis.grid(axis="y", visible=False)
    first = axes[0, 0]
    rows_from_top(first, names, fontsize=7.4)
    for place in headings:
        first.get_yticklabels()[place].set(fontweight="bold")
    first.yaxis.set_tick_params(length=0)
    words = "effect on accuracy above chance, with a 95% interval, on a scale of square roots;\n"
    figure.supxlabel(f"{words}right of 0: as the thesis says", fontsize=8.5)
    drawn = {*findings[[verdict for _, verdict in _QUESTIONS.values()]].to_numpy().ravel()}
    handles = [
        Line2D([], [], ms=4.5, **look, label=word) for word, look in looks.items() if word in drawn
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


@style()
def verdict_changes(findings: pd.DataFrame, again: pd.DataFrame) -> Figure:
    """Findings as marks, a row for each figure that they are about; changed verdicts are ringed.

    `again` has the same findings under other rules: columns verdict and survives.
    """
    labels = [label for label in manifest.load() if label in {*findings["label"]}]
    places, looks = findings.groupby("label").cumcount(), settings()["verdicts"]
    figure, axes = panels(2, 5, sharex=True, sharey=True)
    titles = {"verdict": "repeats here?", "survives": "survives other readouts?"}
    for axis, (column, title) in zip(axes.flat, titles.items(), strict=True):
        changed = findings[column] != again[column]
        for name, label in findings["label"].items():
            place = places[name], labels.index(label)
            axis.plot(*place, ms=6.5, **looks.get(again.loc[name, column], _UNSEEN))
            if changed[name]:
                axis.plot(*place, "o", ms=12, mfc="none", mec=INK, mew=1.1)
        counts = again[column].value_counts()
        words = [word for word in looks if word != DISAGREE or column == "survives"]
        told = {f"{counts.get(word, 0)} {word}": {"linestyle": ""} | looks[word] for word in words}
        handles = [Line2D([], [], ms=6, **look, label=text) for text, look in told.items()]
        axis.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 0))
        axis.set(title=f"{title}\n{changed.sum()} of {len(changed)} changed", xticks=[])
        axis.grid(visible=False)
    rows_from_top(axes[0, 0], [manifest.full_name(label) for label in labels])
    axes[0, 0].set_xlim(-0.7, places.max() + 0.7)
    return figure


def _draw_judgement(
    axis: Axes, row: pd.Series, prefix: str, place: float, look: dict[str, str] | None
) -> None:
    """Draw an effect with its interval; nothing if it was not judged."""
    effect, low, high = (row.get(f"{prefix}{end}") for end in ("effect", "low", "high"))
    if look is None or pd.isna(effect):
        return
    if not pd.isna(low):
        axis.plot([low, high], [place, place], color=look["color"], linewidth=1.2)
    axis.plot(effect, place, ms=3.4, **look)
