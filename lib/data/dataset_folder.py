"""Dataset folders, the one form in which texts and tasks come in.

    <root>/<name>/documents.jsonl[.gz|.xz] or documents/*.parquet     {"id", "text", "title"?, "group"?}
    <root>/<name>/tasks/<task>/{train,validation,test}.jsonl          {"id", "label"}  or  {"a", "b", "label"}
    <root>/<name>/tasks/<task>/relevant.json                          {source id: [target ids]}
    <root>/<name>/tasks/<task>/clusters.jsonl                         {"id", "label"}

`group` names what documents share, an article for example. Everything that is wrong is one `ValueError` with file, line
number and reason; nothing is skipped. Documents are checked once and copied into one Arrow file, through which they are
read: a corpus larger than memory stays on disk. Tasks: `lib.data.task_files`.
"""

import functools
import gzip
import hashlib
import itertools
import json
import lzma
import re
import unicodedata
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import ipc, parquet

from lib.config import paths
from lib.data.written_once import sha256, written
from lib.store.files import fingerprint
from lib.store.source_keys import source_key

_OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}
_BATCH = 1000  # documents that are in memory at once
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_OPTIONAL = ("title", "group")
_COLUMNS = ("id", "text", *_OPTIONAL)


@dataclass(frozen=True)
class Document:
    """A text; `source` is its dataset folder."""

    id: str
    text: str
    source: str
    title: str = ""
    group: str = ""


class Documents(Sequence[Document]):
    """The documents of `<root>/<name>`, in file order, read from disk when they are asked for.

    Raises `ValueError`: no such folder, not one form of documents files, a damaged file, a bad line, an id given twice.
    """

    def __init__(self, root: Path, name: str):
        self.name, self._files = name, document_files(root, name)
        key = fingerprint([source_key(__name__, stop=("lib.store", "lib.config")), *map(sha256, self._files)])
        place = paths.artifacts() / "data" / "arrow" / key
        root = written(place, {"documents": lambda folder: _write_arrow(self._files, folder)})
        self._table = ipc.open_file(pyarrow.memory_map(f"{root}/documents/documents.arrow")).read_all()

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, row: int) -> Document:
        return Document(source=self.name, **{key: self._table[key][row].as_py() for key in _COLUMNS})

    def __iter__(self) -> Iterator[Document]:
        for batch in self._table.select(_COLUMNS).to_batches():
            yield from (Document(source=self.name, **fields) for fields in batch.to_pylist())

    @functools.cached_property
    def contents(self) -> np.ndarray:
        """(documents,) uint64 checksums of the texts, white space normalised; 0 where a document has no token."""
        return self._table["content"].to_numpy()

    def place(self, row: int) -> str:
        """file:line of a document, for a message."""
        return _row(self._files, row)[0]


def document_files(root: Path, name: str) -> list[Path]:
    """The documents file of a dataset folder, or its Parquet files in the order of their names."""
    folder = Path(root) / name
    if not folder.is_dir():
        held = sorted(path.name for path in Path(root).iterdir() if path.is_dir()) if Path(root).is_dir() else []
        raise ValueError(f"{folder}: no such dataset folder; {root} holds {', '.join(held) or 'none'}")
    forms = [[path] for suffix in _OPENERS if (path := folder / f"documents.jsonl{suffix}").is_file()]
    if pieces := sorted((folder / "documents").glob("*.parquet")):
        forms.append(pieces)
    if len(forms) != 1:
        held = ", ".join(str(form[0].relative_to(folder)) for form in forms) or "none"
        names = "documents.jsonl, documents.jsonl.gz, documents.jsonl.xz and documents/*.parquet"
        raise ValueError(f"{folder}: expected one of {names}, found {held}")
    return forms[0]


def content(text: str) -> int:
    """A 64-bit checksum of a text that is the same however its words are spaced; 0 for a text without a token."""
    return _checksum(" ".join(text.split())) or 1 if has_token(text) else 0


def has_token(text: str) -> bool:
    """Whether a tokenizer can see anything: spaces, control characters and lone accents vanish in it."""
    return any(unicodedata.category(character)[0] in "LNPS" and character != "\ufffd" for character in text)


