"""The one look of all figures, and the one way to save them."""

import contextlib
import functools
import io
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lib.config import profiles
from lib.store.files import write_atomically

COLORS = seaborn.color_palette("colorblind").as_hex()
INK = "#333333"


@functools.cache
def settings() -> dict[str, Any]:
    """What `params/figures.yaml` says: sizes, colours, marks, labels."""
    return profiles.read_yaml("figures.yaml")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The project's look, for a `with` block. `rc_context` would put back `interactive` too, which
    a kernel's first
    figure switches on: no later one would be shown."""
    look = seaborn.axes_style("whitegrid") | seaborn.plotting_context("paper")
    look |= settings()["style"]
    before = {key: mpl.rcParams[key] for key in look}
    mpl.rcParams.update(look)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


def rows_from_top(axis: Axes, names: list[str], **text: Any) -> None:
    """Name the rows 0, 1, ... of an axis, the first at the top."""
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_yticks(range(len(names)), names, **text)


def labelled(axes: Iterable[Axes], first: Iterable[str] = ()) -> Collection[Artist]:
    """The handles of a legend for several axes, each label once, those named `first` before the
    others."""
    pairs = (pair for axis in axes for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    handles = {label: handle for handle, label in pairs}
    return ({label: handles[label] for label in first} | handles).values()


def squeeze(axis: Axes, values: np.ndarray) -> None:
    """Draw what lies far below most values (by Tukey's rule) on a smaller scale, hatched, if it
    takes half the axis."""
    low, first, third, high = np.nanquantile(values, [0, 0.25, 0.75, 1])
    cut = np.floor(20 * (first - 1.5 * (third - first))) / 20
    if cut - low <= high - cut or cut >= high:
        return
    scale = 0.25 * (high - cut) / (cut - low)  # a fifth of the axis
    ways = [lambda x, k=k: np.where(x < cut, cut + (x - cut) * k, x) for k in (scale, 1 / scale)]
    axis.set_xscale("function", functions=ways)
    room = 0.04 * (high - cut)
    axis.set_xlim(low - room / scale, high + room)
    above = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(cut, high)
    axis.set_xticks([np.ceil(10 * low) / 10, *above[(above >= cut) & (above <= high)]])
    axis.axvspan(low - room / scale, cut, **settings()["squeezed"])


def save(figure: Figure, label: str, data: pd.DataFrame, folder: Path) -> list[Path]:
    """Save `<label>.svg` and `<label>.csv`; the same data give the same bytes.

    Parameters
    ----------
    figure : Figure
    label : str
    data : DataFrame
        A row for each value that is drawn.
    folder : Path

    Returns
    -------
    list of Path
        The files.
    """
    picture = io.BytesIO()
    with style():
        figure.savefig(picture, format="svg", metadata={"Date": None, "Title": label})
    return write(label, data, {".svg": picture.getvalue(), ".csv": csv_bytes(data)}, folder)


def write(label: str, data: pd.DataFrame, content: dict[str, bytes], folder: Path) -> list[Path]:
    """Write the files of a figure or table, by suffix; `ValueError` if there is nothing to show."""
    if data.empty:
        raise ValueError(
            f"{label}: nothing to save, the data frame is empty; did `only` leave out all variants?"
        )
    files = {folder / f"{label}{suffix}": text for suffix, text in content.items()}
    for file, text in files.items():
        write_atomically(file, text)
    return list(files)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV: one header, no index, six decimals."""
    rounded = frame.assign(**(frame.select_dtypes("float").round(6) + 0.0))  # no minus of a zero
    return rounded.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode()
