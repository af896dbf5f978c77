"""`python -m lib.data.check <root or dataset folder>`: what dataset folders hold, and what is wrong with them.

Lists documents, copies and tasks with splits and class sizes; what a reader of results should know (`note`) and what
must be mended first (`error`, one of each file). Exit code 2 if there is an error.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lib.config.schema import Profile
from lib.data import sources, task_files
from lib.data.dataset_folder import Documents


def findings(path: Path) -> Iterator[str]:
    """Lines on every dataset folder in `path`, or on `path` if it is one."""
    marks = [place for mark in ("documents*", "tasks") for place in (*path.glob(mark), *path.glob(f"*/{mark}"))]
    folders = sorted({mark.parent for mark in marks})
    if not folders:
        raise ValueError(f"{path}: neither a dataset folder nor a folder of them: no documents.jsonl in it")
    for folder in [path] if path in folders else folders:
        for place in (folder, *sorted(folder.glob("tasks/[!.]*"))):
            name = folder.name if place == folder else f"{folder.name}/{place.name}"
            try:
                lines = [*(_documents if place == folder else _task)(place)]
            except ValueError as error:
                lines = [f"error: {error}"]
            yield from (f"{name}: {line}" for line in lines)


def kinds(profile: Profile) -> set[str]:
    """The kinds of a profile's tasks; `ValueError` if they or its folders are not there. No text is read."""
    root = sources.root(profile)
    for folder in (root / name for name in sorted(sources.corpus_datasets(profile))):
        if not [*folder.glob("documents*")]:
            raise ValueError(f"{folder}: no such dataset folder, or no documents.jsonl in it")
    return {task_files.kind(task_files.folder(root, entry)) for entry in profile.tasks.folders.values()}


def _documents(folder: Path) -> Iterator[str]:
    documents = Documents(folder.parent, folder.name)
    words = [len(document.text.split()) for document in documents]
    yield f"{len(words)} documents of {min(words)} to {max(words)} words"
    full = documents.contents[documents.contents != 0]
    if empty := len(words) - len(full):
        yield f"note: {empty} documents have no text; tasks leave out what needs them, a corpus refuses them"
    if copies := len(full) - len(np.unique(full)):
        yield f"note: {copies} documents repeat another; a corpus takes each text once"


def _task(folder: Path) -> Iterator[str]:
    folded = (folder / "train.jsonl").is_file() and not (folder / "test.jsonl").is_file()
    task = task_files.read(folder, folds=5 if folded else None)  # as the profile may say
    yield f"{task.kind} of {len(task.texts)} documents" + (": give it folds in the profile" if folded else "")
    for split, labels in task.labels.items():
        sizes = [f"{task.classes[label]} {size}" for label, size in Counter(labels.tolist()).most_common()]
        yield f"{split}: {len(labels)} examples, {len(sizes)} classes: {', '.join(sizes[:3])}"
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
