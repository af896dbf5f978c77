"""Reading the tasks of dataset folders; the kind of a task is told by its files.

    train.jsonl, validation.jsonl, test.jsonl     single ({"id", "label"}) or pair ({"a", "b", "label"})
    relevant.json                                 retrieval
    clusters.jsonl                                clustering

What makes a result wrong is refused, with file and line. What real data sets do have - an example given twice, a text
on both sides of a split, a pair in both orders - is kept, counted and said in `notes`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lib.config.schema import TaskFolder
from lib.data import dataset_folder
from lib.data.dataset_folder import Documents

SPLITS = ("train", "validation", "test")
VALIDATION_SHARE = 0.1  # of the training examples, where a folder has no validation split
Example = tuple[tuple[str, ...], str]  # (id,) or (a, b), and a label


@dataclass(frozen=True)
class TaskFiles:
    """What a task's files hold, checked. Only what has texts is kept.

    Attributes:
        kind: "single", "pair", "retrieval" or "clustering".
        documents: {id: text} of the folder, in its order, those with a token.
        groups: {id: group}, of documents that have one.
        examples: {split: [(ids, label)]} of a single or pair task.
        relevant: {source id: [target ids]} of a retrieval.
        clusters: {id: cluster} of a clustering.
        notes: what a reader of results should know.
    """

    kind: str
    documents: dict[str, str]
    groups: dict[str, str]
    examples: dict[str, list[Example]] = field(default_factory=dict)
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def held_out(self, folds: int | None) -> set[str]:
        """The ids a distillation corpus must not contain: validation and test examples, all where folds take turns.

        Of a retrieval these are the sources and their targets; its other candidates are only searched.
        """
        ids = {text_id for source, targets in self.relevant.items() for text_id in (source, *targets)}
        splits = SPLITS if folds else ("validation", "test")
        return ids.union(self.clusters, *(pair for split in splits for pair, _ in self.examples.get(split, ())))


def folder(root: Path, entry: TaskFolder) -> Path:
    """The folder of a task, which is there."""
    dataset, _, task = entry.folder.partition("/")
    path = Path(root) / dataset / "tasks" / task
    dataset_folder.document_files(root, dataset)
    if not path.is_dir():
        held = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
        raise ValueError(f"{path}: no such task; {dataset} has {', '.join(held) or 'none'}")
    return path


def kind(path: Path) -> str:
    """ "single", "pair", "retrieval" or "clustering", from the names of a task's files and one line of them."""
    kinds = {"relevant.json": "retrieval", "clusters.jsonl": "clustering", "train.jsonl": "classification"}
    held = [name for name in kinds if (path / name).is_file()]
    if len(held) != 1:
        raise ValueError(
            f"{path}: expected either train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl, "
            f"found {' and '.join(held) or 'none of them'}"
        )
    if kinds[held[0]] != "classification":
        return kinds[held[0]]
    number, line = next(dataset_folder.lines(path / "train.jsonl"), (1, ""))
    if not line:
        raise ValueError(f"{path / 'train.jsonl'}: expected at least one example, the file is empty")
    return "pair" if "a" in dataset_folder.parse(f"{path / 'train.jsonl'}:{number}", line) else "single"


