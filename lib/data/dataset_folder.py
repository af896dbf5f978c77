"""Reads dataset folders, the one format for texts and tasks (docs/own_documents.md).

Every mistake in one is a `ValueError` of one line with file, line number and reason. No row is
skipped. `list_unread` names files that nothing reads. The file format makes no difference: names
(ids, titles, groups, labels) are text in Unicode's composed form (NFC), so 1, 1.0 and "1" are the
same name, and null and NaN are missing names. On first reading, documents are copied into one Arrow
file, so that a corpus larger than memory stays on disk.
"""

import contextlib
import gzip
import hashlib
import itertools
import json
import lzma
import math
import re
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import ipc, parquet
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from lib.config import paths
from lib.data.written_once import write_once
from lib.store.code import fingerprint_code
from lib.store.files import check_room, fingerprint, sum_once
from lib.texts import has_token

_SUFFIXES = ("", ".gz", ".xz")
_CHUNK = 1 << 20  # bytes of an archive that are unpacked at once
_BATCH = 1000  # documents that are in memory at once


def _clean_number(value: Any) -> Any:
    """Convert whole floats to int, and NaN and infinity to None.

    Parquet files from pandas contain both: if a number is missing in a column of integers, pandas
    turns the column into floats.
    """
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return None
        return int(value) if value == int(value) else value
    return value


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _empty_if_missing(value: Any) -> Any:
    return "" if _clean_number(value) is None else value


# With a minimum length, pydantic checks the characters and refuses half a surrogate pair.
Text = Annotated[str, Field(min_length=0)]
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_NAME = (BeforeValidator(_clean_number), AfterValidator(_compose))
Name = Annotated[str, Field(min_length=0, coerce_numbers_to_str=True), *_NAME]
Id = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), *_NAME]
OptionalName = Annotated[Name, BeforeValidator(_empty_if_missing)]


class Document(BaseModel, frozen=True):
    """A text of the dataset folder `source`.

    `group` names what it shares with other documents, such as the article that it is taken from.
    """

    id: Id
    text: Text
    source: str = ""
    title: OptionalName = ""
    group: OptionalName = ""


_COLUMNS, _DOCUMENT = ["id", "text", "title", "group"], TypeAdapter(Document)


class Documents(Sequence[Document]):
    """The documents of a dataset folder in file order, read from disk when they are indexed.

    Attributes
    ----------
    name : str
        The name of the folder.
    files : list of Path
        The files with the documents.
    contents : (documents,) uint64
        Checksums of the texts (see `content`); 0 for a text without a token.

    Raises
    ------
    ValueError
        In one line with file and line number, for a folder that is not valid.
    """

    def __init__(self, folder: Path):
        self.name, self.files, self._folder = folder.name, _find_files(folder), folder
        code = fingerprint_code([__name__], stop=("lib",))
        key = fingerprint([code, *map(sum_once, self.files)])
        copy = write_once(
            paths.artifacts() / "data" / "arrow" / key, lambda place: _copy(self.files, place)
        )
        self._table = ipc.open_file(pyarrow.memory_map(f"{copy}/documents.arrow")).read_all()
        self.contents = self._table["content"].to_numpy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the path. The memory-mapped table would be copied to other processes."""
        return type(self), (self._folder,)

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, row: int) -> Document:
        values = {key: self._table[key][row].as_py() for key in _COLUMNS}
        return Document(source=self.name, **values)

    def __iter__(self) -> Iterator[Document]:
        for batch in self._table.select(_COLUMNS).to_batches():
            yield from (Document(source=self.name, **fields) for fields in batch.to_pylist())


def _find_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such dataset folder")
    plain = [folder / f"documents.jsonl{suffix}" for suffix in _SUFFIXES]
    plain = [path for path in plain if path.is_file()]
    parts = sorted(path for path in folder.glob("documents/[!.]*.parquet") if path.is_file())
    if len(plain) + bool(parts) != 1:
        found = [path.name for path in plain] + (["documents/*.parquet"] if parts else [])
        names = ", ".join(sorted(path.name for path in folder.glob("[!.]*"))[:5])
        raise ValueError(
            f"{folder}: expected one of documents.jsonl[.gz|.xz] and documents/*.parquet, "
            f"found {' and '.join(found) or names or 'nothing'}"
        )
    return plain or parts


def list_unread(folder: Path, names: Iterable[str], read: Iterable[Path] = ()) -> list[str]:
    """List what a folder contains besides these names and files, which nothing reads.

    Hidden files are ignored, such as `._a.parquet`, which macOS writes next to `a.parquet`.
    """
    names, files = {*names}, {*read}
    return sorted(p.name for p in folder.glob("[!.]*") if p.name not in names and p not in files)


def content(text: str) -> int:
    """Return a 64-bit checksum of a text; 0 for a text without a token.

    White space between words makes no difference, nor does the Unicode form: é may be one
    character, or an e and an accent.
    """
    words = " ".join(_compose(text).split())
    digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1 if has_token(text) else 0


def validate(where: str | Path, form: TypeAdapter, value: Any) -> Any:
    """Validate a value against a type; a ValueError says where it does not fit."""
    try:
        return form.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{part!r}: " for part in first["loc"])
        told, value = first["msg"], first["input"]
        if half := isinstance(value, str) and _HALF_A_PAIR.search(value):
            told, value = "half a surrogate pair, which is no character", value[half.start() :]
        given = json.dumps(value, default=repr)
        raise ValueError(f"{where}: {key}{told}, got {given:.60}") from error


def select_fields(
    where: str, row: dict[str, Any], needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, Any]:
    """Select the fields of a row that are read; ValueError if a needed one is missing."""
    if missing := [name for name in needed if name not in row]:
        raise ValueError(f"{where}: {missing[0]!r}: missing; found: {', '.join(row)}")
    return {name: row[name] for name in (*needed, *others) if name in row}


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file:line, object) for every line of a JSON Lines file, plain or compressed."""
    where, suffix = f"{path}:0", path.suffix.lower()
    try:
        with (gzip.open if suffix == ".gz" else open)(path, "rb") as stream:
            lines = _split_lines(_unpack_xz(stream)) if suffix == ".xz" else stream
            for number, line in enumerate(lines, start=1):
                where = f"{path}:{number}"
                if not line.strip():
                    raise ValueError(f"{where}: an empty line; remove it")
                yield where, parse_object(where, line)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{where}: after this line, the archive is cut off or damaged ({error}); "
            "copy it again, or unpack it"
        ) from error
    if where == f"{path}:0":
        raise ValueError(f"{path}: expected at least one line, the file is empty")


