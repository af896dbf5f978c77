"""What explains: students while they train, words and the texts nearest to them."""

from textwrap import shorten

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib.figures.style import COLORS, labelled, panels, rows_from_top, settings, style
from lib.texts import split_words

LINE = 52  # letters of a text that are shown
Ranges = tuple[tuple[float, float], tuple[float, float]]


@style()
def histories(measured: pd.DataFrame) -> Figure:
    """Draw what was measured while students trained, a panel for each measure.

    `measured` has the columns student and update, and one for each measure.
    """
    measures = measured.columns.drop(["student", "update"])
    figure, axes = panels(len(measures), 2.4)
    for axis, measure in zip(axes.flat, measures, strict=True):
        for student, part in measured.groupby("student", sort=False):
            look = {"color": settings()["losses"][student], "label": f"trained with {student}"}
            axis.plot(part["update"], part[measure], linewidth=1.8, **look)
        axis.set(xlabel="update", title=measure, ylim=(0, None))
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def nearest(rows: pd.DataFrame, word: str) -> Figure:
    """Draw the texts nearest to a word, a panel for each model.

    `rows` have the columns model, text and cosine, the nearest text first. Texts that contain the
    word get another colour, and are shown from a few words before it.
    """
    groups = rows.groupby("model", sort=False)
    figure, axes = panels(1, 0.5 + 0.24 * len(rows), rows=len(groups), sharex=True)
    for axis, (model, part) in zip(axes.flat, groups, strict=True):
        has = np.array([word in split_words(text.lower()) for text in part["text"]])
        rows_from_top(axis, [_cut_out(text, word) for text in part["text"]])
        axis.barh(range(len(part)), part["cosine"], color=np.where(has, COLORS[2], "#b5b5b5"))
        axis.set_title(f"{model}: {has.sum()} of {len(has)} contain “{word}”", loc="left")
        axis.grid(axis="y", visible=False)
    axes.flat[-1].set_xlabel("cosine to the word")
    return figure


def _cut_out(text: str, word: str) -> str:
    """A line of a text, from a few words before the word, or from its beginning if it lacks it."""
    words = text.split()
    places = [place for place, each in enumerate(words) if word in split_words(each.lower())]
    start = max(0, places[0] - 3) if places else 0
    line = shorten(" ".join(words[start:]), LINE, placeholder=" …")
    return ("… " if start else "") + line.replace("$", r"\$")
