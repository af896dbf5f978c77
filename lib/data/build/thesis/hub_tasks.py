"""The thesis' eight tasks from their published sources (thesis, Section 5.2.1).

| task | source |
|---|---|
| IMDB | Hugging Face `stanfordnlp/imdb`, at a fixed revision |
| ARXIV | Hugging Face `ccdv/arxiv-classification`, at a fixed revision; `no_ref`: category names are cut out |
| AAN, OC, S2ORC, PAN | Zhou et al. 2020, Zenodo 4361695: the files of `PAIR_FILES` |
| WINES, GAMES | Ginzburg et al. 2021: wines.txt (Zenodo 4812960), video_games.txt (Zenodo 4812962) |
| their gold lists | microsoft/SDR, data/datasets/<wines or video_games>/gt, saved as wines.gt and video_games.gt |

Zenodo and GitHub files are downloaded by hand into one folder and pinned there by a file SHA256SUMS, as `sha256sum *`
prints it: what was downloaded once is what every later run reads. Gold lists are pickles; they are decoded, never
executed.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import pickletools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.tasks import Task, classification

IMDB_FILES = "hf://datasets/stanfordnlp/imdb@e6281661ce1c48d982bc483cf8a173c1bbeb5d31/plain_text/{split}-*.parquet"
ARXIV_FILES = "hf://datasets/ccdv/arxiv-classification@f9bd92144ed76200d6eb3ce73a8bd4eba9ffdc85/{split}_data.txt"
ARXIV_SPLITS = {"train": "train", "validation": "val", "test": "test"}  # our names -> the files'
# The categories; `no_ref` removes these strings from the texts, because a paper's header can name its class.
ARXIV_CLASSES = (
    "math.AC",
    "cs.CV",
    "cs.AI",
    "cs.SY",
    "math.GR",
    "cs.CE",
    "cs.PL",
    "cs.IT",
    "cs.DS",
    "cs.NE",
    "math.ST",
)
PAIR_FILES = {
    "AAN": "{split}_cite.csv",
    "OC": "{split}_ai2_ab.csv",
    "S2ORC": "{split}_ai2_gorc.csv",
    "PAN": "pla_{split}.csv",
}
PAIR_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
ALIGNED = "\001"  # marks the aligned sentence: a leak of the label
RETRIEVAL_FILES = {"WINES": "wines", "GAMES": "video_games"}


def load(
    names: Sequence[str], *, root: str | Path | None = None, files: Mapping[str, str] | None = None
) -> dict[str, Task]:
    """The thesis' tasks `names`.

    Args:
        names: of ARXIV, IMDB, AAN, OC, S2ORC, PAN, WINES, GAMES.
        root: the folder with the Zenodo and GitHub files and their SHA256SUMS; IMDB and ARXIV do without.
        files: other places for the files of IMDB and ARXIV ("{split}" is filled in), a mirror for example.

    Raises:
        ValueError: an unknown name, a missing file, a checksum that differs, a bad line (with file and line number).
    """
    places = {"IMDB": IMDB_FILES, "ARXIV": ARXIV_FILES, **(files or {})}
    tasks = {}
    for name in names:
        if name == "IMDB":
            tasks[name] = _imdb(places[name])
        elif name == "ARXIV":
            tasks[name] = _arxiv(places[name])
        elif name in PAIR_FILES or name in RETRIEVAL_FILES:
            if root is None:
                raise ValueError(f"{name}: its files are downloaded by hand; name their folder (root, or THESIS_DATA)")
            tasks[name] = _pairs(name, Path(root)) if name in PAIR_FILES else _retrieval(name, Path(root))
        else:
            known = ", ".join(("ARXIV", "IMDB", *PAIR_FILES, *RETRIEVAL_FILES))
            raise ValueError(f"tasks: expected some of {known}, got {name!r}")
    return tasks


def _imdb(files: str) -> Task:
    """Validated by five folds over train. Class 0 is negative; the unlabelled split is left out."""
    return _from_rows(
        "IMDB",
        files,
        "parquet",
        {"train": "train", "test": "test"},
        lambda row: (row["text"], str(row["label"])),
        folds=5,
    )


def _arxiv(files: str) -> Task:
    def read(row: Mapping[str, Any]) -> tuple[str, str]:
        text = row["text"]
        for category in ARXIV_CLASSES:
            text = text.replace(category, "")
        return text, row["label"]

    return _from_rows("ARXIV", files, "json", ARXIV_SPLITS, read)


def _from_rows(name: str, files: str, format: str, splits: Mapping[str, str], read: Callable, **fields: Any) -> Task:
    """A task of single documents from files that `datasets` reads into Arrow."""
    from datasets import load_dataset  # slow to import

    texts, examples = {}, {}
    for split, stem in splits.items():
        place = files.format(split=stem)
        rows = load_dataset(format, data_files=place, split="train")
        examples[split] = []
        for number, row in enumerate(rows):
            if row.get("text") is None or row.get("label") is None:
                raise ValueError(f"{place}: row {number}: expected text and label, got {sorted(row)}")
            text_id = f"{name}/{split}/{number}"
            texts[text_id], label = read(row)
            examples[split].append(((text_id,), label))
    return classification(name, texts, examples, **fields)


def _pairs(name: str, root: Path) -> Task:
    """Headerless CSV: label, first text, second text. Equal texts get one id, so that each is embedded once."""
    texts: dict[str, str] = {}
    examples = {}
    for split, stem in PAIR_SPLITS.items():
        path = _checked(root, PAIR_FILES[name].format(split=stem))
        examples[split] = []
        for number, row in _csv_rows(path):
            if len(row) != 3 or row[0] not in ("0", "1"):
                raise ValueError(
                    f"{path}:{number}: expected label (0 or 1), text, text; got {len(row)} fields: {str(row)[:40]}"
                )
            ids = []
            for text in row[1:]:
                text = text.replace(ALIGNED, " ")
                ids.append(f"{name}/{hashlib.sha256(text.encode()).hexdigest()[:16]}")
                texts[ids[-1]] = text
            examples[split].append((tuple(ids), row[0]))
    return classification(name, texts, examples)


def _retrieval(name: str, root: Path) -> Task:
    """An article is its title, then its sections' titles and texts, empty ones left out. Gold: {title: {title: 1}}."""
    path = _checked(root, f"{RETRIEVAL_FILES[name]}.txt")
    texts: dict[str, str] = {}
    for number, row in _csv_rows(path):
        if number == 1:
            continue  # the header: title, sections
        try:
            title, sections = row[0], ast.literal_eval(row[1])
            parts = [part for heading, text in sections if text.strip() for part in (heading, text) if part.strip()]
        except (IndexError, ValueError, SyntaxError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}:{number}: expected title and a list of (section title, section text): {error}"
            ) from error
        text_id = f"{name}/{title}"
        if text_id in texts:
            raise ValueError(f"{path}:{number}: the title {title!r} occurs a second time")
        texts[text_id] = "\n".join([title, *parts])
    gold = _plain_pickle(_checked(root, f"{RETRIEVAL_FILES[name]}.gt"))
    relevant = {}
    for source, targets in gold.items():
        found = [f"{name}/{target}" for target in targets if f"{name}/{target}" in texts and target != source]
        if f"{name}/{source}" in texts and found:
            relevant[f"{name}/{source}"] = found
    note = f"{len(gold) - len(relevant)} of {len(gold)} gold sources dropped: they or all their targets have no text"
    return Task(name, "retrieval", texts, relevant=relevant, notes=(note,))


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number where it ends, row), texts of any length."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        try:
            for row in reader:
                yield reader.line_num, row
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}:{reader.line_num}: {error}") from error