def _unpack_xz(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all streams of an xz file, which may be padded with zeros.

    `lzma.open` stops without an error at the zeros, and at a stream with a damaged header
    (python/cpython#88300).
    """
    decompressor = lzma.LZMADecompressor()
    while data := file.read(_CHUNK):
        while data:
            if decompressor.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                decompressor = lzma.LZMADecompressor()
            yield decompressor.decompress(data)
            data = decompressor.unused_data
    if not decompressor.eof:
        raise EOFError("the last stream has no end")


def _split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def parse_object(where: str | Path, text: bytes) -> dict[str, Any]:
    """Parse a JSON object without repeated keys; NaN, pandas' missing value, becomes null."""
    try:
        value = json.loads(text, object_pairs_hook=_refuse_twins, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        hint = "; save the file as UTF-8" if isinstance(error, UnicodeError) else ""
        raise ValueError(f"{where}: not JSON: {error}{hint}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(value).__name__}")
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twin = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twin!r} occurs twice")
    return value


def read_fields(path: Path) -> list[str]:
    """List the names of all fields in a Parquet or JSON Lines file, in order of appearance."""
    if not _is_parquet(path):
        return [*dict.fromkeys(name for _, row in read_json_lines(path) for name in row)]
    with _one_line_errors(path):
        return parquet.read_schema(path).names


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


@contextlib.contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Raise a one-line ValueError for a Parquet file that pyarrow cannot read."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise  # an error of the system, such as a missing permission
        told = f"not a whole Parquet file; copy it again ({error})"
        raise ValueError(f"{path}: {told}") from error


def read_rows(
    files: list[Path], needed: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file:line, fields) for every row of Parquet or JSON Lines files.

    needed, others: the fields to read. Those in `needed` must exist.
    """
    for path in files:
        if not _is_parquet(path):
            for where, row in read_json_lines(path):
                yield where, select_fields(where, row, needed, others)
            continue
        with _one_line_errors(path), parquet.ParquetFile(path) as file:
            yield from _read_parquet(path, file, needed, others)


def _read_parquet(
    path: Path, file: parquet.ParquetFile, needed: Sequence[str], others: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    names = file.schema_arrow.names
    columns = [*needed, *others]
    if twins := [name for name in columns if names.count(name) > 1]:
        raise ValueError(f"{path}: the column {twins[0]!r} occurs twice")
    if file.metadata.num_rows:  # an empty part may have no columns
        columns = [*select_fields(f"{path}:1", dict.fromkeys(names), needed, others)]
    number = 0
    for batch in file.iter_batches(_BATCH, columns=columns):
        for values in zip(*(batch[name] for name in columns), strict=True):
            number += 1
            try:
                fields = [value.as_py() for value in values]
                yield f"{path}:{number}", dict(zip(columns, fields, strict=True))
            except UnicodeDecodeError as error:  # pyarrow does not check the bytes of a string
                raise ValueError(f"{path}:{number}: {error}; save its text as UTF-8") from error


def _copy(files: list[Path], folder: Path) -> None:
    """Check all documents and write them, with the checksum of each text, to `documents.arrow`."""
    columns = [(key, pyarrow.string()) for key in _COLUMNS]
    schema = pyarrow.schema([*columns, ("content", pyarrow.uint64())])
    # Compressed files grow about fourfold.
    sizes = [path.stat().st_size * (1 if path.suffix == ".jsonl" else 4) for path in files]
    check_room(folder, sum(sizes))
    hashes = array("q")  # eight bytes per document; a set of ids would take a hundred
    rows = read_rows(files, _COLUMNS[:2], _COLUMNS[2:])
    documents = (validate(where, _DOCUMENT, row) for where, row in rows)
    with ipc.new_file(folder / "documents.arrow", schema) as writer:
        while batch := list(itertools.islice(documents, _BATCH)):
            hashes.extend(hash(document.id) for document in batch)
            rows = [{**each.model_dump(), "content": content(each.text)} for each in batch]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema=schema))
    if not hashes:
        raise ValueError(f"{files[0].parent}: expected at least one row, its files are empty")
    _refuse_same_ids(files, np.asarray(hashes))


def _refuse_same_ids(files: list[Path], hashes: np.ndarray) -> None:
    repeated = pd.Index(hashes).duplicated()
    if repeated.any():
        first, second = np.flatnonzero(hashes == hashes[repeated.argmax()])[:2]
        before, _ = read_row(files, first)
        where, row = read_row(files, second)
        told = f"the id {str(row['id'])!r:.80} is that of {Path(before).name} already"
        raise ValueError(f"{where}: {told}")


def read_row(files: list[Path], number: int) -> tuple[str, dict[str, Any]]:
    """Read (file:line, fields) of one document, for a message."""
    return next(itertools.islice(read_rows(files, _COLUMNS[:2]), number, None))
