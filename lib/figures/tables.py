"""Tables as CSV, Markdown and booktabs LaTeX, saved by one call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lib.figures.style import csv_bytes, write

if TYPE_CHECKING:
    from lib.config.profiles import Profile

# pandas escapes ASCII in cells: not captions, nor letters that LaTeX's fonts lack, nor a bracket that opens a row.
_TEX = {"\n": " "} | {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "–": "--", "†": r"\dag{}", "γ": r"\(\gamma\)",
    "λ": r"\(\lambda\)", "β": r"\(\beta\)", "δ": r"\(\delta\)", "×": r"\(\times\)", "±": r"\(\pm\)", "≤": r"\(\le\)",
    "≥": r"\(\ge\)", "−": r"\(-\)",
}  # fmt: skip
# A bar would end the cell, a line break the row; * and _ would turn part of a label into italics.
_MARKDOWN = {"\n": " "} | {sign: f"\\{sign}" for sign in "|\\*_<>"}


def save(
    frame: pd.DataFrame, label: str, *, profile: Profile, caption: str = "", records: pd.DataFrame | None = None
) -> list[Path]:
    """Save a table under its label: `.csv`, `.md`, `.tex` and its provenance. Returns the three paths.

    frame: one header, no index; `ValueError` if it is empty or nested. The CSV keeps six decimals; Markdown and LaTeX
        show four significant digits of a float, and nothing for a missing value.
    caption: plain text above the Markdown table and in LaTeX's caption.
    """
    if frame.empty or frame.columns.nlevels > 1:
        shape = f"{len(frame)} rows under {frame.columns.nlevels} header rows"
        raise ValueError(f"{label}: expected a flat table with rows, got {shape}")
    texts = {".md": markdown(frame, caption).encode(), ".tex": latex(frame, label, caption).encode()}
    return write(label, {".csv": csv_bytes(frame), **texts}, profile, records)


def beside(ours: pd.DataFrame, published: pd.DataFrame, *, on: str | list[str]) -> pd.DataFrame:
    """Our table and the published one in one: every column of ours followed by its published twin.

    on: the columns that name a row; `ValueError` if one is missing or a row is named twice. Published columns and rows
    that ours lacks come last.
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
    rest = theirs[~theirs.set_index(keys).index.isin(ours.set_index(keys).index)]
    frame = pd.concat([matched, rest], ignore_index=True) if len(rest) else matched
    columns = [name for column in ours if column not in keys for name in (column, twin.get(column)) if name]
    return frame[[*keys, *columns, *(name for name in theirs if name not in keys and name not in columns)]]


def markdown(frame: pd.DataFrame, caption: str = "") -> str:
    """The table in GitHub's Markdown; numbers to the right."""
    texts = _texts(frame, _MARKDOWN)
    rule = ["---:" if right else "---" for right in _right(frame)]
    lines = ["| " + " | ".join(row) + " |" for row in [texts.columns, rule, *texts.to_numpy()]]
    return "\n".join(([_escaped(caption, _MARKDOWN), ""] if caption else []) + lines) + "\n"


def latex(frame: pd.DataFrame, label: str, caption: str = "") -> str:
    """The table as a LaTeX float; needs only the package booktabs."""
    columns = "".join("r" if right else "l" for right in _right(frame))
    place = {"position_float": "centering", "caption": _escaped(caption, _TEX) or None, "label": f"table:{label}"}
    return _texts(frame, _TEX).style.hide(axis="index").to_latex(column_format=columns, hrules=True, **place)


def _texts(frame: pd.DataFrame, escapes: dict[str, str]) -> pd.DataFrame:
    texts = frame.astype(object).map(lambda value: _escaped(_cell(value), escapes))
    return texts.set_axis([_escaped(str(name), escapes) for name in frame.columns], axis=1)


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(letter, letter) for letter in text)


def _cell(value) -> str:
    """Four significant digits of a float, large ones whole or with an exponent; nothing for a missing value."""
    if pd.isna(value):
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.3g}" if value >= 1e7 else f"{value:.0f}"


def _right(frame: pd.DataFrame) -> list[bool]:
    return [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
