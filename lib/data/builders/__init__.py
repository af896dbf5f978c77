"""Builders write dataset folders: mini from the files of installed packages, thesis from hub and Zenodo files.

A builder is a module with `key_files(profile)`, what besides its settings and source decides the result, and
`writers(profile)`: {dataset folder: a function that fills it}. `python -m lib.data.build <profile>` builds by hand.
"""

import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lib.config import paths
from lib.config.schema import Profile
from lib.data.written_once import written
from lib.store.files import fingerprint
from lib.store.source_keys import source_key

_READERS = (
    "lib.data.task_files",
    "lib.data.dataset_folder",
    "lib.data.sources",
    "lib.data.written_once",
)
Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


def folder(profile: Profile) -> Path:
    """`<artifact root>/data/<builder>-<key>`, written first where it is missing."""
    settings = profile.build.model_dump(mode="json")
    builder = importlib.import_module(f"{__name__}.{settings['builder']}")
    code = source_key(builder.__name__, stop=("lib.store", "lib.config", *_READERS))
    key = fingerprint([settings, code, builder.key_files(profile)])
    return written(home() / f"{settings['builder']}-{key}", builder.writers(profile))


def home() -> Path:
    """Where built folders lie."""
    return paths.artifacts() / "data"


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_examples(task: Path, examples: Examples) -> None:
    """The splits of a single or pair task."""
    for split, rows in examples.items():
        keys = ("id", "label") if rows and len(rows[0][0]) == 1 else ("a", "b", "label")
        write_lines(
            task / f"{split}.jsonl",
            (dict(zip(keys, (*ids, label), strict=True)) for ids, label in rows),
        )


def write_relevant(task: Path, relevant: Mapping[str, list[str]]) -> None:
    """The gold lists of a retrieval task."""
    task.mkdir(parents=True, exist_ok=True)
    (task / "relevant.json").write_text(
        json.dumps(relevant, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


def write_folder(
    folder: Path, rows: Iterable[Mapping[str, Any]] | None, title: str, *paragraphs: str
) -> None:
    """Its documents, unless they are there, and what it holds, its source and licence, how it was made."""
    if rows is not None:
        write_lines(folder / "documents.jsonl", rows)
    text = "\n\n".join(filter(None, [f"# {title}", *paragraphs]))
    (folder / "README.md").write_text(text + "\n", encoding="utf-8")
