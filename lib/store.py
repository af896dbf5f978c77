"""Keeps what was computed: arrays by what they are made of, and tables of vectors that grow."""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from filelock import FileLock
from pooch import file_hash
from pyarrow.feather import read_table, write_feather

from lib.config import paths
from lib.messages import OneLine
from lib.texts import check_several

LIB = Path(__file__).parent
PIECE = 256  # texts that are embedded, and written, at once
MARKER = ".thesis-companion.json"  # in a person's folder: what we wrote there

Arrays = dict[str, Any]


class NotComputed(OneLine, LookupError):
    """A product is missing, and the store may only read."""


@dataclass(frozen=True)
class Product:
    """Something that is named in advance, by its inputs and by the code that computes it."""

    kind: str  # also the name of its folder
    inputs: Mapping[str, Any]  # plain values and other products: what decides it besides code
    modules: tuple[str, ...] = ()  # modules and packages of lib that compute it: "losses.cosine"
    packages: tuple[str, ...] = ()  # whose arithmetic it depends on
    label: str = field(default="", compare=False)  # for people

    @functools.cached_property
    def key(self) -> str:
        """Hash of kind, packages and inputs, and of the keys of products among them."""
        versions = {name: read_version(name) for name in self.packages}
        return hash_value([self.kind, versions, self.inputs], lambda product: product.key)

    @functools.cached_property
    def code(self) -> str:
        """Hash of the code that computes it, and what it is computed from."""
        return hash_value([hash_code(self.modules), self.inputs], lambda product: product.code)[:8]

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.key[:2]}/{self.key}-{self.code}"  # folders with few files


@dataclass
class Store:
    """Products in a folder that processes share."""

    folder: Path = field(default_factory=lambda: paths.artifacts() / "store")
    keep: bool = False  # use products that older code made; `outdated` has their names
    reading: bool = False  # raise `NotComputed` instead of computing
    used: set[str] = field(default_factory=set, repr=False)  # names of all, for provenance
    outdated: set[str] = field(default_factory=set, repr=False)

    def path(self, product: Product, suffix: str) -> Path:
        """Where a product is, or belongs; its name is noted in `used`, and its folder made.

        With `keep` it may be one that older code completed, but no checkpoint goes on from there.
        """
        path = self.folder / f"{product.name}{suffix}"
        self.used.add(product.name)
        missing = self.keep and suffix != ".checkpoint" and not path.exists()
        if missing and (older := _list_older(path)):
            path = older[-1]
            self.outdated.add(f"{product.kind}/{product.key[:2]}/{path.stem}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def has(self, product: Product) -> bool:
        return self.path(product, ".npz").exists()

    def get(self, product: Product, compute: Callable[[], Mapping[str, Any]]) -> Arrays:
        """The arrays of a product. If they are missing, one process computes, and others wait."""
        path = self.path(product, ".npz")
        if not path.exists():
            with self._lock(product, path):
                if not path.exists():  # another process may have made it meanwhile
                    arrays = {name: np.asarray(value) for name, value in compute().items()}
                    write_whole(path, lambda file: np.savez(file, **arrays))
        return self.read(product)

    def read(self, product: Product) -> Arrays:
        """The arrays of a product that is there."""
        with np.load(self.path(product, ".npz"), allow_pickle=False) as file:
            return {**file}

    def rows(self, product: Product, texts: Sequence[str], compute: Callable) -> "dict[str, Rows]":
        """Columns with a row for each text, in order, of which only missing rows are computed.

        `compute` maps texts to columns: (texts, dim), (texts,), or a list of arrays of different
        lengths. A row must not depend on the other texts. Equal texts share a row. A killed process
        loses at most the piece that it computes. Rows are read from disk when they are indexed.
        """
        if not hasattr(texts, "text_hashes"):
            texts = [*check_several(texts)]  # a Series is indexed by its labels
        folder, hashes = self.path(product, ".rows"), hash_texts(texts)
        table, places = _open_table(folder, hashes)
        if (places < 0).any():
            folder = self.folder / f"{product.name}.rows"  # no table mixes rows of two codes
            with self._lock(product, folder):
                folder.mkdir(exist_ok=True)
                _, places = _open_table(folder, hashes)  # another process may have made some
                missing = np.flatnonzero((places < 0) & ~pd.Index(hashes).duplicated())
                for start in range(0, len(missing), PIECE):
                    places = missing[start : start + PIECE]
                    columns = compute([texts[int(place)] for place in places])
                    arrays = {name: [*values] for name, values in columns.items()}
                    table = pa.table({"name": hashes[places], **arrays})
                    path = folder / f"{len([*folder.glob('*.arrow')]):06d}.arrow"
                    write_whole(path, lambda file, t=table: write_feather(t, file, "uncompressed"))
            table, places = _open_table(folder, hashes)
        return {name: Rows(table[name], places) for name in table.column_names[1:]}

    def has_rows(self, product: Product, texts: Sequence[str]) -> bool:
        """Whether a table has a row for each text."""
        return bool((_open_table(self.path(product, ".rows"), hash_texts(texts))[1] >= 0).all())

    @contextlib.contextmanager
    def _lock(self, product: Product, path: Path) -> Iterator[None]:
        """Let one process at a time write a path; remove what killed ones and older code left."""
        if self.reading:
            raise NotComputed(f"{product.kind} {product.label} is not in {self.folder}")
        with FileLock(path.with_name(f"{path.name}.lock")):
            for partial in (*path.parent.glob(f".{path.name}.*"), *path.glob(".*")):
                partial.unlink(missing_ok=True)
            yield
            for older in _list_older(path):
                if older.is_dir():
                    shutil.rmtree(older)
                else:
                    older.unlink(missing_ok=True)


def _list_older(path: Path) -> list[Path]:
    """Files or tables of the same product that other code made, the newest last."""
    key = path.name.partition("-")[0]
    others = {*path.parent.glob(f"{key}-*{path.suffix}")} - {path}
    return sorted(filter(Path.exists, others), key=os.path.getmtime)


@dataclass(frozen=True, eq=False)
class Rows(Sequence[Any]):
    """Rows of a column that are read from disk when they are indexed."""

    column: pa.ChunkedArray
    places: np.ndarray  # (rows,) where they are

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: Any) -> Any:
        """One row, or several as an array, or as a list if their lengths differ."""
        places = self.places[rows]
        # `take` would copy the whole column, for a single row, too.
        parts = [self.column.slice(int(place), 1).chunk(0) for place in np.atleast_1d(places)]
        values = pa.chunked_array(parts, self.column.type).to_numpy()
        if values.dtype == object:  # each row is an array
            values = [*map(np.array, values)]
            values = np.stack(values) if len({*map(len, values)}) == 1 else values
        return values if np.ndim(places) else values[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)


