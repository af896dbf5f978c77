"""Text tables that are larger than memory: files become Arrow tables on disk, read through memory maps (`datasets`)."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Dataset

# The fourth stands for Grover's archive, which holds one JSON Lines file.
_FORMATS = {
    ".parquet": "parquet",
    ".jsonl": "json",
    ".json": "json",
    ".json.gz": "json",
    ".jsonl.gz": "json",
    ".tar.gz": "tar",
}


def read(files: Sequence[str]) -> Dataset:
    """The rows of all `files` (patterns allowed) as one table: text, and title ("" where files have none).

    Raises:
        ValueError: no file, an unknown format, no column "text", a line of an archive without a text.
    """
    from datasets import Dataset, concatenate_datasets, load_dataset  # slow to import

    if not files:
        raise ValueError("expected at least one file")
    tables = []
    for place in files:
        suffix = next((suffix for suffix in sorted(_FORMATS, key=len, reverse=True) if place.endswith(suffix)), None)
        if suffix is None:
            raise ValueError(f"{place}: expected a file ending in {', '.join(_FORMATS)}")
        if _FORMATS[suffix] == "tar":
            if not Path(place).is_file():
                raise ValueError(f"{place} is missing; its authors send it on request (github.com/rowanz/grover)")
            table = Dataset.from_generator(_archive_rows, gen_kwargs={"path": place})
        else:
            table = load_dataset(_FORMATS[suffix], data_files=place, split="train")
        if "text" not in table.column_names:
            raise ValueError(f"{place}: expected a column text, got {', '.join(table.column_names)}")
        if "title" not in table.column_names:
            table = table.map(lambda row: {"title": ""})
        tables.append(table.select_columns(["text", "title"]))
    return concatenate_datasets(tables)


def at_least(table: Dataset, tokens: int, count: Callable[[list[str]], list[int]]) -> Dataset:
    """The rows whose text has at least `tokens` tokens, as a mapping onto the table, no copy."""
    return table.filter(
        lambda texts: [n >= tokens for n in count(texts)], batched=True, batch_size=100, input_columns="text"
    )


def _archive_rows(path: str) -> Iterator[dict[str, str]]:
    """Rows of the JSON Lines files in a .tar.gz archive, line by line; Grover's have more fields (url, domain)."""
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() and member.name.endswith(".jsonl") else None
            for number, line in enumerate(stream or (), start=1):
                try:
                    row = json.loads(line)
                    yield {"text": row["text"], "title": row.get("title") or ""}
                except (json.JSONDecodeError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path}:{member.name}:{number}: expected an object with text: {error!r}"
                    ) from error
