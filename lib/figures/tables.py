"""Tables as CSV, Markdown and booktabs LaTeX, saved by one call."""

from pathlib import Path

import pandas as pd

from lib.config import roles
from lib.config.profiles import Profile
from lib.figures.style import LOOK, csv_bytes, write

# pandas escapes ASCII in cells: not captions, nor letters that LaTeX's fonts lack, nor a bracket that opens a row.
_TEX = str.maketrans({"\n": " "} | {sign: f"\\{sign}" for sign in "&%$#_{}"} | LOOK["latex"])
# A bar would end the cell, a line break the row; * and _ would turn part of a label into italics.
_MARKDOWN = str.maketrans({"\n": " "} | {sign: f"\\{sign}" for sign in "|\\*_<>"})


def save(
    frame: pd.DataFrame, label: str, *, profile: Profile, caption: str = "", records: pd.DataFrame | None = None
) -> list[Path]:
    """Save a table under its label: `.csv`, `.md`, `.tex`, which it returns, and its provenance.

    The CSV keeps six decimals; the others show four significant digits, nothing for a missing value, rounds as printed.
    """
    shown = frame.replace({"round": roles.printed_rounds(profile.final.rounds)}) if "round" in frame else frame
    texts = {".md": markdown(shown, caption).encode(), ".tex": latex(shown, label, caption).encode()}
    return write(label, frame, {".csv": csv_bytes(frame), **texts}, profile, records)


def beside(ours: pd.DataFrame, published: pd.DataFrame, *, on: str | list[str]) -> pd.DataFrame:
    """Each of our columns followed by its published twin, rows matched by the columns `on`; what ours lacks is last."""
    ours = ours.set_index(on)
    theirs = published.set_index(on).add_suffix(" (published)")
    frame = ours.reindex(ours.index.union(theirs.index, sort=False)).join(theirs, validate="one_to_one")
    twins = [name for column in ours for name in (column, f"{column} (published)") if name in frame]
    return frame[[*dict.fromkeys([*twins, *theirs])]].reset_index()


def markdown(frame: pd.DataFrame, caption: str = "") -> str:
    """The table in GitHub's Markdown; numbers to the right."""
    texts = _texts(frame, _MARKDOWN)
    rule = ["---:" if right else "---" for right in _right(frame)]
    lines = ["| " + " | ".join(row) + " |" for row in [texts.columns, rule, *texts.to_numpy()]]
    return "\n".join(([caption.translate(_MARKDOWN), ""] if caption else []) + lines) + "\n"


def latex(frame: pd.DataFrame, label: str, caption: str = "") -> str:
    """The table as a LaTeX float; needs only the package booktabs."""
    columns = "".join("r" if right else "l" for right in _right(frame))
    place = {"position_float": "centering", "caption": caption.translate(_TEX) or None, "label": f"table:{label}"}
    return _texts(frame, _TEX).style.hide(axis="index").to_latex(column_format=columns, hrules=True, **place)


def _cell(value) -> str:
    """Four significant digits of a float, large ones whole or with an exponent; nothing for a missing value."""
    if pd.isna(value):
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.3g}" if value >= 1e7 else f"{value:.0f}"


def _texts(frame: pd.DataFrame, escapes: dict[int, str]) -> pd.DataFrame:
    texts = frame.astype(object).map(lambda value: _cell(value).translate(escapes))
    return texts.set_axis([name.translate(escapes) for name in frame.columns], axis=1)


def _right(frame: pd.DataFrame) -> list[bool]:
    return [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
