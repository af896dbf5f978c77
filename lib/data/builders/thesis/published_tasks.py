"""The thesis' eight tasks from their published sources (thesis, Section 5.2.1): hub files, and others by hand.

Downloads go into one folder, pinned by `sha256sum * > SHA256SUMS`: Zenodo 4361695 (Zhou et al. 2020), 4812960 and
4812962 (Ginzburg et al. 2021); microsoft/SDR, data/datasets/<name>/gt, saved as wines.gt and video_games.gt.
"""

import ast
import csv
import hashlib
import io
import itertools
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lib.data.builders import Examples, write_examples, write_lines, write_readme, write_relevant
from lib.data.builders.thesis import text_tables
from lib.data.written_once import sha256

SUMS = "SHA256SUMS"
IMDB_FILES = "hf://datasets/stanfordnlp/imdb@e6281661ce1c48d982bc483cf8a173c1bbeb5d31/plain_text/{split}-*.parquet"
ARXIV_FILES = "hf://datasets/ccdv/arxiv-classification@f9bd92144ed76200d6eb3ce73a8bd4eba9ffdc85/{split}_data.txt"
# The categories; `no_ref` removes these strings from the texts, because a paper's header can name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
PAIR_STEMS = {"AAN": "{split}_cite", "OC": "{split}_ai2_ab", "S2ORC": "{split}_ai2_gorc", "PAN": "pla_{split}"}
PAIR_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
ALIGNED = "\001"  # marks the aligned sentence: a leak of the label
RETRIEVAL_FILES = {"WINES": "wines", "GAMES": "video_games"}


def write(role: str, task: str, root: Path, folder: Path) -> None:
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
    write_lines(folder / "documents.jsonl", ({"id": text_id, "text": text} for text_id, text in texts.items()))
    write_readme(folder, role, f"Source: {source}. Licence: as stated there.", note)


def _singles(files: str, splits: dict[str, str], cut: Sequence[str] = ()) -> tuple[dict[str, str], Examples]:
    """Single documents; strings in `cut` are taken out of the texts."""
    texts: dict[str, str] = {}
    examples: Examples = {split: [] for split in splits}
    for split, stem in splits.items():
        for number, row in enumerate(text_tables.rows(files.format(split=stem))):
            text = row["text"]
            for name in cut:
                text = text.replace(name, "")
            texts[f"{split}/{number}"] = text
            examples[split].append(((f"{split}/{number}",), str(row["label"])))
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
