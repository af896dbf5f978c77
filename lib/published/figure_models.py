"""The models of Chapter 4's figures: the published ones, and the variants that `params/grids` adds to them."""

from __future__ import annotations

from collections.abc import Iterable

from lib.config import profiles
from lib.published.numbers import CHAPTER_4, boxplot_rows

# Figure -> the structural loss of its students.
PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}
WEIGHTINGS = {"fig4_10": "cosine", "fig4_11": "mm-MSE"}


def printed(label: str) -> dict[str, str]:
    """Name as printed in a boxplot -> the one identity of that model, from top to bottom.

    Raises `ValueError` for a figure that is no boxplot.
    """
    rows = boxplot_rows(label)
    return dict(zip(rows["model"], rows["identity"], strict=True))


def shown(label: str) -> dict[str, str]:
    """Name as printed -> identity of every model of a boxplot: the published ones from top to bottom, then the grid's.

    Taking an entry out of a grid takes nothing published out of a figure.
    """
    return printed(label) | of_grid(label)


def listed(label: str) -> dict[str, str]:
    """`shown` in the order of the thesis' tables, which is the grids': what a table of variants lists."""
    return of_grid(label) | printed(label)


def names(labels: Iterable[str]) -> set[str]:
    """The names that a filter can choose among: those of the labels' figures, of all figures where none has models."""
    labels = set(labels)
    figures = [label for label in CHAPTER_4 if label in labels] or CHAPTER_4
    return {name for label in figures for name in shown(label)}


def of_grid(label: str) -> dict[str, str]:
    """Name in the figure's style -> identity of every variant of the figure's grid, in the grid's order.

    The grid `structural` feeds Figure 4.3, `pv` 4.5, `projections` 4.7 to 4.9, `weighting` 4.10 and 4.11. Figures 4.2
    (the two simple losses) and 4.12 (the thesis' selection) are parts of the others and have none.

    Raises `lib.config.profiles.ParameterError` for a grid that does not fit its schema.
    """
    published, prefix, variants = printed(label), "", []
    if label == "fig4_3":
        variants = profiles.grid("structural").labels
    elif label == "fig4_5":
        variants = profiles.grid("pv").labels
    elif label in PROJECTIONS:
        prefix = f"{PROJECTIONS[label]};"
        variants = profiles.grid("projections").labels[PROJECTIONS[label]]
    elif label in WEIGHTINGS:
        prefix = f"{published['no-weighting']};"
        variants = profiles.grid("weighting").labels
    return {name: published.get(name, prefix + name) for name in variants}
