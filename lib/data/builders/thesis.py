"""thesis: the published corpora and tasks as dataset folders (thesis, Sections 4.1 and 5.2.1), of hub and other files.

Downloads by hand go into one folder, pinned by `sha256sum * > SHA256SUMS`: Zenodo 4361695 (Zhou et al. 2020), 4812960
and 4812962 (Ginzburg et al. 2021); microsoft/SDR, data/datasets/<name>/gt, saved as wines.gt and video_games.gt.
"""

import ast
import csv
import functools
import hashlib
import io
import itertools
import json
import pickle
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from lib.config import paths
from lib.config.roles import ROLES
from lib.config.schema import Profile
from lib.data.builders import Examples, write_examples, write_folder, write_relevant
from lib.data.dataset_folder import has_token
from lib.data.written_once import sha256
from lib.store.files import file_fingerprint

SUMS = "SHA256SUMS"
IMDB_FILES = "hf://datasets/stanfordnlp/imdb@e6281661ce1c48d982bc483cf8a173c1bbeb5d31/plain_text/{split}-*.parquet"
ARXIV_FILES = "hf://datasets/ccdv/arxiv-classification@f9bd92144ed76200d6eb3ce73a8bd4eba9ffdc85/{split}_data.txt"
# The categories; `no_ref` removes these strings from the texts, because a paper's header can name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
PAIR_STEMS = {"AAN": "{split}_cite", "OC": "{split}_ai2_ab", "S2ORC": "{split}_ai2_gorc", "PAN": "pla_{split}"}
PAIR_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
ALIGNED = "\001"  # marks the aligned sentence: a leak of the label
RETRIEVAL_FILES = {"WINES": "wines", "GAMES": "video_games"}
PIECE = 20_000  # documents of one Parquet file of a corpus, and in memory at once
_SCHEMA = pyarrow.schema([(key, pyarrow.string()) for key in ("id", "text", "title")])


def key_files(profile: Profile) -> str:
    """The pins of the files downloaded by hand; hub files are pinned by revision in the settings."""
    sums = paths.data_root(profile) / SUMS
    return file_fingerprint(sums) if sums.is_file() else ""


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder: the corpora's are named after the settings, the tasks' in the profile."""
    writers = {name: functools.partial(write_corpus, getattr(profile.build, name)) for name in ("wikipedia", "news")}
    for role, entry in profile.tasks.folders.items():
        dataset, _, task = entry.folder.partition("/")
        if role in ROLES:
            writers[dataset] = functools.partial(write_task, role, task, paths.data_root(profile))
    return writers


def write_corpus(files: Sequence[str], folder: Path) -> None:
    """Write rows of files, with a text and maybe a title, as the documents of a folder; none without a token."""
    (folder / "documents").mkdir()
    numbered = enumerate(row for place in files for row in _rows(place))
    full = ((number, row) for number, row in numbered if has_token(row["text"] or ""))
    fields = ({"id": str(number), "text": row["text"], "title": row.get("title") or ""} for number, row in full)
    for piece, batch in enumerate(iter(lambda: list(itertools.islice(fields, PIECE)), [])):
        table = pyarrow.Table.from_pylist(batch, schema=_SCHEMA)
        parquet.write_table(table, folder / "documents" / f"{piece:05d}.parquet")
    source = f"Source: {', '.join(files)}. Licence: as stated there."
    how = "All rows with a token in their text; ids count all rows."
    write_folder(folder, None, "Documents of a corpus", source, how)


def _rows(place: str) -> Iterable[dict[str, Any]]:
    """Rows of a file or pattern, on disk or of the hub (hf://); of Grover's .tar.gz, of the JSON Lines files in it."""
    if place.endswith(".tar.gz"):
        with tarfile.open(place, "r|gz") as archive:
            for member in archive:
                if member.name.endswith(".jsonl"):
                    yield from map(json.loads, archive.extractfile(member))
    else:
        from datasets import load_dataset  # slow to import

        form = "parquet" if place.endswith(".parquet") else "json"
        yield from load_dataset(form, data_files=place, split="train", streaming=True)


def write_task(role: str, task: str, root: Path, folder: Path) -> None:
    """Write one of the thesis' tasks as a dataset folder.

    `role` is its name in the thesis, `task` in the dataset folder `folder`, which is there; `root` holds the downloads.
    """
    source, note = f"the files that {__name__} names", ""
    if role == "IMDB":  # class 0 is negative; the unlabelled split is left out
        source = IMDB_FILES
        texts, gold = _singles(source, {"train": "train", "test": "test"})
    elif role == "ARXIV":
        source = ARXIV_FILES
        texts, gold = _singles(source, {"train": "train", "validation": "val", "test": "test"}, cut=ARXIV_CLASSES)
    else:
        texts, gold, note = (_retrieval if role in RETRIEVAL_FILES else _pairs)(role, root)
    (write_relevant if role in RETRIEVAL_FILES else write_examples)(folder / "tasks" / task, gold)
    rows = ({"id": text_id, "text": text} for text_id, text in texts.items())
    write_folder(folder, rows, role, f"Source: {source}. Licence: as stated there.", note)


def _singles(files: str, splits: dict[str, str], cut: Sequence[str] = ()) -> tuple[dict[str, str], Examples]:
    """Single documents; strings in `cut` are taken out of the texts."""
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in splits}
    for split, stem in splits.items():
        for number, row in enumerate(_rows(files.format(split=stem))):
            text_id = f"{split}/{number}"
            texts[text_id] = functools.reduce(lambda text, name: text.replace(name, ""), cut, row["text"])
            examples[split].append(((text_id,), str(row["label"])))
    return texts, examples


