"""The recipe of thesis: the published corpora and tasks (Sections 4.1 and 5.2.1).

What is neither in the hub's cache nor among the downloads (`THESIS_DATA`, or below the artifact
root) is downloaded from the hub, the records of Zhou et al. 2020 and Ginzburg et al. 2021 on
Zenodo, and, for gold lists, from the code of the latter.
"""

import ast
import functools
import glob
import hashlib
import io
import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from lib.config import paths
from lib.config.schema import ThesisBuild
from lib.data.files import (
    Examples,
    name_errors,
    read_csv,
    read_rows,
    write_examples,
    write_relevant,
)
from lib.data.task_files import SPLITS
from lib.recipes import fetch
from lib.store import hash_code
from lib.texts import has_token

SINGLES, PAIRS = ("IMDB", "ARXIV"), ("AAN", "OC", "S2ORC", "PAN")
# The folder of each task, <dataset folder>/<task>.
TASKS = {
    "ARXIV": "arxiv/categories",
    "IMDB": "imdb/sentiment",
    "OC": "oc/citations",
    "AAN": "aan/citations",
    "S2ORC": "s2orc/citations",
    "PAN": "pan/plagiarism",
    "WINES": "wines/similar",
    "GAMES": "games/similar",
}
# The variant `no_ref` removes these from the texts, because a paper's header may name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
ALIGNED = "\001"  # marks the aligned sentence, which would leak the label
PIECE = 20_000  # documents in one Parquet file, and in memory at once
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def list_inputs() -> list[str]:
    """The code; settings name a commit or a record of all that is downloaded."""
    return [hash_code(("recipes.thesis", "data.files"))]


def list_sources(build: ThesisBuild) -> dict[str, str]:
    """Return {file: URL} of everything the folders are made of, for `fetch.fetch_all`."""
    sources = {place: place for place in (*build.wikipedia, *build.news)}
    for files in build.tasks.values():
        for name, url in files.items():
            sources[url if url.startswith("hf://") else name] = url
    return {name: url for name, url in sources.items() if "://" in url}


def list_writers(build: ThesisBuild, home: Path) -> dict[str, Callable[[Path], None]]:
    """Return the functions that fill each dataset folder; the first downloads what is missing."""
    named = os.environ.get("THESIS_DATA")
    root = paths.ROOT / named if named else home.parent / "downloads"
    fetch_missing = functools.cache(lambda: fetch.fetch_all(list_sources(build), root))
    writers = {
        "wikipedia": functools.partial(write_corpus, build.wikipedia),
        "news": functools.partial(write_corpus, build.news),
    }
    for role, files in build.tasks.items():
        dataset, _, task = TASKS[role].partition("/")
        writers[dataset] = functools.partial(write_task, role, files, task, root)

    def fetch_and_write(name: str, folder: Path) -> None:
        fetch_missing()
        writers[name](folder)

    return {name: functools.partial(fetch_and_write, name) for name in writers}


def write_corpus(files: Sequence[str], folder: Path) -> None:
    """Write the rows of files as documents of a folder, except rows whose text has no token."""
    documents = (
        {"id": str(number), "text": row["text"], "title": row.get("title") or ""}
        for number, row in enumerate(itertools.chain.from_iterable(map(_read_rows, files)))
        if has_token(row["text"] or "")
    )
    _write_documents(folder, documents)


def _write_documents(folder: Path, rows: Iterator[dict[str, str]]) -> None:
    (folder / "documents").mkdir()
    piece = 0
    while batch := list(itertools.islice(rows, PIECE)):
        table = pyarrow.Table.from_pylist(batch, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
        piece += 1
    if not piece:
        raise ValueError(f"{folder.name}: there are no texts in its files")


def _read_rows(place: str) -> Iterator[dict[str, Any]]:
    """Yield the rows, with a text, of Parquet or JSON Lines files: of the hub, or by a pattern."""
    hub = place.startswith("hf://")
    files = fetch.fetch_hub(place) if hub else [Path(name) for name in sorted(glob.glob(place))]
    for where, row in read_rows(files, ("text", "title", "label")):
        if "text" not in row:
            raise ValueError(f"{where}: expected a field text, found {', '.join(row)}")
        yield row


def write_task(role: str, files: dict[str, str], task: str, root: Path, folder: Path) -> None:
    """Write `task` of a dataset folder from `files`, {split or name: URL}; downloads in `root`."""
    if role in SINGLES:
        texts, gold = _read_singles(role, files)
    else:
        places = [fetch.fetch_file(root, name, url) for name, url in files.items()]
        texts, gold = (_read_pairs if role in PAIRS else _read_retrieval)(places)
    write = write_examples if role in SINGLES + PAIRS else write_relevant
    write(folder / "tasks" / task, gold)
    rows = ({"id": text_id, "text": text, "title": ""} for text_id, text in texts.items())
    _write_documents(folder, rows)


def _read_singles(role: str, places: Mapping[str, str]) -> tuple[dict[str, str], Examples]:
    """Read single documents, one place for each split."""
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in places}
    for split, place in places.items():
        for number, row in enumerate(_read_rows(place)):
            text_id, text = f"{split}/{number}", row["text"]
            for name in ARXIV_CLASSES if role == "ARXIV" else ():
                text = text.replace(name, "")
            texts[text_id] = text
            examples[split].append(((text_id,), str(row["label"])))
    return texts, examples


def _read_pairs(files: list[Path]) -> tuple[dict[str, str], Examples]:
    """Read CSV files without header: label, first text, second text.

    Equal texts get the same id, except both texts of a pair. What a dataset folder refuses is left
    out: a pair that is repeated with the other label (in either order), or in a later split.
    """
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in SPLITS}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for split, path in zip(SPLITS, files, strict=True):
        for where, row in read_csv(path, ","):
            if len(row) != 3 or row[0] not in ("0", "1"):
                raise ValueError(f"{where}: expected label (0 or 1), text, text; got {row!r:.40}")
            pair = [text.replace(ALIGNED, " ") for text in row[1:]]
            a, b = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in pair)
            ids = (a, b if a != b else f"{b}-again")
            given = (split, row[0])
            turned = first.get(ids[::-1], given)
            if (turned[0] == split and turned != given) or first.setdefault(ids, given) != given:
                continue
            texts.update(zip(ids, pair, strict=True))
            examples[split].append((ids, row[0]))
    return texts, examples


def _read_retrieval(files: list[Path]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Read articles, and gold lists from a pickle, {title: {title: 1}}.

    The text of an article is its title, and headings and texts of its sections that have one.
    Sources are dropped if they or all their targets have no text.
    """
    articles, gold_lists = files
    texts: dict[str, str] = {}
    rows = read_csv(articles, ",")
    for where, (title, sections) in itertools.islice(rows, 1, None):  # below the header
        if title in texts:
            raise ValueError(f"{where}: the title {title!r} occurs twice")
        parts = [part for part in ast.literal_eval(sections) if part[1].strip()]
        lines = filter(str.strip, itertools.chain.from_iterable(parts))
        texts[title] = "\n".join([title, *lines])
    with name_errors(gold_lists):
        gold = _Plain(io.BytesIO(gold_lists.read_bytes())).load()
    relevant = {}
    for source, targets in gold.items():
        kept = [target for target in targets if target in texts and target != source]
        if source in texts and kept:
            relevant[source] = kept
    return texts, relevant


class _Plain(pickle.Unpickler):
    """Unpickles dictionaries, strings and numbers; refuses pickles that import and run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
