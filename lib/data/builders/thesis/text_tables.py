"""Corpora that are larger than memory: rows of Parquet, JSON Lines or Grover's archive become `documents/*.parquet`."""

import itertools
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from lib.data.builders import write_readme
from lib.data.dataset_folder import has_token

PIECE = 20_000  # documents of one Parquet file, and in memory at once
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def write(files: Sequence[str], folder: Path) -> None:
    """Write rows of files, with a text and maybe a title, as the documents of a folder; none without a token."""
    (folder / "documents").mkdir()
    numbered = enumerate(row for place in files for row in rows(place))
    full = ((number, row) for number, row in numbered if has_token(row["text"] or ""))
    fields = ({"id": str(number), "text": row["text"], "title": row.get("title") or ""} for number, row in full)
    for piece, batch in enumerate(iter(lambda: list(itertools.islice(fields, PIECE)), [])):
        table = pyarrow.Table.from_pylist(batch, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
    source = f"Source: {', '.join(files)}. Licence: as stated there."
    write_readme(folder, "Documents of a corpus", source, "All rows with a token in their text; ids count all rows.")


def rows(place: str) -> Iterable[dict[str, Any]]:
    """Rows of a file or pattern, on disk or of the hub (hf://); of Grover's .tar.gz, of the JSON Lines files in it."""
    from datasets import load_dataset  # slow to import

    if place.endswith(".tar.gz"):
        return _archived(place)
    form = "parquet" if place.endswith(".parquet") else "json"
    return load_dataset(form, data_files=place, split="train", streaming=True)


def _archived(place: str) -> Iterator[dict[str, Any]]:
    with tarfile.open(place, "r|gz") as archive:
        for member in archive:
            if member.name.endswith(".jsonl"):
                yield from map(json.loads, archive.extractfile(member))
