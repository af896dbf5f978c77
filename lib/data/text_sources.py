"""Texts in the forms in which people keep them, read as a dataset folder.

A dataset folder is taken as it is. A table (JSON Lines, CSV, Parquet) or a folder of plain text
files is written as a dataset folder under the artifact root, once for each content; the person's
files are only read. Of a table the columns `text`, `id`, `title`, `group` and `label` count, in
upper or lower case; rows without an `id` get the number of their row, and labels become a task.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lib.config import paths
from lib.data.dataset_folder import Document, OptionalName, read_rows, validate
from lib.data.written_once import write_once
from lib.store.code import fingerprint_code
from lib.store.files import check_room, fingerprint, sha256

TABLES = (".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".parquet")
PLAIN = (".txt", ".md")
LABELS = "label"  # the column of labels, and the task that they become
_OTHERS = ("title", "group", LABELS)
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # byte order marks; UTF-8's is passed over
_LONGEST_FIELD = 2**31 - 1  # characters; csv's own limit is 131,072
_GROWS = 4  # a compressed table, when it is unpacked


class _Row(Document, frozen=True):
    label: OptionalName = ""


_ROW = TypeAdapter(_Row)
Fields = tuple[str, dict[str, Any]]  # file:line, and what stands there


def find_dataset_folder(
    path: Path, text: str | None = None, label: str | None = None
) -> tuple[Path, str]:
    """A dataset folder with the texts of a file or folder.

    Parameters
    ----------
    path : Path
        A dataset folder, a table, a folder with one table, or a folder of .txt and .md files.
    text, label : str, optional
        The columns of a table that hold texts and labels, where they have other names.

    Returns
    -------
    The dataset folder, and what the texts are called: the name of the file or folder.

    Raises
    ------
    ValueError
        In one line, for what cannot be read: with file, line and what to do.
    """
    path = path.expanduser().resolve()
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    if path.is_dir():
        if any(path.glob("documents.*")) or any(path.glob("documents/[!.]*.parquet")):
            return path, path.name
        tables = sorted(p for p in path.glob("[!.]*") if _is_table(p))
        plain = [p for p in sorted(path.rglob("*")) if _is_plain(p, path)]
        if plain:
            return _write_folder(path.name, plain, path, {}), path.name
        if len(tables) != 1:
            raise ValueError(_describe_folder(path, tables))
        return find_dataset_folder(tables[0], text, label)
    if not _is_table(path):
        raise ValueError(
            f"{path}: expected a folder of texts, or a table ({', '.join(TABLES)}); "
            "put a single text into a folder with others"
        )
    options = {"text": text, LABELS: label}
    name = path.name.partition(".")[0]
    return _write_folder(name, [path], path.parent, options), name


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES) and path.is_file()


def _is_plain(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in PLAIN and not hidden and path.is_file()


def _describe_folder(path: Path, tables: Sequence[Path]) -> str:
    inner = sorted({p.parent.name for p in path.glob("[!.]*/documents*")})
    if inner or tables:
        names = ", ".join(inner or [table.name for table in tables])
        return f"{path}: holds several sets of texts; name one of them: {names}"
    names = ", ".join(sorted(p.name for p in path.glob("[!.]*"))[:5]) or "nothing"
    kinds = f"{', '.join(PLAIN)} files, documents.jsonl, or one table ({', '.join(TABLES)})"
    return f"{path}: no texts; expected {kinds}, found {names}"


def _write_folder(
    name: str, files: Sequence[Path], root: Path, options: dict[str, str | None]
) -> Path:
    sums = [[path.relative_to(root).as_posix(), sha256(path)] for path in files]
    key = fingerprint([fingerprint_code([__name__], stop=("lib",)), sums, options])
    target = paths.artifacts() / "data" / "texts" / key / (name or "texts")
    packed = any(path.suffix in (".gz", ".xz", ".parquet") for path in files)
    size = sum(path.stat().st_size for path in files) * (_GROWS if packed else 1)

    def write(folder: Path) -> None:
        check_room(folder, size)
        rows = _read_table(files[0], options) if options else _read_plain(files, root)
        if not _write_rows(folder, rows):
            raise ValueError(f"{files[0]}: expected at least one row below the header")

    return write_once(target, write)


def _write_rows(folder: Path, rows: Iterator[Fields]) -> int:
    """Write documents and labels, and count them.

    Raises
    ------
    ValueError
        For a row that is no document, and for an id that is given twice.
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
            told = "holds NUL bytes, so it is no text, or of another encoding"
            raise ValueError(f"{path}: {told}; save it as UTF-8, or take it out of the folder")
        yield str(path), {"id": path.relative_to(root).as_posix(), "text": text, "title": path.stem}


