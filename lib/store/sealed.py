"""Seals: JSON files that list other files with their SHA-256, to show that they are complete.

The seal is written last. If it is missing or a file differs from it, the files do not count.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib.store.files import sha256, stat_file, sum_once, write_atomically


def write_seal(path: Path, files: Iterable[Path], **facts: Any) -> None:
    """Write a seal of files that are complete.

    Parameters
    ----------
    path : Path
        The seal, in the folder of the files or above it.
    files : iterable of Path
        The files to seal; the seal holds their names relative to its folder.
    facts : plain values
        Further content of the seal, under names other than `files`.
    """
    sums = {file.relative_to(path.parent).as_posix(): sha256(file) for file in files}
    content = json.dumps({"files": sums, **facts}, ensure_ascii=False)
    write_atomically(path, content.encode())


def looks_whole(path: Path, facts: dict[str, Any]) -> bool:
    """Whether the files of a seal are unchanged.

    A file counts as unchanged if it has the size and time in the fact `stat`. Other files are read,
    once per process, to compare their checksums.
    """
    stats = facts.get("stat", {})
    try:
        return all(
            [*stat_file(path.parent / name)] == stats.get(name)
            or sum_once(path.parent / name) == was
            for name, was in facts["files"].items()
        )
    except OSError:
        return False


def read_facts(path: Path) -> dict[str, Any] | None:
    """Read a seal without checking its files; None if there is no readable seal."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("files"), dict) else None


def read_seal(path: Path) -> dict[str, Any] | None:
    """Read a seal and check its files; None if the seal is missing or damaged or a file differs."""
    facts = read_facts(path)
    if facts is None:
        return None
    whole = all(
        _is_as_sealed(path.parent / name, was, None) for name, was in facts["files"].items()
    )
    return facts if whole else None


def list_changed(path: Path) -> list[str] | None:
    """List the files that differ from a seal; None if there is no readable seal.

    If the seal has the fact `json`, {name: `sum_json` of the file}, then other spacing and line
    ends in a JSON file do not count as a difference.
    """
    facts = read_facts(path)
    if facts is None:
        return None
    values = facts.get("json", {})
    return [
        name
        for name, was in facts["files"].items()
        if not _is_as_sealed(path.parent / name, was, values.get(name))
    ]


def sum_values(folder: Path, files: Iterable[Path]) -> dict[str, str | None]:
    """Compute the fact `json` of a seal in a folder: {name: `sum_json`} of its JSON files."""
    return {
        path.relative_to(folder).as_posix(): sum_json(path)
        for path in files
        if path.suffix == ".json"
    }


def sum_json(path: Path) -> str | None:
    """Return a SHA-256 of the values of a JSON file; None if the file is not JSON."""
    try:
        text = json.dumps(json.loads(path.read_bytes()), sort_keys=True)
    except (ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _is_as_sealed(file: Path, was: str, values: str | None) -> bool:
    try:
        return sha256(file) == was or (values is not None and sum_json(file) == values)
    except OSError:
        return False
