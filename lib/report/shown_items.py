"""What the report shows of each figure and table: the picture as a data URI, its description in words, the numbers."""

import base64
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from lib.config import roles
from lib.config.manifest import Entry
from lib.config.profiles import Profile
from lib.store import provenance

LONGEST = 60  # rows of a curve's numbers that are worth reading; boxplots and tables are shown whole
_CURVES = ("fig4_1", "fig5_1", "fig5_2", "figA_2")  # hundreds of points
_WORDS = {"fig": "Figure", "tab": "Table", "news_tab": "News paper, table"}


def item(label: str, entry: Entry, profile: Profile) -> SimpleNamespace:
    """Everything about one label that is on disk; what is missing leaves image and table empty."""
    files = {file.suffix: file for file in entry.paths(profile)}
    complete = all(file.is_file() for file in files.values())
    frame = _read(files[".csv"])
    image = files[".svg"].read_bytes() if complete and ".svg" in files else b""
    table, rows = _beside(label, frame)
    return SimpleNamespace(
        label=label,
        name=name(label),
        entry=entry,
        complete=complete,
        image=f"data:image/svg+xml;base64,{base64.b64encode(image).decode()}" if image else "",
        size=_size(image.decode()),
        alt=alt(label, entry.title, None if entry.kind == "drawing" else frame),
        table=table if complete else None,
        rows=rows,  # of the table, uncut
        provenance=provenance.read(label, profile),
    )


def name(label: str) -> str:
    """`fig4_10` -> "Figure 4.10", `figA_1` -> "Figure A.1", `news_tab1` -> "News paper, table 1"."""
    match = re.fullmatch(r"(news_tab|fig|tab)_?(.+)", label)
    return f"{_WORDS[match[1]]} {match[2].replace('_', '.')}" if match else label


def alt(label: str, title: str, frame: pd.DataFrame | None) -> str:
    """What a picture shows, in words: for boxplots the best, the worst and the published order of both."""
    start = f"{name(label)}: {title}."
    if frame is None:
        return f"{start} A drawing."
    if "normalized" in frame:
        means = frame.groupby("model", sort=False)[["normalized", "published_normalized"]].mean()
        ours, theirs = means["normalized"], means["published_normalized"].dropna()
        text = f"{start} Boxplots of normalised accuracy, one row for each of {len(means)} models."
        text += f" Best mean here: {ours.idxmax()} ({_number(ours.max())});"
        text += f" lowest: {ours.idxmin()} ({_number(ours.min())})."
        return f"{text} Published best: {theirs.idxmax()} ({_number(theirs.max())})." if len(theirs) else text
    if {"model", "value"} <= set(frame):
        top = frame.loc[frame["value"].idxmax()]
        models = frame["model"].nunique()
        return f"{start} Scores of {models} models; the highest is {_number(top['value'])} by {top['model']}."
    return f"{start} {len(frame)} points, columns {', '.join(map(str, frame.columns))}."


def cell(value: Any) -> str:
    """A value as a table shows it: four significant digits, nothing for a missing value."""
    if pd.isna(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value) if isinstance(value, float) else str(value)


def _beside(label: str, frame: pd.DataFrame | None) -> tuple[pd.DataFrame | None, int]:
    """The numbers behind a figure, ours beside the published ones, and how many rows they would have uncut."""
    if frame is None:
        return None, 0
    if "normalized" not in frame:
        return frame.head(LONGEST) if label in _CURVES else frame, len(frame)
    means = frame.groupby("model", sort=False).agg(
        ours=("normalized", "mean"), published=("published_normalized", "mean"), seeds=("seeds", "max")
    )
    pairs = frame["value"].map(cell) + " / " + frame["published"].map(lambda value: cell(value) or "-")
    tasks = frame.assign(pair=pairs).pivot(index="model", columns="task", values="pair")
    means = means.join(tasks[roles.ordered(frame["task"])])
    return means.iloc[::-1].reset_index(), len(means)


def _read(path: Path) -> pd.DataFrame | None:
    # Without pandas' list of missing values: the thesis' "None" is a label, not a gap.
    return pd.read_csv(path, keep_default_na=False, na_values=[""]) if path.is_file() else None


def _size(svg: str) -> tuple[int, int]:
    """Width and height in CSS pixels; matplotlib writes points."""
    points = re.search(r'<svg[^>]*?\bheight="([\d.]+)pt"[^>]*?\bwidth="([\d.]+)pt"', svg, re.DOTALL)
    return (round(float(points[2]) * 4 / 3), round(float(points[1]) * 4 / 3)) if points else (768, 480)


def _number(value: float) -> str:
    if value == round(value) and abs(value) >= 10:
        return f"{value:,.0f}"
    if 1e-4 <= abs(value) < 10:
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) >= 1 else f"{value:.4f}"
    return f"{value:.4g}"
