"""Functions that write the files of dataset folders."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


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


def write_folder(
    folder: Path, rows: Iterable[Mapping[str, Any]] | None, title: str, *paragraphs: str
) -> None:
    """Write documents and a README.md.

    Parameters
    ----------
    folder : Path
    rows : iterable of dict, or None if the documents have already been written
    title, paragraphs : str
        Text of README.md: what the folder contains, its source and licence, and how it was made.
    """
    if rows is not None:
        write_lines(folder / "documents.jsonl", rows)
    text = "\n\n".join(filter(None, [f"# {title}", *paragraphs]))
    (folder / "README.md").write_text(text + "\n", encoding="utf-8")
