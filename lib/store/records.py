"""What was computed, kept so that it is reused exactly when nothing that made it changed.

A recipe names a value by all that makes it: its `kind` and plain values, among them recipes of what it is made from.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock

from lib.config import paths
from lib.store.files import check_room, fingerprint, write_atomically

PIECE = 8192  # items between two writes; what is in memory at once
SAMPLE = 10  # items that tell what all of them will take of the disk
T = TypeVar("T")
Pieces = Callable[[Sequence[Any]], dict[str, np.ndarray]]
Recipe = dict[str, Any]
READ = {
    ".npz": lambda content: dict(np.load(io.BytesIO(content), allow_pickle=False)),
    ".json": json.loads,
}
_held: dict[tuple[str, str], Any] = {}


def once(recipe: Recipe, read: Callable[[], T]) -> T:
    """What `read` returns, read once in this process and artifact root, and then held."""
    name = (str(paths.artifacts()), fingerprint(recipe))
    if name not in _held:
        _held[name] = read()
    return _held[name]


class Store:
    """Arrays and records under one folder, each entry two files named by its recipe: the content and, written last, a
    note of its checksum and how it was made. Without a matching note it is made again, and the store says so."""

    def __init__(self, folder: Path):
        self.folder = folder

    def arrays(
        self, recipe: Recipe, make: Callable[[], dict[str, np.ndarray]], **note: Any
    ) -> dict[str, np.ndarray]:
        """The named arrays of an entry; `make` gives them if the entry is missing or damaged."""

        def pack() -> bytes:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **make())
            return buffer.getvalue()

        return READ[".npz"](self._content(recipe, ".npz", pack, note))

    def record(self, recipe: Recipe, make: Callable[[], Any], **note: Any) -> Any:
        """The JSON value of an entry; `make` gives it if the entry is missing or damaged."""
        return json.loads(
            self._content(
                recipe, ".json", lambda: json.dumps(make(), ensure_ascii=False).encode(), note
            )
        )

    def mapped(
        self,
        recipe: Recipe,
        items: Callable[[], Sequence[Any]],
        make: Pieces,
        *,
        piece: int = PIECE,
    ) -> dict[str, np.ndarray]:
        """The named arrays of an entry that may be larger than memory, mapped from disk.

        `make` gives those of `piece` items at a time, which are put one behind another. After each its note says how
        far the files are whole: who was killed goes on there, and ends with the same bytes. Raises `OSError` before the
        work if the disk has no room for it.
        """
        path = self.path(recipe, ".note")
        note, arrays = self._whole_pieces(path)
        if not note.get("complete"):
            with self.lock(recipe):
                self._add_pieces(path, items(), make, piece)
                _, arrays = self._whole_pieces(path)
        return arrays

    def has(self, recipe: Recipe) -> bool:
        """True if a whole, undamaged entry is there."""
        note_path = self.path(recipe, ".note")
        return any(self._whole(note_path, suffix) is not None for suffix in READ)

    def note(self, recipe: Recipe) -> dict[str, Any]:
        """How an entry was made: processor seconds, and what the caller added; empty if there is none to be read."""
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            return dict(json.loads(self.path(recipe, ".note").read_bytes()))
        return {}

    def lock(self, recipe: Recipe) -> FileLock:
        """For `with`: only one process at a time makes an entry; a killed process frees it."""
        return FileLock(self.path(recipe, ".lock"))

    def path(self, recipe: Recipe, suffix: str) -> Path:
        """Where a file of an entry is, or will be."""
        return self.folder / recipe["kind"] / f"{fingerprint(recipe)}{suffix}"

    def _whole(self, note_path: Path, suffix: str) -> bytes | None:
        """The content beside a note, or None if it is missing, not what the note says or cannot be read."""
        with contextlib.suppress(Exception):  # what somebody else wrote raises errors of any type
            content = note_path.with_suffix(suffix).read_bytes()
            if json.loads(note_path.read_bytes())["sha256"] == hashlib.sha256(content).hexdigest():
                READ[suffix](content)
                return content
        return None

    def _whole_pieces(self, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The note of a `mapped` entry and the arrays; those of an empty one if the arrays are not what it says."""
        with contextlib.suppress(Exception):  # what somebody else wrote raises errors of any type
            note, arrays = json.loads(path.read_bytes()), dict[str, np.ndarray]()
            for name, (dtype, shape, checksum) in note[
                "arrays"
            ].items():  # nothing cannot be mapped
                file, empty = path.with_suffix(f".{name}"), not math.prod(shape)
                whole = (
                    np.empty(shape, dtype)
                    if empty
                    else np.memmap(file, dtype, "c", shape=tuple(shape))
                )
                assert zlib.crc32(whole) == checksum
                arrays[name] = np.asarray(whole)
            return note, arrays
        if path.exists():
            warnings.warn(f"{path.with_suffix('')} was damaged: computing it again", stacklevel=3)
        return {"items": 0, "arrays": {}, "seconds": 0.0}, {}

    def _add_pieces(self, path: Path, items: Sequence[Any], make: Pieces, piece: int) -> None:
        """Make the pieces that are missing, if any: another process may have made them while this one waited."""
        note, _ = self._whole_pieces(path)
        if (left := len(items) - note["items"]) > piece:
            size = sum(values.nbytes for values in make(items[:SAMPLE]).values()) / SAMPLE
            check_room(self.folder, left * size)
        while not note.get("complete"):
            began, done = time.process_time(), min(note["items"] + piece, len(items))
            for name, values in make(items[note["items"] : done]).items():
                dtype, shape, checksum = note["arrays"].get(
                    name, (values.dtype.str, [0, *values.shape[1:]], 0)
                )
                content = np.ascontiguousarray(values, dtype)
                with open(path.with_suffix(f".{name}"), "ab") as file:
                    file.truncate(
                        math.prod(shape) * content.itemsize
                    )  # of what a killed process wrote beyond
                    file.write(content.data)
                    file.flush()
                    os.fsync(file.fileno())
                shape = [shape[0] + len(content), *shape[1:]]
                note["arrays"][name] = dtype, shape, zlib.crc32(content, checksum)
            note |= {"items": done, "complete": done == len(items)}
            note["seconds"] = round(note["seconds"] + time.process_time() - began, 3)
            write_atomically(path, json.dumps(note).encode())

    def _content(
        self, recipe: Recipe, suffix: str, make: Callable[[], bytes], note: dict[str, Any]
    ) -> bytes:
        note_path = self.path(recipe, ".note")
        path = note_path.with_suffix(suffix)
        if (content := self._whole(note_path, suffix)) is not None:
            return content
        with self.lock(recipe):
            if (
                content := self._whole(note_path, suffix)
            ) is not None:  # another process made it meanwhile
                return content
            if path.exists():
                warnings.warn(f"{path} was damaged or unfinished: computing it again", stacklevel=3)
            start = time.process_time()
            content = make()
            note = {"seconds": round(time.process_time() - start, 3), **note}
            note["sha256"] = hashlib.sha256(content).hexdigest()
            write_atomically(path, content)
            write_atomically(note_path, json.dumps(note, ensure_ascii=False).encode())
            return content


def store() -> Store:
    """The store of this machine's artifact root."""
    return Store(paths.artifacts() / "store")
