"""The one look of all figures, and the one way to save them."""

import contextlib
import functools
import io
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.config import profiles
from lib.store import write_text

COLORS = seaborn.color_palette("colorblind").as_hex()
INK = "#333333"  # texts and lines; saved as the page's own colour, so they are light on a dark page
DARK = "#222222"  # lines and texts on a coloured background, the same on every page
WIDTH = 6.5  # inches; at 600 pixels, letters of 8.5 points are 11 pixels high
_PAGES = "svg{color:#333}@media(prefers-color-scheme:dark){svg{color:#ccc}}"


@functools.cache
def settings() -> dict[str, Any]:
    """The content of `params/figures.yaml`: sizes, colours, marks, labels."""
    return profiles.read_yaml("figures.yaml")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Apply the project's look; `rc_context` would reset `interactive` too, and hide figures."""
    look = seaborn.axes_style("whitegrid") | seaborn.plotting_context("paper")
    look |= settings()["style"]
    before = {key: mpl.rcParams[key] for key in look}
    mpl.rcParams.update(look)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


def panels(columns: int, height: Any, *, rows: int = 1, **shared: Any) -> tuple[Figure, Any]:
    """A figure as wide as a page, and its (rows, columns) axes; height in inches, or a label's."""
    inches = settings()["heights"].get(height, height)
    return plt.subplots(rows, columns, figsize=(WIDTH, inches), squeeze=False, **shared)


def rows_from_top(axis: Axes, names: list[str], **text: Any) -> None:
    """Label the rows 0, 1, ... of an axis, with the first at the top."""
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_yticks(range(len(names)), names, **text)


def labelled(axes: Iterable[Axes]) -> Collection[Artist]:
    """Handles for a common legend of several axes, each label once."""
    pairs = (pair for axis in axes for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    return {label: handle for handle, label in pairs}.values()


def save(figure: Figure, label: str, data: pd.DataFrame, folder: Path) -> None:
    """Save `<label>.svg` and `<label>.csv`, a row for each value that is drawn. The same data give
    the same bytes. The background is transparent, and what is drawn in `INK` is light on a dark
    page. `ValueError` if `data` is empty.
    """
    picture = io.BytesIO()
    with style():
        metadata = {"Date": None, "Title": label}
        figure.savefig(picture, format="svg", metadata=metadata, transparent=True)
    drawn = picture.getvalue().decode().replace(INK, "currentColor")
    drawn = drawn.replace('<style type="text/css">', f'<style type="text/css">{_PAGES}', 1)
    write(label, data, {"svg": drawn}, folder)


def write(label: str, data: pd.DataFrame, texts: dict[str, str], folder: Path) -> None:
    """Write the files of a figure or table, by suffix, and its CSV with six decimals."""
    if data.empty:
        raise ValueError(f"{label}: there is nothing to save; did `only` leave out all variants?")
    data = data.assign(**(data.select_dtypes("float").round(6) + 0.0))  # no negative zero
    texts |= {"csv": data.to_csv(index=False, float_format="%.6f", lineterminator="\n")}
    for suffix, text in texts.items():
        write_text(folder / f"{label}.{suffix}", text)
