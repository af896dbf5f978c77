"""Writes dataset folders and their files."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from lib.store import replace_folder

Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


def write_once(folder: Path, write: Callable[[Path], Any]) -> Path:
    """Return a folder, after `write` has filled it if it was missing: whole, or not at all.

    If several processes call this, one writes and the others wait.
    """
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not folder.exists():
                replace_folder(folder, "data", write)
    return folder


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_examples(task: Path, examples: Examples) -> None:
    """Write the splits of a task with single documents or pairs."""
    for split, rows in examples.items():
        keys = ("id", "label") if rows and len(rows[0][0]) == 1 else ("a", "b", "label")
        lines = (dict(zip(keys, (*ids, label), strict=True)) for ids, label in rows)
        write_lines(task / f"{split}.jsonl", lines)


def write_relevant(task: Path, relevant: Mapping[str, list[str]]) -> None:
    """Write the relevant documents of each source of a retrieval task."""
    task.mkdir(parents=True, exist_ok=True)
    text = json.dumps(relevant, ensure_ascii=False, indent=1) + "\n"
    (task / "relevant.json").write_text(text, encoding="utf-8")
