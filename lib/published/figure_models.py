"""The models of Chapter 4's figures: the published ones, and the variants that `params/grids` adds to them."""

from collections import Counter
from collections.abc import Iterable
from itertools import product

from lib.config import profiles
from lib.published.numbers import CHAPTER_4, boxplot_rows

PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}  # figure -> structural loss
WEIGHTINGS = {"fig4_10": "cosine", "fig4_11": "mm-MSE"}  # the same
_GRIDS = dict(fig4_3="structural", fig4_5="pv") | dict.fromkeys(PROJECTIONS, "projections")
_GRIDS |= dict.fromkeys(WEIGHTINGS, "weighting")


def printed(label: str) -> dict[str, str]:
    """Name as printed -> the one identity of that model, from top to bottom; `ValueError` if it is no boxplot."""
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

    Figures 4.2 (the two simple losses) and 4.12 (the thesis' selection) are parts of the others and have none. Raises
    `lib.config.profiles.ParameterError` for a grid that does not fit its schema, or has a model twice.
    """
    published, prefix, variants = printed(label), "", []
    grid = profiles.grid(_GRIDS[label]) if label in _GRIDS else {}
    if label == "fig4_3":
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        variants = [*grid["losses"], *(f"max-margin;{distance};γ={gamma}" for distance, gamma in margins)]
    elif label == "fig4_5":
        parts = product(grid["architectures"], grid["dimensions"], grid["preprocessing"], grid["min_count"])
        pairs = product(grid["compound"]["dm"], grid["compound"]["dbow"])
        variants = [*(";".join(map(str, part)) for part in parts), *map("+".join, pairs)]
    elif label in PROJECTIONS:
        prefix = f"{PROJECTIONS[label]};"
        variants = [
            f"{group['dimension']};S:{student};C:{contextual}"
            for group in grid[PROJECTIONS[label]]
            for student, contextual in product(group["student"], group["contextual"])
        ]
    elif label in WEIGHTINGS:
        prefix = f"{published['no-weighting']};"
        variants = [f"{mask};λ={lam}" for mask, lam in product(grid["max_structural_len"], grid["lam"])]
    for variant, count in Counter(variants).items():
        if count > 1:
            raise profiles.ParameterError(f"params/grids/{_GRIDS[label]}.yaml: {variant} ({label}) stands there twice")
    return {variant: published.get(variant, prefix + variant) for variant in variants}
