"""The cache: computed products, stored under their inputs, with a note on the code that made them.

A product is identified by its kind and its inputs: the settings that matter for it, and the content
of the data that it read. Its note says which code made it. If that code has changed since then, the
product is stale. It is then made again, or used as it is if `keep` says so.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import io
import json
import os
import pickle
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock

from lib.config.profiles import OneLine
from lib.store.code import fingerprint_code, fingerprint_module
from lib.store.files import check_room, fingerprint, stat_file, write_atomically
from lib.store.sealed import looks_whole, read_facts, write_seal
from lib.texts import keep_order

PIECE = 4096  # rows of a table that are computed, held in memory and written at once
SAMPLE = 10  # items from which the size of all on disk is estimated
T = TypeVar("T")
Columns = dict[str, Any]  # column -> (items, ...) array, or a list of arrays of other lengths


class NotComputed(OneLine, LookupError):
    """A product is missing, and the cache may not compute it."""


@dataclass(frozen=True)
class Code:
    """Modules that compute something. Their imports count too, except those in `stop`."""

    modules: tuple[str, ...]
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """Something that can be computed.

    Parameters
    ----------
    kind : str
        Such as "student" or "record"; also the name of its folder.
    inputs : dict
        Plain values that determine the product, including fingerprints of data.
    code : tuple of Code
        The code that computes it.
    packages : tuple of str
        Installed packages whose arithmetic it depends on.
    label : str
        A name for people, such as "cosine, seed 1". It is not part of the product's identity.
    """

    kind: str
    inputs: dict[str, Any]
    code: tuple[Code, ...] = ()
    packages: tuple[str, ...] = ()
    label: str = field(default="", compare=False)

    @functools.cached_property
    def key(self) -> str:
        return fingerprint(self.inputs)

    @functools.cached_property
    def versions(self) -> dict[str, str]:
        """Fingerprints of modules and versions of packages that would make the product now."""
        versions = {name: _read_installed(name) for name in self.packages}
        for code in self.code:
            versions |= fingerprint_code(code.modules, code.stop)
        return versions

    @functools.cached_property
    def name(self) -> str:
        """The name of its files. Two versions of the code never share a file."""
        return f"{self.key}-{fingerprint(self.versions)[:8]}"


@dataclass
class Cache:
    """Products in one folder. If a process is killed, complete products are not lost.

    Parameters
    ----------
    folder : Path
    keep : bool
        Use stale products as they are; `kept` then lists them.
    reading : bool
        Raise `NotComputed` instead of computing.
    """

    folder: Path
    keep: bool = False
    reading: bool = False
    # (kind, key) -> note: of all products that were asked for, and of those used because of `keep`
    used: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False)
    kept: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False)

    def find(self, product: Product) -> dict[str, Any] | None:
        """Return the note of a product that can be used, without checking its content, or None."""
        path = self._find_note(product)
        return None if path is None else read_facts(path)

    def _find_note(self, product: Product) -> Path | None:
        path = self._path(product, ".json")
        name = product.kind, product.key
        self.used[name] = path
        if read_facts(path) is not None:
            return path
        others = self._find_others(product, ".json")
        if others:
            self.used[name] = others[-1]
        if others and self.keep:
            self.kept[name] = others[-1]
            return others[-1]
        return None

    def _find_others(self, product: Product, suffix: str) -> list[Path]:
        """List files of the same product made by other code, the newest last."""
        path = self._path(product, suffix)
        others = [each for each in path.parent.glob(f"{product.key}-*{suffix}") if each != path]
        return sorted(others, key=lambda each: each.stat().st_mtime_ns)

    def arrays(
        self,
        product: Product,
        make: Callable[[], dict[str, np.ndarray]],
        describe: Callable[[dict[str, np.ndarray]], dict[str, Any]] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the named arrays of a product; `make` computes them if missing or damaged.

        describe: computes plain values from the arrays, to be added to the note.
        """

        def pack(arrays: dict[str, np.ndarray]) -> bytes:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **arrays)
            return buffer.getvalue()

        def unpack(content: bytes) -> dict[str, np.ndarray]:
            return dict(np.load(io.BytesIO(content), allow_pickle=False))

        return self._content(product, ".npz", make, pack, unpack, describe)

    def record(self, product: Product, make: Callable[[], Any]) -> Any:
        """Return the JSON value of a product; `make` computes it if it is missing or damaged."""

        def pack(value: Any) -> bytes:
            return json.dumps(value, ensure_ascii=False).encode()

        return self._content(product, ".value", make, pack, json.loads, None)

    def model(
        self,
        product: Product,
        make: Callable[[], T],
        describe: Callable[[T], dict[str, Any]] | None = None,
    ) -> T:
        """Return a pickled object; `make` computes it if it is missing or damaged.

        Only files that match the checksum in the cache are unpickled.
        """
        return self._content(product, ".pickle", make, pickle.dumps, pickle.loads, describe)

    def rows(
        self, product: Product, items: Iterable[Any], make: Callable[[list[Any]], Columns]
    ) -> "dict[str, Rows]":
        """Return one row per item of a growing table; only missing rows are computed.

        Parameters
        ----------
        product : Product
            The table. Its inputs and code say how rows are computed, whatever the items are.
        items : iterable of str or of arrays
            The items from which rows are computed. Equal items share a row.
        make : callable
            Computes the columns of some items. A row must not depend on the other items.

        Returns
        -------
        Column -> its rows, in the order of the items.

        Raises
        ------
        OSError
            Before anything large is computed, if the disk has too little room.
        """
        items = keep_order(items)
        keys = hash_items(items)
        table = self._open_table(product)
        if not np.isin(keys, table.keys).all():
            self._check_may_compute(product)
            table.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(table.folder / "lock"):
                table.add(items, keys, make, product)
            for other in self._find_others(product, ".rows"):
                if other != table.folder and np.isin(_Table(other).keys, table.keys).all():
                    shutil.rmtree(other, ignore_errors=True)  # the new table has all of its rows
        return table.select(keys)

    def has_rows(self, product: Product, items: Iterable[Any]) -> bool:
        """Whether a table has a row for each item."""
        return bool(np.isin(hash_items(items), self._open_table(product).keys).all())

    def _open_table(self, product: Product) -> "_Table":
        folder = self._path(product, ".rows")
        name = product.kind, product.key
        others = self._find_others(product, ".rows")
        table = _Table(folder, product.versions)
        self.used[name] = folder
        if others and not len(table.keys):
            self.used[name] = others[-1]
            if self.keep:
                self.kept[name] = others[-1]
                return _Table(others[-1])
        return table

    def lock(self, product: Product) -> FileLock:
        """Lock a product in a `with` statement, so that one process at a time makes it.

        If a process is killed, its lock is released.
        """
        path = self._path(product, ".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(path)

    def scratch(self, product: Product, suffix: str) -> Path:
        """Return a path next to a product, for files that are needed only until it is complete."""
        return self._path(product, suffix)

    def _check_may_compute(self, product: Product) -> None:
        if self.reading:
            raise NotComputed(f"{product.kind} {product.key} is not in {self.folder}")

    def _path(self, product: Product, suffix: str) -> Path:
        return self.folder / product.kind / f"{product.name}{suffix}"

    def _content(
        self,
        product: Product,
        suffix: str,
        make: Callable[[], T],
        pack: Callable[[T], bytes],
        unpack: Callable[[bytes], T],
        describe: Callable[[T], dict[str, Any]] | None,
    ) -> T:
        for locked in (False, True):  # while this process waits, another may make the product
            with self.lock(product) if locked else contextlib.nullcontext():
                if (note := self._find_note(product)) is not None:
                    content = _read_whole(note, note.with_suffix(suffix))
                    if content is not None:
                        return unpack(content)
                    if locked:
                        warnings.warn(f"{note} was damaged: computing it again", stacklevel=4)
                        note.unlink(missing_ok=True)  # else the product would seem to exist
                if locked:
                    self._check_may_compute(product)
                    return self._make(product, suffix, make, pack, describe)
        raise AssertionError("the second round returns")

    def _make(
        self,
        product: Product,
        suffix: str,
        make: Callable[[], T],
        pack: Callable[[T], bytes],
        describe: Callable[[T], dict[str, Any]] | None,
    ) -> T:
        path, others = self._path(product, suffix), self._find_others(product, ".json")
        started = time.process_time()
        value = make()
        facts = describe(value) if describe else {}
        facts |= {"seconds": round(time.process_time() - started, 3)}
        facts |= {"kind": product.kind, "code": product.versions}
        write_atomically(path, pack(value))
        write_seal(path.with_suffix(".json"), [path], **facts)
        for other in others:  # made by older code, and replaced now that this one is complete
            other.unlink(missing_ok=True)
            other.with_suffix(suffix).unlink(missing_ok=True)
        return value


def _read_whole(note: Path, path: Path) -> bytes | None:
    """Read the content of a product; None if it is missing or does not match its note."""
    facts = read_facts(note)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None
    sums = {} if facts is None else facts["files"]
    return content if hashlib.sha256(content).hexdigest() == sums.get(path.name) else None


def list_changed(note: dict[str, Any]) -> list[str]:
    """List the modules and packages that have changed since a product was made."""
    code = note.get("code")
    if not isinstance(code, dict):
        return ["its note"]
    return [name for name, was in code.items() if _read_version(name) != was]


# Looking up a version takes a millisecond, and it does not change for a running process.
_read_installed = functools.cache(importlib.metadata.version)


@functools.cache
def _read_version(name: str) -> str | None:
    if name.startswith("lib."):
        return fingerprint_module(name)
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return _read_installed(name)
    return None


def list_stale(paths: Iterable[Path]) -> dict[str, list[dict[str, Any]]]:
    """Map each changed module or package to the notes of the products that it makes stale.

    Parameters
    ----------
    paths : iterable of Path
        Notes of products or folders of tables, as in `Cache.used`.
    """
    stale: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        segments = sorted(path.glob("*.json")) if path.is_dir() else [path]
        for note in filter(None, map(read_facts, segments)):
            for name in list_changed(note):
                stale.setdefault(name, []).append(note)
    return stale


def hash_items(items: Iterable[Any]) -> np.ndarray:
    """Hash texts or arrays of token ids by their content, (items,) uint64.

    A sequence may have its hashes in an attribute `names`, so that long texts are read only once.

    Raises
    ------
    ValueError
        For an item that is neither a text nor an array.
    """
    names = getattr(items, "names", None)
    if isinstance(names, np.ndarray):
        return names
    digests = bytearray()
    for place, item in enumerate(items):
        if isinstance(item, str):
            content = item.encode("utf-8", "surrogatepass")
        elif isinstance(item, np.ndarray):
            content = f"{item.dtype.str}{item.shape}".encode() + item.tobytes()
        else:
            raise ValueError(f"expected texts or arrays; item {place} is {item!r:.60}")
        digests += hashlib.blake2b(content, digest_size=8).digest()
    return np.frombuffer(bytes(digests), dtype=np.uint64)


def hash_content(*arrays: Any) -> str:
    """Return 16 hex digits that identify the content of arrays or `Rows`, read piece by piece."""
    digest = hashlib.sha256()
    for array in arrays:
        for start in range(0, len(array), PIECE):
            piece = array[start : start + PIECE]
            for part in piece if isinstance(piece, list) else [piece]:
                digest.update(np.ascontiguousarray(part).tobytes())
                digest.update(str(np.shape(part)).encode())
        digest.update(str(len(array)).encode())
    return digest.hexdigest()[:16]


class Rows(Sequence[Any]):
    """Rows of a column in the requested order, read from disk when they are indexed.

    Pickling stores the names of the files, not their content.
    """

    def __init__(self, files: list[Path], file_of_row: np.ndarray, place: np.ndarray):
        self.files, self.file_of_row, self.place = files, file_of_row, place
        self._open: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def __len__(self) -> int:
        return len(self.place)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, rows: Any) -> Any:
        """Read rows as an array (rows, ...), or a single row as (...)."""
        files, places = self.file_of_row[rows], self.place[rows]
        if np.ndim(places) == 0:
            return np.array(self._file(int(files))[int(places)])
        example = self._file(int(self.file_of_row[0]) if len(self.file_of_row) else 0)
        result = np.empty((len(places), *example.shape[1:]), example.dtype)
        for number in np.unique(files):
            chosen = files == number
            result[chosen] = self._file(int(number))[places[chosen]]
        return result

    def _file(self, number: int) -> np.ndarray:
        if number not in self._open:
            self._open[number] = np.load(self.files[number], mmap_mode="r", allow_pickle=False)
        return self._open[number]


