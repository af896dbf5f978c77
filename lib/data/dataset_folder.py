"""Reads dataset folders, the one format for texts and tasks (docs/own_documents.md).

No row is skipped: a mistake is a `ValueError` with file and line. The file format makes no
difference: names (ids, titles, groups, labels) are text in Unicode's composed form (NFC), so 1, 1.0
and "1" are the same name, and null and NaN are missing names. Documents are copied once into an
Arrow file, so that a corpus larger than memory stays on disk.
"""

import contextlib
import functools
import gzip
import hashlib
import itertools
import json
import lzma
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pyarrow
from pyarrow import ipc, parquet
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from lib.config import paths
from lib.data.sources import compose_name
from lib.store import hash_code, hash_file, hash_value, write_whole
from lib.texts import has_token

FORMS = ("documents.jsonl", "documents.jsonl.gz", "documents.jsonl.xz", "documents/[!.]*.parquet")
COLUMNS = ["id", "text", "title", "group"]
_BATCH = 1000  # documents that are in memory at once


def _clean_number(value: Any) -> Any:
    """Convert whole floats, as pandas has where a number is missing, to int, and NaN to None."""
    if not isinstance(value, float | Decimal):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def _empty_if_missing(value: Any) -> Any:
    return "" if _clean_number(value) is None else value


# With a minimum length, pydantic checks the characters and refuses half a surrogate pair.
Text = Annotated[str, Field(min_length=0)]
_NAME = (BeforeValidator(_clean_number), AfterValidator(compose_name))
Name = Annotated[str, Field(min_length=0, coerce_numbers_to_str=True), *_NAME]
Id = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), *_NAME]
OptionalName = Annotated[Name, BeforeValidator(_empty_if_missing)]


class Document(BaseModel, frozen=True):
    """A text of the dataset folder `source`. Documents from one article, say, share a `group`."""

    id: Id
    text: Text
    source: str = ""
    title: OptionalName = ""
    group: OptionalName = ""


