"""Tables for reading, in Markdown, LaTeX and HTML; `params/tables.yaml` has words and layouts."""

import functools
import re
import string
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from pandas.api.types import is_numeric_dtype

from lib.config import manifest, profiles
from lib.figures.style import write

MISSING = "–"
Parts = dict[str, pd.DataFrame]  # title -> cells as text; usually a single part with title ""
_texts = functools.cache(lambda: profiles.read_yaml("tables.yaml"))


def save(frame: pd.DataFrame, label: str, folder: Path, *, caption: str = "") -> None:
    """Save a table: `.csv` with six decimals, `.md` and `.tex` with the digits that people need."""
    caption = caption or _texts()["captions"].get(label, "")
    texts = {kind: render(kind, frame, caption, label) for kind in ("md", "tex")}
    write(label, frame, texts, folder)


def readable(frame: pd.DataFrame) -> Parts:
    """A frame in words and with sensible digits. `frame.attrs` may hold "label", whose layout is
    used if the frame has its columns, else all are shown; and "rounds", the names of Chapter 5's.
    """
    frame = frame.round(6).convert_dtypes()  # the numbers of the CSV decide
    frame = frame.replace({"round": frame.attrs.get("rounds", {})})
    for name in frame.select_dtypes("number").filter(regex="(^|_)[pq]$"):
        small = (frame[name] < 0.0005).fillna(False)
        frame[name] = frame[name].astype(object).mask(small, "<.001")
    layout = _texts()["layouts"].get(frame.attrs.get("label"), {"columns": {}})
    used = re.findall("{([^:}]+)", "".join(layout["columns"].values()))
    if not used or not {*used} <= {*frame}:
        unnamed = frame.index.name is None and is_numeric_dtype(frame.index.dtype)
        frame = frame.reset_index(drop=unnamed)
        names = [name if isinstance(name, tuple) else (str(name),) for name in frame]
        heads = [" ".join(map(_words, name)).replace("_", " ") for name in names]
        layout = {"columns": {head: f"{{{place}}}" for place, head in enumerate(heads)}}
    groups = frame.groupby(layout["parts"], sort=False) if "parts" in layout else [("", frame)]
    return {title: _cells(part, layout["columns"], layout.get("across")) for title, part in groups}


def render(kind: str, frame: pd.DataFrame, caption: str = "", label: str = "") -> str:
    """Render a frame for people, with columns of numbers aligned to the right; `kind` is "md"
    (GitHub's), "tex" (floats that need only booktabs) or "html" (long tables open with a click).
    """
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, trim_blocks=True)
    escapes = str.maketrans({"\n": " "} | _texts()["escapes"][kind])
    environment.filters["escaped"] = lambda text: text.translate(escapes)
    environment.tests["numbers"] = lambda texts: texts.str.fullmatch(r"[\d\s.,%<()\[\]/±–-]*").all()
    facts = {"parts": readable(frame), "caption": caption, "label": label}
    return environment.get_template(f"table.{kind}.j2").render(**facts)


def _cells(frame: pd.DataFrame, columns: dict[str, str], across: str | None) -> pd.DataFrame:
    """A column of text for each pattern in `columns`; `across` spreads the last over its values."""
    rows, people, cells = frame.astype(object).to_dict("records"), _People(), pd.DataFrame()
    for head, pattern in columns.items():
        texts = [people.vformat(pattern, [*row.values()], row) for row in rows]
        cells[head] = pd.Series(texts, dtype=object).replace(r" \(–\)|(?<=–) ± –", "", regex=True)
    # A text of missing values alone, such as "[–, –]", becomes one missing value.
    cells = cells.replace(r"^\W*$", MISSING, regex=True)
    if across:
        (first, last), spread = cells, frame[across].map(_words).to_numpy()
        wide = cells.assign(across=spread).pivot(index=first, columns="across", values=last)
        wide = wide.fillna(MISSING).loc[cells[first].unique(), pd.unique(spread)]
        cells = wide.rename_axis(columns=None).reset_index()
    return cells


class _People(string.Formatter):
    """Formats missing values as a dash, names in words, and numbers with few digits."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if pd.isna(value) or value in ("", "-"):
            return MISSING
        if isinstance(value, str):
            return f"{Decimal(value):f}" if re.fullmatch(r"[\d.]+e-?\d+", value) else _words(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        digits = 3
        if isinstance(value, int) or abs(value) >= 1000:
            digits = 0
        elif abs(value) >= 10:
            digits = 1
        return re.sub(r"^-(?=[0.]*$)", "", format(value, format_spec or f",.{digits}f"))


def _words(name: str) -> str:
    return _texts()["words"].get(name) or manifest.full_name(name)
