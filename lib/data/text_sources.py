"""Turns tables (JSON Lines, CSV, Parquet) and folders of plain text into dataset folders.

They are written under the artifact root, once for each content; the original files are never
changed. The columns `text`, `id`, `title`, `group` and `label` of a table are read, in upper or
lower case. Without a column `id`, row numbers are the ids. Labels become a task.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from lib.config import paths
from lib.data.dataset_folder import FORMS, Document, OptionalName, compose_name, validate_rows
from lib.data.files import Rows, name_errors, open_text, read_csv, read_fields, read_rows
from lib.data.writing import write_lines, write_once
from lib.store import MARKER, hash_code, hash_file, hash_value

TABLES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".parquet")
PLAIN = (".txt", ".md")
LABELS = "label"  # the column of labels, and the task that they become
COLUMNS = ("text", "id", "title", "group", LABELS)
# Next to a table, files of these names are not texts but describe it.
_ABOUT = ("readme", "license", "licence", "notice", "changelog", "citation")


class _Row(Document, frozen=True):
    label: OptionalName = ""


class TextSource(NamedTuple):
    """Texts as a dataset folder."""

    folder: Path
    name: str  # from the original file or folder
    notes: list[str]  # one line for files, and one for columns, that are not read


def find_dataset_folder(
    path: Path, text: str | None = None, label: str | None = None
) -> TextSource:
    """Find or write the dataset folder with the texts of a file or folder.

    `path` is a dataset folder, a table, a folder with one table, or one of .txt and .md files.
    `text` and `label` are columns of a table that have other names. `ValueError` with file and
    line for files that cannot be read.
    """
    path = path.expanduser().resolve()
    asked = {key: name for key, name in (("text", text), (LABELS, label)) if name is not None}
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    if not asked and any(any(path.glob(form)) for form in FORMS):
        return TextSource(path, path.name, [])
    root, files = (path, sorted(_walk(path))) if path.is_dir() else (path.parent, [path])
    tables = [file for file in files if file.name.lower().endswith(TABLES)]
    plain = [file for file in files if file.suffix.lower() in PLAIN]
    plain = [file for file in plain if not tables or file.stem.lower() not in _ABOUT]
    if len(tables) + bool(plain) != 1 or (asked and plain):
        forms = f"one table ({', '.join(TABLES)}), or {' and '.join(PLAIN)} files"
        names = _join(root, tables + plain or files) or "nothing"
        raise ValueError(f"{path}: expected {forms}, which have no columns; found {names}")
    unread = [file for file in files if file not in tables + plain]
    notes = [f"{path.name}: note: files not read: {_join(root, unread)}"] if unread else []
    # A table in a folder is named after it, because tables have the same name in many folders.
    ending = max((end for end in TABLES if path.name.lower().endswith(end)), key=len, default="")
    name = path.name[: len(path.name) - len(ending)] or "texts"
    columns = {}
    if tables:
        columns, others = _choose_columns(tables[0], asked)
        told = f"{tables[0].name}: note: columns not read: {', '.join(map(repr, others[:5]))}"
        notes += [told] if others else []
    return TextSource(_write_folder(name, tables or plain, root, columns), name, notes)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield visible files in a folder and below; skip our own products."""
    for place, folders, files in os.walk(folder):
        if MARKER in files or Path(place) == paths.artifacts().resolve():
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(place, name) for name in files if not name.startswith("."))


def _join(root: Path, files: Sequence[Path]) -> str:
    names = [repr(file.relative_to(root).as_posix()) for file in files[:5]]
    return ", ".join(names + ([f"{len(files) - 5} more"] if len(files) > 5 else []))


def _choose_columns(path: Path, asked: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """{field of a dataset folder: column of the table}, the text first, and the other columns."""
    is_csv = path.suffix.lower() == ".csv"
    names = next((row for _, row in read_csv(path)), []) if is_csv else read_fields(path)
    # Upper and lower case, surrounding spaces and forms of Unicode make no difference.
    folded = [compose_name(name).strip().lower() for name in names]
    columns = {}
    for key in COLUMNS:
        wanted = compose_name(asked.get(key, key)).strip().lower()
        if folded.count(wanted) == 1:
            columns[key] = names[folded.index(wanted)]
        elif wanted in folded or key == "text" or key in asked:
            told = f"expected one column {wanted!r}; --text NAME and --label NAME name others"
            raise ValueError(f"{path}: {told}: {', '.join(names)}")
    return columns, [name for name in names if name.strip() and name not in columns.values()]


def _write_folder(name: str, files: Sequence[Path], root: Path, columns: Mapping[str, str]) -> Path:
    """Write the dataset folder of a table with these columns, or of plain files."""
    sums = [[path.relative_to(root).as_posix(), hash_file(path)] for path in files]
    code = hash_code(("data.text_sources", "data.files", "data.dataset_folder"))
    target = paths.artifacts() / "data" / "texts" / hash_value([code, sums, columns]) / name
    labels = []

    def read_documents() -> Iterator[dict[str, Any]]:
        rows = _read_table(files[0], columns) if columns else _read_plain(files, root)
        for _, row in validate_rows(files[0], rows, TypeAdapter(_Row)):
            if row.label:
                labels.append({"id": row.id, "label": row.label})
            yield row.model_dump(exclude={"source", LABELS})

    def write(folder: Path) -> None:
        write_lines(folder / "documents.jsonl", read_documents())
        if labels:
            write_lines(folder / "tasks" / LABELS / "train.jsonl", labels)

    return write_once(target, write)


def _read_plain(files: Sequence[Path], root: Path) -> Rows:
    for path in files:
        with name_errors(path), open_text(path) as file:
            fields = {"id": path.relative_to(root).as_posix(), "text": file.read()}
            yield str(path), fields | {"title": path.stem}


def _read_table(path: Path, columns: Mapping[str, str]) -> Rows:
    """Yield the rows of a table, with the field names of a dataset folder."""
    rows = _read_csv(path) if path.suffix.lower() == ".csv" else read_rows([path], columns.values())
    for number, (where, row) in enumerate(rows, start=1):
        fields = {key: _spell(row[name]) for key, name in columns.items() if name in row}
        if "id" in columns and "id" not in fields:
            raise ValueError(f"{where}: no id; give one to every row, or to none")
        yield where, {"id": number} | fields


def _spell(value: Any) -> Any:
    """Spell True and False, and what is missing, as CSV does."""
    if value is None or value != value:
        return ""
    return str(value) if isinstance(value, bool) else value


def _read_csv(path: Path) -> Rows:
    """Yield the rows below the header; pandas would fill short ones."""
    rows = read_csv(path)
    _, names = next(rows)
    for where, row in rows:
        if len(row) != len(names):
            told = f"expected {len(names)} values, as in the header, found {len(row)}"
            raise ValueError(f"{where}: {told}; put texts with commas in quotes")
        yield where, dict(zip(names, row, strict=True))
