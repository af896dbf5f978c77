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
# Next to a table or a dataset folder, files of these names are not texts but describe it.
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
    if _is_table(path):
        ending = max((end for end in TABLES if path.name.lower().endswith(end)), key=len)
        return _convert_table(path, asked, path.name[: -len(ending)] or "texts")
    if _is_dataset_folder(path) and not asked:
        return TextSource(path, path.name, [])
    found = sorted(_walk(path))
    sets = [place for place in found if place.is_dir() or _is_table(place)]
    plain = [place for place in found if place.suffix.lower() in PLAIN]
    plain = [place for place in plain if not sets or place.stem.lower() not in _ABOUT]
    if plain and text is None:  # a table without texts may say what is known of plain files
        sets = [s for s in sets if s.is_dir() or "text" in map(_fold, _list_columns(s))]
    if len(sets) + bool(plain) != 1 or any(place.is_dir() for place in sets):
        forms = f"one table ({', '.join(TABLES)}), or {' and '.join(PLAIN)} files"
        names = _join([place.relative_to(path).as_posix() for place in (sets + plain) or found])
        raise ValueError(f"{path}: expected a folder with {forms}; found {names or 'nothing'}")
    unread = [place.relative_to(path).as_posix() for place in found if place not in sets + plain]
    notes = _note_unread(path.name, "files", unread)
    if sets:  # named after the folder, because tables have the same name in many folders
        source = _convert_table(sets[0], asked, path.name)
        return source._replace(notes=notes + source.notes)
    if asked:
        raise ValueError(f"{path}: --{' and --'.join(asked)}: only a table has columns")
    return TextSource(_write_folder(path.name, plain, path, {}), path.name, notes)


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES) and path.is_file()


def _is_dataset_folder(path: Path) -> bool:
    return any(any(path.glob(form)) for form in FORMS)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield files in a folder and below, and dataset folders as a whole; skip our own products."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        if here != folder and _is_dataset_folder(here):
            folders.clear()
            yield here
        elif here == paths.artifacts().resolve() or MARKER in files:
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (here / name for name in files if not name.startswith("."))


def _join(names: Sequence[str]) -> str:
    more = f", {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more


def _note_unread(where: str, what: str, unread: Sequence[str]) -> list[str]:
    return [f"{where}: note: {what} not read: {_join(unread)}"] if unread else []


def _fold(name: str) -> str:
    """Normalise case, surrounding spaces and Unicode form of a name."""
    return compose_name(name).strip().lower()


def _list_columns(path: Path) -> list[str]:
    if path.suffix.lower() != ".csv":
        return read_fields(path)
    return next((row for _, row in read_csv(path)), [])


def _convert_table(path: Path, asked: Mapping[str, str], name: str) -> TextSource:
    names = _list_columns(path)
    columns = {}  # field of a dataset folder -> column of the table, with the text first
    for key in COLUMNS:
        wanted = asked.get(key, key)
        found = [each for each in names if _fold(each) == _fold(wanted)]
        if found:
            columns[key] = wanted if wanted in found else found[0]
            if names.count(columns[key]) > 1:
                raise ValueError(f"{path}: the column {columns[key]!r} occurs twice")
        elif key == "text" or key in asked:
            told = f"no column {wanted!r}; --text NAME and --label NAME name others"
            raise ValueError(f"{path}: {told}: {', '.join(names) or 'there is none'}")
    unread = [each for each in names if each.strip() and each not in columns.values()]
    folder = _write_folder(name, [path], path.parent, columns)
    return TextSource(folder, name, _note_unread(path.name, "columns", unread))


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
