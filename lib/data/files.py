"""Reads rows of JSON Lines, Parquet and CSV files as they stand, and writes dataset folders.

Nothing is guessed: ids such as 007, dates, and texts such as NA come out as they went in. A mistake
is a `ValueError` with file and line.
"""

import contextlib
import csv
import gzip
import json
import lzma
import pickle
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow
from filelock import FileLock
from pyarrow import parquet

from lib.store import replace_folder

Rows = Iterator[tuple[str, dict[str, Any]]]  # file:line, and the fields of that row
Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


def read_rows(files: Iterable[Path], names: Collection[str] | None = None) -> Rows:
    """Yield the rows of Parquet and JSON Lines files; of Parquet only the columns in `names`."""
    for path in files:
        if path.suffix.lower() != ".parquet":
            yield from read_json_lines(path)
            continue
        with name_errors(path), parquet.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if names is None or name in names]
            batches = file.iter_batches(1000, columns=columns)
            rows = (row for batch in batches for row in batch.to_pylist())
            yield from ((f"{path}:{number}", row) for number, row in enumerate(rows, start=1))


def read_json_lines(path: Path) -> Rows:
    """Yield (file:line, object) for every line of a JSON Lines file, plain, .gz or .xz."""
    suffix = path.suffix.lower()
    with name_errors(path), (gzip.open if suffix == ".gz" else open)(path, "rb") as file:
        for number, line in enumerate(_unpack_xz(file) if suffix == ".xz" else file, start=1):
            yield f"{path}:{number}", parse_object(f"{path}:{number}", line)


def _unpack_xz(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an xz file, to its end.

    `lzma.open` stops without an error at zeros between streams, and at a stream with a damaged
    header (python/cpython#88300).
    """
    stream, data, rest = lzma.LZMADecompressor(), b"", b""
    while data := data or file.read(2**20):
        if stream.eof:
            data = data.lstrip(b"\0")
            if not data:
                continue
            stream = lzma.LZMADecompressor()
        *lines, rest = (rest + stream.decompress(data)).split(b"\n")
        yield from lines
        data = stream.unused_data
    if not stream.eof:
        raise EOFError("the archive is cut off")
    yield from [rest] if rest else []


def parse_object(where: str | Path, text: bytes) -> dict[str, Any]:
    """Parse a JSON object without repeated keys; NaN, pandas' missing value, becomes null."""
    try:
        value = json.loads(text, object_pairs_hook=_refuse_twins, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(value).__name__}")
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"a key occurs twice among {', '.join(key for key, _ in pairs):.80}")
    return value


def read_csv(path: Path, delimiter: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield (file:line where the row ends, its values as they stand) of all rows, header included.

    The delimiter is the comma, semicolon (usual for spreadsheets in many countries) or tab that
    divides the first line into most parts. `ValueError` for a quotation mark that is not closed.
    """
    csv.field_size_limit(2**31 - 1)  # characters; the default is 131,072
    with name_errors(path), open_text(path) as file:
        header = file.readline()
        file.seek(0)
        parts = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in ",;\t"}
        mark = delimiter or max(parts, key=parts.__getitem__)
        reader, line = csv.reader(file, delimiter=mark, strict=True), 0
        try:
            for row in filter(None, reader):
                line = reader.line_num
                yield f"{path}:{line}", row
        except csv.Error as error:
            raise ValueError(f"{path}: after line {line}: {error}") from error


def open_text(path: Path) -> Any:
    """Open a file in UTF-8, or in UTF-16 if it has a byte order mark; line ends stay."""
    with open(path, "rb") as file:
        wide = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    return open(path, encoding="utf-16" if wide else "utf-8-sig", newline="")


@contextlib.contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Turn what a library raises while it reads a file into a ValueError that names the file."""
    damaged = (EOFError, pyarrow.ArrowException, lzma.LZMAError, zlib.error, pickle.PickleError)
    try:
        yield
    except (OSError, UnicodeError, *damaged) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from error


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