def _pairs(role: str, root: Path) -> tuple[dict[str, str], Examples, str]:
    """Headerless CSV: label, first text, second text. Equal texts get one id, so that each is embedded once.

    A dataset folder refuses three things that such files may hold: a pair of one text gets two ids; a pair that stands
    there again with the other label, in either order, or in a later split, is left out and counted.
    """
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in PAIR_SPLITS}
    first: dict[tuple[str, str], tuple[str, str]] = {}
    left_out = 0
    for split, stem in PAIR_SPLITS.items():
        for where, row in _csv_rows(_pinned(root, f"{PAIR_STEMS[role].format(split=stem)}.csv")):
            if len(row) != 3 or row[0] not in ("0", "1"):
                raise ValueError(f"{where}: expected label (0 or 1), text, text; got {str(row)[:40]}")
            pair = [text.replace(ALIGNED, " ") for text in row[1:]]
            a, b = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in pair)
            ids = (a, b if a != b else f"{b}-again")
            given = (split, row[0])
            turned = first.get(ids[::-1], given)
            if (turned[0] == split and turned != given) or first.setdefault(ids, given) != given:
                left_out += 1
                continue
            texts.update(zip(ids, pair, strict=True))
            examples[split].append((ids, row[0]))
    note = f"{left_out} pairs left out: they stand there before, with the other label or in another split."
    return texts, examples, note if left_out else ""


def _retrieval(role: str, root: Path) -> tuple[dict[str, str], dict[str, list[str]], str]:
    """An article is its title, then its sections' titles and texts, empty ones left out. Gold: {title: {title: 1}}."""
    texts: dict[str, str] = {}
    for where, row in itertools.islice(_csv_rows(_pinned(root, f"{RETRIEVAL_FILES[role]}.txt")), 1, None):
        title, sections = row  # below the header
        if title in texts:
            raise ValueError(f"{where}: the title {title!r} occurs a second time")
        parts = [part for heading, text in ast.literal_eval(sections) if text.strip() for part in (heading, text)]
        texts[title] = "\n".join([title, *filter(str.strip, parts)])
    path = _pinned(root, f"{RETRIEVAL_FILES[role]}.gt")
    try:
        gold = _Plain(io.BytesIO(path.read_bytes())).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"{path}: expected a pickle of {{title: {{title: 1}}}} and nothing else: {error}") from error
    kept = {a: [b for b in targets if b in texts and b != a] for a, targets in gold.items() if a in texts}
    relevant = {source: targets for source, targets in kept.items() if targets}
    dropped = len(gold) - len(relevant)
    return texts, relevant, f"{dropped} of {len(gold)} gold sources dropped: they or all their targets have no text."


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """(file:line where it ends, row), texts of any length."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        for row in reader:
            yield f"{path}:{reader.line_num}", row


def _pinned(root: Path, name: str) -> Path:
    """The file `name`, if its checksum is the one in SHA256SUMS."""
    path, sums = root / name, root / SUMS
    if not (path.is_file() and sums.is_file()):
        raise ValueError(f"{path} or {sums} is missing; download and pin it as {__name__} says")
    if f"{sha256(path)}  {name}" not in sums.read_text(encoding="utf-8").splitlines():
        raise ValueError(f"{path}: sha256 is {sha256(path)}, {SUMS} has another; download it again or renew the pin")
    return path


class _Plain(pickle.Unpickler):
    """A pickle of dictionaries, strings and numbers; anything that would import, hence run, code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
