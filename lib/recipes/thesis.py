"""The recipe of thesis: the published corpora and tasks (Sections 4.1 and 5.2.1), downloaded to the
hub's cache (`HF_HOME`) and to `THESIS_DATA`, or below the artifact root, unless they are there."""

import ast
import functools
import glob
import hashlib
import io
import itertools
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pooch
from huggingface_hub import snapshot_download

from lib.config import paths
from lib.config.schema import ThesisBuild
from lib.data.files import (
    Examples,
    name_errors,
    read_csv,
    read_rows,
    write_examples,
    write_lines,
    write_once,
)
from lib.data.task_files import SPLITS
from lib.texts import has_token

MODULES, PACKAGES = ("recipes.thesis",), ()
# The variant `no_ref` removes these from the texts, because a paper's header may name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
_CLASS = re.compile("|".join(map(re.escape, ARXIV_CLASSES)))
ALIGNED = "\001"  # marks the aligned sentence, which would leak the label
PIECE = 20_000  # documents in one Parquet file, and in memory at once


def write(build: ThesisBuild, root: Path) -> None:
    """Write the missing dataset folders, and download what they are made of."""
    named = os.environ.get("THESIS_DATA")
    downloads = paths.ROOT / named if named else root.parents[1] / "downloads"
    for name, places in (("wikipedia", build.wikipedia), ("news", build.news)):
        write_once(root / name, functools.partial(write_corpus, places))
    for place, files in build.tasks.items():
        dataset, task = place.split("/")
        write_once(root / dataset, functools.partial(write_task, files, task, downloads))


def fetch_hub(place: str) -> list[Path]:
    """The files of a place on the hub, `hf://[datasets/]<id>@<commit>/<pattern>[,<pattern>]`.

    `ValueError` if a file is missing from a numbered set.
    """
    form = "hf://(?:(dataset)s/)?([^@]+)@([^/]+)/(.+)"
    kind, repository, commit, named = re.fullmatch(form, place).groups()
    patterns = named.split(",")
    folder = snapshot_download(repository, repo_type=kind, revision=commit, allow_patterns=patterns)
    files = sorted(path for pattern in patterns for path in Path(folder).glob(pattern))
    parts = {int(match[1]) for path in files if (match := re.search(r"-of-(\d+)\.", path.name))}
    if not files or parts - {len(files)}:  # else half a corpus would pass as the whole
        raise ValueError(f"{place}: {len(files)} of {max(parts, default='its')} files are there")
    return files


def fetch_file(root: Path, name: str, url: str) -> Path:
    """The file `name` in `root`, if need be downloaded: from `url`, or with all others of the
    record `doi:<record>` that contains it, which are checked and unpacked."""
    if not (root / name).exists() and url.startswith("doi:"):
        fetch = functools.partial(_fetch_record, f"{url}/")
        record = write_once(root / url.rpartition(".")[2], fetch)
        return sorted(record.rglob(name))[0]
    return Path(pooch.retrieve(url, None, name, root))


def _fetch_record(url: str, folder: Path) -> None:
    record = pooch.create(folder, url)
    record.load_registry_from_doi()
    for file in record.registry:
        record.fetch(file, processor=pooch.Unzip() if file.endswith(".zip") else None)


def write_corpus(places: Sequence[str], folder: Path) -> None:
    """Write the rows of files as documents of a folder, except rows whose text has no token."""
    rows = enumerate(itertools.chain.from_iterable(map(_read_rows, places)))
    kept = ((str(n), row["text"], row.get("title") or "") for n, row in rows)
    _write_documents(folder, (row for row in kept if has_token(row[1] or "")))


def _write_documents(folder: Path, rows: Iterator[tuple[str, str, str]]) -> None:
    """Write (id, text, title) as Parquet."""
    (folder / "documents").mkdir()
    names, piece = ["id", "text", "title"], 0
    while batch := [*itertools.islice(rows, PIECE)]:
        path = folder / "documents" / f"{piece:05d}.parquet"
        pd.DataFrame(batch, columns=names).to_parquet(path)
        piece += 1


