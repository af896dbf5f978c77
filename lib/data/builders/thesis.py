"""Builds thesis: the published corpora and tasks as dataset folders (Sections 4.1 and 5.2.1).

Files that are neither in the hub's cache nor in the folder of downloads (`THESIS_DATA`, or one
below the artifact root) are downloaded first: from the Zenodo records of Zhou et al. 2020 and
Ginzburg et al. 2021, and the gold lists from the code of the latter.
"""

import ast
import csv
import functools
import glob
import hashlib
import io
import itertools
import os
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path, PurePath
from typing import Any

import pyarrow
from filelock import FileLock
from pyarrow import parquet

from lib.config import paths
from lib.config.schema import ThesisBuild
from lib.data import dataset_folder
from lib.data.archives import open_archive
from lib.data.builders import fetch
from lib.data.builders.writing import Examples, write_examples, write_folder, write_relevant
from lib.data.sources import find_root
from lib.data.task_files import SPLITS
from lib.data.written_once import SEAL
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
# The variant `no_ref` removes these categories from the texts, because the header of a paper may
# name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
ALIGNED = "\001"  # marks the aligned sentence, which would leak the label
# Bytes written for each byte downloaded: Parquet, and Arrow with all text unpacked.
ROOM = 4
PRINTED = [paths.PARAMS / "published" / f"{table}.csv" for table in ("tab5_4", "tab5_5")]
_OTHERS = ["title", "label"]  # fields that a row may have besides its text
PIECE = 20_000  # documents in one Parquet file, and in memory at once
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def list_inputs(build: ThesisBuild, home: Path) -> list[str]:
    """Return the checksums of the files that are not from the hub.

    If one of them is not known yet, everything is downloaded first.
    """
    root, sources = find_downloads(home), list_sources(build)
    names = [name for name in sources if not name.startswith("hf://")]
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        sums = fetch.find_sums(root, names)
        if None in sums.values():
            fetch.fetch_all(sources, root, home, ROOM)
            sums = fetch.find_sums(root, names)
    return list(sums.values())


def find_downloads(home: Path) -> Path:
    """Return the folder for downloads that are not from the hub."""
    named = os.environ.get("THESIS_DATA")
    return find_root(named) if named else home.parent / "downloads"


def list_sources(build: ThesisBuild) -> dict[str, str]:
    """Return {file: URL} of everything the folders are made of, for `fetch.fetch_all`."""
    places = [*build.wikipedia, *build.news]
    others = {}
    for files in build.tasks.values():
        for name, url in files.items():
            if url.startswith("hf://"):
                places.append(url)
            else:
                others[name] = url
    return {place: place for place in places if place.startswith("hf://")} | others


def list_writers(build: ThesisBuild, home: Path) -> dict[str, Callable[[Path], None]]:
    """Return the functions that fill each dataset folder."""
    writers = {
        "wikipedia": functools.partial(write_corpus, build.wikipedia),
        "news": functools.partial(write_corpus, build.news),
    }
    for role, files in build.tasks.items():
        if role not in TASKS:
            raise ValueError(f"build.tasks: {role!r} is none of {', '.join(TASKS)}")
        dataset, _, task = TASKS[role].partition("/")
        root = find_downloads(home)
        writers[dataset] = functools.partial(write_task, role, files, task, root)
    return writers


def write_corpus(files: Sequence[str], folder: Path) -> None:
    """Write the rows of files as documents of a folder, except rows whose text has no token."""

    def documents() -> Iterator[dict[str, str]]:
        rows = itertools.chain.from_iterable(map(_read_rows, files))
        for number, row in enumerate(rows):
            if has_token(row["text"] or ""):
                title = row.get("title") or ""
                yield {"id": str(number), "text": row["text"], "title": title}

    how = "All rows with a token in their text; ids count all rows."
    _write_documents(folder, documents(), "Documents of a corpus", files, how)