class RaggedRows(Rows):
    """Rows of different lengths. A file holds them one after another."""

    def __init__(self, files: list[Path], file_of_row: np.ndarray, place: np.ndarray):
        super().__init__(files, file_of_row, place)
        self._ends: dict[int, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ends": {}}

    def __getitem__(self, rows: Any) -> Any:
        """Read one row as an array, or several rows as a list of arrays."""
        places = self.place[rows]
        if np.ndim(places):
            return [self[int(row)] for row in np.arange(len(self))[rows]]
        number, place = int(self.file_of_row[rows]), int(places)
        if number not in self._ends:
            lengths = self.files[number].with_suffix(".ragged.npy")
            self._ends[number] = np.append(0, np.cumsum(np.load(lengths, allow_pickle=False)))
        start, end = self._ends[number][place : place + 2]
        return np.array(self._file(number)[start:end])


class _Table:
    """A growing table in segments. Each `<number>.json` seals the arrays of some rows."""

    def __init__(self, folder: Path, code: dict[str, str] | None = None):
        """code: versions of the code whose segments count; None accepts all segments."""
        self.folder, self.code = folder, code
        self.notes: list[dict[str, Any]] = []
        self.names: list[str] = []  # names of the segments
        self.read()

    def read(self) -> None:
        """Read which rows exist. Incomplete or damaged segments do not count."""
        self.notes, self.names, parts = [], [], []
        for path in sorted(self.folder.glob("*.json")):
            note = read_facts(path)
            if note is None or not looks_whole(path, note):
                continue
            if self.code is not None and note.get("code") != self.code:
                continue  # rows made by other code, added to a table of older code under `keep`
            keys = np.load(path.with_suffix(".keys.npy"), allow_pickle=False)
            parts.append((keys, np.full(len(keys), len(self.names)), np.arange(len(keys))))
            self.names.append(path.stem)
            self.notes.append(note)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or _no_rows()
        order = np.argsort(columns[0], kind="stable")
        self.keys, self.segment, self.place = (column[order] for column in columns)

    def add(
        self,
        items: Sequence[Any],
        keys: np.ndarray,
        make: Callable[[list[Any]], Columns],
        product: Product,
    ) -> None:
        """Compute the missing rows in pieces, each of which is kept once it is written."""
        self.read()
        _, first = np.unique(keys, return_index=True)
        missing = np.sort(first[~np.isin(keys[first], self.keys)])
        if len(missing) > PIECE:
            sample = make([items[int(row)] for row in missing[:SAMPLE]])
            size = sum(_flat(column)[0].nbytes for column in sample.values()) / SAMPLE
            check_room(self.folder, len(missing) * size)
        taken = [path.name.partition(".")[0] for path in self.folder.glob("*.*")]
        number = max((int(name) for name in taken if name.isdigit()), default=-1)
        for start in range(0, len(missing), PIECE):
            rows, number = missing[start : start + PIECE], number + 1
            started = time.process_time()
            columns = make([items[int(row)] for row in rows])
            seconds = round(time.process_time() - started, 3)
            files = [self._write(f"{number:06d}.keys.npy", keys[rows])]
            for name, column in columns.items():
                flat, lengths = _flat(column)
                files.append(self._write(f"{number:06d}.{name}.npy", flat))
                if lengths is not None:
                    files.append(self._write(f"{number:06d}.{name}.ragged.npy", lengths))
            facts = {"code": product.versions, "kind": product.kind, "seconds": seconds}
            facts |= {"stat": {file.name: stat_file(file) for file in files}}
            write_seal(self.folder / f"{number:06d}.json", files, **facts)
        self.read()

    def select(self, keys: np.ndarray) -> dict[str, Rows]:
        """Return the columns with one row per key. All keys must exist."""
        where = np.searchsorted(self.keys, keys)
        columns: dict[str, Rows] = {}
        files = list(self.notes[0]["files"]) if self.notes else []
        names = [name.split(".")[1] for name in files if not name.endswith(".ragged.npy")]
        for name in names:
            if name != "keys":
                ragged = f"{self.names[0]}.{name}.ragged.npy" in files
                paths = [self.folder / f"{number}.{name}.npy" for number in self.names]
                kind = RaggedRows if ragged else Rows
                columns[name] = kind(paths, self.segment[where], self.place[where])
        return columns

    def _write(self, name: str, values: np.ndarray) -> Path:
        path = self.folder / name
        with open(path, "wb") as file:
            np.save(file, values, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        return path


def _no_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0, np.uint64), np.empty(0, int), np.empty(0, int)


def _flat(column: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a column as one array, and the lengths of its rows if they may differ."""
    if isinstance(column, np.ndarray):
        return column, None
    lengths = np.array([len(row) for row in column], dtype=np.int64)
    return np.concatenate([*column, np.empty(0, np.asarray(column[0]).dtype)]), lengths
