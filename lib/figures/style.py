"""The one look of all figures, and the one way to save them."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.config import paths, profiles
from lib.config.profiles import Profile
from lib.store import provenance
from lib.store.files import write_atomically

LOOK = profiles.read_yaml("figures.yaml")
SIZES = LOOK["sizes"]
COLORS = seaborn.color_palette("colorblind").as_hex()
# The same colours mixed with 30 % white, so that a box's median line and triangle stand out.
LIGHT = [mpl.colors.to_hex([0.3 + 0.7 * part for part in mpl.colors.to_rgb(color)]) for color in COLORS]
SHADES = [*seaborn.light_palette(COLORS[0], n_colors=6).as_hex()[1:-1], *LIGHT[1:]]  # of weightings, by λ
NEUTRAL = "#d9d9d9"  # baselines and teachers, in every figure
INK = "#333333"
DIAMOND = {"marker": "D", "mfc": "white", "mec": INK, "linestyle": "", "markersize": 3.5}  # a published value
CHANCE = {"color": "#b2182b", "linestyle": "--", "linewidth": 1.1}

_RC = seaborn.axes_style("whitegrid") | seaborn.plotting_context("paper") | LOOK["style"]


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The project's look, for a `with` block, which puts back what it sets and nothing else.

    `rc_context` puts back `interactive` too, which a kernel's first figure switches on: no later one would be shown.
    """
    before = {key: mpl.rcParams[key] for key in _RC}
    mpl.rcParams.update(_RC)
    try:
        yield
    finally:
        mpl.rcParams.update(before)


def rows_from_top(axis: Axes, names: list[str], **text: Any) -> None:
    """Name the rows 0, 1, ... of an axis, the first at the top."""
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_yticks(range(len(names)), names, **text)


def save(
    figure: Figure, label: str, data: pd.DataFrame, *, profile: Profile, records: pd.DataFrame | None = None
) -> None:
    """Save `<label>.svg`, `<label>.csv` and their provenance; the same data give the same bytes.

    data: what the figure shows, a row per drawn value, sorted as drawn. records: what it rests on, for the provenance.
    """
    picture = io.BytesIO()
    with style():
        figure.savefig(picture, format="svg", metadata={"Date": None, "Title": label})
    write(label, data, {".svg": picture.getvalue(), ".csv": csv_bytes(data)}, profile, records)


def write(
    label: str, data: pd.DataFrame, content: dict[str, bytes], profile: Profile, records: pd.DataFrame | None
) -> list[Path]:
    """Write the files of a figure or table, by suffix, and its provenance; returns the files' paths."""
    if data.empty:
        raise ValueError(f"{label}: nothing to save, the data frame is empty; did `only` filter every variant out?")
    files = {paths.figures(profile) / f"{label}{suffix}": written for suffix, written in content.items()}
    for file, written in files.items():
        write_atomically(file, written)
    provenance.write(label, profile=profile, files=files, records=records)
    return [*files]


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV: one header, no index, six decimals."""
    rounded = frame.assign(**(frame.select_dtypes("float").round(6) + 0.0))  # no minus of a zero
    return rounded.to_csv(index=False, float_format="%.6f", lineterminator="\n").encode()