def _write_documents(
    folder: Path, rows: Iterator[dict[str, str]], title: str, source: Iterable[str], how: str
) -> None:
    (folder / "documents").mkdir()
    for piece in itertools.count():
        batch = list(itertools.islice(rows, PIECE))
        if not batch:
            break
        table = pyarrow.Table.from_pylist(batch, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
    names = ", ".join(source)
    _compare(names, [*(folder / "documents").iterdir()])
    write_folder(folder, None, title, f"Source: {names}. Licence: as stated there.", how)


def _read_rows(place: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of the files of a place, with text and perhaps title or label.

    A place is on the hub (hf://), or a file pattern on disk. Files are Parquet, JSON Lines (plain
    or .gz), or .tar.gz archives of JSON Lines, like Grover's. For a damaged file, a ValueError
    names file and line.
    """
    if place.startswith("hf://"):
        files = fetch.fetch_hub(place)
    else:
        files = [Path(name) for name in sorted(glob.glob(place))]
    if not files:
        raise ValueError(f"{place}: no such file")
    for path in files:
        if path.name.endswith(".tar.gz"):
            rows = _read_archive(path)
        else:
            rows = dataset_folder.read_rows([path], ["text"], _OTHERS)
        for where, row in rows:
            yield dataset_folder.select_fields(where, row, ["text"], _OTHERS)


def _read_archive(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file:member, object) of every line in an archive's JSON Lines files.

    Hidden files are skipped.
    """
    with open_archive(path) as archive:
        for member in archive:
            name = PurePath(member.name).name
            if member.isfile() and name.endswith(".jsonl") and not name.startswith("."):
                where = f"{path}:{member.name}"
                for line in archive.extractfile(member):
                    yield where, dataset_folder.parse_object(where, line)


def write_task(role: str, files: dict[str, str], task: str, root: Path, folder: Path) -> None:
    """Write one of the thesis' tasks as a dataset folder.

    Parameters
    ----------
    role : str
        Name of the task in the thesis.
    files : dict
        {split or file name: URL}.
    task : str
        Name of the task in the dataset folder.
    root : Path
        Folder of the downloads.
    folder : Path
        The dataset folder, which must exist.
    """
    if role in SINGLES:
        cut = ARXIV_CLASSES if role == "ARXIV" else ()
        texts, gold, note = _read_singles(role, files, cut)
    else:
        places = [fetch.fetch_file(root, name, url) for name, url in files.items()]
        read = _read_pairs if role in PAIRS else _read_retrieval
        try:
            texts, gold, note = read(role, places)
        except ValueError as error:
            told = f"before you download another copy, also delete its entry in {root / SEAL}"
            raise ValueError(f"{error}; {told}") from error
    if role in SINGLES + PAIRS:
        write_examples(folder / "tasks" / task, gold)
    else:
        write_relevant(folder / "tasks" / task, gold)
    rows = ({"id": text_id, "text": text, "title": ""} for text_id, text in texts.items())
    pages = dict.fromkeys(url.replace("/api/", "/") for url in files.values())
    _write_documents(folder, rows, role, pages, note)


def _read_singles(
    role: str, places: dict[str, str], cut: Sequence[str]
) -> tuple[dict[str, str], Examples, str]:
    """Read single documents, one place for each split, and remove the strings in `cut`."""
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in places}
    for split, place in places.items():
        for number, row in enumerate(_read_rows(place)):
            text_id, text = f"{split}/{number}", row["text"]
            for name in cut:
                text = text.replace(name, "")
            texts[text_id] = text
            examples[split].append(((text_id,), str(row["label"])))
        _compare(place, examples[split], role, split)
    return texts, examples, ""


def _read_pairs(role: str, files: list[Path]) -> tuple[dict[str, str], Examples, str]:
    """Read CSV files without header: label, first text, second text.

    Equal texts get the same id, so that they are embedded once. A dataset folder refuses three
    things that the files may contain. If both texts of a pair are equal, the second gets another
    id. If a pair is repeated with the other label (in either order) or in a later split, the
    repetition is left out and counted.
    """
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in SPLITS}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    left_out = Counter[str]()
    for split, path in zip(SPLITS, files, strict=True):
        for where, row in _csv_rows(path):
            if len(row) != 3 or row[0] not in ("0", "1"):
                told = f"expected label (0 or 1), text, text; got {str(row)[:40]}"
                raise ValueError(f"{where}: {told}")
            pair = [text.replace(ALIGNED, " ") for text in row[1:]]
            a, b = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in pair)
            ids = (a, b if a != b else f"{b}-again")
            given = (split, row[0])
            turned = first.get(ids[::-1], given)
            if (turned[0] == split and turned != given) or first.setdefault(ids, given) != given:
                left_out[split] += 1
                continue
            texts.update(zip(ids, pair, strict=True))
            examples[split].append((ids, row[0]))
        _compare(path, examples[split], role, split, left_out[split])
    if not left_out:
        return texts, examples, ""
    told = "they stand there before, with the other label or in another split"
    return texts, examples, f"{left_out.total()} pairs left out: {told}."