def _read_table(path: Path, options: dict[str, str | None]) -> Iterator[Fields]:
    """The rows of a table, under the names that a dataset folder has for its columns."""
    is_csv = path.suffix.lower() == ".csv"
    names = _read_header(path) if is_csv else _list_fields(path)
    columns = _choose_columns(path, names, options)
    given = list(columns.values())
    rows = _read_csv(path, names) if is_csv else read_rows([path], given[:1], given[1:])
    for number, (where, row) in enumerate(rows, start=1):
        fields = {key: row[name] for key, name in columns.items() if name in row}
        if "id" in columns and "id" not in fields:
            raise ValueError(f"{where}: no id; give one to every row, or to none")
        yield where, {"id": number} | fields


def _choose_columns(
    path: Path, names: Sequence[str], options: dict[str, str | None]
) -> dict[str, str]:
    """{what a dataset folder calls it: column}, the text first."""
    columns = {}
    for key in ("text", "id", *_OTHERS):
        asked = options.get(key)
        if asked is not None and asked not in names:
            raise ValueError(f"{path}: no column {asked!r}; there are {', '.join(names)}")
        found = [name for name in names if name.strip().lower() == key]
        if asked or found:
            columns[key] = asked or (key if key in found else found[0])
    if "text" not in columns:
        told = "no column 'text'; say which one holds the texts (--text NAME)"
        raise ValueError(f"{path}: {told}: {', '.join(names) or 'there is none'}")
    return columns


def _list_fields(path: Path) -> list[str]:
    """The columns of a Parquet file, or the fields of the first line of a JSON Lines file."""
    from pyarrow import ArrowException, parquet

    from lib.data.dataset_folder import read_json_lines

    if path.suffix.lower() != ".parquet":
        return [*next(read_json_lines(path))[1]]
    try:
        return parquet.read_schema(path).names
    except ArrowException as error:
        raise ValueError(f"{path}: not a whole Parquet file; copy it again ({error})") from error


def _open_text(path: Path) -> Any:
    with open(path, "rb") as file:
        encoding = _MARKS.get(file.read(2), "utf-8-sig")
    return open(path, encoding=encoding, newline="")


def _explain_encoding(where: str, path: Path, error: UnicodeError) -> str:
    remedy = f"save it as UTF-8, such as by `iconv -f WINDOWS-1252 -t UTF-8 {path.name}`"
    return f"{where}: not UTF-8 ({error}); {remedy}"


def _read_header(path: Path) -> list[str]:
    with _open_text(path) as file:
        try:
            line = file.readline()
        except UnicodeError as error:
            raise ValueError(_explain_encoding(f"{path}:1", path, error)) from error
    names = next(csv.reader([line], delimiter=_find_delimiter(line)), [])
    if not any(name.strip() for name in names):
        raise ValueError(f"{path}: expected a header with the names of the columns, it is empty")
    if twins := [name for name in names if name and names.count(name) > 1]:
        raise ValueError(f"{path}: the column {twins[0]!r} stands twice")
    return names


def _find_delimiter(header: str) -> str:
    """Comma, semicolon (as of spreadsheets in many countries) or tab, by the header."""
    return max(",;\t", key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))


def _read_csv(path: Path, names: Sequence[str]) -> Iterator[Fields]:
    csv.field_size_limit(_LONGEST_FIELD)
    with _open_text(path) as file:
        delimiter = _find_delimiter(file.readline())
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        where = f"{path}:1"
        try:
            next(reader)
            for values in reader:
                where = f"{path}:{reader.line_num}"
                if len(values) != len(names) and values:
                    told = f"{len(values)} values, the header has {len(names)}"
                    raise ValueError(f"{where}: {told}; put a text with {delimiter!r} in quotes")
                if values:
                    yield where, dict(zip(names, values, strict=True))
        except UnicodeError as error:
            raise ValueError(_explain_encoding(f"after {where}", path, error)) from error
        except csv.Error as error:
            raise ValueError(f"after {where}: {error}; a quotation mark may be missing") from error
