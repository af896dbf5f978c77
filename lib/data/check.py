"""`python -m lib.data.check <root or dataset folder>`: describe and check dataset folders.

A `note` is something that readers of results should know. An `error` must be fixed first; only the
first one of each file is shown. The exit code is 2 if there is an error.
"""

import argparse
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.console import escape_unprintable
from lib.config.profiles import make_unknown_error
from lib.data import task_files
from lib.data.dataset_folder import COLUMNS, FORMS, Documents, content
from lib.data.files import read_fields
from lib.texts import count_words

LEAST = 8  # smallest number of documents for training and validation together
TRAINED = 1_350_000  # largest number of training tokens, so that training takes minutes, not hours
TEXTS = 1000  # largest number of texts of a task
READ = 4096  # tokens that a student of `lab` reads
TOKEN = 4  # characters of English


def suggested(path: Path, tasks: Iterable[str] | None = None) -> tuple[dict[str, Any], str]:
    """Sizes for `lib.train --data`: changes to the profile `lab`, {dotted key: value}; in words.

    `tasks` are those to judge by, `<folder>/<task>`; None takes all but clusterings. `ValueError`
    if they leave fewer than `LEAST` documents.
    """
    folders = _find_folders(path)
    entries, tested = _choose_tasks(folders, tasks)
    shares, lengths, seen = {}, [], {0, *tested}
    for folder in folders:
        documents = Documents(folder)
        contents = documents.contents.tolist()
        shares[folder.name] = len({*contents} - seen)
        seen.update(contents)
        lengths += [min(len(document.text) / TOKEN, READ) for document in documents]
    usable = sum(shares.values())
    held_out = max(2, min(usable // 5, 100))
    trained = max(6, min(usable - held_out, int(TRAINED / max(np.mean(lengths), 1))))
    if usable < LEAST:
        told = f"{usable} of {len(lengths)} documents can be trained on, expected {LEAST}"
        raise ValueError(f"{path}: {told}; blank, repeated and tested ones are left out")
    changes = {
        "build": None,
        "data_roots": [str(folders[0].parent)],
        "corpus.folders": [{"folder": name, "share": n} for name, n in shares.items() if n],
        "tasks.folders": entries,
        "corpus.train_documents": usable - held_out,
        "corpus.validation_documents": held_out,
        "training.documents": trained,
        "final.documents": trained,
        "student.language_model": None,  # own documents are few, and minutes count
        "training.learning_rate": 3e-4,  # chosen for a base that is a slice of the teacher
        "training.cca_batch_size": min(50, trained),
        "training.checkpoint_every": 5,
    }
    told = f"train on {trained} of {len(lengths)} documents, hold out {held_out}"
    return changes, f"{told}, judge by {len(entries)} tasks"


def _choose_tasks(
    folders: list[Path], names: Iterable[str] | None
) -> tuple[dict[str, Any], set[int]]:
    """The settings of tasks to judge by, and checksums of the texts that they test."""
    places = {name: place for folder in folders for name, place in _find_tasks(folder).items()}
    entries, tested = {}, set[int]()
    for name in places if names is None else names:
        if name not in places:
            raise make_unknown_error("task", name, places)
        if task_files.kind(places[name]) != "clustering":
            task = task_files.limit_texts(read_task(places[name]), TEXTS, seed=42)
            entries[name] = {"folder": name, "folds": task.folds, "texts": TEXTS}
            tested |= {content(task.texts[text_id]) for text_id in task.held_out()}
    return entries, tested


def read_task(folder: Path) -> task_files.Task:
    """Read a task, with five folds of train if there is no test split, as a profile may ask for."""
    folded = (folder / "train.jsonl").is_file() and not (folder / "test.jsonl").is_file()
    return task_files.read_task(folder, folds=5 if folded else None, seed=42)


def _find_folders(path: Path) -> list[Path]:
    """The dataset folders in `path`, or `path` itself if it is one."""
    names = ("documents", "documents.*", "tasks")
    marks = itertools.chain(names, (f"[!.]*/{name}" for name in names))
    folders = sorted({place.parent for mark in marks for place in path.glob(mark)})
    if not folders:
        told = "no documents.jsonl here, nor in its folders (see docs/own_documents.md)"
        raise ValueError(f"{path}: {told if path.exists() else 'no such folder'}")
    return [path] if path in folders else folders


def _find_tasks(folder: Path) -> dict[str, Path]:
    return {f"{folder.name}/{place.name}": place for place in sorted(folder.glob("tasks/[!.]*"))}


def findings(path: Path, tasks: Collection[str] | None = None) -> list[str]:
    """Describe, line by line, the dataset folders in `path` and the given tasks (None: all)."""
    lines = []
    for folder in _find_folders(path):
        parts = {folder.name: functools.partial(_describe_documents, folder)}
        for name, place in _find_tasks(folder).items():
            if tasks is None or name in tasks:
                parts[name] = functools.partial(_describe_task, place)
        for name, describe in parts.items():
            try:
                lines += [f"{name}: {line}" for line in describe()]
            except ValueError as error:
                lines.append(f"{name}: error: {error}")
    return [" ".join(line.split())[:500] for line in lines]  # ids and labels may contain anything


def _list_unread(what: str, names: Iterable[str], read: Iterable[str]) -> Iterator[str]:
    """One note on the names of visible things that are not read; none without any."""
    if unread := sorted({*names} - {"README.md", *read}):
        yield f"note: {what} not read: {', '.join(map(repr, unread[:3]))}"


def _describe_documents(folder: Path) -> Iterator[str]:
    documents = Documents(folder)
    words = np.array([count_words(document.text) for document in documents])
    grouped = sum(bool(document.group) for document in documents)
    lengths = f"{min(words)} to {max(words)}, median {np.median(words):.0f}"
    yield f"documents: {len(words)}; words: {lengths}; with a group: {grouped}"
    empty = documents.contents == 0
    firsts = np.unique(documents.contents, return_index=True)[1]
    repeated = ~empty & ~np.isin(range(len(words)), firsts)
    for reason, chosen in {"without text, left out": empty, "copies": repeated}.items():
        if rows := np.flatnonzero(chosen).tolist():
            ids = ", ".join(documents[row].id for row in rows[:3])
            yield f"note: {reason}: {len(rows)}, such as {ids}"
    fields = itertools.chain.from_iterable(map(read_fields, documents.files))
    yield from _list_unread("fields", fields, COLUMNS)
    names = (place.name for place in folder.glob("[!.]*"))
    yield from _list_unread("files", names, ["tasks", "documents", *FORMS])


def _describe_task(folder: Path) -> Iterator[str]:
    task = read_task(folder)
    folds = "; no test.jsonl, so five folds of train serve" if task.folds else ""
    yield f"{task.kind}; documents: {len(task.texts)}; sources: {len(task.relevant)}{folds}"
    for split, labels in task.labels.items():
        sizes = Counter(task.classes[label] for label in labels).most_common()
        largest = ", ".join(f"{name} {size}" for name, size in sizes[:3])
        yield f"{split}: {len(labels)}; classes: {len(sizes)}, such as {largest}"
        others = set[int]().union(*(task.labels[name] for name in task.labels if name != split))
        if alone := sorted(task.classes[label] for label in {*labels} - others if others):
            yield f"note: classes in {split} alone: {len(alone)}, such as {', '.join(alone[:3])}"
    names = (place.name for place in folder.glob("[!.]*"))
    yield from _list_unread("files", names, task_files.FILES[task.kind])
    yield from (f"note: {note}" for note in task.notes)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 2 if one of them is an error."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.check", description=__doc__)
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    escape_unprintable()
    try:
        lines = findings(parser.parse_args(arguments).path.resolve())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*lines, sep="\n")
    return 2 if any(": error: " in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