def _read_retrieval(
    role: str, files: list[Path]
) -> tuple[dict[str, str], dict[str, list[str]], str]:
    """Read articles, and gold lists from a pickle, {title: {title: 1}}.

    The text of an article is its title, then headings and texts of its sections without empty ones.
    """
    articles, gold_lists = files
    texts: dict[str, str] = {}
    for where, row in itertools.islice(_csv_rows(articles), 1, None):  # below the header
        try:
            title, sections = row
            parts = []
            for heading, text in ast.literal_eval(sections):
                if text.strip():
                    parts += [heading, text]
        except (ValueError, TypeError, AttributeError, SyntaxError) as error:
            told = f"expected a title and its [(heading, text)], got {str(row)[:40]}"
            raise ValueError(f"{where}: {told}") from error
        if title in texts:
            raise ValueError(f"{where}: the title {title!r} occurs twice")
        texts[title] = "\n".join([title, *filter(str.strip, parts)])
    try:
        gold = _Plain(io.BytesIO(gold_lists.read_bytes())).load()
    except Exception as error:  # a damaged pickle can raise almost any error
        told = f"expected a pickle of {{title: {{title: 1}}}} and nothing else: {error}"
        raise ValueError(f"{gold_lists}: {told}") from error
    relevant = {}
    for source, targets in gold.items():
        kept = [target for target in targets if target in texts and target != source]
        if source in texts and kept:
            relevant[source] = kept
    _compare(articles, texts, role)
    _compare(gold_lists, relevant)
    dropped = f"{len(gold) - len(relevant)} of {len(gold)} gold sources dropped"
    return texts, relevant, f"{dropped}: they or all their targets have no text."


def _compare(
    place: str | Path, rows: Sized, role: str = "", split: str = "", left_out: int = 0
) -> None:
    """Raise ValueError if there are no rows; warn if Tables 5.4 and 5.5 print another number."""
    if not rows:
        raise ValueError(f"{place}: expected rows, it has none that can be used")
    count, printed = len(rows) + left_out, None
    for table in PRINTED:
        for line in csv.DictReader(table.read_text(encoding="utf-8").splitlines()):
            if (line["task"], line.get("split", "")) == (role, split):
                printed = int(line["documents"])
    if printed not in (None, count):
        warnings.warn(f"{place} has {count:,} rows, published: {printed:,}", stacklevel=2)


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (file:line where the row ends, row); ValueError if the file is not UTF-8 text.

    Texts may have any length.
    """
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, strict=True)  # a text cut off inside quotes is an error
        try:
            for row in reader:
                yield f"{path}:{reader.line_num}", row
        except (UnicodeError, csv.Error) as error:
            told = f"not a CSV file in UTF-8 after this line: {error}"
            raise ValueError(f"{path}:{reader.line_num}: {told}") from error


class _Plain(pickle.Unpickler):
    """Unpickles dictionaries, strings and numbers; refuses pickles that import and run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
