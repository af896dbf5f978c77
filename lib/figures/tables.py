"""Tables as people read them, in Markdown, booktabs LaTeX and HTML, beside a CSV that keeps every number.

`params/tables.yaml` has the words for columns and what a table shows, `params/figures.yaml` the captions.
"""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lib.config import manifest, profiles, roles
from lib.config.profiles import Profile
from lib.figures.style import LOOK, csv_bytes, write

_LOOK = profiles.read_yaml("tables.yaml")
WORDS, LAYOUTS = _LOOK["words"], _LOOK["layouts"]
MISSING = "–"
_ESCAPES = {  # in cells and captions
    # A bar would end the cell; * and _ would turn part of a label into italics.
    "md": {sign: f"\\{sign}" for sign in "|\\*_<>"},
    "tex": {sign: f"\\{sign}" for sign in "&%$#_{}"} | LOOK["latex"],
    "html": {"&": "&amp;", "<": "&lt;", ">": "&gt;"},
}
Parts = dict[str, pd.DataFrame]  # title -> cells as text; mostly one part without a title


def save(
    frame: pd.DataFrame, label: str, *, profile: Profile, caption: str = "", records: pd.DataFrame | None = None
) -> list[Path]:
    """Save a table under its label, `.csv` with six decimals, `.md` and `.tex` as `readable` has it, and provenance.

    Returns the three paths. caption: for a label without one in `params/figures.yaml`. A notebook that shows the frame
    later shows what was saved.
    """
    frame.attrs["label"] = label
    parts, caption = readable(frame, profile), LOOK["texts"].get(label, {}).get("caption", caption)
    texts = {f".{kind}": render(kind, parts, caption, label).encode() for kind in ("md", "tex")}
    return write(label, frame, {".csv": csv_bytes(frame), **texts}, profile, records)


def beside(ours: pd.DataFrame, published: pd.DataFrame, *, on: str | list[str]) -> pd.DataFrame:
    """Each of our columns followed by its published twin, rows matched by the columns `on`; what ours lacks is last."""
    ours = ours.set_index(on)
    theirs = published.set_index(on).add_suffix(" (published)")
    frame = ours.reindex(ours.index.union(theirs.index, sort=False)).join(theirs, validate="one_to_one")
    twins = [name for column in ours for name in (column, f"{column} (published)") if name in frame]
    return frame[[*dict.fromkeys([*twins, *theirs])]].reset_index()


def readable(frame: pd.DataFrame, profile: Profile) -> Parts:
    """A frame in words and with sensible digits, by the layout of its label (`frame.attrs["label"]`) in
    `params/tables.yaml`; without one, or of part of the columns, all of them, `low` and `high` as one interval."""
    frame = frame.round(6)  # as the CSV has it, whose digits decide
    frame = frame.replace({"round": roles.printed_rounds(profile.final.rounds)}) if "round" in frame else frame
    layout = LAYOUTS.get(frame.attrs.get("label"), {})
    patterns = layout.get("columns", {})
    if not patterns or not {*re.findall("{([^:}]+)", "".join(patterns.values()))} <= {*frame}:
        frame = frame.reset_index(drop=frame.index.name is None and is_numeric_dtype(frame.index.dtype))
        patterns, layout = _patterns(frame), {}
    groups = frame.groupby(layout["parts"], sort=False) if "parts" in layout else [("", frame)]
    return {title: _cells(part, patterns, layout.get("across")) for title, part in groups}


def render(kind: str, parts: Parts, caption: str = "", label: str = "") -> str:
    """The parts, under their titles, as "md" (GitHub's Markdown), "tex" (floats that need only booktabs) or "html",
    which opens a long table with a click; columns of numbers to the right."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True)
    escapes = str.maketrans({"\n": " "} | _ESCAPES[kind])
    tables = []
    for title, cells in parts.items():
        head, *rows = ([text.translate(escapes) for text in row] for row in [cells.columns, *cells.to_numpy()])
        tables.append((title.translate(escapes), [_numbers(cells[name]) for name in cells], head, rows))
    values = {"tables": tables, "caption": caption.translate(escapes), "label": label}
    return environment.get_template(f"table.{kind}.j2").render(values)


def _patterns(frame: pd.DataFrame) -> dict[str, str]:
    """The layout of a frame without one: header -> the place of its column and its digits; high stands beside low."""
    names = [" ".join(map(_words, name)) if isinstance(name, tuple) else str(name) for name in frame]
    patterns = {}
    for place, name in enumerate(names):
        digits, twin = _digits(frame.iloc[:, place]), name.replace("low", "high") if name.startswith("low") else None
        if twin in names:
            interval = f"[{{{place}{digits}}}, {{{names.index(twin)}{digits}}}]"
            patterns[_words(name.replace("low", "interval")).replace("_", " ")] = interval
        elif name.replace("high", "low") not in names[:place]:
            patterns[_words(name).replace("_", " ")] = f"{{{place}{digits}}}"
    return patterns


def _digits(values: pd.Series) -> str:
    if is_bool_dtype(values) or not is_numeric_dtype(values):
        return ""
    size = values.abs().max()
    return ":,.0f" if size >= 1000 or (values.dropna() % 1 == 0).all() else ":.1f" if size >= 10 else ":.3f"


def _cells(frame: pd.DataFrame, patterns: dict[str, str], across: str | None) -> pd.DataFrame:
    """A column of text for each pattern; across: the last one spread over the values of that column of the frame."""
    rows = [[*map(_Value, row)] for row in frame.astype(object).itertuples(index=False, name=None)]
    named = [(row, dict(zip(map(str, frame), row, strict=True))) for row in rows]
    cells = pd.DataFrame({head: [text.format(*row, **by) for row, by in named] for head, text in patterns.items()})
    # What is made of missing values alone, such as "[–, –]", is one missing value.
    cells = cells.astype(object).map(lambda text: text.replace(" (–)", "") if re.search(r"\w", text) else MISSING)
    if across:
        (first, last), spread = cells, frame[across].map(_words).to_numpy()
        wide = cells.assign(across=spread).pivot(index=first, columns="across", values=last).fillna(MISSING)
        cells = wide.loc[cells[first].unique(), pd.unique(spread)].rename_axis(columns=None).reset_index()
    return cells


class _Value:
    """A value in a pattern: `MISSING` where there is none, a text in people's words, a number in the pattern's digits."""

    def __init__(self, value: Any):
        self.value = value

    def __format__(self, digits: str) -> str:
        value = self.value
        if pd.isna(value) or value in ("", "-"):
            return MISSING
        if isinstance(value, str):
            return f"{Decimal(value):f}" if re.fullmatch(r"[\d.]+e-?\d+", value) else _words(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return re.sub(r"^-(?=[0.]*$)", "", format(value, digits or (",.3f" if value % 1 else ",.0f")))


def _words(name: str) -> str:
    """What people read for the name of a column or check, or for the label of a figure."""
    return WORDS.get(name) or manifest.full_name(name)


def _numbers(texts: pd.Series) -> bool:
    return texts.str.fullmatch(r"[\d\s.,%()\[\]/±–-]*").all()
