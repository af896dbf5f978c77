"""The models of Chapter 4's figures: the published ones, and the variants that `params/grids` adds to them."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable
from itertools import product

from lib.config import paths, profiles

_PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}  # figure -> structural loss
CHAPTER_4 = tuple(f"fig4_{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11, 12))  # the figures with models to choose


@functools.cache
def _published() -> dict[str, dict[str, str]]:
    figures: dict[str, dict[str, str]] = {}
    with open(paths.PARAMS / "published" / "boxplots.csv", encoding="utf-8", newline="") as file:
        for row in sorted(csv.DictReader(file), key=lambda row: int(row["row"])):
            figures.setdefault(row["label"], {})[row["model"]] = row["identity"]
    return figures


def printed(label: str) -> dict[str, str]:
    """Name as printed in a boxplot -> the one identity of that model, from top to bottom.

    Raises `ValueError` for a figure that is no boxplot.
    """
    if label not in _published():
        raise profiles.unknown("boxplot", label, _published())
    return dict(_published()[label])


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
        grid = profiles.grid("structural")
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        variants = [*grid["losses"], *(f"max-margin;{distance};γ={gamma}" for distance, gamma in margins)]
    elif label == "fig4_5":
        grid = profiles.grid("pv")
        parts = product(grid["architectures"], grid["dimensions"], grid["preprocessing"], grid["min_count"])
        pairs = product(grid["compound"]["dm"], grid["compound"]["dbow"])
        variants = [*(";".join(map(str, part)) for part in parts), *map("+".join, pairs)]
    elif label in _PROJECTIONS:
        prefix = f"{_PROJECTIONS[label]};"
        variants = [
            f"{group['dimension']};S:{student};C:{contextual}"
            for group in profiles.grid("projections")[_PROJECTIONS[label]]
            for student, contextual in product(group["student"], group["contextual"])
        ]
    elif label in ("fig4_10", "fig4_11"):
        prefix = f"{published['no-weighting']};"
        grid = profiles.grid("weighting")
        variants = [f"{mask};λ={lam}" for mask, lam in product(grid["max_structural_len"], grid["lam"])]
    return {name: published.get(name, prefix + name) for name in variants}
