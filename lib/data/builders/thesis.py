"""thesis: the published corpora and tasks as dataset folders (thesis, Sections 4.1 and 5.2.1), of hub and other files.

What is not in the hub's cache or in the folder of downloads (`THESIS_DATA`, else below the artifact root) is fetched
first: of Zhou et al. 2020 and Ginzburg et al. 2021 the records at Zenodo, of the latter's code the gold lists.
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
import tarfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any

import pyarrow
from filelock import FileLock
from pyarrow import parquet

from lib.config import paths
from lib.config.schema import Profile
from lib.data import dataset_folder
from lib.data.builders import Examples, fetch, write_examples, write_folder, write_relevant
from lib.data.dataset_folder import has_token
from lib.store.files import fingerprint

SINGLES, PAIRS = ("IMDB", "ARXIV"), ("AAN", "OC", "S2ORC", "PAN")
SPLITS = ("train", "validation", "test")
# The categories; `no_ref` removes these strings from the texts, because a paper's header can name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
ALIGNED = "\001"  # marks the aligned sentence: a leak of the label
MODEL_FILES = "*.json,*.txt,*.safetensors,pytorch_model.bin"
ROOM = 4  # bytes written for each one downloaded: Parquet, and Arrow, where all text is unpacked (docs/scale.md)
PRINTED = [paths.PARAMS / "published" / f"{table}.csv" for table in ("tab5_4", "tab5_5")]
_OTHERS = ["title", "label"]  # what a row may have besides its text
PIECE = 20_000  # documents of one Parquet file, and in memory at once
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def key_files(profile: Profile) -> str:
    """The checksums of the files that no hub serves; if one is not known yet, everything is downloaded first."""
    root, wanted, folder = (
        downloads(profile),
        sources(profile),
        profile.news.events.partition("/")[0],
    )
    names = [name for name in wanted if not name.startswith("hf://")]
    if not paths.ROOT.joinpath(
        os.environ.get("THESIS_DATA") or profile.data_root or "", folder
    ).is_dir():
        warnings.warn(
            f"THESIS_DATA/{folder}, for notebook 08, is not there; lib.news.telegram makes it",
            stacklevel=2,
        )
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / ".lock"):
        if not fetch.sums(root).keys() >= {*names}:
            fetch.everything(wanted, root, paths.artifacts(), ROOM)
        recorded = fetch.sums(root)
    return fingerprint([recorded[name] for name in names])


def downloads(profile: Profile) -> Path:
    """The folder of files that no hub serves."""
    named = os.environ.get("THESIS_DATA") or profile.data_root
    return paths.ROOT / named if named else paths.artifacts() / "downloads"


def sources(profile: Profile) -> dict[str, str]:
    """{file: URL} of all that a profile is made of, as `fetch.everything` wants it; with the two models of the hub."""
    tasks = [profile.build.tasks.get(role, {}) for role in profile.tasks.folders]
    models = [model for model in (profile.structural_teacher, profile.student) if model.revision]
    places = [
        *profile.build.wikipedia,
        *profile.build.news,
        *(url for files in tasks for url in files.values()),
    ]
    places += [f"hf://{model.model}@{model.revision}/{MODEL_FILES}" for model in models]
    others = {
        name: url for files in tasks for name, url in files.items() if not url.startswith("hf://")
    }
    return {place: place for place in places if place.startswith("hf://")} | others


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder: the corpora's are named after the settings, the tasks' in the profile."""
    writers = {
        name: functools.partial(write_corpus, getattr(profile.build, name))
        for name in ("wikipedia", "news")
    }
    for role, entry in profile.tasks.folders.items():
        dataset, _, task = entry.folder.partition("/")
        if files := profile.build.tasks.get(role):
            writers[dataset] = functools.partial(write_task, role, files, task, downloads(profile))
    return writers


def write_corpus(files: Sequence[str], folder: Path) -> None:
    """Write rows of files, with a text and maybe a title, as the documents of a folder; none without a token."""
    numbered = enumerate(row for place in files for row in _rows(place))
    full = ((number, row) for number, row in numbered if has_token(row["text"] or ""))
    fields = (
        {"id": str(number), "text": row["text"], "title": row.get("title") or ""}
        for number, row in full
    )
    how = "All rows with a token in their text; ids count all rows."
    _write_documents(folder, fields, "Documents of a corpus", files, how)


