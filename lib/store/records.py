"""What was computed, kept so that it is reused exactly when nothing that made it changed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock

from lib.config import paths
from lib.store.files import LENGTH, refuse_folder, write_atomically

T = TypeVar("T")
_held: dict[tuple[str, str, str], Any] = {}


def fingerprint(value: Any) -> str:
    """16 hex digits that name a plain value (dicts, lists, strings, numbers, booleans, None).

    Dict order does not matter. A value that JSON cannot express raises `TypeError`: its `repr` may hold an address.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def once(kind: str, key: str, read: Callable[[], T]) -> T:
    """What `read` returns, read once in this process and artifact root, and then held under kind and key."""
    name = (str(paths.artifacts()), kind, key)
    if name not in _held:
        _held[name] = read()
    return _held[name]


class Store:
    """Arrays and records under one folder, each entry named by kind and key.

    An entry is two files: the content, and a note beside it, written last, with the content's checksum and how it
    was made. An entry without a matching note is damaged or unfinished: it is computed again, and the store says so.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    def arrays(
        self, kind: str, key: str, compute: Callable[[], dict[str, np.ndarray]], **note: Any
    ) -> dict[str, np.ndarray]:
        """The named arrays of an entry; `compute` makes them if the entry is missing or damaged."""
        content = self._content(kind, key, ".npz", lambda: _pack(compute()), note)
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)

    def record(self, kind: str, key: str, compute: Callable[[], Any], **note: Any) -> Any:
        """The JSON value of an entry; `compute` makes it if the entry is missing or damaged."""
        content = self._content(kind, key, ".json", lambda: json.dumps(compute(), ensure_ascii=False).encode(), note)
        return json.loads(content)

    def has(self, kind: str, key: str) -> bool:
        """True if a whole, undamaged entry is there."""
        return any(self._read(kind, key, suffix) is not None for suffix in (".npz", ".json"))

    def note(self, kind: str, key: str) -> dict[str, Any]:
        """How an entry was made: seconds, plus what the caller added; empty if there is none, or, warned of, damage."""
        path = self._path(kind, key, ".note")
        try:
            note = json.loads(path.read_bytes())
            if not isinstance(note, dict) or "sha256" not in note:
                raise ValueError
            return note
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            warnings.warn(f"{path} is damaged: what it describes is made again when needed", stacklevel=2)
            return {}

    @contextlib.contextmanager
    def lock(self, kind: str, key: str) -> Iterator[None]:
        """Only one process at a time computes an entry; a killed process frees it."""
        path = self._path(kind, key, ".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path):
            yield

    def _path(self, kind: str, key: str, suffix: str) -> Path:
        path = self.folder / kind / f"{key}{suffix}"
        refuse_folder(path)
        return path

    def _content(self, kind: str, key: str, suffix: str, compute: Callable[[], bytes], note: dict[str, Any]) -> bytes:
        if (content := self._read(kind, key, suffix)) is not None:
            return content
        with self.lock(kind, key):  # while this process waited, another may have made it
            if (content := self._read(kind, key, suffix)) is not None:
                return content
            path, note_path = self._path(kind, key, suffix), self._path(kind, key, ".note")
            if path.exists():
                warnings.warn(f"{path} was damaged or unfinished: computing it again", stacklevel=3)
            start = time.perf_counter()
            content = compute()
            seconds = round(time.perf_counter() - start, 3)
            note = {"sha256": hashlib.sha256(content).hexdigest(), "seconds": seconds, **note}
            write_atomically(path, content)
            text = json.dumps(note, ensure_ascii=False, sort_keys=True)
            write_atomically(note_path, text.encode())
            return content

    def _read(self, kind: str, key: str, suffix: str) -> bytes | None:
        try:
            content = self._path(kind, key, suffix).read_bytes()
        except OSError:
            return None
        return content if self.note(kind, key).get("sha256") == hashlib.sha256(content).hexdigest() else None


def store() -> Store:
    """The store of this machine's artifact root."""
    return Store(paths.artifacts() / "store")


def _pack(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
