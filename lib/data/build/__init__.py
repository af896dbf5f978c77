"""Builders write dataset folders: mini from the files of installed packages, thesis from hub and Zenodo files.

A builder is a package with `key_files(profile)`, what besides its settings and source decides the result, and
`writers(profile)`: {dataset folder: a function that fills it}. `python -m lib.data.build <profile>` builds by hand.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from lib.config import paths
from lib.data.dataset_folder import sha256
from lib.store.files import write_atomically
from lib.store.records import fingerprint
from lib.store.source_keys import source_key

if TYPE_CHECKING:
    from lib.config.schema import Profile

Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


def folder(profile: Profile) -> Path:
    """`<artifact root>/data/<builder>-<key>`, written first where it is missing.

    Each dataset folder appears whole or not at all; a builder that was killed goes on with the next one. `complete`,
    written last, holds the SHA-256 of every file: a folder with another or a missing file is written again. Of several
    processes one builds and the others wait.
    """
    settings = profile.build.model_dump(mode="json")
    builder = importlib.import_module(f"lib.data.build.{settings['builder']}")
    readers = ("lib.data.task_files", "lib.data.dataset_folder", "lib.data.sources")
    code = source_key(builder.__name__, stop=("lib.store", "lib.config", *readers))
    root = home() / f"{settings['builder']}-{fingerprint([settings, code, builder.key_files(profile)])}"
    if not (root / "complete").is_file() or _damaged(root):
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / ".lock"):
            damaged = _damaged(root) if (root / "complete").is_file() else {}
            for name, write in builder.writers(profile).items():
                if file := damaged.get(name, damaged.get("complete")):
                    warnings.warn(f"{file} is damaged or missing: {name} is written again", stacklevel=2)
                if file or not (root / name).is_dir():
                    unfinished = root / f".{name}.unfinished"
                    shutil.rmtree(unfinished, ignore_errors=True)
                    unfinished.mkdir()
                    write(unfinished)
                    for path in unfinished.rglob("*"):  # on the disk before the name is: power may fail
                        if path.is_file():
                            with path.open("rb") as stream:
                                os.fsync(stream.fileno())
                    shutil.rmtree(root / name, ignore_errors=True)
                    os.replace(unfinished, root / name)
            files = (path for name in builder.writers(profile) for path in sorted((root / name).rglob("*")))
            sums = {path.relative_to(root).as_posix(): sha256(path) for path in files if path.is_file()}
            write_atomically(root / "complete", json.dumps(sums, indent=1).encode())
    return root


def _damaged(root: Path) -> dict[str, Path]:
    """{dataset folder: one of its files that is not as `complete` says}; {"complete": itself} if that is unreadable."""
    try:
        sums = json.loads((root / "complete").read_bytes()).items()
    except (ValueError, AttributeError):
        return {"complete": root / "complete"}
    wrong = (name for name, was in sums if not (root / name).is_file() or sha256(root / name) != was)
    return {name.partition("/")[0]: root / name for name in wrong}


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
    keys = {1: ("id", "label"), 2: ("a", "b", "label")}
    for split, rows in examples.items():
        lines = (dict(zip(keys[len(ids)], (*ids, label), strict=True)) for ids, label in rows)
        write_lines(task / f"{split}.jsonl", lines)


def write_relevant(task: Path, relevant: Mapping[str, list[str]]) -> None:
    """The gold lists of a retrieval task."""
    task.mkdir(parents=True, exist_ok=True)
    (task / "relevant.json").write_text(json.dumps(relevant, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_readme(folder: Path, title: str, *paragraphs: str) -> None:
    """What the folder holds, its source and licence, how it was made."""
    text = "\n\n".join(filter(None, [f"# {title}", *paragraphs]))
    (folder / "README.md").write_text(text + "\n", encoding="utf-8")
