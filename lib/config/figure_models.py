"""The models of Chapter 4's figures: the published ones, and the variants that `params/grids` adds to them."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable
from itertools import product

from lib.config import paths, profiles

_PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}  # figure -> structural loss
_WEIGHTINGS = ("fig4_10", "fig4_11")
CHAPTER_4 = tuple(f"fig4_{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11, 12))  # the figures with models to choose


def printed(label: str) -> dict[str, str]:
    """Name as printed in a boxplot -> the one identity of that model, from top to bottom.

    Raises `ValueError` for a figure that is no boxplot.
    """
    rows = [row for row in _rows() if row["label"] == label]
    if not rows:
        raise ValueError(
            f"{label} is no boxplot; nearest: {profiles.nearest(label, {row['label'] for row in _rows()})}"
        )
    return {row["model"]: row["identity"] for row in sorted(rows, key=lambda row: int(row["row"]))}


@functools.cache
def _rows() -> list[dict[str, str]]:
    with open(paths.PARAMS / "published" / "boxplots.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def shown(label: str) -> dict[str, str]:
    """Name as printed -> identity of every model of a boxplot: the published ones from top to bottom, then the grid's.

    Taking an entry out of a grid takes nothing published out of a figure.
    """
    models = printed(label)
    return models | {name: identity for name, identity in of_grid(label).items() if name not in models}


def of_grid(label: str) -> dict[str, str]:
    """Name in the figure's style -> identity of every variant of the figure's grid, in the grid's order.

    The grid `structural` feeds Figure 4.3, `pv` 4.5, `projections` 4.7 to 4.9, `weighting` 4.10 and 4.11. Figures 4.2
    (the two simple losses) and 4.12 (the thesis' selection) are parts of the others and have none.

    Raises `lib.config.profiles.ParameterError` for a grid that does not fit its schema.
    """
    published = printed(label)
    return {name: published.get(name, prefix + name) for prefix, name in _variants(label, published)}


def listed(label: str) -> dict[str, str]:
    """`shown` in the order of the thesis' tables, which is the grids': what a table of variants lists."""
    return of_grid(label) | shown(label)


def names(labels: Iterable[str]) -> set[str]:
    """The names that a filter can choose among: those of the labels' figures, of all figures where none has models."""
    labels = set(labels)
    figures = [label for label in CHAPTER_4 if label in labels] or CHAPTER_4
    return {name for label in figures for name in shown(label)}


def _variants(label: str, published: dict[str, str]) -> list[tuple[str, str]]:
    """What makes the name of each variant its identity when put before it, and that name."""
    if label == "fig4_3":
        grid = profiles.grid("structural")
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        return [("", name) for name in (*grid["losses"], *(f"max-margin;{part};γ={gamma}" for part, gamma in margins))]
    if label == "fig4_5":
        grid = profiles.grid("pv")
        parts = product(grid["architectures"], grid["dimensions"], grid["preprocessing"], grid["min_count"])
        pairs = product(grid["compound"]["dm"], grid["compound"]["dbow"])
        return [("", name) for name in (*(";".join(map(str, part)) for part in parts), *map("+".join, pairs))]
    if label in _PROJECTIONS:
        loss = _PROJECTIONS[label]
        return [
            (f"{loss};", f"{group['dimension']};S:{student};C:{contextual}")
            for group in profiles.grid("projections")[loss]
            for student, contextual in product(group["student"], group["contextual"])
        ]
    if label in _WEIGHTINGS:
        grid = profiles.grid("weighting")
        names = [f"{mask};λ={lam}" for mask, lam in product(grid["max_structural_len"], grid["lam"])]
        return [(f"{published['no-weighting']};", name) for name in names]
    return []
