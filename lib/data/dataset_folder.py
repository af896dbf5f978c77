"""Dataset folders, the one form in which texts and tasks come in; README.md shows their files.

Everything that is wrong is one `ValueError` with file, line number and reason; nothing is skipped. Documents are copied
into one Arrow file when they are first read: a corpus larger than memory stays on disk.
"""

import gzip
import hashlib
import itertools
import json
import lzma
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import ipc, parquet
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from lib.config import paths
from lib.data.written_once import sha256, written
from lib.store.files import check_room, fingerprint
from lib.store.source_keys import source_key

_OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}
_BATCH = 1000  # documents that are in memory at once
# Of a text with a bound on its length pydantic looks at the characters, and refuses half a surrogate pair.
Text = Annotated[str, Field(min_length=0)]
Name = Annotated[str, Field(min_length=0, coerce_numbers_to_str=True)]
Id = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]
_Optional = Annotated[Name, BeforeValidator(lambda value: "" if value is None else value)]


class Document(BaseModel, frozen=True):
    """A text; `source` is its dataset folder, `group` what it shares with others, an article for example."""

    id: Id
    text: Text
    source: str = ""
    title: _Optional = ""
    group: _Optional = ""


_COLUMNS, _DOCUMENT = ["id", "text", "title", "group"], TypeAdapter(Document)


class Documents(Sequence[Document]):
    """The documents of `<root>/<name>`, in file order, read from disk when they are asked for.

    contents: (documents,) uint64 checksums of the texts, white space normalised; 0 where a document has no token.
    """

    def __init__(self, root: Path, name: str):
        if not (root / name).is_dir():
            raise ValueError(f"{root / name}: no such dataset folder")
        plain = [
            path
            for suffix in _OPENERS
            if (path := root / name / f"documents.jsonl{suffix}").is_file()
        ]
        pieces = sorted((root / name).glob("documents/*.parquet"))
        if len(plain) + bool(pieces) != 1:
            raise ValueError(
                f"{root / name}: expected one of documents.jsonl[.gz|.xz] and documents/*.parquet"
            )
        self.name, self.files = name, plain or pieces
        key = fingerprint(
            [source_key(__name__, stop=("lib.store", "lib.config")), *map(sha256, self.files)]
        )
        folder = paths.artifacts() / "data" / "arrow" / key
        written(folder, {"documents": lambda folder: _write_arrow(self.files, folder)})
        self._table = ipc.open_file(
            pyarrow.memory_map(f"{folder}/documents/documents.arrow")
        ).read_all()
        self.contents = self._table["content"].to_numpy()

    def __len__(self) -> int:
        return self._table.num_rows

    def __getitem__(self, row: int) -> Document:
        return Document(
            source=self.name, **{key: self._table[key][row].as_py() for key in _COLUMNS}
        )

    def __iter__(self) -> Iterator[Document]:
        for batch in self._table.select(_COLUMNS).to_batches():
            yield from (Document(source=self.name, **fields) for fields in batch.to_pylist())


def content(text: str) -> int:
    """A 64-bit checksum of a text that is the same however its words are spaced; 0 for a text without a token."""
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1 if has_token(text) else 0


def has_token(text: str) -> bool:
    """Whether a tokenizer can see anything: spaces, control characters and lone accents vanish in it."""
    return any(
        unicodedata.category(character)[0] in "LNPS" and character != "\ufffd" for character in text
    )


def checked(where: str | Path, form: TypeAdapter, value: Any) -> Any:
    """`value` in its form; `ValueError` that says where it is not."""
    try:
        return form.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"{part!r}: " for part in first["loc"])
        raise ValueError(
            f"{where}: {key}{first['msg']}, got {json.dumps(first['input'], default=repr):.60}"
        ) from error


def fields(
    where: str, row: dict[str, Any], needed: Sequence[str], others: Sequence[str] = ()
) -> dict[str, Any]:
    """Those fields of a row that are read; `ValueError` with all that are found where a needed one is not."""
    if missing := [name for name in needed if name not in row]:
        raise ValueError(f"{where}: {missing[0]!r}: missing; found: {', '.join(row)}")
    return {name: row[name] for name in (*needed, *others) if name in row}


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, object) of every line of a JSON Lines file, plain or compressed."""
    where = f"{path}:0"
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                where = f"{path}:{number}"
                if not line.strip():
                    raise ValueError(f"{where}: an empty line; remove it")
                yield where, parsed(where, line)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{where}: after it the archive is cut off or damaged ({error}); copy it again"
        ) from error
    if where == f"{path}:0":
        raise ValueError(f"{path}: expected at least one line, the file is empty")


def parsed(where: str | Path, text: bytes) -> dict[str, Any]:
    """A JSON object in which no key stands twice; NaN, which pandas leaves where a value is missing, counts as null."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        hint = "; save the file as UTF-8" * isinstance(error, UnicodeError)
        raise ValueError(f"{where}: not JSON: {error}{hint}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(value).__name__}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(
            f"the key {Counter(key for key, _ in pairs).most_common(1)[0][0]!r} stands twice"
        )
    return value


def rows(
    files: list[Path], wanted: Sequence[str] = _COLUMNS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, fields) of every row of Parquet files, of which only the wanted fields are read, or JSON Lines."""
    for path in files:
        if path.suffix != ".parquet":
            yield from json_lines(path)
            continue
        try:
            with parquet.ParquetFile(path) as file:
                columns = [name for name in wanted if name in file.schema_arrow.names]
                batches = (
                    batch.to_pylist() for batch in file.iter_batches(_BATCH, columns=columns)
                )
                for number, fields in enumerate(itertools.chain.from_iterable(batches), start=1):
                    yield f"{path}:{number}", fields
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}: not a whole Parquet file; copy it again") from error


def _write_arrow(files: list[Path], folder: Path) -> None:
    """All documents, checked, with the checksum of each text beside it."""
    schema = pyarrow.schema(
        [*((key, pyarrow.string()) for key in _COLUMNS), ("content", pyarrow.uint64())]
    )
    packed = {".jsonl": 1}  # times that a file grows, some four where it is compressed
    check_room(folder, sum(path.stat().st_size * packed.get(path.suffix, 4) for path in files))
    ids = array("q")  # hashes: eight bytes a document, where a set of ids would take a hundred
    with ipc.new_file(folder / "documents.arrow", schema) as writer:
        read = (
            checked(at, _DOCUMENT, fields(at, row, _COLUMNS[:2], _COLUMNS[2:]))
            for at, row in rows(files)
        )
        while batch := list(itertools.islice(read, _BATCH)):
            ids.extend(hash(document.id) for document in batch)
            full = [
                {**document.model_dump(), "content": content(document.text)} for document in batch
            ]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(full, schema=schema))
    if (again := pd.Index(np.asarray(ids)).duplicated()).any():
        first, second = np.flatnonzero(np.asarray(ids) == ids[again.argmax()])[:2]
        (before, _), (where, row) = place(files, first), place(files, second)
        raise ValueError(
            f"{where}: the id {str(row['id'])!r:.80} is that of {Path(before).name} already"
        )


def place(files: list[Path], number: int) -> tuple[str, dict[str, Any]]:
    """file:line and fields of a document, for a message."""
    return next(itertools.islice(rows(files), number, None))
