"""What explains: students while they train, words and the texts nearest to them."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from numpy.typing import ArrayLike

from lib.figures.style import COLORS, DARK, INK, labelled, panels, rows_from_top, settings, style
from lib.texts import split_words

LIGHT_ABOVE = 0.6  # cells above this cosine are dark, so their numbers are white
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
def word_pulls(words: Mapping[str, ArrayLike], paths: Mapping[str, ArrayLike]) -> Figure:
    """Draw how words move the vector of a document, a panel for each path.

    `words` has the output vector of each word, (2,). The first word is in the document, the others
    are not. `paths` has, for the title of a panel, the document's vector before and after each
    step, (steps + 1, 2).
    """
    figure, axes = panels(len(paths), 2.9)
    places = np.vstack([*words.values(), *paths.values()])
    low, high = places.min(axis=0) - 0.4, places.max(axis=0) + 0.4
    document, there, others = COLORS[3], COLORS[2], "#8a8a8a"
    for axis, (title, path) in zip(axes.flat, paths.items(), strict=True):
        _draw_plane(axis, title, ((low[0], high[0]), (low[1], high[1])))
        for number, (word, place) in enumerate(words.items()):
            color = others if number else there
            axis.plot(*place, "s", color=color, markersize=5)
            axis.annotate(word, place, (0, 6), textcoords="offset points", ha="center", color=color)
        for before, after in itertools.pairwise(np.asarray(path)):
            _draw_arrow(axis, before, after, document)
    marks = [("word of the document", "s", 5, there), ("word drawn at random", "s", 5, others)]
    _explain(figure, marks, "→  the document's vector")
    return figure


@style()
def heat_map(cosines: ArrayLike, names: Sequence[str]) -> Figure:
    """Draw (documents, documents) cosines, each number in its cell; `names` are of the rows."""
    figure, ((axis,),) = panels(1, 0.8 + 0.36 * len(names))
    cosines = np.round(cosines, 2) + 0.0  # no minus before a zero
    axis.imshow(cosines, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    numbers = range(len(names))
    axis.set_xticks(numbers, [str(number + 1) for number in numbers])
    axis.set_yticks(numbers, [f"{name}  {number + 1}" for number, name in enumerate(names)])
    axis.tick_params(length=0)
    axis.grid(visible=False)
    for (row, column), cosine in np.ndenumerate(cosines):
        color = "white" if cosine > LIGHT_ABOVE else DARK
        axis.text(column, row, f"{cosine:.2f}", ha="center", va="center", color=color)
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


def _draw_plane(axis: Axes, title: str, ranges: Ranges) -> None:
    """Draw an empty plane with its origin."""
    x, y = ranges
    axis.set(xlim=x, ylim=y, aspect="equal", xticks=[], yticks=[], title=title)
    axis.plot(0, 0, "+", color=INK, markersize=7)


def _draw_arrow(axis: Axes, start: ArrayLike, end: ArrayLike, color: str) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 10, "linewidth": 1.6, "color": color}
    axis.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **look))


def _explain(figure: Figure, marks: Iterable[tuple[str, str, float, str]], words: str = "") -> None:
    """Add a legend of marks (label, shape, size, filling), and perhaps words without a mark."""
    marks = [*marks, ("origin", "+", 7, INK)]
    handles = []
    for label, shape, size, filling in marks:
        look = {"marker": shape, "markersize": size, "mfc": filling, "mec": INK}
        handles.append(Line2D([], [], linestyle="none", label=label, **look))
    handles += [Line2D([], [], linestyle="none", label=words)] if words else []
    figure.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.2)