class Documents(Sequence[Document]):
    """The documents of a dataset folder in file order, read from disk when they are indexed.

    `files` are the files with the documents, and `contents`, (documents,) uint64, the checksums of
    their texts (see `content`). Raises `ValueError` for a folder that is not valid.
    """

    def __init__(self, folder: Path):
        self.name, self.files, self._folder = folder.name, list_files(folder), folder
        stats = [(path, path.stat()) for path in self.files]
        sums = [_sum_once(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
        key = hash_value([hash_code(("data.dataset_folder",)), sums])
        copy = paths.artifacts() / "data" / "arrow" / f"{key}.arrow"
        if not copy.exists():
            write_whole(copy, functools.partial(_copy, self.files))
        self._table = ipc.open_file(pyarrow.memory_map(str(copy))).read_all()
        self.contents = self._table["content"].to_numpy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the path. The memory-mapped table would be copied to other processes."""
        return type(self), (self._folder,)

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, row: int) -> Document:
        values = {key: self._table[key][row].as_py() for key in COLUMNS}
        return Document(source=self.name, **values)

    def __iter__(self) -> Iterator[Document]:
        for batch in self._table.select(COLUMNS).to_batches():
            yield from (Document(source=self.name, **fields) for fields in batch.to_pylist())


@functools.cache
def _sum_once(path: Path, size: int, time: int) -> str:
    return hash_file(path)


def list_files(folder: Path) -> list[Path]:
    """List the files with the documents of a folder; ValueError unless they have one form."""
    forms = [sorted(filter(Path.is_file, folder.glob(form))) for form in FORMS]
    forms = [files for files in forms if files]
    if len(forms) != 1:
        found = " and ".join(files[0].name for files in forms) or "none"
        raise ValueError(f"{folder}: expected one of {', '.join(FORMS)}, found {found}")
    return forms[0]


def content(text: str) -> int:
    """Return a 64-bit checksum whatever the white space and Unicode form; 0 without a token."""
    words = " ".join(compose_name(text).split())
    digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1 if has_token(text) else 0


def validate(where: str | Path, form: TypeAdapter, value: Any) -> Any:
    """Validate a value against a type; a ValueError says where it does not fit."""
    try:
        return form.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{part!r}: " for part in first["loc"])
        given = json.dumps(first["input"], default=repr)
        raise ValueError(f"{where}: {key}{first['msg']}, got {given:.60}") from error


def validate_rows(
    place: Path, rows: Iterable[tuple[str, Any]], form: TypeAdapter
) -> Iterator[tuple[str, Any]]:
    """Yield (file:line, document) of all rows; ValueError for a repeated id, or without rows."""
    seen = set[int]()  # hashes, because the ids of millions of documents can be long
    for where, fields in rows:
        row = validate(where, form, fields)
        if hash(row.id) in seen:
            raise ValueError(f"{where}: the id {row.id!r:.80} occurs twice")
        seen.add(hash(row.id))
        yield where, row
    if not seen:
        raise ValueError(f"{place}: expected at least one row")


def select_fields(
    where: str, row: dict[str, Any], needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, Any]:
    """Select the fields of a row that are read; ValueError if a needed one is missing."""
    if missing := [name for name in needed if name not in row]:
        raise ValueError(f"{where}: {missing[0]!r}: missing; found: {', '.join(row)}")
    return {name: row[name] for name in (*needed, *others) if name in row}


def read_rows(
    files: list[Path], needed: Sequence[str], others: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file:line, fields) for every row; `needed` fields must exist, `others` may."""
    for path in files:
        if path.suffix.lower() == ".parquet":
            yield from _read_parquet(path, needed, others)
        else:
            for where, row in read_json_lines(path):
                yield where, select_fields(where, row, needed, others)


def read_fields(path: Path) -> list[str]:
    """List the names of all fields in a Parquet or JSON Lines file, in order of appearance."""
    if path.suffix.lower() != ".parquet":
        return [*dict.fromkeys(name for _, row in read_json_lines(path) for name in row)]
    with name_errors(path), parquet.ParquetFile(path) as file:
        return file.schema_arrow.names


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file:line, object) for every line of a JSON Lines file, plain, .gz or .xz."""
    suffix = path.suffix.lower()
    with name_errors(path), (gzip.open if suffix == ".gz" else open)(path, "rb") as file:
        for number, line in enumerate(_unpack_xz(file) if suffix == ".xz" else file, start=1):
            yield f"{path}:{number}", parse_object(f"{path}:{number}", line)


@contextlib.contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into a ValueError that names it."""
    try:
        yield
    except UnicodeError as error:
        remedy = f"save it as UTF-8, such as by `iconv -f WINDOWS-1252 -t UTF-8 {path.name}`"
        raise ValueError(f"{path}: {error}; {remedy}") from error
    except (OSError, EOFError) as error:
        raise ValueError(f"{path}: {error}") from error
    except (pyarrow.ArrowException, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path}: damaged; copy it again ({error})") from error


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
        hint = "; save the file as UTF-8" if isinstance(error, UnicodeError) else ""
        raise ValueError(f"{where}: not JSON: {error}{hint}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(value).__name__}")
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"a key occurs twice among {', '.join(key for key, _ in pairs):.80}")
    return value


def _read_parquet(
    path: Path, needed: Sequence[str], others: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    with name_errors(path), parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if file.metadata.num_rows:  # an empty part may have no columns
            select_fields(f"{path}:1", dict.fromkeys(names), needed)
        columns = [name for name in names if name in (*needed, *others)]
        if len({*columns}) < len(columns):
            raise ValueError(f"{path}: a column occurs twice among {', '.join(columns)}")
        batches = file.iter_batches(_BATCH, columns=columns)
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from ((f"{path}:{number}", row) for number, row in enumerate(rows, start=1))


def _copy(files: list[Path], target: BinaryIO) -> None:
    """Check all documents and write them, with the checksum of each text, as an Arrow file."""
    columns = [(key, pyarrow.string()) for key in COLUMNS]
    schema = pyarrow.schema([*columns, ("content", pyarrow.uint64())])
    rows = validate_rows(
        files[0].parent, read_rows(files, COLUMNS[:2], COLUMNS[2:]), TypeAdapter(Document)
    )
    with ipc.new_file(target, schema) as writer:
        while batch := [document for _, document in itertools.islice(rows, _BATCH)]:
            values = [{**each.model_dump(), "content": content(each.text)} for each in batch]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(values, schema=schema))
