"""Finds and reads dataset folders, the one format for texts and tasks (docs/own_documents.md).

No row is skipped: a mistake is a `ValueError` with file and line. The file format makes no
difference: names (ids, titles, groups, labels) are text in Unicode's composed form (NFC), so 1, 1.0
and "1" are the same name, and null and NaN are missing names. Documents are copied once into an
Arrow file, so that a corpus larger than memory stays on disk.
"""

import functools
import hashlib
import importlib
import itertools
import math
import os
import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pyarrow
from pooch import file_hash
from pyarrow import ipc
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, TypeAdapter

from lib.config import paths
from lib.config.profiles import validated
from lib.config.schema import MiniBuild, ThesisBuild
from lib.data.files import Rows, read_rows
from lib.store import hash_code, hash_value, write_whole
from lib.texts import has_token

FORMS = ("documents.jsonl", "documents.jsonl.gz", "documents.jsonl.xz", "documents/[!.]*.parquet")
COLUMNS = ["id", "text", "title", "group"]
BUILT = "built"  # stands for the recipe's folder in a list of data roots
_REMEDY = "set THESIS_DATA, or data_roots in the profile, to the folder of <name>/documents.jsonl"


def compose_name(name: str) -> str:
    """Compose the characters of a name (NFC): é may be typed as an e and an accent."""
    return unicodedata.normalize("NFC", name)


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
_Name = Annotated[str, Field(min_length=0, coerce_numbers_to_str=True), *_NAME]
Id = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), *_NAME]
OptionalName = Annotated[_Name, BeforeValidator(_empty_if_missing)]


class Document(BaseModel, frozen=True):
    """A text of the dataset folder `source`. Documents from one article, say, share a `group`."""

    id: Id
    text: Text
    source: str = ""
    title: OptionalName = ""
    group: OptionalName = ""


class Documents(Sequence[Document]):
    """The documents of a dataset folder in file order, read from disk when they are indexed.

    `files` are the files with the documents. `table` has the columns `COLUMNS` and `content`, and
    `contents`, (documents,) uint64, the checksums of the texts (see `content`). Raises `ValueError`
    for a folder that is not valid.
    """

    def __init__(self, folder: Path):
        self.name, self.files, self._folder = folder.name, list_files(folder), folder
        sums = [_sum_once(path, path.stat().st_mtime_ns) for path in self.files]
        key = hash_value([hash_code(("data.dataset_folder", "data.files")), sums])
        copy = paths.artifacts() / "data" / "arrow" / f"{key}.arrow"
        if not copy.exists():
            write_whole(copy, functools.partial(_copy, self.files))
        self.table = ipc.open_file(pyarrow.memory_map(str(copy))).read_all()
        self.contents = self.table["content"].to_numpy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the path. The memory-mapped table would be copied to other processes."""
        return type(self), (self._folder,)

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitem__(self, row: int) -> Document:
        values = {key: self.table[key][row].as_py() for key in COLUMNS}
        return Document(source=self.name, **values)

    def __iter__(self) -> Iterator[Document]:
        for batch in self.table.select(COLUMNS).to_batches():
            yield from (Document(source=self.name, **fields) for fields in batch.to_pylist())


@functools.cache
def _sum_once(path: Path, written: int) -> str:
    return file_hash(path)


def _copy(files: list[Path], target: BinaryIO) -> None:
    """Check all documents and write them, with the checksum of each text, as an Arrow file."""
    columns = [(key, pyarrow.string()) for key in COLUMNS]
    schema = pyarrow.schema([*columns, ("content", pyarrow.uint64())])
    rows = validate_rows(files[0].parent, read_rows(files, COLUMNS), TypeAdapter(Document))
    with ipc.new_file(target, schema) as writer:
        while batch := [document for _, document in itertools.islice(rows, 1000)]:
            values = [{**each.model_dump(), "content": content(each.text)} for each in batch]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(values, schema=schema))


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


def validate_rows(place: Path, rows: Rows, form: TypeAdapter) -> Iterator[tuple[str, Any]]:
    """Yield (file:line, document) of all rows; ValueError for a repeated id, or without rows."""
    seen = set[int]()  # hashes, because the ids of millions of documents can be long
    for where, fields in rows:
        row = validated(form.validate_python, fields, where)
        if hash(row.id) in seen:
            raise ValueError(f"{where}: the id {row.id!r:.80} occurs twice")
        seen.add(hash(row.id))
        yield where, row
    if not seen:
        raise ValueError(f"{place}: expected at least one row")


def find_roots(
    build: MiniBuild | ThesisBuild | None, data_roots: Sequence[str], artifacts: Path
) -> list[Path]:
    """Return the data roots, the folders that contain dataset folders.

    `data_roots` are "built", the recipe's folder, and folders relative to the checkout. With a
    recipe, `THESIS_DATA` adds a folder before a person's own; without, it replaces them.
    """
    own = [paths.ROOT / name for name in data_roots if name != BUILT]
    if named := os.environ.get("THESIS_DATA"):
        own = [paths.ROOT / named, *(own if build else ())]
    roots = [root.resolve() for root in own]
    if build is not None and BUILT in data_roots:
        roots.insert(0, find_built(build, artifacts))
    return list(dict.fromkeys(roots))


def find_built(build: MiniBuild | ThesisBuild, artifacts: Path) -> Path:
    """Return the recipe's folder, writing it if it is missing."""
    return importlib.import_module("lib.recipes").write_folders(build, artifacts / "data")


def find_dataset(roots: Sequence[Path], name: str) -> Path:
    """Return the dataset folder of this name; ValueError unless exactly one root contains it."""
    places = [root / name for root in roots if (root / name).is_dir()]
    if len(places) != 1:
        looked = ", ".join(map(str, roots)) or "no data root"
        told = f"{len(places)} dataset folders of this name in {looked}; {_REMEDY}"
        raise ValueError(f"{name}: {told}")
    return places[0]