def _read_rows(place: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of Parquet or JSON Lines files: of the hub, or by a pattern."""
    hub = place.startswith("hf://")
    files = fetch_hub(place) if hub else [Path(name) for name in sorted(glob.glob(place))]
    return (row for _, row in read_rows(*files))


def write_task(files: Mapping[str, str], task: str, root: Path, folder: Path) -> None:
    """Write a task of a dataset folder from {split: place on the hub} of single documents, or
    {file: URL}: three tables of pairs, or articles and gold lists. Downloads lie in `root`."""
    gold: Any
    if "train" in files:
        texts, gold = _read_singles(files)
    else:
        places = [fetch_file(root, name, url) for name, url in files.items()]
        texts, gold = (_read_pairs if len(places) == len(SPLITS) else _read_retrieval)(places)
    if gold.keys() <= {*SPLITS}:
        write_examples(folder / "tasks" / task, gold)
    else:
        write_lines(folder / "tasks" / task / "relevant.json", [gold])
    _write_documents(folder, ((text_id, text, "") for text_id, text in texts.items()))


def _read_singles(places: Mapping[str, str]) -> tuple[dict[str, str], Examples]:
    """Read single documents, one place for each split."""
    texts, examples = dict[str, str](), Examples()
    for split, place in places.items():
        examples[split] = []
        for number, row in enumerate(_read_rows(place)):
            text_id, text = f"{split}/{number}", row["text"]
            texts[text_id] = _CLASS.sub("", text) if "arxiv" in place else text
            examples[split].append(((text_id,), str(row["label"])))
    return texts, examples


def _read_pairs(files: Sequence[Path]) -> tuple[dict[str, str], Examples]:
    """Read CSV files without header: label, first text, second text.

    Equal texts get the same id, except both texts of a pair. What a dataset folder refuses is left
    out: a pair that is repeated with the other label (in either order), or in a later split.
    """
    texts, examples, first = dict[str, str](), Examples(), dict[tuple[str, str], Any]()
    for split, path in zip(SPLITS, files, strict=True):
        examples[split] = []
        for label, *given in read_csv(path, ","):
            if label not in ("0", "1") or len(given) != 2:
                raise ValueError(f"{path}: expected label (0 or 1), text, text; got {label!r:.40}")
            pair = [text.replace(ALIGNED, " ") for text in given]
            a, b = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in pair)
            ids = (a, b if a != b else f"{b}-again")
            home = (split, label)
            turned = first.get(ids[::-1], home)
            if (turned[0] == split and turned != home) or first.setdefault(ids, home) != home:
                continue
            texts.update(zip(ids, pair, strict=True))
            examples[split].append((ids, label))
    return texts, examples


def _read_retrieval(files: Sequence[Path]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Read articles, and gold lists from a pickle, {title: {title: 1}}.

    The text of an article is its title, and headings and texts of its sections that have one.
    Sources are dropped if they or all their targets have no text.
    """
    texts: dict[str, str] = {}
    rows = read_csv(files[0], ",")
    for title, sections in itertools.islice(rows, 1, None):  # below the header
        parts = [part for part in ast.literal_eval(sections) if part[1].strip()]
        lines = filter(str.strip, itertools.chain.from_iterable(parts))
        texts[title] = "\n".join([title, *lines])
    with name_errors(files[1]):
        gold = _Plain(io.BytesIO(files[1].read_bytes())).load()
    relevant = {}
    for source in [title for title in gold if title in texts]:
        if kept := [title for title in gold[source] if title in texts and title != source]:
            relevant[source] = kept
    return texts, relevant


class _Plain(pickle.Unpickler):
    """Unpickles dictionaries, strings and numbers; refuses pickles that import and run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
