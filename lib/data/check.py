"""`python -m lib.data.check <root or dataset folder>`: what dataset folders hold, and what is wrong with them.

Lists documents, their lengths, copies, and tasks with splits and class sizes; then what a reader of results should know
(`note`) and what must be mended first (`error`, one of each file). Exit code 2 if there is an error.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.data import dataset_folder, task_files
from lib.data.dataset_folder import Documents

FOLDS = 5  # assumed for a task without a test split


def findings(path: Path) -> Iterator[str]:
    """Lines on every dataset folder in `path`, or on `path` if it is one."""
    if not path.is_dir():
        raise ValueError(f"{path}: no such folder")
    marks = ("documents", "documents.jsonl*", "tasks")
    inside = sorted({place.parent for mark in marks for place in path.glob(f"*/{mark}")})
    if not (folders := [path] if any(any(path.glob(mark)) for mark in marks) else inside):
        raise ValueError(f"{path}: neither a dataset folder nor a folder of them: no documents.jsonl in it")
    held: dict[str, Documents] = {}
    tested: set[int] = set()
    for folder in folders:
        try:
            documents = held[folder.name] = Documents(folder.parent, folder.name)
        except ValueError as error:
            yield f"{folder.name}: error: {error}"
            continue
        yield from (f"{folder.name}: {line}" for line in _documents(documents))
        tasks = folder / "tasks"
        for place in sorted(tasks.glob("[!.]*")) if tasks.is_dir() else [tasks] * tasks.exists():
            name = f"{folder.name}/{place.name}"
            folds = None if (place / "test.jsonl").is_file() or not (place / "train.jsonl").is_file() else FOLDS
            try:
                task = task_files.read(place, documents, folds=folds)
            except ValueError as error:
                yield f"{name}: error: {error}"
                continue
            yield from (f"{name}: {line}" for line in _task(task))
            tested |= {dataset_folder.content(task.texts[text_id]) for text_id in task.held_out()}
    for name, documents in held.items():
        if count := int(np.isin(documents.contents, np.array(sorted(tested), dtype=np.uint64)).sum()):
            yield f"{name}: note: {count} documents are validation or test texts of a task; a corpus leaves them out"


def _documents(documents: Documents) -> Iterator[str]:
    words = np.array([len(document.text.split()) for document in documents])
    groups = len({document.group for document in documents} - {""})
    low, middle, high = np.quantile(words, (0, 0.5, 1)).astype(int)
    grouped = f", in {groups} groups" if groups else ""
    yield f"{len(documents)} documents of {low} to {high} words, median {middle}{grouped}"
    empty, full = np.flatnonzero(documents.contents == 0), documents.contents[documents.contents != 0]
    if len(empty):
        what = f"{len(empty)} documents have no text, the first at {documents.place(empty[0])}"
        yield f"note: {what}; tasks leave out what needs them, a corpus refuses them"
    if copies := len(full) - len(np.unique(full)):
        yield f"note: {copies} documents repeat another; a corpus takes each text once"


def _task(task: task_files.Task) -> Iterator[str]:
    if task.kind == "retrieval":
        targets = sum(map(len, task.relevant.values()))
        yield f"retrieval, {len(task.relevant)} sources, {targets} targets, {len(task.texts)} candidates"
    elif task.kind == "clustering":
        yield f"clustering, {len(task.clusters)} documents in {len(set(task.clusters.values()))} clusters"
    else:
        inputs = "pairs" if len(task.inputs["train"][0]) == 2 else "documents"
        yield f"classification of {inputs}" + (", no test split: give it folds in the profile" if task.folds else "")
    for split, labels in task.labels.items():
        sizes = [f"{task.classes[label]} {size}" for label, size in Counter(labels.tolist()).most_common()]
        more = f" ... {sizes[-1]}" if len(sizes) > 3 else ""
        yield f"{split}: {len(labels)} examples, {len(sizes)} classes: {', '.join(sizes[:3])}{more}"
    yield from (f"note: {note}" for note in task.notes)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; 2 if one of them is an error."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.check", description="Check dataset folders.")
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    errors = 0
    try:
        for line in findings(parser.parse_args(arguments).path.resolve()):
            errors += ": error: " in line
            print(line)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        errors += 1
    return 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
