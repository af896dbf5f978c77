"""`python -m lib.data.check <root or dataset folder>`: what dataset folders hold, and what is wrong with them.

Lists documents, their lengths, copies, and tasks with splits and class sizes; then what a reader of results should know
(`note`) and what must be mended first (`error`, one of each file). Exit code 2 if there is an error.
"""

from __future__ import annotations

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
    alone = any(True for mark in marks for _ in path.glob(mark))
    inside = sorted({mark.parent for pattern in marks for mark in path.glob(f"*/{pattern}")})
    if not (folders := [path] if alone else inside):
        raise ValueError(f"{path}: neither a dataset folder nor a folder of them: no documents.jsonl in it")
    held: dict[str, Documents] = {}
    tested: set[int] = set()
    for folder in folders:
        try:
            documents = held[folder.name] = Documents(folder.parent, folder.name)
        except ValueError as error:
            yield f"{folder.name}: error: {error}"
            continue
        yield from _documents(folder.name, documents)
        for task in sorted((folder / "tasks").glob("*/")):
            folds = None if (task / "test.jsonl").is_file() or not (task / "train.jsonl").is_file() else FOLDS
            try:
                files = task_files.read(task, documents, folds=folds)
            except ValueError as error:
                yield f"{folder.name}/{task.name}: error: {error}"
                continue
            yield from _task(f"{folder.name}/{task.name}", files, folds)
            tested |= {dataset_folder.content(files.documents[text_id]) for text_id in files.held_out(folds)}
    for name, documents in held.items():
        if count := int(np.isin(documents.contents, np.array(sorted(tested), dtype=np.uint64)).sum()):
            yield f"{name}: note: {count} documents are validation or test texts of a task; a corpus leaves them out"


def _documents(name: str, documents: Documents) -> Iterator[str]:
    words = np.array([len(document.text.split()) for document in documents])
    grouped = len({document.group for document in documents if document.group})
    low, middle, high = (int(np.quantile(words, share)) for share in (0, 0.5, 1))
    yield (
        f"{name}: {len(documents)} documents of {low} to {high} words, median {middle}"
        + (f", in {grouped} groups" if grouped else "")
    )
    empty = np.flatnonzero(documents.contents == 0)
    if len(empty):
        yield (
            f"{name}: note: {len(empty)} documents have no text, the first at {documents.place(empty[0])}; tasks leave "
            "out what needs them, a corpus refuses them"
        )
    if copies := len(documents) - len(empty) - len(np.unique(documents.contents[documents.contents != 0])):
        yield f"{name}: note: {copies} documents repeat another; a corpus takes each text once"


def _task(name: str, files: task_files.TaskFiles, folds: int | None) -> Iterator[str]:
    if files.kind == "retrieval":
        targets = sum(map(len, files.relevant.values()))
        yield f"{name}: retrieval, {len(files.relevant)} sources, {targets} targets, {len(files.documents)} candidates"
    elif files.kind == "clustering":
        yield f"{name}: clustering, {len(files.clusters)} documents in {len(set(files.clusters.values()))} clusters"
    else:
        yield f"{name}: {files.kind}" + (", no test split: give it folds in the profile" if folds else "")
    for split, examples in files.examples.items():
        sizes = Counter(label for _, label in examples).most_common()
        largest = ", ".join(f"{label} {size}" for label, size in sizes[:3])
        more = f" ... {sizes[-1][0]} {sizes[-1][1]}" if len(sizes) > 3 else ""
        yield f"{name}: {split}: {len(examples)} examples, {len(sizes)} classes: {largest}{more}"
    yield from (f"{name}: note: {note}" for note in files.notes)


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
