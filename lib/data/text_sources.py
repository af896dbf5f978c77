"""Turns tables (JSON Lines, CSV, Parquet) and folders of plain text into dataset folders.

They are written under the artifact root, once for each content; the original files are never
changed. The columns `text`, `id`, `title`, `group` and `label` of a table are read. Without a
column `id`, row numbers are the ids. Labels become a task.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pooch import file_hash
from pydantic import TypeAdapter

from lib.config import paths
from lib.data.dataset_folder import FORMS, Document, OptionalName, compose_name, validate_rows
from lib.data.files import (
    Rows,
    name_errors,
    open_text,
    read_csv,
    read_rows,
    write_lines,
    write_once,
)
from lib.store import MARKER, hash_code, hash_value

TABLES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".parquet")
PLAIN = (".txt", ".md")
COLUMNS = ("text", "id", "title", "group", "label")  # labels become a task of this name
# Next to a table, files of these names are not texts but describe it.
_ABOUT = ("readme", "license", "licence", "notice", "changelog", "citation")


class _Row(Document, frozen=True):
    label: OptionalName = ""


def find_dataset_folder(
    path: Path, text: str | None = None, label: str | None = None
) -> tuple[Path, str, list[str]]:
    """Find or write the dataset folder with the texts of a file or folder.

    `path` is a dataset folder, a table, a folder with one table, or one of .txt and .md files.
    `text` and `label` are columns of a table that have other names. Returns the folder, a name from
    the original, and a note on files that are not read. `ValueError` with file and line for files
    that cannot be read.
    """
    path = path.expanduser().resolve(strict=True)
    asked = {key: name for key, name in (("text", text), ("label", label)) if name is not None}
    if not asked and any(any(path.glob(form)) for form in FORMS):
        return path, path.name, []
    root, files = (path, sorted(_walk(path))) if path.is_dir() else (path.parent, [path])
    tables = [file for file in files if file.name.lower().endswith(TABLES)]
    plain = [file for file in files if file.suffix.lower() in PLAIN]
    plain = [file for file in plain if not tables or file.stem.lower() not in _ABOUT]
    if len(tables) + bool(plain) != 1 or (asked and plain):
        names = ", ".join(file.name for file in files[:5])
        forms = f"one table ({', '.join(TABLES)}), or {' and '.join(PLAIN)} files without columns"
        raise ValueError(f"{path}: expected {forms}; found {names}")
    unread = [str(file.relative_to(root)) for file in files if file not in tables + plain]
    notes = [f"{path.name}: note: files not read: {', '.join(unread[:5])}"] if unread else []
    # A table in a folder is named after it, because tables have the same name in many folders.
    name = path.name if path.is_dir() else path.name.split(".")[0] or "texts"

    sums = [[str(file.relative_to(root)), file_hash(file)] for file in tables or plain]
    code = hash_code(("data.text_sources", "data.files", "data.dataset_folder"))
    target = paths.artifacts() / "data" / "texts" / hash_value([code, sums, asked]) / name

    labels = list[dict[str, str]]()

    def read() -> Iterator[dict[str, str]]:
        rows = _read_table(tables[0], asked) if tables else _read_plain(plain, root)
        for _, row in validate_rows(path, rows, TypeAdapter(_Row)):
            if row.label:
                labels.append({"id": row.id, "label": row.label})
            yield row.model_dump(exclude={"source", "label"})

    def write(folder: Path) -> None:
        write_lines(folder / "documents.jsonl", read())
        if labels:
            write_lines(folder / "tasks/label/train.jsonl", labels)

    return write_once(target, write), name, notes


def _walk(folder: Path) -> Iterator[Path]:
    """Yield visible files in a folder and below; skip our own products."""
    for place, folders, files in os.walk(folder):
        if MARKER in files or Path(place) == paths.artifacts().resolve():
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(place, name) for name in files if not name.startswith("."))


def _read_plain(files: Sequence[Path], root: Path) -> Rows:
    for path in files:
        with name_errors(path), open_text(path) as file:
            fields = {"id": path.relative_to(root).as_posix(), "text": file.read()}
            yield str(path), fields | {"title": path.stem}


def _read_table(path: Path, asked: Mapping[str, str]) -> Rows:
    """Yield the rows of a table, with the field names of a dataset folder."""
    names = {key: _fold(asked.get(key, key)) for key in COLUMNS}
    seen = set[str]()
    rows = _read_csv(path) if path.suffix.lower() == ".csv" else read_rows([path])
    for number, (where, row) in enumerate(rows, start=1):
        folded = {_fold(name): value for name, value in row.items()}
        fields = {key: _spell(folded[name]) for key, name in names.items() if name in folded}
        if number > 1 and ("id" in fields) != ("id" in seen):
            raise ValueError(f"{where}: no id, or the first; give one to every row, or to none")
        seen.update(fields)
        yield where, {"id": number} | fields
    if missing := {"text", *asked} - seen:
        told = ", ".join(names[key] for key in missing)
        raise ValueError(f"{path}: no column {told}; --text NAME and --label NAME name others")


def _fold(name: str) -> str:
    """A column's name, whatever its case, the spaces around it and its form of Unicode."""
    return compose_name(name).strip().lower()


def _spell(value: Any) -> Any:
    """Spell True and False, and what is missing, as CSV does."""
    if value is None or value != value:
        return ""
    return str(value) if isinstance(value, bool) else value


def _read_csv(path: Path) -> Rows:
    """Yield the rows below the header; pandas would fill short ones."""
    rows = read_csv(path)
    _, names = next(rows, ("", []))
    if len({*map(_fold, names)}) < len(names):
        raise ValueError(f"{path}: two columns have the same name")
    for where, row in rows:
        if len(row) != len(names):
            told = f"expected {len(names)} values, as in the header, found {len(row)}"
            raise ValueError(f"{where}: {told}; put texts with commas in quotes")
        yield where, dict(zip(names, row, strict=True))
