"""Tasks from dataset folders: one's own data, in the format of `lib.data.dataset_folder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lib.data import dataset_folder
from lib.tasks import SPLITS, Task, classification

FOLDS = {
    "IMDB": 5
}  # validated by cross-validation over train (thesis, Table 4.2); every other task by its validation split
VALIDATION_SHARE = 0.1  # of the training examples, where a folder has no validation split


def load(names: Sequence[str], *, root: str | Path, folders: Mapping[str, str], seed: int = 42) -> dict[str, Task]:
    """The tasks `names`, each from the task folder that `folders` gives it.

    Text ids are `<dataset>/<id>`, so tasks of one dataset share texts.

    Args:
        names: the names the tasks get.
        root: the folder of dataset folders.
        folders: {name: "<dataset>/<task>"}.
        seed: of the validation examples taken from train where there is no validation split; the task's notes say so.

    Raises:
        ValueError: no folder for a name; a missing split; anything wrong in a file, with its name and line.
    """
    texts: dict[str, dict[str, str]] = {}
    tasks = {}
    for name in names:
        if name not in folders:
            raise ValueError(f"folders: no dataset folder for the task {name!r}; add {name}: <dataset>/<task>")
        dataset, _, task = folders[name].partition("/")
        if not task or "/" in task:
            raise ValueError(f"folders: expected {name}: <dataset>/<task>, got {folders[name]!r}")
        if dataset not in texts:
            entries = dataset_folder.documents(Path(root), dataset, allow_empty=True)
            texts[dataset] = {entry.id: entry.text for entry in entries}
        tasks[name] = _task(name, Path(root) / dataset / "tasks" / task, dataset, texts[dataset], seed)
    return tasks


def _task(name: str, folder: Path, dataset: str, texts: dict[str, str], seed: int) -> Task:
    """The kind of task is told by its files."""
    if not folder.is_dir():
        held = sorted(path.name for path in folder.parent.iterdir()) if folder.parent.is_dir() else []
        raise ValueError(f"{folder}: no such task; {dataset} has {', '.join(held) or 'none'}")
    named = {f"{dataset}/{text_id}": text for text_id, text in texts.items() if text.strip()}
    if (folder / "relevant.json").is_file():
        relevant = {}
        gold = dataset_folder.relevant(folder / "relevant.json", set(texts))
        for source, targets in gold.items():
            found = [f"{dataset}/{target}" for target in targets if f"{dataset}/{target}" in named]
            if found and f"{dataset}/{source}" in named:
                relevant[f"{dataset}/{source}"] = found
        return Task(name, "retrieval", named, relevant=relevant, notes=_left_out(len(gold), len(relevant), "sources"))
    if (folder / "clusters.jsonl").is_file():
        gold = dataset_folder.examples(folder / "clusters.jsonl", set(texts))
        clusters = {f"{dataset}/{ids[0]}": label for ids, label in gold if f"{dataset}/{ids[0]}" in named}
        held = {text_id: text for text_id, text in named.items() if text_id in clusters}
        return Task(name, "clustering", held, clusters=clusters, notes=_left_out(len(gold), len(clusters), "documents"))
    return _classification(name, folder, dataset, named, set(texts), seed)


def _classification(name: str, folder: Path, dataset: str, named: dict[str, str], known: set[str], seed: int) -> Task:
    examples, notes = {}, []
    for split in SPLITS:
        path = folder / f"{split}.jsonl"
        if path.is_file():
            gold = dataset_folder.examples(path, known)
            renamed = [(tuple(f"{dataset}/{text_id}" for text_id in ids), label) for ids, label in gold]
            examples[split] = [(ids, label) for ids, label in renamed if named.keys() >= set(ids)]
            notes += _left_out(len(gold), len(examples[split]), f"{split} examples")
            _check_labels(path, gold, examples["train"])
        elif split != "validation":
            raise ValueError(f"{path}: the {split} split is missing; a task folder holds train.jsonl and test.jsonl")
    if len({len(split[0][0]) for split in examples.values()}) > 1:
        raise ValueError(f"{folder}: some splits hold single documents, some pairs")
    folds = FOLDS.get(name)
    if folds is None and "validation" not in examples:
        examples, note = _carve(examples, seed)
        notes.append(note)
    return classification(name, named, examples, folds=folds, notes=tuple(notes))


def _check_labels(path: Path, gold: list, train: list) -> None:
    known = {label for _, label in train}
    for number, (_, label) in enumerate(gold, start=1):
        if label not in known:
            raise ValueError(f"{path}:{number}: label {label!r} does not occur in train.jsonl")


def _left_out(given: int, kept: int, what: str) -> tuple[str, ...]:
    """The thesis, too, drops what has no text (author's code); here it is counted."""
    return (f"{given - kept} of {given} {what} left out: a document without text",) if kept < given else ()


def _carve(examples: dict, seed: int) -> tuple[dict, str]:
    """Moves a tenth of each class of train to validation; both keep their file order."""
    rng = np.random.default_rng(seed)
    labels = np.array([label for _, label in examples["train"]])
    taken: set[int] = set()
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        if len(places) < 2:
            raise ValueError(
                f"class {label!r} has one training example: too few to take validation examples; add validation.jsonl"
            )
        taken.update(rng.permutation(places)[: max(1, round(VALIDATION_SHARE * len(places)))].tolist())
    validation = [example for index, example in enumerate(examples["train"]) if index in taken]
    train = [example for index, example in enumerate(examples["train"]) if index not in taken]
    note = f"no validation.jsonl: a tenth of each class of train serves, {len(validation)} examples (seed {seed})"
    return {"train": train, "validation": validation, **{s: e for s, e in examples.items() if s != "train"}}, note
