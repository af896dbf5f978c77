"""The recipe of thesis: the published corpora and tasks (Sections 4.1 and 5.2.1), downloaded to the
hub's cache (`HF_HOME`) and to `THESIS_DATA`, or below the artifact root, unless they are there.
"""

import ast
import glob
import hashlib
import io
import itertools
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pooch
from huggingface_hub import snapshot_download

from lib.config import paths
from lib.config.schema import ThesisBuild
from lib.data.files import read_rows, write_examples, write_lines, write_once, write_relevant
from lib.data.task_files import SPLITS
from lib.messages import one_line_errors
from lib.texts import has_token

MODULES, PACKAGES = ("recipes.thesis",), ()
# The variant `no_ref` removes these from the texts, because a paper's header may name its class.
ARXIV_CLASSES = "math.AC cs.CV cs.AI cs.SY math.GR cs.CE cs.PL cs.IT cs.DS cs.NE math.ST".split()
_CLASS = re.compile("|".join(map(re.escape, ARXIV_CLASSES)))


def write(build: ThesisBuild, root: Path) -> None:
    """Write the missing dataset folders, and download what they are made of."""
    named = os.environ.get("THESIS_DATA")
    downloads = paths.ROOT / named if named else root.parents[1] / "downloads"
    for name, places in (("wikipedia", build.wikipedia), ("news", build.news)):
        write_once(root / name, partial(write_corpus, places))
    for place, files in build.tasks.items():
        dataset, task = place.split("/")
        write_once(root / dataset, partial(write_task, files, task, downloads))


def fetch_hub(place: str) -> list[Path]:
    """The files of `hf://[datasets/]<id>@<commit>/<pattern>[,<pattern>]`, or ValueError."""
    match = re.fullmatch(r"hf://(?:(dataset)s/)?([^@]+)@([0-9a-f]{40})/(.+)", place)
    if not match:  # a branch changes
        raise ValueError(f"{place}: expected hf://[datasets/]<id>@<commit>/<pattern>")
    kind, repository, commit, named = match.groups()
    patterns = named.split(",")
    folder = snapshot_download(repository, repo_type=kind, revision=commit, allow_patterns=patterns)
    files = sorted(path for pattern in patterns for path in Path(folder).glob(pattern))
    parts = {int(match[1]) for path in files if (match := re.search(r"-of-(\d+)\.", path.name))}
    if not files or parts - {len(files)}:  # else half a corpus would pass as the whole
        raise ValueError(f"{place}: {len(files)} of {max(parts, default='its')} files are there")
    return files


def fetch_file(root: Path, name: str, url: str) -> Path:
    """The file `name` in `root`, or from `url`, or from the checked record `doi:<record>`."""
    if (root / name).exists() or not url.startswith("doi:"):
        return Path(pooch.retrieve(url, None, name, root))
    record = write_once(root / url.rpartition(".")[2], partial(_fetch_record, f"{url}/"))
    return sorted(record.rglob(name))[0]


def _fetch_record(url: str, folder: Path) -> None:
    record = pooch.create(folder, url)
    record.load_registry_from_doi()
    for file in record.registry:
        record.fetch(file, processor=pooch.Unzip() if file.endswith(".zip") else None)


def write_corpus(places: Sequence[str], folder: Path) -> None:
    """Write the rows of files as documents of a folder, except rows whose text has no token."""
    rows = enumerate(itertools.chain.from_iterable(map(_read_rows, places)))
    kept = ((str(n), row) for n, row in rows if has_token(row["text"] or ""))
    documents = ({"id": n, "text": row["text"], "title": row.get("title")} for n, row in kept)
    write_lines(folder / "documents.jsonl", documents)


def _read_rows(place: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of Parquet or JSON Lines files: of the hub, or by a pattern."""
    files = fetch_hub(place) if place.startswith("hf://") else map(Path, sorted(glob.glob(place)))
    if not (files := [*files]):
        raise ValueError(f"{place}: no such file")
    return (row for _, row in read_rows(*files))


def write_task(files: Mapping[str, str], task: str, root: Path, folder: Path) -> None:
    """Write a task from {split: place on the hub}, or from {file: URL}, downloaded below `root`."""
    target = folder / "tasks" / task
    if "train" in files:
        texts, examples = _read_singles(files)
        write_examples(target, examples)
    else:
        places = [fetch_file(root, name, url) for name, url in files.items()]
        if len(places) == len(SPLITS):
            texts, examples = _read_pairs(places)
            write_examples(target, examples)
        else:
            texts, relevant = _read_retrieval(*places)
            write_relevant(target, relevant)
    documents = ({"id": text_id, "text": text} for text_id, text in texts.items())
    write_lines(folder / "documents.jsonl", documents)


def _read_singles(places: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list]]:
    """Read single documents, one place for each split."""
    texts, examples = dict[str, str](), dict[str, list]()
    for split, place in places.items():
        examples[split] = []
        for number, row in enumerate(_read_rows(place)):
            text_id = f"{split}/{number}"
            texts[text_id] = _CLASS.sub("", row["text"])
            examples[split].append(((text_id,), str(row["label"])))
    return texts, examples


def _read_pairs(files: Sequence[Path]) -> tuple[dict[str, str], dict[str, list]]:
    """Read CSV files without header: label and two texts; equal ones share an id. A pair that is
    repeated, in either order, with the other label or in a later split is left out, and counted.
    """
    texts, examples = dict[str, str](), dict[str, list]()
    first = dict[frozenset[str], tuple[str, str]]()
    for split, path in zip(SPLITS, files, strict=True):
        examples[split] = []
        with one_line_errors(f"read {path}"):
            table = pd.read_csv(path, header=None, dtype=str, na_filter=False)
            if wrong := {*table[0]} - {"0", "1"}:
                raise ValueError(f"expected the labels 0 and 1, found {min(wrong)!r:.40}")
        for label, *pair in table.itertuples(index=False):
            pair = [text.replace("\001", " ") for text in pair]  # a mark would leak the label
            a, b = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in pair)
            ids = (a, b if a != b else f"{b}-again")
            if first.setdefault(frozenset(ids), (split, label)) == (split, label):
                texts.update(zip(ids, pair, strict=True))
                examples[split].append((ids, label))
        if left_out := len(table) - len(examples[split]):
            told = "pairs are left out, which came before with the other label or in another split"
            print(f"note: {path}: {left_out} {told}")
    return texts, examples


def _read_retrieval(articles: Path, gold: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Read articles (title and sections are the text) and a pickle, {title: {title: 1}}."""
    texts, relevant = dict[str, str](), {}
    with one_line_errors(f"read {articles} or {gold}"):
        table = pd.read_csv(articles, dtype=str, na_filter=False)
        similar = _Plain(io.BytesIO(gold.read_bytes())).load()
        if not (titles := table.iloc[:, 0]).is_unique:
            raise ValueError(f"two articles are called {titles[titles.duplicated()].iloc[0]!r}")
    if lost := sorted({*similar}.union(*similar.values()) - {*titles}):
        print(f"note: {gold}: {len(lost)} titles have no article and are left out: {lost[:3]}")
    for title, sections in table.itertuples(index=False):
        parts = [part for part in ast.literal_eval(sections) if part[1].strip()]
        texts[title] = "\n".join([title, *filter(str.strip, itertools.chain(*parts))])
    for source in filter(texts.__contains__, similar):
        if kept := [title for title in similar[source] if title in texts and title != source]:
            relevant[source] = kept
    return texts, relevant


class _Plain(pickle.Unpickler):
    """Unpickles dictionaries, strings and numbers; refuses pickles that import and run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")
