"""Turns texts in common formats into dataset folders.

A dataset folder is used as it is. A table (JSON Lines, CSV, Parquet) or a folder of plain text
files is written as a dataset folder under the artifact root, once for each content. The original
files are never changed. The columns `text`, `id`, `title`, `group` and `label` of a table are read,
in upper or lower case. Without a column `id`, row numbers are the ids, and labels become a task.
Files and columns that are not read are listed in notes.
"""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, TypeAdapter

from lib.config import paths
from lib.data import dataset_folder
from lib.data.dataset_folder import Document, OptionalName, Text, read_fields, read_rows, validate
from lib.data.sources import compose_name
from lib.data.written_once import SEAL, write_once
from lib.store.code import fingerprint_code
from lib.store.files import check_room, fingerprint, sha256

TABLES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".parquet")
PLAIN = (".txt", ".md")
LABELS = "label"  # the column of labels, and the task that they become
COLUMNS = ("text", "id", "title", "group", LABELS)
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # byte order marks; UTF-8's is skipped
_LONGEST_FIELD = 2**31 - 1  # characters; the default of csv is 131,072
_GROWS = 4  # factor by which a compressed table grows when it is unpacked
_NAMED = 5  # names listed in a message
# Next to a table or a dataset folder, files of these names are not texts but describe it.
_ABOUT = ("readme", "license", "licence", "notice", "changelog", "citation")


def _empty_if_null(value: Any) -> Any:
    """Turn a missing text, null or NaN, into an empty one, as in CSV."""
    return "" if value is None or value != value else value


def _spell_bool(value: Any) -> Any:
    """Spell True and False as text, as in CSV."""
    return str(value) if isinstance(value, bool) else value


_Name = Annotated[OptionalName, BeforeValidator(_spell_bool)]


class _Row(Document, frozen=True):
    text: Annotated[Text, BeforeValidator(_empty_if_null)]
    title: _Name = ""
    group: _Name = ""
    label: _Name = ""


_ROW = TypeAdapter(_Row)
Fields = tuple[str, dict[str, Any]]  # file:line, and the fields of that row


class TextSource(NamedTuple):
    """Texts as a dataset folder.

    name: the name of the texts, from the original file or folder.
    notes: one line for files, and one for columns, that are not read.
    """

    folder: Path
    name: str
    notes: list[str]


def find_dataset_folder(
    path: Path, text: str | None = None, label: str | None = None
) -> TextSource:
    """Find or write the dataset folder with the texts of a file or folder.

    Parameters
    ----------
    path : Path
        A dataset folder, a table, a folder with one table, or a folder of .txt and .md files.
    text, label : str, optional
        The columns of a table with texts and labels, if they have other names.

    Raises
    ------
    ValueError
        In one line, for files that cannot be read. It gives file, line and what to do.
    """
    path = path.expanduser().resolve()
    asked = {key: name for key, name in (("text", text), (LABELS, label)) if name is not None}
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    if _is_table(path):
        return _read_as_table(path, asked)
    if not path.is_dir():
        raise ValueError(
            f"{path}: expected a folder of texts, or a table ({', '.join(TABLES)}); "
            "put a single text into a folder with others"
        )
    if _is_dataset_folder(path):
        _refuse_columns(path, asked)
        return TextSource(path, path.name, [])
    found = sorted(_walk(path))
    sets = [place for place in found if place.is_dir() or _is_table(place)]
    plain = [place for place in found if _is_plain(place) and not (sets and _is_about(place))]
    if plain and text is None:
        sets = [place for place in sets if place.is_dir() or _has_texts(place)]
    if len(sets) + bool(plain) != 1 or any(place.is_dir() for place in sets):
        raise ValueError(_describe_folder(path, sets, plain))
    read = {*sets, *plain}
    unread = [repr(_name_below(path, place)) for place in found if place not in read]
    notes = _list_unread(path.name, "files", unread)
    if sets:
        # Named after the folder, because tables have the same name in many folders.
        source = _read_as_table(sets[0], asked, path.name)
        return source._replace(notes=notes + source.notes)
    _refuse_columns(path, asked)
    return TextSource(_write_folder(path.name, plain, path, {}), path.name, notes)


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES) and path.is_file()


def _is_dataset_folder(path: Path) -> bool:
    names = ("documents.jsonl", "documents.jsonl.gz", "documents.jsonl.xz")
    plain = any((path / name).is_file() for name in names)
    return plain or any(path.glob("documents/[!.]*.parquet"))