def _open_table(folder: Path, hashes: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """All pieces of a table, memory-mapped; (texts,) its rows for these hashes, -1 for none."""
    pieces = [read_table(path, memory_map=True) for path in sorted(folder.glob("*.arrow"))]
    table = pa.concat_tables(pieces or [pa.table({"name": np.empty(0, np.uint64)})])
    return table, pd.Index(table["name"].to_numpy()).get_indexer(hashes)


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file, open and binary, so that readers see all of it or nothing, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole, in UTF-8."""
    write_whole(path, lambda file: file.write(text.encode()))


def check_target(target: str | Path, kind: str) -> Path:
    """The absolute path of a folder that is missing, empty, or holds only what we wrote as `kind`.

    `ValueError` for any other. Our marker has the SHA-256 of each file that we wrote.
    """
    target = Path(os.path.abspath(Path(target).expanduser()))
    marker = target / MARKER
    note = json.loads(marker.read_text(encoding="utf-8")) if marker.is_file() else {}
    written = note.get("files", {}) if note.get("kind") == kind else {}
    for path in (target, *target.rglob("*")) if os.path.lexists(target) else ():
        name = path.relative_to(target).as_posix()
        ours = path.is_dir() or path.name in (MARKER, ".DS_Store") or name in written
        if path.is_symlink() or not ours or (name in written and written[name] != file_hash(path)):
            raise ValueError(f"{path} was not written by this project; name another folder")
    return target


def replace_folder(target: str | Path, kind: str, write: Callable[[Path], Any]) -> None:
    """Write a folder whole or not at all: `write` fills a new one. Errors as `check_target`."""
    target = check_target(target, kind)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
        new = Path(work, "new")
        new.mkdir()  # its mode follows the umask, unlike that of `work`
        write(new)
        os.sync()
        sums = {f.relative_to(new).as_posix(): file_hash(f) for f in new.rglob("*") if f.is_file()}
        write_text(new / MARKER, json.dumps({"kind": kind, "files": sums}))
        check_target(target, kind)  # again: writing takes a while
        if target.exists():
            new.chmod(target.stat().st_mode)
            target.rename(Path(work, "old"))
        new.rename(target)


def hash_value(value: Any, name: Callable[[Any], str] | None = None) -> str:
    """16 hex digits that identify a plain value; `name` says what stands for others in it."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=name)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """(texts,) uint64 hashes by content. A sequence may have its own, as `text_hashes`."""
    if hasattr(texts, "text_hashes"):
        return texts.text_hashes
    contents = (text.encode("utf-8", "surrogatepass") for text in texts)
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(b"".join(digests), np.uint64)


def hash_arrays(*arrays: Any) -> str:
    """16 hex digits that identify the content, types and shapes of arrays."""
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:16]


def hash_file(path: Path) -> str:
    """SHA-256 of a file, which is read again once it has been written again."""
    return _hash_written(path, path.stat().st_mtime_ns)


_hash_written = functools.cache(lambda path, written: file_hash(path))


@functools.cache
def read_version(package: str) -> str:
    """Major and minor version of an installed package."""
    return ".".join(importlib.metadata.version(package).split(".")[:2])


@functools.cache  # a process keeps the code that it has imported, even if files change
def read_sources() -> dict[str, str]:
    """Every module of lib, by its path relative to lib, as it was when this process began."""
    files = sorted(LIB.rglob("*.py"))
    return {f.relative_to(LIB).as_posix(): f.read_text(encoding="utf-8") for f in files}


@functools.cache
def hash_code(modules: tuple[str, ...]) -> str:
    """Hash of modules and packages of lib, but for comments, docstrings, messages, annotations."""
    places = [module.replace(".", "/") for module in modules]
    starts = tuple(f"{place}{end}" for place in places for end in (".py", "/"))
    files = {name: text for name, text in read_sources().items() if name.startswith(starts)}
    return hash_value([_strip_code(text) for text in files.values()])


@functools.cache
def _strip_code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        has_body = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if has_body and ast.get_docstring(node):
            del node.body[0]
        for name in {"annotation", "returns", "exc", "cause"} & {*node._fields}:
            setattr(node, name, None)
    return ast.dump(tree)
