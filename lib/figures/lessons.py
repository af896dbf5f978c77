"""What explains: toy embeddings and where a loss moves them, rolled batches, texts as read."""

from collections.abc import Iterable, Mapping
from html import escape
from textwrap import shorten

import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from numpy.typing import ArrayLike

from lib.figures.style import COLORS, DARK, INK, panels, rows_from_top, settings, style
from lib.texts import split_words

NAMES = "ABCDEF"  # of documents
LEAST = 0.02  # shorter arrows are not drawn
SPREAD = (-3.0, 3.0), (-2.1, 2.6)  # range of the plane in x and y
FAR = (-7.0, 7.0), (-3.5, 7.0)
LINE = 52  # letters of a text that are shown
Ranges = tuple[tuple[float, float], tuple[float, float]]


@style()
def pulls(student: ArrayLike, teacher: ArrayLike, arrows: Mapping[str, ArrayLike]) -> Figure:
    """Draw the directions in which losses move a few embeddings, a panel for each loss.

    `student` and `teacher` are (documents, 2). `arrows` has, for the title of a panel, the negative
    gradient at the student's embeddings, (documents, 2).
    """
    lines = -(-len(arrows) // 2)
    figure, axes = panels(2, 0.4 + 2.65 * lines, rows=lines)
    for axis, (title, pull) in zip(axes.flat, arrows.items(), strict=False):
        _draw_plane(axis, title, SPREAD)
        rows = zip(NAMES, COLORS, np.asarray(student), teacher, np.asarray(pull), strict=False)
        for name, color, start, (x, y), arrow in rows:
            axis.plot([0, x], [0, y], color=color, linewidth=0.8, linestyle=":")
            axis.plot(x, y, "o", markersize=11, mfc="none", mec=color, mew=1.6)
            axis.plot(*start, "o", markersize=5.5, color=color)
            below = {"xytext": (0, -15), "textcoords": "offset points", "ha": "center"}
            axis.annotate(name, start, **below, color=color)
            if np.hypot(*arrow) > LEAST:
                _draw_arrow(axis, start, start + arrow, color)
    marks = [("student", "o", 5.5, INK), ("teacher", "o", 10, "none")]
    _explain(figure, marks, "→  minus gradient")
    return figure


@style()
def walks(teacher: ArrayLike, paths: Mapping[str, ArrayLike]) -> Figure:
    """Draw where gradient descent takes a few embeddings, a panel for each loss.

    `teacher` is (documents, 2). `paths` has, for the title of a panel, the student's embeddings
    before the first step and after each, (steps + 1, documents, 2).
    """
    figure, axes = panels(len(paths), 2.35)
    for axis, (title, path) in zip(axes.flat, paths.items(), strict=True):
        _draw_plane(axis, title, FAR)
        ways = np.swapaxes(np.asarray(path), 0, 1)
        for color, target, way in zip(COLORS, teacher, ways, strict=False):
            axis.plot(*way.T, "o-", color=color, markersize=3, linewidth=0.8)
            axis.plot(*target, "o", markersize=9, mfc="none", mec=color, mew=1.4)
    marks = [("student, a dot for each step", "o", 3, INK), ("teacher", "o", 9, "none")]
    _explain(figure, marks)
    return figure


@style()
def histories(measured: pd.DataFrame) -> Figure:
    """Draw what was measured while students trained, a panel for each measure.

    `measured` has the columns student and update, and one for each measure.
    """
    measures = [name for name in measured if name not in ("student", "update")]
    figure, axes = panels(len(measures), 2.4)
    colors = settings()["losses"]
    for axis, measure in zip(axes.flat, measures, strict=True):
        for student, part in measured.groupby("student", sort=False):
            look = {"color": colors[student], "label": f"trained with {student}"}
            axis.plot(part["update"], part[measure], linewidth=1.8, **look)
        axis.set(xlabel="update", title=measure, ylim=(0, None))
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


@style()
def nearest(found: pd.DataFrame, word: str) -> Figure:
    """Draw the texts nearest to a word, a panel for each model.

    `found` has the columns model, text and cosine, the nearest text first. Texts that contain the
    word get another colour, and are shown from where it occurs.
    """
    groups = found.groupby("model", sort=False)
    figure, axes = panels(1, 0.5 + 0.24 * len(found), rows=len(groups), sharex=True)
    for axis, (model, part) in zip(axes.flat, groups, strict=True):
        has = np.array([word in split_words(text.lower()) for text in part["text"]])
        rows_from_top(axis, [_cut_out(text, word) for text in part["text"]])
        axis.barh(range(len(part)), part["cosine"], color=np.where(has, COLORS[2], "#b5b5b5"))
        axis.set_title(f"{model}: {has.sum()} of {len(has)} contain “{word}”", loc="left")
        axis.grid(axis="y", visible=False)
    axes.flat[-1].set_xlabel("cosine to the word")
    return figure


@style()
def draw_origins(batches: Mapping[str, np.ndarray]) -> Figure:
    """Batches as heat maps: a colour for each document, darker from its first feature to its last.

    `batches` has, for a title, a (documents, features) batch. Before it was rolled, feature `f` of
    document `d` was the number d * features + f.
    """
    figure, axes = panels(len(batches), 2.4, sharey=True)
    for axis, (title, batch) in zip(axes.flat, batches.items(), strict=True):
        documents, features = batch.shape
        origin, feature = np.divmod(batch, features)
        tints = np.array([to_rgb(COLORS[document % len(COLORS)]) for document in range(documents)])
        strength = np.linspace(0.25, 0.9, features)[feature][..., None]
        axis.imshow(1 - strength * (1 - tints[origin]), aspect="auto")
        own = (origin == np.arange(documents)[:, None]).mean()
        axis.set(xticks=[], xlabel=f"{own:.0%} of the numbers are\nthe document's own")
        axis.set_title(title, family="monospace", fontsize=7.5)
        axis.grid(visible=False)
        if features <= 10:
            for row, column in np.ndindex(batch.shape):
                text = {"ha": "center", "va": "center", "fontsize": 7.5, "color": DARK}
                axis.text(column, row, batch[row, column], **text)
    rows_from_top(axes[0, 0], [f"document {document + 1}" for document in range(documents)])
    return figure


def show_reading(heading: str, found: Iterable[tuple[str, str, int]]) -> HTML:
    """Texts below each other, pale from where the reader stopped.

    `found` has for each text its caption, the text, and the character at which the reader stopped.
    """
    parts = [f"<p>{escape(heading)}</p>"]
    for caption, text, end in found:
        rest = f"<b> ◄ </b><span style='opacity: .5'>{escape(text[end:])}</span>"
        parts.append(
            f"<p style='max-width: 50em'><b>{escape(caption)}</b> {escape(text[:end])}"
            f"{rest if end < len(text) else ''}</p>"
        )
    return HTML("".join(parts))


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
