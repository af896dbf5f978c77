"""The figures and tables that this process has saved; the end of a notebook compares them with what it promised."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_saved: dict[str, list[Path]] = {}


def register(label: str, files: Iterable[Path]) -> None:
    """Note that `label` was saved into `files`; the save functions call it."""
    _saved[label] = [Path(file) for file in files]


def labels() -> dict[str, list[Path]]:
    """Label -> files, in the order in which they were saved."""
    return dict(_saved)


def forget() -> None:
    """Begin anew, as a notebook does when it starts."""
    _saved.clear()
