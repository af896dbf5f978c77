"""Reading dataset folders, the format for one's own data.

    <root>/<name>/documents.jsonl[.gz|.xz]          {"id", "text", "title"?}
    <root>/<name>/tasks/<task>/<split>.jsonl        {"id", "label"}  or  {"a", "b", "label"}
    <root>/<name>/tasks/<task>/relevant.json        {source id: [target ids]}
    <root>/<name>/tasks/<task>/clusters.jsonl       {"id", "label"}

Only documents.jsonl is needed for a corpus. Everything that is wrong is one `ValueError` with file, line number and
reason; nothing is skipped.
"""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Entry:
    """One document of a dataset folder."""

    id: str
    text: str
    title: str


def documents(root: Path, name: str, *, allow_empty: bool = False) -> Iterator[Entry]:
    """The documents of `<root>/<name>`, in file order, one at a time.

    Args:
        root: the folder of dataset folders.
        name: of one of them.
        allow_empty: whether a document may lack a text; tasks leave out and count what uses it, a corpus refuses it.

    Raises:
        ValueError: no such folder or file, two documents files, a damaged archive, a bad line, an empty
            text, a duplicate id.
    """
    path = documents_path(root, name)
    seen: dict[str, int] = {}
    for number, line in lines(path):
        fields = _fields(f"{path}:{number}", _object(f"{path}:{number}", line), ("id", "text"), ("title",))
        if not fields["text"].strip() and not allow_empty:
            raise ValueError(
                f"{path}:{number}: the text of document {fields['id']!r} is empty; give it a text or remove it"
            )
        if fields["id"] in seen:
            raise ValueError(
                f"{path}:{number}: id {fields['id']!r} occurs a second time, first on line {seen[fields['id']]}"
            )
        seen[fields["id"]] = number
        yield Entry(fields["id"], fields["text"], fields.get("title", ""))
    if not seen:
        raise ValueError(f"{path}: expected at least one document, the file is empty")


def documents_path(root: Path, name: str) -> Path:
    """The one documents file of a dataset folder."""
    folder = Path(root) / name
    if not folder.is_dir():
        known = sorted(path.name for path in Path(root).iterdir() if path.is_dir()) if Path(root).is_dir() else []
        raise ValueError(f"{folder}: no such dataset folder; {root} holds {', '.join(known) or 'none'}")
    found = [path for suffix in _OPENERS if (path := folder / f"documents.jsonl{suffix}").is_file()]
    if len(found) != 1:
        held = ", ".join(path.name for path in found) or "none"
        raise ValueError(
            f"{folder}: expected one of documents.jsonl, documents.jsonl.gz, documents.jsonl.xz, found {held}"
        )
    return found[0]


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line) of a plain or compressed UTF-8 text file."""
    number = 0
    try:
        with _OPENERS[path.suffix if path.suffix in _OPENERS else ""](path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                yield number, line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: after line {number}: not UTF-8 ({error.reason} at byte {error.start}); convert the file"
        ) from error
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: after line {number}: the archive is truncated or damaged ({error}); copy it again"
        ) from error


def examples(path: Path, known: set[str]) -> list[tuple[tuple[str, ...], str]]:
    """((id,) or (a, b), label) of each line of a split or clusters file; labels as text, so 1 and "1" are one class.

    Args:
        path: a file of {"id", "label"} or of {"a", "b", "label"} lines.
        known: the ids of the folder's documents.
    """
    found: list[tuple[tuple[str, ...], str]] = []
    for number, line in lines(path):
        content = _object(f"{path}:{number}", line)
        pair = "a" in content
        fields = _fields(f"{path}:{number}", content, ("a", "b") if pair else ("id",), ("label",))
        if "label" not in fields:
            raise ValueError(
                f'{path}:{number}: "label" is missing; a line is {{"id", "label"}} or {{"a", "b", "label"}}'
            )
        ids = (fields["a"], fields["b"]) if pair else (fields["id"],)
        if found and len(found[0][0]) != len(ids):
            raise ValueError(f"{path}:{number}: expected {len(found[0][0])} ids as on the lines before, got {len(ids)}")
        _check_known(f"{path}:{number}", ids, known)
        found.append((ids, fields["label"]))
    if not found:
        raise ValueError(f"{path}: expected at least one example, the file is empty")
    return found


def relevant(path: Path, known: set[str]) -> dict[str, list[str]]:
    """{source id: [target ids]} of a retrieval task."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", 1)
        raise ValueError(f"{path}:{line}: not JSON ({error})") from error
    if not isinstance(content, dict) or not content or not all(isinstance(value, list) for value in content.values()):
        raise ValueError(f"{path}: expected a non-empty object {{source id: [target ids]}}")
    for source, targets in content.items():
        if not targets:
            raise ValueError(f"{path}: source {source!r} has no target; remove it")
        _check_known(f"{path}: source {source!r}", (source, *targets), known)
        if source in targets or len(set(targets)) != len(targets):
            raise ValueError(f"{path}: source {source!r} lists itself or a target twice")
    return content


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg} at column {error.colno})") from error
    if not isinstance(content, dict):
        raise ValueError(f"{where}: expected an object {{...}}, got {type(content).__name__}")
    return content


def _fields(
    where: str, content: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...]
) -> dict[str, str]:
    """A line's fields as text, each checked. Unknown fields are allowed: other tools may keep notes there."""
    fields = {}
    for key in (*required, *optional):
        value = content.get(key)
        if value is None:
            if key in required:
                raise ValueError(f"{where}: {key!r} is missing")
        elif isinstance(value, str) or (isinstance(value, int) and key != "text"):
            fields[key] = str(value)
        else:
            raise ValueError(f"{where}: {key!r} should be text, got {type(value).__name__}")
    return fields


def _check_known(where: str, ids: tuple[str, ...], known: set[str]) -> None:
    for text_id in ids:
        if text_id not in known:
            raise ValueError(f"{where}: id {text_id!r} is in no line of documents.jsonl")
