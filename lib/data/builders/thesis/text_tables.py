"""Corpora that are larger than memory: rows of Parquet, JSON Lines or Grover's archive become `documents/*.parquet`."""

import itertools
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from lib.data.builders import write_readme
from lib.data.dataset_folder import has_token

PIECE = 20_000  # documents of one Parquet file, and in memory at once
_FORMATS = {".parquet": "parquet", **dict.fromkeys((".jsonl", ".json", ".json.gz", ".jsonl.gz", "_data.txt"), "json")}
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def write(files: Sequence[str], folder: Path) -> None:
    """Write the rows of all `files` as the documents of a folder; those without a token are left out and counted.

    `files` are patterns, on disk or `hf://datasets/<id>@<revision>/<files>`, whose rows have a text, maybe a title.
    Raises `ValueError`: an unknown format, a missing file, rows without a column "text".
    """
    (folder / "documents").mkdir()
    numbered = enumerate(row for place in files for row in rows(place, "text"))
    left_out = 0
    for piece, batch in enumerate(iter(lambda: list(itertools.islice(numbered, PIECE)), [])):
        documents = [
            {"id": str(number), "text": row["text"], "title": row.get("title") or ""}
            for number, row in batch
            if has_token(row["text"] or "")
        ]
        left_out += len(batch) - len(documents)
        table = pyarrow.Table.from_pylist(documents, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
    source = f"Source: {', '.join(files)}. Licence: as stated there."
    note = f"All rows with a text, in order; {left_out} without a token left out."
    write_readme(folder, "Documents of a corpus", source, note)


def rows(place: str, *columns: str) -> Iterator[dict[str, Any]]:
    """Rows, with these columns, of a file or pattern; of Grover's .tar.gz, those of the JSON Lines files in it."""
    from datasets import load_dataset  # slow to import

    if place.endswith(".tar.gz"):
        yield from _archive_rows(Path(place))
        return
    format = next((format for suffix, format in _FORMATS.items() if place.endswith(suffix)), None)
    if format is None:
        raise ValueError(f"{place}: expected a file ending in {', '.join(_FORMATS)}, .tar.gz")
    for row in load_dataset(format, data_files=place, split="train", streaming=True):
        if missing := sorted({*columns} - row.keys()):
            raise ValueError(f"{place}: expected a column {missing[0]}, got {', '.join(row)}")
        yield row


def _archive_rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise ValueError(f"{path} is missing; its authors send it on request (github.com/rowanz/grover)")
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and member.name.endswith(".jsonl") else None
            for number, line in enumerate(stream or (), start=1):
                try:
                    row = json.loads(line)
                    yield {"text": row["text"], "title": row.get("title")}
                except (json.JSONDecodeError, KeyError, TypeError) as error:
                    where = f"{path}:{member.name}:{number}"
                    raise ValueError(f"{where}: expected an object with text: {error!r}") from error
