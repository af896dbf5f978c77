"""`python -m lib.data.check <root or dataset folder>`: describe and check dataset folders.

A `note` is something that readers of results should know. An `error` must be fixed first; only the
first one of each file is shown. `suggested` are the sizes that `lib.train --data` uses. The exit
code is 2 if there is an error, or too little to train on.
"""

import argparse
import itertools
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lib.config import profiles
from lib.config.console import escape_unprintable
from lib.data import task_files
from lib.data.builders.mini import gensim_files
from lib.data.dataset_folder import COLUMNS, FORMS, Documents, content, read_fields
from lib.data.examples import group_examples, make_folds
from lib.data.sources import compose_name
from lib.teachers.labels import LONGEST
from lib.texts import count_words, list_terms

LEAST = 8  # smallest number of documents for training and validation together
TRAINED = 1_350_000  # largest number of training tokens, so that training takes minutes, not hours
TEXTS = 1000  # largest number of texts of a task
READ = 4096  # tokens that a student of `lab` reads
SAMPLE, START = 100, 5000  # documents, and characters of each, in which tokens are counted
REMEDY = "give the task a small test.jsonl, or judge by others or none (`--task <names>`, `--task`)"


def suggested(path: Path, tasks: Iterable[str] | None = None) -> tuple[dict[str, Any], str]:
    """Suggest changes to the profile `lab`, {dotted key: value}, and describe them for people.

    `tasks` are those to judge by, `<folder>/<task>`; None takes all but clusterings. `ValueError`
    if folds of a task cannot be made, or tasks leave fewer than `LEAST` documents.
    """
    folders = _find_folders(path)
    entries, tested = _choose_tasks(folders, tasks)
    shares, lengths, seen, in_tests = {}, [], {0, *tested}, 0
    for folder in folders:
        documents = Documents(folder)
        contents = documents.contents.tolist()
        shares[folder.name] = len({*contents} - seen)
        in_tests += sum(each in tested for each in contents)
        seen.update(contents)
        rate = count_tokens_per_word(documents)
        lengths += [min(rate * count_words(document.text), READ) for document in documents]
    usable = sum(shares.values())
    held_out = max(2, min(usable // 5, 100))
    trained = max(6, min(usable - held_out, int(TRAINED / max(np.mean(lengths), 1))))
    counts = {
        "in tests": in_tests,
        "without text or repeating another": len(lengths) - usable - in_tests,
        f"beyond some {TRAINED:,} tokens": usable - held_out - trained,
    }
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count > 0)
    left_out = f"(left out: {reasons or 'none'})"
    if usable < LEAST:
        told = f"{usable} of {len(lengths)} documents can be trained on, expected {LEAST}"
        raise ValueError(f"{path}: {told} {left_out}{f': {REMEDY}' if in_tests else ''}")
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
    judged = f"judge by {_count(len(entries), 'task')}"
    return changes, f"train on {trained} documents, hold out {held_out} {left_out}, {judged}"


def _choose_tasks(
    folders: list[Path], names: Iterable[str] | None
) -> tuple[dict[str, Any], set[int]]:
    """The settings of tasks to judge by, and checksums of the texts that they test."""
    places = {name: place for folder in folders for name, place in _find_tasks(folder).items()}
    entries, tested = {}, set[int]()
    for name in places if names is None else map(compose_name, names):
        if name not in places:
            raise profiles.make_unknown_error("task", name, places)
        if task_files.kind(places[name]) != "clustering":
            task = task_files.limit_texts(read_task(places[name]), TEXTS, seed=42)
            if task.folds:
                check_folds(name, task, remedy=f": {REMEDY}")
            entries[name] = {"folder": name, "folds": task.folds, "texts": TEXTS}
            tested |= {content(task.texts[text_id]) for text_id in task.held_out()}
    return entries, tested


def _find_tasks(folder: Path) -> dict[str, Path]:
    places = sorted(folder.glob("tasks/[!.]*"))
    return {compose_name(f"{folder.name}/{place.name}"): place for place in places}


def check_folds(name: str, task: task_files.Task, remedy: str = "") -> None:
    """Raise ValueError, in one line that ends with `remedy`, unless folds of a task can be made."""
    try:
        with warnings.catch_warnings(action="ignore"):  # there is a note on small classes
            make_folds(task.labels["train"], task.folds, group_examples(task, "train"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}{remedy}") from error


def count_tokens_per_word(documents: Documents) -> float:
    """Estimate the tokens per word for the base of `lab`: 1.35 in English, 9 in Korean."""
    tokenizer = gensim_files.tokenizer()
    rows = np.unique(np.linspace(0, len(documents) - 1, SAMPLE).astype(int)).tolist()
    texts = [documents[row].text[:START] for row in rows]
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    return max(tokens, 1) / max(sum(map(count_words, texts)), 1)


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


def findings(path: Path, tasks: Iterable[str] | None = None, *, training: bool = True) -> list[str]:
    """Describe, line by line, the dataset folders in `path` and the given tasks (None: all)."""
    folders, wanted = _find_folders(path), None if tasks is None else {*map(compose_name, tasks)}
    lines = defaultdict[str, list[str]](list)
    if path not in folders:
        names = (folder.name for folder in folders)
        lines[path.name] += _note_unread(path, names, "without documents")
    for folder in folders:
        try:
            lines[folder.name] += _describe_documents(folder, training)
            for name, place in _find_tasks(folder).items():
                if wanted is None or name in wanted:
                    lines[name] += _describe_task(place)
        except ValueError as error:
            lines[folder.name].append(f"error: {error}")
        lines[folder.name] += _note_unread(folder, ["tasks", "documents", *FORMS])
    # Ids and labels may contain anything.
    return [" ".join(f"{name}: {line}".split())[:500] for name in lines for line in lines[name]]


def _note_unread(folder: Path, read: Iterable[str], what: str = "files") -> list[str]:
    """Make one note on the visible files of a folder that are not read; none without any."""
    names = {place.name for place in folder.glob("[!.]*")}
    return _note(f"not read: {what}", sorted(names - {"README.md", *read}))


def _note(what: str, names: Sequence[str]) -> list[str]:
    return [f"note: {what} {', '.join(map(repr, names[:3]))}"] if names else []


def _describe_documents(folder: Path, training: bool) -> list[str]:
    documents = Documents(folder)
    rows = [(count_words(d.text), bool(d.group), "\0" in d.text) for d in documents]
    words, grouped, marked = np.array(rows).T
    lengths = f"{min(words)} to {max(words)} words, half of them up to {np.median(words):.0f}"
    lines = [f"{_count(len(words), 'document')} of {lengths}; {sum(grouped)} with a group"]
    empty = documents.contents == 0
    firsts = np.unique(documents.contents, return_index=True)[1]
    most = round(READ / count_tokens_per_word(documents))
    notes = {
        "with NUL bytes, which are not read": marked > 0,
        "of one word, so without halves to judge by": (words == 1) & ~empty,
        "without text, left out": empty,
        "with the text of an earlier one, taken once": ~empty & ~np.isin(range(len(words)), firsts),
    }
    if training:
        notes[f"longer than some {most} words, where a student of `lab` stops"] = words > most
        notes[f"longer than {LONGEST:,} words, where a Paragraph Vector stops"] = words > LONGEST
    for note, chosen in notes.items():
        if chosen.any():
            ids = ", ".join(documents[row].id for row in np.flatnonzero(chosen)[:3].tolist())
            lines.append(f"note: {_count(chosen.sum(), 'document')} {note}: {ids}")
    if not any(list_terms(document.text) for document in documents):
        lines.append("note: no word of two characters, so TF-IDF is not judged")
    fields = {*itertools.chain.from_iterable(map(read_fields, documents.files))}
    lines += _note("not read: fields", sorted(fields - {*COLUMNS}))
    return lines + _note_unread(folder / "documents", (file.name for file in documents.files))


def _describe_task(folder: Path) -> list[str]:
    try:
        task = read_task(folder)
    except ValueError as error:
        return [f"error: {error}"]
    sources = f", {_count(len(task.relevant), 'source')}" if task.relevant else ""
    folds = ": no test.jsonl, so five folds of train serve" if task.folds else ""
    lines = [f"{task.kind} of {_count(len(task.texts), 'document')}{sources}{folds}"]
    for split, labels in task.labels.items():
        sizes = Counter(task.classes[label] for label in labels).most_common()
        largest = ", ".join(f"{name} {size}" for name, size in sizes[:3])
        classes = f"{_count(len(sizes), 'class')}: {largest}"
        lines.append(f"{split}: {_count(len(labels), 'example')}, {classes}")
        others = set[int]().union(*(task.labels[name] for name in task.labels if name != split))
        if alone := [task.classes[label] for label in sorted({*labels} - others) if others]:
            lines += _note(f"{_count(len(alone), 'class')} in {split} alone:", alone)
    files = task_files.FILES[task.kind]
    lines += _note_unread(folder, files)
    tables = [path for name in files if (path := folder / name).suffix == ".jsonl"]
    fields = {*itertools.chain(*map(read_fields, filter(Path.is_file, tables)))}
    pairs = any(len(ids) == 2 for ids in task.inputs.get("train", ()))
    lines += _note("not read: fields", sorted(fields - {"label", *("ab" if pairs else ["id"])}))
    return lines + [f"note: {note}" for note in task.notes]


def _count(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 2 if one of them is an error, or nothing can be trained on."""
    parser = argparse.ArgumentParser(prog="python -m lib.data.check", description=__doc__)
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    escape_unprintable()
    path = parser.parse_args(arguments).path.resolve()
    errors = 0
    try:
        for line in findings(path):
            errors += ": error: " in line
            print(line)
        told = "first fix the errors" if errors else suggested(path)[1]
    except (ValueError, OSError) as error:
        print(f"suggested: nothing, {error}", file=sys.stderr)
        return 2
    print(f"suggested: {told}")
    return 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
