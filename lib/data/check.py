"""`python -m lib.data.check <root or dataset folder>`: what dataset folders hold, with what a reader of results should
know (`note`) and what must be mended first (`error`, one of each file). Exit code 2 if there is an error."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from lib.config.profiles import nearest
from lib.data import task_files
from lib.data.dataset_folder import Documents, json_lines

FILES = "README.md tasks documents documents.jsonl documents.jsonl.gz documents.jsonl.xz".split()
TASK_FILES = "train.jsonl validation.jsonl test.jsonl relevant.json clusters.jsonl".split()


def findings(path: Path) -> Iterator[str]:
    """Lines on every dataset folder in `path`, or on `path` if it is one."""
    marks = ("documents*", "*/documents*", "tasks", "*/tasks")
    folders = sorted({place.parent for mark in marks for place in path.glob(mark)})
    if not folders:
        raise ValueError(f"{path}: neither a dataset folder nor a folder of them: no documents.jsonl in it")
    for folder in [path] if path in folders else folders:
        for place in (folder, *sorted(folder.glob("tasks/[!.]*"))):
            name = folder.name if place == folder else f"{folder.name}/{place.name}"
            try:
                lines = [*(_documents if place == folder else _task)(place)]
            except ValueError as error:
                lines = [f"error: {error}"]
            lines += _unread("", [file.name for file in place.glob("[!.]*")], FILES if place == folder else TASK_FILES)
            yield from (f"{name}: {line}" for line in lines)


def _unread(what: str, names: Iterable[str], read: Iterable[str]) -> list[str]:
    return [f"note: {what}{name!r} is not read; nearest: {nearest(name, read)}" for name in sorted({*names} - {*read})]


def _documents(folder: Path) -> Iterator[str]:
    documents = Documents(folder.parent, folder.name)
    words, groups = zip(*((len(document.text.split()), document.group) for document in documents), strict=True)
    yield f"{len(words)} documents of {min(words)} to {max(words)} words, {sum(map(bool, groups))} with a group"
    if documents.files[0].suffix != ".parquet":
        yield from _unread("field ", next(json_lines(documents.files[0]))[1], ("id", "text", "title", "group"))
    full = documents.contents[documents.contents != 0]
    if empty := len(words) - len(full):
        yield f"note: {empty} documents have no text; tasks leave out what needs them, a corpus refuses them"
    if copies := len(full) - len(np.unique(full)):
        yield f"note: {copies} documents repeat another; a corpus takes each text once"


def _task(folder: Path) -> Iterator[str]:
    folded = (folder / "train.jsonl").is_file() and not (folder / "test.jsonl").is_file()
    task = task_files.read(folder, folds=5 if folded else None)  # as the profile may say
    told = f", {len(task.relevant)} sources" if task.relevant else ": give it folds in the profile" if folded else ""
    yield f"{task.kind} of {len(task.texts)} documents{told}"
    for split, labels in task.labels.items():
        sizes = [f"{task.classes[label]} {size}" for label, size in Counter(labels.tolist()).most_common()]
        yield f"{split}: {len(labels)} examples, {len(sizes)} classes: {', '.join(sizes[:3])}"
        others = [label for other in task.labels if other != split for label in task.labels[other]]
        if alone := [task.classes[label] for label in np.setdiff1d(labels, others) if others]:
            yield f"note: {len(alone)} classes are in {split} alone: {', '.join(alone[:3])}"
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
