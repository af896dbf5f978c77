"""Tables as CSV, Markdown and booktabs LaTeX, saved by one call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lib.config import paths
from lib.figures.style import csv_bytes
from lib.store import provenance, saved
from lib.store.files import write_atomically

if TYPE_CHECKING:
    from lib.config.profiles import Profile

_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}",
    "γ": r"\(\gamma\)", "λ": r"\(\lambda\)", "β": r"\(\beta\)", "δ": r"\(\delta\)", "×": r"\(\times\)", "±": r"\(\pm\)",
    "≤": r"\(\le\)", "≥": r"\(\ge\)", "−": r"\(-\)", "–": "--", "†": r"\dag{}",
}  # fmt: skip


def save(
    frame: pd.DataFrame, label: str, *, profile: Profile, caption: str = "", records: pd.DataFrame | None = None
) -> list[Path]:
    """Save a table under its label: `.csv`, `.md`, `.tex` and its provenance. Returns the three paths.

    frame: a flat table, one header, no index. The CSV keeps six decimals; Markdown and LaTeX show four significant
        digits of a float, and nothing for a missing value.
    caption: printed above the Markdown table and as LaTeX `\\caption`; plain text, escaped here.

    Raises `ValueError` for an empty or nested frame.
    """
    if frame.empty or frame.columns.nlevels > 1:
        shape = f"{len(frame)} rows under {frame.columns.nlevels} header rows"
        raise ValueError(f"{label}: expected a flat table with rows, got {shape}")
    content = {
        ".csv": csv_bytes(frame),
        ".md": markdown(frame, caption).encode(),
        ".tex": latex(frame, label, caption).encode(),
    }
    files = [paths.figures(profile) / f"{label}{suffix}" for suffix in content]
    for file, written in zip(files, content.values(), strict=True):
        write_atomically(file, written)
    provenance.write(label, profile=profile, files=files, records=records)
    saved.register(label, files)
    return files


def beside(ours: pd.DataFrame, published: pd.DataFrame, *, on: str | list[str]) -> pd.DataFrame:
    """Our table and the published one in one: every column of ours followed by its published twin.

    on: the columns that name a row. A published column without a twin comes last. Rows follow ours; published rows
    that ours lacks come after them, so nothing published is lost.

    Raises `ValueError` if a row is named twice or a key column is missing.
    """
    keys = [on] if isinstance(on, str) else list(on)
    for side, frame in (("our", ours), ("the published", published)):
        if missing := [key for key in keys if key not in frame]:
            raise ValueError(f"{side} table has no column {missing[0]!r} to match rows by; it has {', '.join(frame)}")
        if frame.duplicated(keys).any():
            row = frame.loc[frame.duplicated(keys), keys].iloc[0].tolist()
            raise ValueError(f"{side} table names the row {row} twice: rows need distinct {', '.join(keys)}")
    twin = {column: f"{column} (published)" for column in published if column not in keys}
    theirs = published.rename(columns=twin)
    matched = ours.merge(theirs, on=keys, how="left")
    rest = theirs.merge(ours[keys], on=keys, how="left", indicator=True)
    rest = rest[rest["_merge"] == "left_only"].drop(columns="_merge")
    frame = pd.concat([matched, rest], ignore_index=True) if len(rest) else matched
    columns = [name for column in ours if column not in keys for name in (column, twin.get(column)) if name]
    return frame[[*keys, *columns, *(name for name in theirs if name not in keys and name not in columns)]]


def markdown(frame: pd.DataFrame, caption: str = "") -> str:
    """The table in GitHub's Markdown; numbers to the right."""
    cells = [[_markdown(text) for text in row] for row in _text(frame)]
    rule = ["---:" if right else "---" for right in _right(frame)]
    lines = ["| " + " | ".join(row) + " |" for row in ([_markdown(str(name)) for name in frame.columns], rule, *cells)]
    return (f"{_markdown(caption)}\n\n" if caption else "") + "\n".join(lines) + "\n"


def latex(frame: pd.DataFrame, label: str, caption: str = "") -> str:
    """The table as a LaTeX float; needs only the package booktabs."""
    columns = "".join("r" if right else "l" for right in _right(frame))
    rows = [" & ".join(map(_tex, row)) + r" \\" for row in _text(frame)]
    head = " & ".join(_tex(str(name)) for name in frame.columns) + r" \\"
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\caption{{{_tex(caption)}}}"] if caption else []
    return "\n".join([*lines, rf"\label{{table:{label}}}", r"\end{table}"]) + "\n"


def _text(frame: pd.DataFrame) -> list[list[str]]:
    return [[_cell(value) for value in row] for row in frame.astype(object).itertuples(index=False)]


def _cell(value) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool | int | str):
        return str(value)
    number = float(value) if hasattr(value, "__float__") else None
    if number is None:
        return str(value)
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.3g}" if number >= 1e7 else f"{number:.0f}"


def _right(frame: pd.DataFrame) -> list[bool]:
    return [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]


def _markdown(text: str) -> str:
    # A bar would end the cell, a line break the row; * and _ would turn part of a label into italics.
    return re.sub(r"([|\\*_<>])", r"\\\1", text).replace("\n", " ")


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text).replace("\n", " ")
