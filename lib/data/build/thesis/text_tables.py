"""Corpora that are larger than memory: rows of Parquet, JSON Lines or Grover's archive become `documents/*.parquet`."""

from __future__ import annotations

import itertools
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.data.dataset_folder import has_token

PIECE = 50_000  # documents of one Parquet file
# The last stands for Grover's archive, which holds one JSON Lines file.
_FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "json",
    ".json": "json",
    ".json.gz": "json",
    ".jsonl.gz": "json",
    ".tar.gz": "tar",
}


def write(folder: Path, files: Sequence[str]) -> int:
    """Write the rows of all `files` as the documents of a folder; how many had no token and were left out.

    Args:
        folder: a dataset folder, which is there.
        files: patterns of files, on disk or `hf://datasets/<id>@<revision>/<files>`; a row has a text, maybe a title.

    Raises:
        ValueError: an unknown format, a missing file, rows without a column "text".
    """
    import pyarrow
    from pyarrow import parquet

    (folder / "documents").mkdir()
    left_out = 0

    def documents() -> Iterator[dict[str, str]]:
        nonlocal left_out
        for number, row in enumerate(itertools.chain.from_iterable(map(_rows, files))):
            if has_token(row["text"] or ""):
                yield {"id": str(number), "text": row["text"], "title": row.get("title") or ""}
            else:
                left_out += 1

    schema = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])
    rows = documents()
    for piece in itertools.count():
        if not (first := list(itertools.islice(rows, 1))):
            return left_out
        with parquet.ParquetWriter(folder / "documents" / f"{piece:05d}.parquet", schema) as writer:
            held = itertools.chain(first, itertools.islice(rows, PIECE - 1))
            while batch := list(itertools.islice(held, 1000)):
                writer.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema=schema))


def _rows(place: str) -> Iterator[dict[str, Any]]:
    from datasets import load_dataset  # slow to import

    suffix = next((suffix for suffix in sorted(_FORMATS, key=len, reverse=True) if place.endswith(suffix)), None)
    if suffix is None:
        raise ValueError(f"{place}: expected a file ending in {', '.join(_FORMATS)}")
    if _FORMATS[suffix] == "tar":
        if not Path(place).is_file():
            raise ValueError(f"{place} is missing; its authors send it on request (github.com/rowanz/grover)")
        yield from _archive_rows(place)
        return
    for row in load_dataset(_FORMATS[suffix], data_files=place, split="train", streaming=True):
        if "text" not in row:
            raise ValueError(f"{place}: expected a column text, got {', '.join(row)}")
        yield row


def _archive_rows(path: str) -> Iterator[dict[str, Any]]:
    """Rows of the JSON Lines files in a .tar.gz archive, line by line; Grover's have more fields (url, domain)."""
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and member.name.endswith(".jsonl") else None
            for number, line in enumerate(stream or (), start=1):
                try:
                    row = json.loads(line)
                    yield {"text": row["text"], "title": row.get("title")}
                except (json.JSONDecodeError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}:{member.name}:{number}: expected an object with text: {error!r}"
                    ) from error
