"""Turns tables (JSON Lines, CSV, Parquet) and folders of plain text into dataset folders.

They are written under the artifact root, once for each content. The columns `text`, `id` (else row
numbers), `title`, `group` and `label` of a table are read. Labels become a task.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pooch import file_hash
from pyarrow import compute

from lib.config import paths
from lib.data.dataset_folder import FORMS, Documents, spell_name
from lib.data.files import read_rows, write_lines, write_once
from lib.messages import one_line_errors
from lib.store import MARKER, hash_code, hash_value

TABLES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".parquet")
PLAIN = (".txt", ".md")
COLUMNS = ("text", "id", "title", "group", "label")


def find_dataset_folder(path: Path, text: str = "", label: str = "") -> tuple[Path, str, list]:
    """Find or write the dataset folder with the texts of a file or folder.
    `path` is a dataset folder, a table, a folder with one table, or one of .txt and .md files.
    `text` and `label` are columns of a table that have other names. Returns the folder, a name from
    the original, and notes on files that are not read. `ValueError` for what cannot be read.
    """
    path = path.expanduser().resolve(strict=True)
    asked = {key: column for key, column in (("text", text), ("label", label)) if column}
    if not asked and any(any(path.glob(form)) for form in FORMS):
        return path, path.name, []
    root, files = path if path.is_dir() else path.parent, list_files(path)
    places = {file: file.relative_to(root).as_posix() for file in files}
    tables = [file for file in files if file.name.lower().endswith(TABLES)]
    chosen = tables or [file for file in files if file.suffix.lower() in PLAIN]
    if not chosen or len(tables) > 1 or (asked and not tables):
        forms = f"one table ({', '.join(TABLES)}), or {' and '.join(PLAIN)} files without columns"
        raise ValueError(f"{path}: expected {forms}; found {', '.join([*places.values()][:5])}")
    unread = [place for file, place in places.items() if file not in chosen]
    told = f"{path.name}: note: {len(unread)} files not read: {', '.join(unread[:5])}"
    notes = [told] if unread else []
    # A table in a folder is named after it, because tables have the same name in many folders.
    form = r"(?i)\.(jsonl(\.[gx]z)?|csv|parquet|txt|md)$"
    name = path.name if path.is_dir() else re.sub(form, "", path.name)

    def write(folder: Path) -> None:
        file = folder / "documents.jsonl"
        plain = (_read_plain(file, places[file]) for file in chosen)
        write_lines(file, _read_table(tables[0], asked) if tables else plain)
        labelled = (row for _, row in read_rows(file) if spell_name(row.get("label")).strip())
        if labels := [{"id": row["id"], "label": row["label"]} for row in labelled]:
            write_lines(folder / "tasks/label/train.jsonl", labels)
        with one_line_errors(f"read {path}"):
            Documents(folder)

    code = hash_code(("data.text_sources", "data.files", "data.dataset_folder"))
    key = hash_value([code, [[places[file], file_hash(file)] for file in chosen], asked])
    folder = write_once(paths.artifacts() / "data" / "texts" / key / name, write)
    if chosen[0].suffix.lower() == ".csv":
        texts = Documents(folder).table["text"]
        if several := compute.sum(compute.match_substring(texts, "\n")).as_py():
            notes.append(f"{path.name}: note: {several} texts are of several lines, within quotes")
    return folder, name, notes


def list_files(path: Path, known: Collection[Path] = ()) -> list[Path]:
    """The visible files in a folder and below, but not our own products; or the file itself."""
    ours = {marker.parent for marker in path.rglob(MARKER)}
    # A folder behind a link, or that we may not open, is not searched; it counts as a file.
    closed = (file for file in path.rglob("*") if file.is_symlink() or not os.access(file, os.R_OK))
    files = sorted({*filter(Path.is_file, path.rglob("*")), *closed} - {*known})
    shown = [file for file in files if "/." not in f"/{file.relative_to(path).as_posix()}"]
    return [file for file in shown if ours.isdisjoint(file.parents)] if path.is_dir() else [path]


def _read_plain(path: Path, place: str) -> dict[str, str]:
    with one_line_errors(f"read {path}"):
        return {"id": place, "text": path.read_text(encoding="utf-8-sig"), "title": path.stem}


def _read_table(path: Path, asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield rows with our field names, whatever the case and spaces of the table's columns."""
    names = {key: key for key in COLUMNS if key not in asked}
    names |= {spell_name(column).strip().lower(): key for key, column in asked.items()}
    seen = set[str]()
    for number, (_, row) in enumerate(read_rows(path), start=1):
        folded = [(spell_name(name).strip().lower(), value) for name, value in row.items()]
        ours = [(names[name], value) for name, value in folded if name in names]
        with one_line_errors(f"read row {number} of {path}"):
            ours = [(key, value if key == "text" else spell_name(value)) for key, value in ours]
        if len(dict(ours)) < len(ours):
            raise ValueError(f"{path}: two columns for one of {', '.join(COLUMNS)}")
        if number > 1 and ("id" in seen) != ("id" in dict(ours)):  # row numbers among ids
            raise ValueError(f"{path}: row {number}: expected an id in each row, or in none")
        seen.update(dict(ours))
        yield {"id": number} | dict(ours)
    if missing := {*asked} - seen:
        raise ValueError(f"{path}: no column {', '.join(asked[key] for key in sorted(missing))}")