def read(path: Path, documents: Documents, *, folds: int | None = None, seed: int = 42) -> TaskFiles:
    """The task in the folder `path`, whose documents are `documents`.

    Args:
        path: a folder of tasks.
        documents: of its dataset folder.
        folds: cross-validation over train; such a task has no validation split and may do without test.
        seed: of the validation examples that are taken from train where there are neither folds nor a validation
            split; no group is cut.

    Raises:
        ValueError: anything wrong in a file, with its name and line.
    """
    contents, named, groups = {}, {}, {}
    for document, content in zip(documents, documents.contents.tolist(), strict=True):
        contents[document.id] = content
        if content:
            named[document.id] = document.text
        if document.group:
            groups[document.id] = document.group
    form = kind(path)
    if folds and form in ("retrieval", "clustering"):
        raise ValueError(f"{path}: a {form} has no folds; take folds={folds} out of the profile")
    if form == "retrieval":
        gold = _relevant(path / "relevant.json", contents)
        kept = {a: [b for b in targets if b in named] for a, targets in gold.items() if a in named}
        kept = {source: targets for source, targets in kept.items() if targets}
        notes = _left_out(len(gold), len(kept), "sources")
        return TaskFiles(form, named, groups, relevant=kept, notes=notes)
    if form == "clustering":
        gold, notes = _examples(path / "clusters.jsonl", contents, width=1)
        clusters = {ids[0]: label for ids, label in gold if ids[0] in named}
        notes += _left_out(len(gold), len(clusters), "documents")
        return TaskFiles(form, named, groups, clusters=clusters, notes=notes)
    gold: dict[str, list[Example]] = {}
    notes: tuple[str, ...] = ()
    for split in SPLITS:
        file = path / f"{split}.jsonl"
        if file.is_file():
            gold[split], remarks = _examples(file, contents, width=2 if form == "pair" else 1)
            _check_labels(file, gold[split], gold["train"])
            notes += remarks
        elif split == "test" and not folds:
            raise ValueError(
                f"{file}: the test split is missing; a task holds train.jsonl and test.jsonl, or has folds"
            )
    if folds and "validation" in gold:
        raise ValueError(f"{path}: folds={folds} and validation.jsonl exclude each other; remove one")
    notes += _overlap(path, gold, contents)
    examples = {split: [(i, label) for i, label in rows if named.keys() >= set(i)] for split, rows in gold.items()}
    for split, rows in examples.items():
        notes += _left_out(len(gold[split]), len(rows), f"{split} examples")
    if not folds and "validation" not in examples:
        examples, note = _carve(path, examples, groups, seed)
        notes += (note,)
    return TaskFiles(form, named, groups, examples=examples, notes=notes)


def _examples(path: Path, contents: dict[str, int], width: int) -> tuple[list[Example], tuple[str, ...]]:
    """The lines of a split or clusters file, and what to say about them; labels as text, so 1 and "1" are one class."""
    examples: list[Example] = []
    first: dict[tuple[str, ...], tuple[int, str]] = {}
    twice = alike = 0
    for number, line in dataset_folder.lines(path):
        where = f"{path}:{number}"
        values = dataset_folder.parse(where, line)
        keys = ("a", "b") if "a" in values else ("id",)
        if len(keys) != width:
            raise ValueError(f"{where}: expected {'a pair' if width == 2 else 'one document'} (as in the whole task)")
        *ids, label = dataset_folder.text_fields(where, values, (*keys, "label")).values()
        for text_id in ids:
            if text_id not in contents:
                raise ValueError(f"{where}: id {text_id!r} is no document of this folder")
        if width == 2 and ids[0] == ids[1]:
            raise ValueError(f"{where}: a and b are one document, {ids[0]!r}; remove the line")
        earlier = first.setdefault(tuple(ids), (number, label))
        if earlier[1] != label:
            raise ValueError(
                f"{where}: {' and '.join(ids)} has the label {label!r}, on line {earlier[0]} {earlier[1]!r}"
            )
        twice += earlier[0] != number
        alike += width == 2 and contents[ids[0]] == contents[ids[1]] != 0
        examples.append((tuple(ids), label))
    if not examples:
        raise ValueError(f"{path}: expected at least one example, the file is empty")
    notes = [(twice, "examples stand there twice"), (alike, "pairs join two documents of one text")]
    return examples, tuple(f"{path.name}: {count} {what}" for count, what in notes if count)