def _write_documents(
    folder: Path, rows: Iterator[dict[str, str]], title: str, source: Iterable[str], how: str
) -> None:
    (folder / "documents").mkdir()
    for piece, batch in enumerate(iter(lambda: list(itertools.islice(rows, PIECE)), [])):
        table = pyarrow.Table.from_pylist(batch, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
    _compare(", ".join(source), [*(folder / "documents").iterdir()])
    write_folder(
        folder, None, title, f"Source: {', '.join(source)}. Licence: as stated there.", how
    )


def _rows(place: str) -> Iterator[dict[str, Any]]:
    """Rows, with text and maybe title or label, of the files of a place: of the hub (hf://), or a pattern on disk.

    Files are Parquet, JSON Lines, plain or .gz, or .tar.gz archives of such lines, as Grover's; `ValueError` with file
    and line where one is damaged.
    """
    files = (
        fetch.hub(place)
        if place.startswith("hf://")
        else [Path(name) for name in sorted(glob.glob(place))]
    )
    if not files:
        raise ValueError(f"{place}: no such file")
    for path in files:
        rows = (
            _archived(path)
            if path.name.endswith(".tar.gz")
            else dataset_folder.rows([path], ["text", *_OTHERS])
        )
        yield from (dataset_folder.fields(where, row, ["text"], _OTHERS) for where, row in rows)


def _archived(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:member, object) of every line of the JSON Lines files in an archive."""
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in (member for member in archive if member.name.endswith(".jsonl")):
                where = f"{path}:{member.name}"
                yield from (
                    (where, dataset_folder.parsed(where, line))
                    for line in archive.extractfile(member)
                )
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path}: the archive is cut off or damaged ({error}); copy it again"
        ) from error


def write_task(role: str, files: dict[str, str], task: str, root: Path, folder: Path) -> None:
    """Write one of the thesis' tasks as a dataset folder.

    `role` is its name in the thesis, `task` in the dataset folder `folder`, which is there; `root` holds the downloads.
    """
    if role in SINGLES:
        texts, gold, note = _singles(role, files, cut=ARXIV_CLASSES if role == "ARXIV" else ())
    else:
        places = [fetch.pinned(root, name, url) for name, url in files.items()]
        try:
            texts, gold, note = _pairs(role, places) if role in PAIRS else _retrieval(role, *places)
        except ValueError as error:
            raise ValueError(
                f"{error}; for another copy delete the line in {root / fetch.SUMS} too"
            ) from error
    (write_examples if role in SINGLES + PAIRS else write_relevant)(folder / "tasks" / task, gold)
    rows = ({"id": text_id, "text": text, "title": ""} for text_id, text in texts.items())
    _write_documents(
        folder, rows, role, dict.fromkeys(url.replace("/api/", "/") for url in files.values()), note
    )


def _singles(
    role: str, places: dict[str, str], cut: Sequence[str]
) -> tuple[dict[str, str], Examples, str]:
    """Single documents, of each split those of a place; strings in `cut` are taken out of the texts."""
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in places}
    for split, place in places.items():
        for number, row in enumerate(_rows(place)):
            text_id = f"{split}/{number}"
            texts[text_id] = functools.reduce(
                lambda text, name: text.replace(name, ""), cut, row["text"]
            )
            examples[split].append(((text_id,), str(row["label"])))
        _compare(place, examples[split], role, split)
    return texts, examples, ""


def _pairs(role: str, files: list[Path]) -> tuple[dict[str, str], Examples, str]:
    """Headerless CSV: label, first text, second text. Equal texts get one id, so that each is embedded once.

    A dataset folder refuses three things that such files may hold: a pair of one text gets two ids; a pair that stands
    there again with the other label, in either order, or in a later split, is left out and counted.
    """
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in SPLITS}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    left_out = Counter[str]()
    for split, path in zip(SPLITS, files, strict=True):
        for where, row in _csv_rows(path):
            if len(row) != 3 or row[0] not in ("0", "1"):
                raise ValueError(
                    f"{where}: expected label (0 or 1), text, text; got {str(row)[:40]}"
                )
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
    note = f"{left_out.total()} pairs left out: they stand there before, with the other label or in another split."
    return texts, examples, note if left_out else ""


def _retrieval(
    role: str, articles: Path, gold_lists: Path
) -> tuple[dict[str, str], dict[str, list[str]], str]:
    """An article is its title, then its sections' titles and texts, empty ones left out. Gold: {title: {title: 1}}."""
    texts: dict[str, str] = {}
    for where, row in itertools.islice(_csv_rows(articles), 1, None):  # below the header
        try:
            title, sections = row
            parts = [
                part
                for heading, text in ast.literal_eval(sections)
                if text.strip()
                for part in (heading, text)
            ]
        except (ValueError, TypeError, AttributeError, SyntaxError) as error:
            raise ValueError(
                f"{where}: expected a title and its [(heading, text)], got {str(row)[:40]}"
            ) from error
        if title in texts:
            raise ValueError(f"{where}: the title {title!r} occurs a second time")
        texts[title] = "\n".join([title, *filter(str.strip, parts)])
    try:
        gold = _Plain(io.BytesIO(gold_lists.read_bytes())).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(
            f"{gold_lists}: expected a pickle of {{title: {{title: 1}}}} and nothing else: {error}"
        ) from error
    kept = {
        a: [b for b in targets if b in texts and b != a]
        for a, targets in gold.items()
        if a in texts
    }
    relevant = {source: targets for source, targets in kept.items() if targets}
    _compare(articles, texts, role)
    _compare(gold_lists, relevant)
    dropped = len(gold) - len(relevant)
    return (
        texts,
        relevant,
        f"{dropped} of {len(gold)} gold sources dropped: they or all their targets have no text.",
    )


def _compare(
    place: str | Path, rows: Sized, role: str = "", split: str = "", left_out: int = 0
) -> None:
    """`ValueError` without any usable row; a warning if Tables 5.4 and 5.5 print another number of rows in the file."""
    if not rows:
        raise ValueError(f"{place}: expected rows, it has none that can be used")
    lines = (
        line
        for table in PRINTED
        for line in csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    )
    printed = [
        int(line["documents"])
        for line in lines
        if (line["task"], line.get("split", "")) == (role, split)
    ]
    if printed not in ([], [len(rows) + left_out]):
        warnings.warn(
            f"{place} has {len(rows) + left_out:,} rows, published: {printed[0]:,}", stacklevel=2
        )


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """(file:line where it ends, row), texts of any length; `ValueError` with the line where they are no UTF-8 text."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(
            stream, strict=True
        )  # a text cut off inside quotation marks is an error
        try:
            for row in reader:
                yield f"{path}:{reader.line_num}", row
        except (UnicodeError, csv.Error) as error:
            raise ValueError(
                f"{path}:{reader.line_num}: not a CSV file in UTF-8 after it: {error}"
            ) from error


class _Plain(pickle.Unpickler):
    """A pickle of dictionaries, strings and numbers; anything that would import, hence run, code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
