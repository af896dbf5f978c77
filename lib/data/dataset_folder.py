"""Dataset folders, the one form in which texts and tasks come in: docs/own_documents.md shows them.

Whatever is wrong is a `ValueError` of one line with file, line number and reason; no row is
skipped. `list_unread` names the files and fields that nothing reads. The same data mean the same
in every form: names (ids, titles, groups, labels) are text in Unicode's composed form (NFC), so 1,
1.0 and "1" are one name, and null and NaN are no name. Documents are copied into one Arrow file
when they are first read, so that a corpus larger than memory stays on disk.
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
    """A whole number as int, None for NaN and infinity; Parquet has either where JSON has neither.

    pandas turns whole numbers into floats where one of a column is missing.
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


# With a bound on its length, pydantic looks at the characters and refuses half a surrogate pair.
Text = Annotated[str, Field(min_length=0)]
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_NAME = (BeforeValidator(_clean_number), AfterValidator(_compose))
Name = Annotated[str, Field(min_length=0, coerce_numbers_to_str=True), *_NAME]
Id = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), *_NAME]
OptionalName = Annotated[Name, BeforeValidator(_empty_if_missing)]


class Document(BaseModel, frozen=True):
    """A text; `source` is its dataset folder, `group` what it shares with others, as an article."""

    id: Id
    text: Text
    source: str = ""
    title: OptionalName = ""
    group: OptionalName = ""


_COLUMNS, _DOCUMENT = ["id", "text", "title", "group"], TypeAdapter(Document)


class Documents(Sequence[Document]):
    """The documents of a dataset folder in file order, read from disk when they are asked for.

    Attributes
    ----------
    name : str
        The name of the folder.
    files : list of Path
        What the documents are read from.
    contents : (documents,) uint64
        Checksums of the texts, white space and canonical form normalised; 0 where a text has no
        token.
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
        """Other processes open the folder; a mapped table would be sent by value."""
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
    """What lies in a folder and is not read: neither one of the names nor one of the files.

    Hidden files are passed over, such as `._a.parquet`, which macOS writes beside `a.parquet`.
    """
    names, files = {*names}, {*read}
    return sorted(p.name for p in folder.glob("[!.]*") if p.name not in names and p not in files)


def content(text: str) -> int:
    """A 64-bit checksum of a text that is the same however its words are spaced.

    It is the same for canonically equivalent texts, such as one from macOS that writes é as e and
    an accent, and 0 for a text without a token.
    """
    words = " ".join(_compose(text).split())
    digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1 if has_token(text) else 0


def validate(where: str | Path, form: TypeAdapter, value: Any) -> Any:
    """The value in its form; `ValueError` that says where it is not."""
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
    """Those fields of a row that are read; `ValueError` if a needed one is missing."""
    if missing := [name for name in needed if name not in row]:
        raise ValueError(f"{where}: {missing[0]!r}: missing; found: {', '.join(row)}")
    return {name: row[name] for name in (*needed, *others) if name in row}


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, object) of every line of a JSON Lines file, plain or compressed."""
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
            f"{where}: after it the archive is cut off or damaged ({error}); "
            "copy it again, or unpack it"
        ) from error
    if where == f"{path}:0":
        raise ValueError(f"{path}: expected at least one line, the file is empty")


def _unpack_xz(file: BinaryIO) -> Iterator[bytes]:
    """The content of all streams of an xz file; zeros may pad them.

    `lzma.open` ends without a word at the zeros, and at a stream whose head is damaged
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
    """A JSON object in which no key stands twice; NaN, pandas' missing value, counts as null."""
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
        raise ValueError(f"the key {twin!r} stands twice")
    return value


def read_fields(path: Path) -> list[str]:
    """The names of all fields of a Parquet or JSON Lines file, in the order that they come in."""
    if not _is_parquet(path):
        return [*dict.fromkeys(name for _, row in read_json_lines(path) for name in row)]
    with _one_line_errors(path):
        return parquet.read_schema(path).names


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


@contextlib.contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """`ValueError` in one line for a Parquet file that pyarrow cannot read."""
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise  # the system's, as a missing permission
        told = f"not a whole Parquet file; copy it again ({error})"
        raise ValueError(f"{path}: {told}") from error


def read_rows(
    files: list[Path], needed: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, fields) of every row of Parquet or JSON Lines files.

    needed, others: the fields that are read; the former must be there.
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
        raise ValueError(f"{path}: the column {twins[0]!r} stands twice")
    if file.metadata.num_rows:  # an empty part may have no columns
        columns = [*select_fields(f"{path}:1", dict.fromkeys(names), needed, others)]
    number = 0
    for batch in file.iter_batches(_BATCH, columns=columns):
        for values in zip(*(batch[name] for name in columns), strict=True):
            number += 1
            try:
                fields = [value.as_py() for value in values]
                yield f"{path}:{number}", dict(zip(columns, fields, strict=True))
            except UnicodeDecodeError as error:  # pyarrow takes the bytes of a string as they are
                raise ValueError(f"{path}:{number}: {error}; save its text as UTF-8") from error


def _copy(files: list[Path], folder: Path) -> None:
    """Write `documents.arrow`: all documents, checked, with the checksum of each text beside it."""
    columns = [(key, pyarrow.string()) for key in _COLUMNS]
    schema = pyarrow.schema([*columns, ("content", pyarrow.uint64())])
    # A file grows some four times where it is compressed.
    sizes = [path.stat().st_size * (1 if path.suffix == ".jsonl" else 4) for path in files]
    check_room(folder, sum(sizes))
    hashes = array("q")  # eight bytes a document, where a set of ids would take a hundred
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
    """(file:line, fields) of one document, for a message."""
    return next(itertools.islice(read_rows(files, _COLUMNS[:2]), number, None))
