"""Finds and reads dataset folders, the one format for texts and tasks (docs/own_documents.md).

No row is skipped, and the file format makes no difference: names (ids, titles, groups, labels) are
text in Unicode's composed form (NFC), so 1, 1.0 and "1" are the same name, and null and NaN are
missing names. An Arrow copy keeps a corpus larger than memory on disk.
"""

import functools
import hashlib
import itertools
import unicodedata
from collections.abc import Iterable, Sequence, Set
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
import pyarrow
import regex
from pyarrow import ipc
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from lib.config import paths
from lib.config.profiles import validated
from lib.data.files import read_rows
from lib.store import hash_code, hash_file, hash_value, write_whole
from lib.texts import has_token

# Punctuation, in ASCII too, spaces, soft hyphens, and what only chooses how a sign is drawn.
_MARKS = regex.compile(r"[\p{P}\p{Z}\p{C}$+<=>^`|~\uFE0F]+")
MISSING = {*"NA N/A #N/A <NA> NaN nan NaT null NULL None none".split()}  # meant as no name
FORMS = ("documents.jsonl", "documents.jsonl.gz", "documents.jsonl.xz", "documents/[!.]*.parquet")


def spell_name(value: Any) -> str:
    """A name as text in NFC, where 1.0 is 1; empty if it is missing. `ValueError` for several."""
    if isinstance(value, list | dict):
        raise ValueError(f"expected one name, got {value!r:.60}")
    if value is None or value != value:
        return ""
    value = value.decode() if isinstance(value, bytes) else value
    whole = isinstance(value, float | Decimal) and value // 1 == value
    return unicodedata.normalize("NFC", str(int(value) if whole else value))


def question_names(names: Iterable[str], what: str, odd: Set[str] = MISSING) -> list[str]:
    """Notes on names that may be meant as none, or as one, such as 1 and 1.0, or red and Red."""
    forms: dict[str, list[str]] = {}
    for name in sorted({*names} - {""}):
        forms.setdefault(name.casefold().removesuffix(".0"), []).append(name)
    several = [" and ".join(each) for each in forms.values() if len(each) > 1]
    notes = [f"the {what} {name} counts like any other" for name in sorted(odd & {*names})]
    return notes + [f"the {what}s {each} are different ones" for each in several]


# With a minimum length, pydantic checks the characters and refuses half a surrogate pair.
Name = Annotated[str, Field(min_length=0), BeforeValidator(spell_name)]
_blank = BeforeValidator(lambda text: "" if text is None or text != text else text)


class Document(BaseModel, frozen=True):
    """A text of the dataset folder `source`. Documents from one article, say, share a `group`."""

    id: Annotated[Name, Field(min_length=1)]
    text: Annotated[str, Field(min_length=0), _blank]
    source: str = ""
    title: Name = ""
    group: Annotated[Name, AfterValidator(str.strip)] = ""


class Documents(Sequence[Document]):
    """The documents of dataset folders in file order, read from disk when they are indexed.
    `rows` are those that are chosen, by default all, and `contents`, (documents,) uint64, the
    checksums of their texts. `table` has all documents. `ValueError` for an invalid folder.
    """

    def __init__(self, *folders: Path, rows: np.ndarray | None = None):
        self.folders, self.table = folders, pyarrow.concat_tables(map(_open, folders))
        self.rows = np.arange(len(self.table)) if rows is None else rows
        self.contents = self.table["content"].to_numpy()[self.rows]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only paths and rows. The memory-mapped table would be copied to processes."""
        return functools.partial(type(self), rows=self.rows), self.folders

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer):
            row = int(self.rows[index])
            return Document(**{key: self.table[key][row].as_py() for key in Document.model_fields})
        return type(self)(*self.folders, rows=self.rows[index])


def _open(folder: Path) -> pyarrow.Table:
    """Map the Arrow copy of a folder's documents into memory, after writing it if need be."""
    forms = [files for form in FORMS if (files := sorted(folder.glob(form)))]
    if others := {*folder.glob("documents/[!._]*")} - {*itertools.chain(*forms)}:
        raise ValueError(f"{min(others)}: expected only files named .parquet in this folder")
    if len(forms) != 1:
        found = " and ".join(files[0].name for files in forms) or "none"
        raise ValueError(f"{folder}: expected one of {', '.join(FORMS)}, found {found}")
    sums = [*map(hash_file, forms[0])]
    key = hash_value([hash_code(("data.dataset_folder", "data.files")), sums])
    copy = paths.artifacts() / "data" / "arrow" / f"{key}.arrow"
    if not copy.exists():
        write_whole(copy, functools.partial(_copy, forms[0]))
    table = _map(copy)
    return table.append_column("source", pyarrow.repeat(folder.name, len(table)))


_map = functools.cache(lambda copy: ipc.open_file(pyarrow.memory_map(str(copy))).read_all())


def _copy(files: list[Path], target: BinaryIO) -> None:
    """Check all documents and write them, with the checksum of each text, as an Arrow file."""
    columns = [(key, pyarrow.string()) for key in ("id", "text", "title", "group")]
    schema = pyarrow.schema([*columns, ("content", pyarrow.uint64())])
    rows, seen = read_rows(*files), set[int]()  # hashes, because ids of millions can be long
    with ipc.new_file(target, schema) as writer:
        while batch := [*itertools.islice(rows, 1000)]:
            values = []
            for where, fields in batch:
                document = validated(Document.model_validate, fields, where)
                if hash(document.id) in seen:
                    raise ValueError(f"{where}: the id {document.id!r:.80} occurs twice")
                seen.add(hash(document.id))
                values.append({**document.model_dump(), "content": content(document.text)})
            writer.write_batch(pyarrow.RecordBatch.from_pylist(values, schema=schema))


def content(text: str) -> int:
    """Return a 64-bit checksum of a text's words; 0 without a token. Copies have the same one, even
    if case, punctuation, hyphenation, white space or Unicode form differ.
    """
    letters = _MARKS.sub("", unicodedata.normalize("NFKC", text).casefold())
    kept = letters if has_token(letters) else " ".join(spell_name(text).split())
    digest = hashlib.blake2b(kept.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1 if has_token(text) else 0


def find_dataset(roots: Sequence[Path], name: str) -> Path:
    """Return a dataset folder, or `<folder>/<task>`; ValueError unless just one root has it."""
    places = [*filter(Path.is_dir, (root / name.replace("/", "/tasks/") for root in roots))]
    if len(places) != 1:
        told = f"found {len(places)} of this name in {', '.join(map(str, roots)) or 'no folder'}"
        raise ValueError(f"{name}: {told}; set THESIS_DATA or data_roots")
    return places[0]
