"""`python -m lib.data.check <root or dataset folder>`: describe and check dataset folders.

A `note` is something that readers of results should know. An `error` must be fixed first; only the
first one of each file is shown. The exit code is 2 if there is an error.
"""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import compute

from lib.config.profiles import make_unknown_error
from lib.data import task_files
from lib.data.corpus import find_reasons
from lib.data.dataset_folder import FORMS, Documents, question_names
from lib.data.files import read_rows
from lib.data.text_sources import COLUMNS, list_files
from lib.messages import exit_in_one_line

TRAINED = 1_350_000  # largest number of training tokens, so that training takes minutes, not hours
TEXTS = 1000  # largest number of texts of a task
READ, TOKEN = 4096, 4  # tokens that a student of `lab` reads, and characters per token of English


def suggested(path: Path, tasks: Collection[str] | None = None) -> tuple[dict[str, Any], str]:
    """Sizes for `lib.train --data`: changes to profile `lab`, {dotted key: value}, and in words.
    `tasks` are those to judge by, `<folder>/<task>`; None takes all but clusterings. `ValueError`
    if they leave fewer than eight documents.
    """
    folders, places = _find_places(path)
    judged = {}
    for name in places if tasks is None else tasks:
        if name not in places:
            raise make_unknown_error("task", name, places)
        task = task_files.limit_texts(read_task(places[name]), TEXTS, seed=42)
        if task.kind != "clustering":
            judged[name] = task
    documents = Documents(*folders)
    usable = find_reasons(documents, task_files.held_out_contents(judged)) == ""
    if (count := int(usable.sum())) < 8:
        told = f"{count} of {len(documents)} documents can be trained on, expected 8"
        raise ValueError(f"{path}: {told}")
    shares = Counter(documents.table["source"].to_numpy()[usable])
    tokens = compute.utf8_length(documents.table["text"]).to_numpy() / TOKEN
    held_out = max(2, min(count // 5, 100))
    trained = max(6, min(count - held_out, int(TRAINED / max(tokens.clip(0, READ).mean(), 1))))
    changes = {
        "build": None,
        "data_roots": [str(folders[0].parent)],
        "corpus.folders": [{"folder": name, "share": shares[name]} for name in sorted(shares)],
        "tasks.folders": {
            name: {"folder": name, "folds": task.folds, "texts": TEXTS}
            for name, task in judged.items()
        },
        "corpus.train_documents": count - held_out,
        "corpus.validation_documents": held_out,
        "training.documents": trained,
        "final.documents": trained,
        "student.language_model": None,  # own documents are few, and minutes count
        "training.learning_rate": 3e-4,  # chosen for a base that is a slice of the teacher
        "training.cca_batch_size": min(50, trained),
        "training.checkpoint_every": 5,
    }
    told = f"train on {trained} of {len(documents)} documents, hold out {held_out}"
    return changes, f"{told}, judge by {len(judged)} tasks of at most {TEXTS} texts"


def read_task(folder: Path) -> task_files.Task:
    """Read a task to be tested, in five folds of train if there is no test split."""
    folds = None if (folder / "test.jsonl").is_file() else 5
    return task_files.read_task(folder, folds=folds, seed=42)


def _find_places(path: Path) -> tuple[list[Path], dict[str, Path]]:
    """The dataset folders in `path`, or `path` itself if it is one, and {name: place} of tasks."""
    marks = [*path.glob("documents*")] or [*path.glob("[!.]*/documents*")]
    folders = sorted({place.parent for place in marks})
    if not folders:
        raise ValueError(f"{path}: no documents.jsonl in it, see docs/own_documents.md")
    tasks = [task for folder in folders for task in sorted(folder.glob("tasks/[!.]*"))]
    return folders, {f"{task.parents[1].name}/{task.name}": task for task in tasks}


def findings(path: Path) -> list[str]:
    """Describe, line by line, the dataset folders in `path` and their tasks."""
    folders, tasks = _find_places(path)
    read = {place: [*itertools.chain(*map(place.glob, FORMS))] for place in folders}
    others = list_files(path, [*itertools.chain(*read.values())])
    others = [f for f in others if f not in folders and {*tasks.values()}.isdisjoint(f.parents)]
    lines, every = [], Counter[str]()  # folders of each group
    for name, place in ({folder.name: folder for folder in folders} | tasks).items():
        try:
            if name in tasks:
                task = read_task(place)
                counts = task.examples["split"].value_counts(sort=False).to_dict()
                lines.append(f"{name}: {task.kind} of {len(task.texts)} documents, {counts}")
                lines += [f"{name}: note: {note}" for note in task.notes]
            else:
                documents = Documents(place)
                groups = documents.table["group"].to_numpy()
                grouped = (groups != "").sum()
                lines.append(f"{name}: {len(documents)} documents, {grouped} with a group")
                lines += [f"{name}: note: {each}" for each in question_names(groups, "group")]
                every.update({*groups} - {""})
                known = COLUMNS if (place / "tasks/label").is_dir() else COLUMNS[:-1]
                if fields := {key for _, row in read_rows(*read[place]) for key in row} - {*known}:
                    lines.append(f"{name}: note: fields that are not read: {sorted(fields)}")
                if left_out := (find_reasons(documents, np.empty(0)) != "").sum():
                    lines.append(f"{name}: note: {left_out} documents are blank or repeat others")
        except ValueError as error:
            lines.append(f"{name}: error: {error}")
    if shared := sum(count > 1 for count in every.values()):
        lines.append(f"{path.name}: note: {shared} groups are in several folders: each is one")
    if others:
        names = [str(file.relative_to(path)) for file in others[:5]]
        lines.append(f"{path.name}: note: {len(others)} files not read: {names}")
    return [" ".join(line.split())[:500] for line in lines]  # ids and labels may contain anything


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 2 if one of them is an error."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.check", description=__doc__)
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    with exit_in_one_line(parser, code=2):
        lines = findings(parser.parse_args(arguments).path.resolve())
    print(*lines, sep="\n")
    return 2 if any(": error: " in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
