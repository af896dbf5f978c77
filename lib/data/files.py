"""Reads rows of JSON Lines, CSV and Parquet files as they stand, and writes dataset folders.

Nothing is guessed: ids such as 007, dates, and texts such as NA come out as they went in. What a
library cannot read is a `ValueError` that names the file.
"""

import csv
import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pyarrow import parquet

from lib.messages import one_line_errors
from lib.store import replace_folder, write_text

Rows = Iterator[tuple[str, dict[str, Any]]]  # file:row, counted from 1, and the row's fields
Examples = dict[str, list[tuple[tuple[str, ...], str]]]  # {split: [((id,) or (a, b), label)]}


def read_rows(*files: Path) -> Rows:
    """Yield the rows of files named .parquet or .csv; all others are read as JSON Lines."""
    for path in files:
        read = {".parquet": _read_parquet, ".csv": _read_csv}.get(path.suffix.lower(), _read_json)
        yield from ((f"{path}:{number}", row) for number, row in enumerate(read(path), start=1))


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    with one_line_errors(f"read {path}"), parquet.ParquetFile(path) as file:
        _check_names(file.schema_arrow.names)
        for batch in file.iter_batches(1000):
            yield from batch.to_pylist()


def _read_csv(path: Path) -> Iterator[dict[str, str]]:
    """The delimiter is what the first line has most of: commas, semicolons or tabs. No quotation
    marks may join lines in a file whose every line is a row without them.
    """
    csv.field_size_limit(2**31 - 1)  # texts can be long
    with one_line_errors(f"read {path}"), open(path, encoding="utf-8-sig", newline="") as file:
        mark = max(",;\t", key=(first := file.readline()).count)
        counts = {line.count(mark) for line in file if line.strip()}
        unquoted = mark in first and counts == {first.count(mark)}
        file.seek(0)
        reader = csv.reader(file, delimiter=mark, strict=True)
        _check_names(names := next(reader))
        while True:
            line = reader.line_num + 1
            with one_line_errors(f"parse the row in line {line}"):
                if (row := next(reader, None)) is None:
                    return
                row = row or [""] * len(names)  # an empty line
                if len(row) != len(names):
                    raise ValueError(f"expected {len(names)} fields, got {len(row)}")
                if unquoted and reader.line_num > line:
                    raise ValueError("quotation marks join lines that are whole rows without them")
            yield dict(zip(names, row, strict=True))


def _check_names(names: list[str]) -> None:
    if len({*names}) < len(names):
        raise ValueError(f"several columns have one name: {', '.join(names)}")


def _read_json(path: Path) -> Iterator[dict[str, Any]]:
    unpack = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix.lower(), open)
    with one_line_errors(f"read {path}"), unpack(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            with one_line_errors(f"parse line {number}"):
                yield dict(json.loads(line))


def write_once(folder: Path, write: Callable[[Path], Any]) -> Path:
    """Return a folder. If missing, `write` fills it, all or nothing; other processes wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            replace_folder(folder, "data", write)
    return folder


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON Lines file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        plain = lambda value: value.decode() if isinstance(value, bytes) else str(value)  # noqa: E731
        stream.writelines(json.dumps(row, ensure_ascii=False, default=plain) + "\n" for row in rows)


def write_examples(task: Path, examples: Examples) -> None:
    """Write the splits of a task with single documents or pairs."""
    for split, rows in examples.items():
        keys = ("id", "label") if rows and len(rows[0][0]) == 1 else ("a", "b", "label")
        lines = (dict(zip(keys, (*ids, label), strict=True)) for ids, label in rows)
        write_lines(task / f"{split}.jsonl", lines)


def write_relevant(task: Path, relevant: Mapping[str, list[str]]) -> None:
    """Write the relevant documents of each source of a retrieval task."""
    write_text(task / "relevant.json", json.dumps(relevant, ensure_ascii=False, indent=1) + "\n")