def _is_plain(path: Path) -> bool:
    return path.suffix.lower() in PLAIN and path.is_file()


def _is_about(path: Path) -> bool:
    return path.stem.lower() in _ABOUT


def _has_texts(path: Path) -> bool:
    """Whether a table contains texts, instead of facts about plain text files next to it."""
    return any(_fold(name) == "text" for name in _list_columns(path))


def _walk(folder: Path) -> Iterator[Path]:
    """Yield files in a folder and below, and dataset folders as a whole; skip our own products."""
    kept = paths.artifacts().resolve()
    for place, folders, files in os.walk(folder):
        here = Path(place)
        if here != folder and _is_dataset_folder(here):
            folders.clear()
            yield here
        elif here == kept or SEAL in files:
            folders.clear()
        else:
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (here / name for name in files if not name.startswith("."))


def _name_below(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _describe_folder(path: Path, sets: Sequence[Path], plain: Sequence[Path]) -> str:
    names = [_name_below(path, place) for place in sets]
    if plain:
        names.append(f"the {' and '.join(PLAIN)} files, in a folder of their own")
    if names:
        return f"{path}: holds several sets of texts; name one of them: {_join(names)}"
    held = _join(sorted(place.name for place in path.glob("[!.]*"))) or "nothing"
    kinds = f"{', '.join(PLAIN)} files, documents.jsonl, or one table ({', '.join(TABLES)})"
    return f"{path}: no texts; expected {kinds}, found {held}"


def _join(names: Sequence[str]) -> str:
    """Join the first few names, and say how many more there are."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def _refuse_columns(path: Path, asked: Mapping[str, str]) -> None:
    if asked:
        options = " and ".join(f"--{key} {name}" for key, name in asked.items())
        raise ValueError(f"{path}: {options}: only a table has columns, and this is not a table")


def _list_unread(where: str, what: str, unread: Sequence[str], more: str = "") -> list[str]:
    """Make one note on all files or columns that are not read; none if there are none."""
    return [f"{where}: note: {what} not read: {_join(unread)}{more}"] if unread else []


def _read_as_table(path: Path, asked: Mapping[str, str], name: str = "") -> TextSource:
    """Turn a table into a dataset folder; `name` is by default that of the file."""
    names = _list_columns(path)
    columns = _choose_columns(path, names, asked)
    unread = [repr(name) for name in names if name.strip() and name not in columns.values()]
    more = f"; expected {', '.join(COLUMNS)}, or what --text and --label name"
    notes = _list_unread(path.name, "columns", unread, more)
    ending = max((end for end in TABLES if path.name.lower().endswith(end)), key=len)
    name = name or path.name[: -len(ending)] or "texts"
    return TextSource(_write_folder(name, [path], path.parent, columns), name, notes)


def _write_folder(name: str, files: Sequence[Path], root: Path, columns: Mapping[str, str]) -> Path:
    """Write the dataset folder of a table with these columns, or of plain files, if missing."""
    sums = [[path.relative_to(root).as_posix(), sha256(path)] for path in files]
    code = fingerprint_code([__name__, dataset_folder.__name__], stop=("lib",))
    target = paths.artifacts() / "data" / "texts" / fingerprint([code, sums, columns]) / name
    packed = any(path.suffix.lower() in (".gz", ".xz", ".parquet") for path in files)
    size = sum(path.stat().st_size for path in files) * (_GROWS if packed else 1)

    def write(folder: Path) -> None:
        check_room(folder, size)
        rows = _read_table(files[0], columns) if columns else _read_plain(files, root)
        if not _write_rows(folder, rows):
            raise ValueError(f"{files[0]}: expected at least one row below the header")

    return write_once(target, write)


def _write_rows(folder: Path, rows: Iterator[Fields]) -> int:
    """Write documents and labels, and count them.

    Raises
    ------
    ValueError
        For a row that is not a valid document, and for an id that is used twice.
    """
    seen: dict[int, str] = {}
    task = folder / "tasks" / LABELS
    labels = []
    with open(folder / "documents.jsonl", "w", encoding="utf-8") as file:
        for where, fields in rows:
            row = validate(where, _ROW, fields)
            before = seen.setdefault(hash(row.id), where)
            if before != where:
                at = before.rpartition("/")[2]
                raise ValueError(f"{where}: the id {row.id!r:.80} is that of {at} already")
            values = row.model_dump(exclude={"source", LABELS})
            file.write(json.dumps(values) + "\n")
            if row.label:
                labels.append(json.dumps({"id": row.id, "label": row.label}))
    if labels:
        task.mkdir(parents=True)
        (task / "train.jsonl").write_text("\n".join(labels) + "\n", encoding="utf-8")
    return len(seen)


def _read_plain(files: Sequence[Path], root: Path) -> Iterator[Fields]:
    for path in files:
        with _open_text(path) as file:
            try:
                text = file.read()
            except UnicodeError as error:
                raise ValueError(_explain_encoding(str(path), path, error)) from error
        if "\0" in text:
            told = "holds NUL bytes, so it is not text, or has another encoding"
            raise ValueError(f"{path}: {told}; save it as UTF-8, or take it out of the folder")
        yield str(path), {"id": path.relative_to(root).as_posix(), "text": text, "title": path.stem}


def _read_table(path: Path, columns: Mapping[str, str]) -> Iterator[Fields]:
    """Yield the rows of a table, with the field names of a dataset folder."""
    given = list(columns.values())
    rows = _read_csv_rows(path) if _is_csv(path) else read_rows([path], given[:1], given[1:])
    for number, (where, row) in enumerate(rows, start=1):
        fields = {key: row[name] for key, name in columns.items() if name in row}
        if "id" in columns and "id" not in fields:
            raise ValueError(f"{where}: no id; give one to every row, or to none")
        yield where, {"id": number} | fields


def _choose_columns(path: Path, names: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Return {field of a dataset folder: column of the table}, with the text first."""
    columns = {}
    for key in COLUMNS:
        wanted = asked.get(key, key)
        found = [name for name in names if _fold(name) == _fold(wanted)]
        if key in asked and not found:
            raise ValueError(f"{path}: no column {wanted!r}; there are {', '.join(names)}")
        if found:
            columns[key] = wanted if wanted in found else found[0]
    if "text" not in columns:
        told = "no column 'text'; say which one holds the texts (--text NAME)"
        raise ValueError(f"{path}: {told}: {', '.join(names) or 'there is none'}")
    return columns


def _fold(name: str) -> str:
    """Normalise case, surrounding spaces and Unicode form of a name."""
    return compose_name(name).strip().lower()


def _open_text(path: Path) -> Any:
    with open(path, "rb") as file:
        encoding = _MARKS.get(file.read(2), "utf-8-sig")
    return open(path, encoding=encoding, newline="")


def _explain_encoding(where: str, path: Path, error: UnicodeError) -> str:
    remedy = f"save it as UTF-8, such as by `iconv -f WINDOWS-1252 -t UTF-8 {path.name}`"
    return f"{where}: not UTF-8 ({error}); {remedy}"


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _read_csv_rows(path: Path) -> Iterator[Fields]:
    rows = _read_csv(path)
    _, names = next(rows)
    yield from ((where, dict(zip(names, values, strict=True))) for where, values in rows)


def _list_columns(path: Path) -> list[str]:
    return _read_header(path) if _is_csv(path) else read_fields(path)


def _read_header(path: Path) -> list[str]:
    _, names = next(_read_csv(path), ("", []))
    if not any(name.strip() for name in names):
        raise ValueError(f"{path}: expected a header with the names of the columns, it is empty")
    if twins := [name for name in names if name and names.count(name) > 1]:
        raise ValueError(f"{path}: the column {twins[0]!r} occurs twice")
    return names


def _find_delimiter(header: str) -> str:
    """Choose comma, semicolon (usual for spreadsheets in many countries) or tab by the header."""
    return max(",;\t", key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def _read_csv(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (file:line, values) of the header and of every row that is not empty."""
    csv.field_size_limit(_LONGEST_FIELD)
    where, names = f"{path}:1", None
    with _open_text(path) as file:
        try:
            delimiter = _find_delimiter(file.readline())
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            line = 1
            for values in reader:
                where, line = f"{path}:{line}", reader.line_num + 1  # where a row begins
                names = values if names is None else names
                if values and len(values) != len(names):
                    told = f"columns: {len(values)}, but {len(names)} in the header"
                    remedy = f"put texts that contain {delimiter!r} or line breaks in quotes"
                    raise ValueError(f"{where}: {told}; {remedy}")
                if values:
                    yield where, values
        except UnicodeError as error:
            raise ValueError(_explain_encoding(f"after {where}", path, error)) from error
        except csv.Error as error:
            raise ValueError(f"after {where}: {error}; a quotation mark may be missing") from error