def _relevant(path: Path, contents: dict[str, int]) -> dict[str, list[str]]:
    """{source id: [target ids]} of a retrieval task."""
    try:
        content = dataset_folder.parse(str(path), path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{line}: not UTF-8 ({error.reason}); convert the file") from error
    except ValueError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            raise ValueError(f"{path}:{error.__cause__.lineno}: not JSON ({error.__cause__.msg})") from error
        raise
    if not content:
        raise ValueError(f"{path}: expected a non-empty object {{source id: [target ids]}}")
    relevant = {}
    for source, targets in content.items():
        where = f"{path}: source {source!r}"
        if not isinstance(targets, list) or not all(isinstance(target, str | int) for target in targets):
            raise ValueError(f"{where}: expected a list of target ids, got {str(targets)[:40]}")
        if not targets:
            raise ValueError(f"{where} has no target; remove it")
        targets = relevant[source] = [str(target) for target in targets]
        for text_id in (source, *targets):
            if text_id not in contents:
                raise ValueError(f"{where}: id {text_id!r} is no document of this folder")
        if source in targets or len(set(targets)) != len(targets):
            raise ValueError(f"{where} lists itself or a target twice")
    return relevant


def _check_labels(path: Path, gold: list[Example], train: list[Example]) -> None:
    classes = {label for _, label in train}
    if len(classes) < 2:
        raise ValueError(f"{path}: expected at least two classes in train.jsonl, got {', '.join(classes) or 'none'}")
    for number, (_, label) in enumerate(gold, start=1):
        if label not in classes:
            raise ValueError(f"{path}:{number}: label {label!r} does not occur in train.jsonl")


def _overlap(path: Path, gold: dict[str, list[Example]], contents: dict[str, int]) -> tuple[str, ...]:
    """Refuses an example that stands in two splits; counts texts and reversed pairs that do."""
    notes = []
    used = {split: {text_id for ids, _ in rows for text_id in ids} for split, rows in gold.items()}
    for split, other in ((b, a) for a, b in itertools.combinations(gold, 2)):
        before = {ids for ids, _ in gold[other]}
        for number, (ids, _) in enumerate(gold[split], start=1):
            if ids in before:
                raise ValueError(
                    f"{path / split}.jsonl:{number}: {' and '.join(ids)} is in {other}.jsonl too; keep it in one split"
                )
        sides = [{contents[text_id] for text_id in used[name]} - {0} for name in (other, split)]
        if shared := len(sides[0] & sides[1]):
            turned = sum(len(ids) == 2 and ids[::-1] in before for ids, _ in gold[split])
            also = f", {turned} pairs the other way round" if turned else ""
            notes.append(f"{shared} texts are in both {other} and {split}{also}")
    return tuple(notes)


def _left_out(given: int, kept: int, what: str) -> tuple[str, ...]:
    """The thesis, too, drops what has no text (author's code); here it is counted."""
    return (f"{given - kept} of {given} {what} left out: a document without text",) if kept < given else ()


def grouping(inputs: Sequence[tuple[str, ...]], groups: dict[str, str]) -> np.ndarray | None:
    """(examples,) int64: equal numbers where examples share a group, also through others; None if no text has a group.

    A text without a group is a group of its own.
    """
    if not any(text_id in groups for ids in inputs for text_id in ids):
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[tuple[str, str], int] = {}
    ends = [
        [
            numbers.setdefault(("group", groups[i]) if i in groups else ("id", i), len(numbers))
            for i in (ids[0], ids[-1])
        ]
        for ids in inputs
    ]
    links = coo_array((np.ones(len(ends)), np.array(ends).T), shape=(len(numbers), len(numbers)))
    parts = connected_components(links, directed=False)[1]
    return parts[[first for first, _ in ends]].astype(np.int64)


def _carve(
    path: Path, examples: dict[str, list[Example]], groups: dict[str, str], seed: int
) -> tuple[dict[str, list[Example]], str]:
    """Moves a tenth of each class of train to validation, whole groups where there are any; both keep file order."""
    labels = np.array([label for _, label in examples["train"]])
    shared = grouping([ids for ids, _ in examples["train"]], groups)
    if shared is None:
        rng = np.random.default_rng(seed)
        taken: set[int] = set()
        for label in np.unique(labels):
            places = np.flatnonzero(labels == label)
            if len(places) < 2:
                raise ValueError(
                    f"{path}: class {label!r} has one training example: too few to take validation examples; add "
                    "validation.jsonl"
                )
            taken.update(rng.permutation(places)[: max(1, round(VALIDATION_SHARE * len(places)))].tolist())
    else:
        from sklearn.model_selection import StratifiedGroupKFold

        folds = min(round(1 / VALIDATION_SHARE), len(np.unique(shared)))
        cuts = StratifiedGroupKFold(folds, shuffle=True, random_state=seed) if folds > 1 else None
        taken = set(next(cuts.split(labels, labels, shared))[1].tolist()) if cuts else set()
        if not taken or len(set(np.delete(labels, list(taken)))) < len(set(labels)):
            raise ValueError(
                f"{path}: validation examples cannot be taken from train without cutting a group or losing a class; "
                "add validation.jsonl"
            )
    validation = [example for index, example in enumerate(examples["train"]) if index in taken]
    train = [example for index, example in enumerate(examples["train"]) if index not in taken]
    whole = ", whole groups" if shared is not None else ""
    note = (
        f"no validation.jsonl: a tenth of each class of train serves, {len(validation)} examples (seed {seed}{whole})"
    )
    return {"train": train, "validation": validation, **{s: e for s, e in examples.items() if s != "train"}}, note
