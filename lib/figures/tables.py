"""Tables as people read them, in Markdown, booktabs LaTeX and HTML, beside a CSV that keeps every number.

`params/tables.yaml` has their words and layouts. A notebook that imports this module shows its data frames so.
"""

import re
import string
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from IPython import get_ipython
from pandas.api.types import is_numeric_dtype

from lib.config import manifest, profiles, roles
from lib.config.profiles import Profile
from lib.figures.style import LOOK, csv_bytes, write

WORDS, LAYOUTS, ESCAPES = profiles.read_yaml("tables.yaml").values()
_NAMED = {
    label: {*re.findall("{([^:}]+)", "".join(layout["columns"].values()))}
    for label, layout in LAYOUTS.items()
}
MISSING = "–"
Parts = dict[str, pd.DataFrame]  # title -> cells as text; mostly one, without a title


def save(
    frame: pd.DataFrame,
    label: str,
    *,
    profile: Profile,
    caption: str = "",
    records: pd.DataFrame | None = None,
) -> None:
    """Save `.csv` with six decimals, `.md` and `.tex` as `readable` has it, which a notebook shows too, and provenance.
    caption: instead of that of `params/figures.yaml`."""
    frame.attrs |= {"label": label, "rounds": roles.printed_rounds(profile.final.rounds)}
    parts, caption = readable(frame), caption or LOOK["texts"].get(label, {}).get("caption", "")
    texts = {f".{kind}": render(kind, parts, caption, label).encode() for kind in ("md", "tex")}
    write(label, frame, {".csv": csv_bytes(frame), **texts}, profile, records)


def beside(ours: pd.DataFrame, published: pd.DataFrame, *, on: str | list[str]) -> pd.DataFrame:
    """Each of our columns followed by its published twin, rows matched by the columns `on`; what ours lacks is last."""
    ours = ours.set_index(on)
    theirs = published.set_index(on).add_suffix(" (published)")
    frame = ours.reindex(ours.index.union(theirs.index, sort=False)).join(
        theirs, validate="one_to_one"
    )
    twins = [name for column in ours for name in (column, f"{column} (published)") if name in frame]
    return frame[[*dict.fromkeys([*twins, *theirs])]].reset_index()


def readable(frame: pd.DataFrame) -> Parts:
    """A frame in words and with sensible digits, by a layout of `params/tables.yaml`: that of `frame.attrs["label"]`,
    else one of just these columns, else all columns as they stand."""
    frame = frame.round(6).convert_dtypes()  # as the CSV has it, whose digits decide
    frame = frame.replace({"round": frame.attrs.get("rounds", {})})
    own = _NAMED.get(frame.attrs.get("label"), {""})
    wanted = own if own <= {*frame} else {*frame}
    layout = next((LAYOUTS[label] for label, named in _NAMED.items() if named == wanted), None)
    if layout is None:
        frame = frame.reset_index(
            drop=frame.index.name is None and is_numeric_dtype(frame.index.dtype)
        )
        names = [
            " ".join(map(_words, name)) if isinstance(name, tuple) else _words(str(name))
            for name in frame
        ]
        layout = {
            "columns": {name.replace("_", " "): f"{{{place}}}" for place, name in enumerate(names)}
        }
    groups = frame.groupby(layout["parts"], sort=False) if "parts" in layout else [("", frame)]
    return {title: _cells(part, **layout) for title, part in groups}


def render(kind: str, parts: Parts, caption: str = "", label: str = "") -> str:
    """The parts, under their titles, as "md" (GitHub's Markdown), "tex" (floats that need only booktabs) or "html",
    which opens a long table with a click; columns of numbers to the right."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True
    )
    escapes = str.maketrans({"\n": " "} | ESCAPES[kind])
    environment.filters["escaped"] = lambda text: text.translate(escapes)
    environment.tests["numbers"] = lambda texts: texts.str.fullmatch(r"[\d\s.,%()\[\]/±–-]*").all()
    return environment.get_template(f"table.{kind}.j2").render(
        parts=parts, caption=caption, label=label
    )


def _cells(
    frame: pd.DataFrame, columns: dict[str, str], parts: str = "", across: str = ""
) -> pd.DataFrame:
    """A column of text for each pattern; across: the last one spread over the values of that column of the frame."""
    rows, people = frame.astype(object).to_dict("records"), _People()
    texts = {
        head: [people.vformat(text, [*row.values()], row) for row in rows]
        for head, text in columns.items()
    }
    # What is made of missing values alone, such as "[–, –]", is one missing value.
    cells = pd.DataFrame(texts, dtype=object)
    cells = cells.map(
        lambda text: re.sub(r" \(–\)|(?<=–) ± –", "", text) if re.search(r"\w", text) else MISSING
    )
    if across:
        (first, last), spread = cells, frame[across].map(_words).to_numpy()
        wide = (
            cells.assign(across=spread)
            .pivot(index=first, columns="across", values=last)
            .fillna(MISSING)
        )
        cells = (
            wide.loc[cells[first].unique(), pd.unique(spread)]
            .rename_axis(columns=None)
            .reset_index()
        )
    return cells


class _People(string.Formatter):
    """Values as people read them: a dash for a missing one, texts in words, numbers with a pattern's digits or few."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if pd.isna(value) or value in ("", "-"):
            return MISSING
        if isinstance(value, str):
            return f"{Decimal(value):f}" if re.fullmatch(r"[\d.]+e-?\d+", value) else _words(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        digits = 0 if isinstance(value, int) or abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
        return re.sub(r"^-(?=[0.]*$)", "", format(value, format_spec or f",.{digits}f"))


def _words(name: str) -> str:
    """What people read for the name of a column or check, or for the label of a figure."""
    return WORDS.get(name) or manifest.full_name(name)


if shell := get_ipython():
    html = shell.display_formatter.formatters["text/html"]
    html.for_type(pd.DataFrame, lambda frame: render("html", readable(frame)))
