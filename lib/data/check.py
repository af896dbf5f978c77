"""`python -m lib.data.check <root or dataset folder>`: describe and check dataset folders.

A `note` is something that readers of results should know. An `error` must be fixed first; only the
first one of each file is shown. The exit code is 2 if there is an error.
"""

import argparse
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.profiles import make_unknown_error
from lib.data import task_files
from lib.data.dataset_folder import COLUMNS, FORMS, Documents
from lib.data.files import read_rows
from lib.texts import count_words

TRAINED = 1_350_000  # largest number of training tokens, so that training takes minutes, not hours
TEXTS = 1000  # largest number of texts of a task
READ, TOKEN = 4096, 4  # tokens that a student of `lab` reads, and characters of an English one


def suggested(path: Path, tasks: Collection[str] | None = None) -> tuple[dict[str, Any], str]:
    """Sizes for `lib.train --data`: changes to the profile `lab`, {dotted key: value}; in words.

    `tasks` are those to judge by, `<folder>/<task>`; None takes all but clusterings. `ValueError`
    if they leave fewer than eight documents.
    """
    folders = _find_folders(path)
    places = {name: place for folder in folders for name, place in _find_tasks(folder).items()}
    entries, seen = {}, {0}
    for name in places if tasks is None else tasks:
        if name not in places:
            raise make_unknown_error("task", name, places)
        task = task_files.limit_texts(read_task(places[name]), TEXTS, seed=42)
        if task.kind != "clustering":
            entries[name] = {"folder": name, "folds": task.folds, "texts": TEXTS}
            seen.update(task.contents[text_id] for text_id in task.held_out())
    shares, lengths = {}, []
    for documents in map(Documents, folders):
        contents = {*documents.contents.tolist()} - seen
        shares[documents.name] = len(contents)
        seen |= contents
        lengths += [min(len(document.text) / TOKEN, READ) for document in documents]
    usable = sum(shares.values())
    if usable < 8:
        told = f"{usable} of {len(lengths)} documents can be trained on, expected 8"
        raise ValueError(f"{path}: {told}; blank, repeated and tested ones are left out")
    held_out = max(2, min(usable // 5, 100))
    trained = max(6, min(usable - held_out, int(TRAINED / max(np.mean(lengths), 1))))
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


def read_task(folder: Path) -> task_files.Task:
    """Read a task, with five folds of train if there is no test split, as a profile may ask for."""
    folded = (folder / "train.jsonl").is_file() and not (folder / "test.jsonl").is_file()
    return task_files.read_task(folder, folds=5 if folded else None, seed=42)


def _find_folders(path: Path) -> list[Path]:
    """The dataset folders in `path`, or `path` itself if it is one."""
    marks = [*path.glob("documents*"), *path.glob("[!.]*/documents*")]
    folders = sorted({place.parent for place in marks})
    if not folders:
        told = "no documents.jsonl here, nor in its folders (see docs/own_documents.md)"
        raise ValueError(f"{path}: {told}")
    return [path] if path in folders else folders


def _find_tasks(folder: Path) -> dict[str, Path]:
    return {f"{folder.name}/{place.name}": place for place in sorted(folder.glob("tasks/[!.]*"))}


def findings(path: Path, tasks: Collection[str] | None = None) -> list[str]:
    """Describe, line by line, the dataset folders in `path` and the given tasks (None: all)."""
    lines = []
    for folder in _find_folders(path):
        for name, place in {folder.name: folder, **_find_tasks(folder)}.items():
            if place != folder and tasks is not None and name not in tasks:
                continue
            describe = _describe_documents if place == folder else _describe_task
            try:
                lines += [f"{name}: {line}" for line in describe(place)]
            except ValueError as error:
                lines.append(f"{name}: error: {error}")
    return [" ".join(line.split())[:500] for line in lines]  # ids and labels may contain anything


def _describe_documents(folder: Path) -> Iterator[str]:
    documents = Documents(folder)
    words = [count_words(document.text) for document in documents]
    grouped = sum(bool(document.group) for document in documents)
    yield f"{len(words)} documents, {grouped} with a group; {min(words)} to {max(words)} words"
    contents = documents.contents[documents.contents != 0]
    copies = len(contents) - len(np.unique(contents))
    if left_out := len(words) - len(contents) + copies:
        yield f"note: {left_out} documents left out, which are blank or repeated"
    fields = {name for _, row in read_rows(documents.files) for name in row}
    if unread := sorted(fields - {*COLUMNS}):
        yield f"note: fields not read: {', '.join(unread)}"
    yield from _list_unread(folder, ["tasks", "documents", *FORMS])


def _describe_task(folder: Path) -> Iterator[str]:
    task = read_task(folder)
    folds = f", {task.folds} folds of train" if task.folds else ""
    yield f"{task.kind} of {len(task.texts)} documents{folds}"
    for split, labels in task.examples.groupby("split", sort=False)["label"]:
        yield f"{split}: {len(labels)} examples, {labels.nunique()} classes"
    yield from (f"note: {note}" for note in task.notes)
    yield from _list_unread(folder, task_files.FILES[task.kind])


def _list_unread(folder: Path, read: Collection[str]) -> Iterator[str]:
    """One note on visible files that are not read, perhaps because of their name."""
    names = {place.name for place in folder.glob("[!.]*")} - {"README.md", *read}
    if names:
        yield f"note: files not read: {', '.join(sorted(names))}"


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 2 if one of them is an error."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.check", description=__doc__)
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    try:
        lines = findings(parser.parse_args(arguments).path.resolve())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*lines, sep="\n")
    return 2 if any(": error: " in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
