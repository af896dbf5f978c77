"""The one format of "written whole, with a checksum": JSON that lists files and their SHA-256.

The seal is written last. Without it, or if a file differs from it, what lies beside it is void.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib.store.files import sha256, write_atomically


def write_seal(path: Path, files: Iterable[Path], **facts: Any) -> None:
    """Seal files that are complete.

    Parameters
    ----------
    path : Path
        The seal, in the folder of the files or above it.
    files : iterable of Path
        What it vouches for; the seal holds their names relative to its folder.
    facts : plain values
        What else a reader should know, under names other than `files`.
    """
    sums = {file.relative_to(path.parent).as_posix(): sha256(file) for file in files}
    content = json.dumps({"files": sums, **facts}, ensure_ascii=False)
    write_atomically(path, content.encode())


def read_facts(path: Path) -> dict[str, Any] | None:
    """What a seal says, without a look at its files; None if there is no seal that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and isinstance(content.get("files"), dict) else None


def read_seal(path: Path) -> dict[str, Any] | None:
    """What a seal says; None if it is missing or damaged, or if a file is not as it says."""
    facts = read_facts(path)
    if facts is None:
        return None
    try:
        whole = all(sha256(path.parent / name) == was for name, was in facts["files"].items())
    except OSError:
        return None
    return facts if whole else None