def _checked(root: Path, name: str) -> Path:
    """The file `name`, if its checksum is the one in SHA256SUMS."""
    path, sums = root / name, root / "SHA256SUMS"
    if not path.is_file():
        raise ValueError(f"{path} is missing; download it (lib/data/build/thesis/hub_tasks.py says from where)")
    if not sums.is_file():
        raise ValueError(f"{sums} is missing; pin what you downloaded: cd {root} && sha256sum * > SHA256SUMS")
    pins = dict(
        reversed(line.split(maxsplit=1)) for line in sums.read_text(encoding="utf-8").splitlines() if line.strip()
    )
    pinned = next((pin for file, pin in pins.items() if file.lstrip("*") == name), None)
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != pinned:
        raise ValueError(
            f"{path}: sha256 is {found}, SHA256SUMS says {pinned or 'nothing'}; download it again or renew the pin"
        )
    return path


def _plain_pickle(path: Path) -> dict[str, dict[str, int]]:
    """A pickle of dictionaries, strings and numbers, decoded opcode by opcode; any other is refused, hence any code."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    mark = object()
    try:
        for opcode, argument, _ in pickletools.genops(path.read_bytes()):
            name = opcode.name
            if name in ("PROTO", "FRAME"):
                continue
            if name == "EMPTY_DICT":
                stack.append({})
            elif name == "MARK":
                stack.append(mark)
            elif name in ("SHORT_BINUNICODE", "BINUNICODE", "BININT", "BININT1", "BININT2", "BINFLOAT"):
                stack.append(argument)
            elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if argument is None else argument] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name == "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][key] = value
            elif name == "SETITEMS":
                start = len(stack) - 1 - stack[::-1].index(mark)
                items = stack[start + 1 :]
                del stack[start:]
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            elif name == "STOP":
                (result,) = stack
                if isinstance(result, dict) and all(isinstance(value, dict) for value in result.values()):
                    return result
                raise ValueError("it holds something else")
            else:
                raise ValueError(f"it holds {name}")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: expected a pickle of {{title: {{title: 1}}}} and nothing else: {error}") from error
    raise ValueError(f"{path}: the pickle has no end")
