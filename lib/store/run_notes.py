"""The note that a notebook's complete run leaves: what it read, what it made, how long it took."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.config import paths
from lib.store.files import file_fingerprint, write_atomically

if TYPE_CHECKING:
    from lib.config.schema import Profile


def place(notebook: str, profile: Profile) -> Path:
    """Where the note of a notebook's last complete run lies."""
    return paths.artifacts() / paths.run_name(profile) / "runs" / f"{notebook}.json"


def read(notebook: str, profile: Profile) -> dict[str, Any]:
    """The note of the last complete run; empty if there is none, or if it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(place(notebook, profile).read_text(encoding="utf-8"))
        if {"inputs", "labels", "files", "seconds"} <= note.keys():
            return note
    return {}


def write(
    notebook: str, profile: Profile, *, inputs: dict[str, Any], labels: list[str], files: list[Path], seconds: float
) -> None:
    """Note a complete run: the inputs it had, the labels it made, and the bytes of its files."""
    note = {
        "inputs": inputs,
        "labels": labels,
        "files": {file.name: file_fingerprint(file) for file in files},
        "seconds": round(seconds, 1),
    }
    text = json.dumps(note, indent=1, ensure_ascii=False) + "\n"
    write_atomically(place(notebook, profile), text.encode())