def repeats(values: array | np.ndarray) -> np.ndarray:
    """(values,) bool: whether a value stood before."""
    again = np.ones(len(values), dtype=bool)
    again[np.unique(values, return_index=True)[1]] = False
    return again


def _checksum(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, object) of every line of a JSON Lines file, plain or compressed."""
    for number, line in enumerate(_lines(path), start=1):
        yield f"{path}:{number}", _parse(path, line, number)


def json_file(path: Path) -> dict[str, Any]:
    """The object that a whole file holds."""
    return _parse(path, "\n".join(_lines(path)))


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start} of the line"
        raise ValueError(f"{path}:{number}: not UTF-8 ({reason}); convert the file") from error
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        where = f"{path}: after line {number}"
        raise ValueError(f"{where}: the archive is truncated or damaged ({error}); copy it again") from error


def _parse(path: Path, text: str, number: int | None = None) -> dict[str, Any]:
    """A JSON object in which no key stands twice; `number` is that of its line, None for a whole file."""
    where = f"{path}:{number}" if number else path
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error.msg} at column {error.colno})"
        raise ValueError(f"{path}:{number or error.lineno}: {reason}") from error
    except (ValueError, RecursionError) as error:  # a key twice; numbers of thousands of digits; nested too deep
        raise ValueError(f"{where}: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(value).__name__}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(key for key in value if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return value


def text_fields(
    where: str, values: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, str]:
    """The named fields as text, each checked. Others are allowed: tools may keep notes there."""
    fields = {}
    for key in (*required, *optional):
        value = values.get(key)
        if value is None and key in required:
            raise ValueError(f"{where}: {key!r} is missing")
        if not (value is None or isinstance(value, str) or (type(value) is int and key != "text")):
            raise ValueError(f"{where}: {key!r} should be text, got {type(value).__name__}")
        fields[key] = "" if value is None else str(value)
        if key == "id" and not fields[key]:
            raise ValueError(f"{where}: 'id' is empty")
        if half := _HALF_PAIR.search(fields[key]):
            reason = f"holds half a surrogate pair ({half[0]!a} at character {half.end()}), which is no text"
            raise ValueError(f"{where}: {key!r} {reason}; write the file anew from its source")
    return fields


def _rows(files: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, fields) of every document; in a Parquet file a line is a row."""
    for path in files:
        yield from _parquet_rows(path) if path.suffix == ".parquet" else json_lines(path)


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with parquet.ParquetFile(path) as file:
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            batches = (batch.to_pylist() for batch in file.iter_batches(_BATCH, columns=columns))
            for number, fields in enumerate(itertools.chain.from_iterable(batches), start=1):
                yield f"{path}:{number}", fields
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: not a whole Parquet file ({reason}); copy it again") from error


def _write_arrow(files: list[Path], folder: Path) -> None:
    """All documents, checked, with the checksum of each text beside it."""
    schema = pyarrow.schema([*((key, pyarrow.string()) for key in _COLUMNS), ("content", pyarrow.uint64())])
    ids = array("Q")  # checksums: eight bytes a document, where a set of ids would take a hundred
    with ipc.new_file(folder / "documents.arrow", schema) as writer:
        rows = (text_fields(where, values, ("id", "text"), _OPTIONAL) for where, values in _rows(files))
        while batch := list(itertools.islice(rows, _BATCH)):
            ids.extend(_checksum(fields["id"]) for fields in batch)
            full = [{**fields, "content": content(fields["text"])} for fields in batch]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(full, schema=schema))
    if not ids:
        raise ValueError(f"{files[0]}: expected at least one document, the file is empty")
    if (again := np.flatnonzero(repeats(ids))).size:
        (where, fields), (first, _) = _row(files, again[0]), _row(files, ids.index(ids[again[0]]))
        raise ValueError(f"{where}: id {str(fields['id'])!r} occurs a second time, first at {first}")


def _row(files: list[Path], number: int) -> tuple[str, dict[str, Any]]:
    return next(itertools.islice(_rows(files), number, None))
