"""Reading the tasks of dataset folders; the kind of a task is told by its files.

    train.jsonl, validation.jsonl, test.jsonl     single ({"id", "label"}) or pair ({"a", "b", "label"})
    relevant.json                                 retrieval
    clusters.jsonl                                clustering

What makes a result wrong is refused, with file and line. What real data sets do have - an example given twice, a text
on both sides of a split, a pair in both orders, one text with two labels - is kept, counted and said in `notes`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lib.config.schema import TaskFolder
from lib.data import dataset_folder, sources
from lib.data.dataset_folder import Documents

if TYPE_CHECKING:
    from lib.config.schema import Profile

SPLITS = ("train", "validation", "test")
VALIDATION_SHARE = 0.1  # of the training examples, where a folder has no validation split
Example = tuple[tuple[str, ...], str]  # (id,) or (a, b), and a label
_SINGLE, _PAIR = ("id",), ("a", "b")


@dataclass(frozen=True)
class Task:
    """One task, checked; only what has texts is in it. A text of two tasks is the same one where id and content are.

    Attributes:
        kind: "single" or "pair" (classifications), "retrieval" or "clustering".
        texts: {id: text}, every text that the task uses, in the order of its documents.
        inputs: classification: {split: [(id,) or (a, b), ...]}.
        labels: classification: {split: (examples,) int64, indices into `classes`}.
        classes: classification: the names of the classes, sorted.
        folds: number of stratified cross-validation folds over "train", of a task without a validation split.
        groups: {id: what a document shares with others}; folds never cut a group. Empty where documents have none.
        relevant: retrieval: {source id: [target ids]}; all texts are candidates.
        clusters: clustering: {id: cluster}.
        notes: what a reader of results should know, e.g. that validation examples were taken from train.
    """

    kind: str
    texts: dict[str, str]
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None
    groups: dict[str, str] = field(default_factory=dict)
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def example_groups(self, split: str) -> np.ndarray | None:
        """(examples,) int64, equal where examples of a split share a group; None if no document has one."""
        return grouping(self.inputs[split], self.groups)

    def held_out(self) -> set[str]:
        """The ids a distillation corpus must not contain: validation and test examples, all where folds take turns.

        Of a retrieval these are the sources and their targets; its other candidates are only searched.
        """
        splits = SPLITS if self.folds else SPLITS[1:]
        examples = (ids for split in splits for ids in self.inputs.get(split, ()))
        return {*self.relevant, *self.clusters}.union(*self.relevant.values(), *examples)


def of_profile(profile: Profile) -> dict[str, Task]:
    """The profile's tasks by name, in the order of `profile.tasks.names`; raises as `read`."""
    root, entries = sources.root(profile), profile.tasks.folders
    folders = {name: Documents(root, name) for name in sorted(sources.task_datasets(profile))}
    tasks = {}
    for name in profile.tasks.names:
        documents = folders[entries[name].folder.partition("/")[0]]
        path = folder(root, entries[name])
        tasks[name] = read(path, documents, folds=entries[name].folds, seed=profile.tasks.seed)
    return tasks


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
    kinds = {"relevant.json": "retrieval", "clusters.jsonl": "clustering", "train.jsonl": ""}
    held = [name for name in kinds if (path / name).is_file()]
    if len(held) != 1:
        names = "either train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl"
        raise ValueError(f"{path}: expected {names}, found {' and '.join(held) or 'none of them'}")
    if kinds[held[0]]:
        return kinds[held[0]]
    number, line = next(dataset_folder.lines(path / "train.jsonl"), (1, ""))
    if not line:
        raise ValueError(f"{path / 'train.jsonl'}: expected at least one example, the file is empty")
    return "pair" if "a" in dataset_folder.parse(f"{path / 'train.jsonl'}:{number}", line) else "single"


def read(path: Path, documents: Documents, *, folds: int | None = None, seed: int = 42) -> Task:
    """The task in the folder `path`.

    Args:
        documents: of its dataset folder.
        folds: cross-validation over train; such a task has no validation split and may do without test.
        seed: of the validation examples that are taken from train where there are neither folds nor a validation
            split; no group is cut.

    Raises:
        ValueError: anything wrong in a file, with its name and line.
    """
    form = kind(path)
    if folds and form in ("retrieval", "clustering"):
        raise ValueError(f"{path}: a {form} has no folds; take folds={folds} out of the profile")
    contents, texts, groups = {}, {}, {}
    for document, content in zip(documents, documents.contents.tolist(), strict=True):
        contents[document.id] = content
        if content:
            texts[document.id] = document.text
        if document.group:
            groups[document.id] = document.group
    if form == "retrieval":
        gold = _relevant(path / "relevant.json", contents)
        kept = {a: [b for b in targets if b in texts] for a, targets in gold.items() if a in texts}
        kept = {source: targets for source, targets in kept.items() if targets}
        return Task(form, texts, groups=groups, relevant=kept, notes=_left_out(gold, kept, "sources"))
    if form == "clustering":
        gold, notes = _examples(path / "clusters.jsonl", contents, _SINGLE)
        clusters = {ids[0]: label for ids, label in gold if ids[0] in texts}
        notes += _left_out(gold, clusters, "documents")
        if len(names := set(clusters.values())) < 2:
            raise ValueError(f"{path / 'clusters.jsonl'}: expected at least two clusters, got {', '.join(names)}")
        used = {text_id: text for text_id, text in texts.items() if text_id in clusters}
        return Task(form, used, groups=groups, clusters=clusters, notes=tuple(notes))
    examples, notes = _splits(path, contents, groups, _PAIR if form == "pair" else _SINGLE, folds)
    for split, rows in examples.items():
        examples[split] = [(ids, label) for ids, label in rows if texts.keys() >= set(ids)]
        notes += _left_out(rows, examples[split], f"{split} examples")
    if not folds and "validation" not in examples:
        examples, note = _carve(path, examples, groups, seed)
        notes += [note]
    used = {text_id for rows in examples.values() for ids, _ in rows for text_id in ids}
    classes = sorted({label for rows in examples.values() for _, label in rows})
    number = {label: index for index, label in enumerate(classes)}
    texts = {text_id: text for text_id, text in texts.items() if text_id in used}
    inputs = {split: [ids for ids, _ in rows] for split, rows in examples.items()}
    labels = {s: np.array([number[label] for _, label in rows], dtype=np.int64) for s, rows in examples.items()}
    return Task(form, texts, inputs, labels, classes, folds, groups, notes=tuple(notes))


def _splits(
    path: Path, contents: dict[str, int], groups: dict[str, str], keys: tuple[str, ...], folds: int | None
) -> tuple[dict[str, list[Example]], list[str]]:
    """{split: examples} of a single or pair task, as its files list them, and what to say about them."""
    examples: dict[str, list[Example]] = {}
    notes: list[str] = []
    for split in SPLITS:
        file = path / f"{split}.jsonl"
        if file.is_file():
            examples[split], remarks = _examples(file, contents, keys)
            notes += remarks
            classes = {label for _, label in examples["train"]}
            if len(classes) < 2:
                raise ValueError(f"{file}: expected at least two classes in train.jsonl, got {', '.join(classes)}")
            for number, (_, label) in enumerate(examples[split], start=1):
                if label not in classes:
                    raise ValueError(f"{file}:{number}: label {label!r} does not occur in train.jsonl")
        elif split == "test" and not folds:
            needs = "a task holds train.jsonl and test.jsonl, or has folds"
            raise ValueError(f"{file}: the test split is missing; {needs}")
    if folds and "validation" in examples:
        raise ValueError(f"{path}: folds={folds} and validation.jsonl exclude each other; remove one")
    for before, split in itertools.combinations(examples, 2):
        earlier = {ids for ids, _ in examples[before]}
        for number, (ids, _) in enumerate(examples[split], start=1):
            if ids in earlier:
                where = f"{path / split}.jsonl:{number}"
                raise ValueError(f"{where}: {' and '.join(ids)} is in {before}.jsonl too; keep it in one split")
        sides = ({contents[i] for ids, _ in examples[side] for i in ids} - {0} for side in (before, split))
        if shared := len(set.intersection(*sides)):
            turned = sum(len(ids) == 2 and ids[::-1] in earlier for ids, _ in examples[split])
            also = f", {turned} pairs the other way round" if turned else ""
            notes.append(f"{shared} texts are in both {before} and {split}{also}")
        cut = ({groups[i] for ids, _ in examples[side] for i in ids if i in groups} for side in (before, split))
        if shared := len(set.intersection(*cut)):
            notes.append(f"{shared} groups have documents in both {before} and {split}")
    return examples, notes


def _examples(path: Path, contents: dict[str, int], keys: tuple[str, ...]) -> tuple[list[Example], list[str]]:
    """The lines of a split or clusters file, and what to say about them; labels as text, so 1 and "1" are one class."""
    examples: list[Example] = []
    first: dict[tuple[str, ...], tuple[int, str]] = {}
    label_of: dict[tuple[int, ...], str] = {}  # contents, in either order
    twice = alike = turned = torn = 0
    for number, line in dataset_folder.lines(path):
        where = f"{path}:{number}"
        values = dataset_folder.parse(where, line)
        if ("a" in values) != (keys == _PAIR):
            raise ValueError(
                f"{where}: expected {'a pair' if keys == _PAIR else 'one document'} (as in the whole task)"
            )
        *ids, label = dataset_folder.text_fields(where, values, (*keys, "label")).values()
        _check_ids(where, ids, contents)
        if keys == _PAIR and ids[0] == ids[1]:
            raise ValueError(f"{where}: a and b are one document, {ids[0]!r}; remove the line")
        for order in (tuple(ids), tuple(ids[::-1])):
            earlier, other = first.get(order, (number, label))
            if other != label:
                raise ValueError(f"{where}: {' and '.join(ids)} has the label {label!r}, on line {earlier} {other!r}")
        twice += tuple(ids) in first
        turned += keys == _PAIR and tuple(ids[::-1]) in first
        first.setdefault(tuple(ids), (number, label))
        texts = tuple(sorted(contents[i] for i in ids))
        torn += all(texts) and label_of.setdefault(texts, label) != label
        alike += keys == _PAIR and contents[ids[0]] == contents[ids[1]] != 0
        examples.append((tuple(ids), label))
    if not examples:
        raise ValueError(f"{path}: expected at least one example, the file is empty")
    notes = [
        (twice, "examples stand there twice"),
        (turned, "pairs stand there in the other order too"),
        (alike, "pairs join two documents of one text"),
        (torn, "examples have the text of an earlier one and another label"),
    ]
    return examples, [f"{path.name}: {count} {what}" for count, what in notes if count]


def _relevant(path: Path, contents: dict[str, int]) -> dict[str, list[str]]:
    """{source id: [target ids]} of a retrieval task."""
    text = "\n".join(line for _, line in dataset_folder.lines(path))
    try:
        relevant = dataset_folder.parse(str(path), text)
    except ValueError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            raise ValueError(f"{path}:{error.__cause__.lineno}: not JSON ({error.__cause__.msg})") from error
        raise
    if not relevant:
        raise ValueError(f"{path}: expected a non-empty object {{source id: [target ids]}}")
    for source, targets in relevant.items():
        where = f"{path}: source {source!r}"
        if not isinstance(targets, list) or not all(isinstance(target, str | int) for target in targets):
            raise ValueError(f"{where}: expected a list of target ids, got {str(targets)[:40]}")
        if not targets:
            raise ValueError(f"{where} has no target; remove it")
        targets = relevant[source] = [str(target) for target in targets]
        _check_ids(where, (source, *targets), contents)
        if source in targets or len(set(targets)) != len(targets):
            raise ValueError(f"{where} lists itself or a target twice")
    return relevant


def _check_ids(where: str, ids: Sequence[str], contents: dict[str, int]) -> None:
    for text_id in ids:
        if text_id not in contents:
            raise ValueError(f"{where}: id {text_id!r} is no document of this folder")


def _left_out(given: Sequence | dict, kept: Sequence | dict, what: str) -> tuple[str, ...]:
    """The thesis, too, drops what has no text (author's code); here it is counted."""
    left_out = len(given) - len(kept)
    return (f"{left_out} of {len(given)} {what} left out: a document without text",) if left_out else ()


def grouping(inputs: Sequence[tuple[str, ...]], groups: dict[str, str]) -> np.ndarray | None:
    """(examples,) int64: equal numbers where examples share a group, also through others; None if no text has a group.

    A text without a group is a group of its own.
    """
    if not any(text_id in groups for ids in inputs for text_id in ids):
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = [[("group", groups[i]) if i in groups else ("id", i) for i in (ids[0], ids[-1])] for ids in inputs]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(itertools.chain(*named)))}
    ends = np.array([[numbers[name] for name in names] for names in named]).T
    links = coo_array((np.ones(len(named)), ends), shape=(len(numbers), len(numbers)))
    return connected_components(links, directed=False)[1][ends[0]].astype(np.int64)


def _carve(
    path: Path, examples: dict[str, list[Example]], groups: dict[str, str], seed: int
) -> tuple[dict[str, list[Example]], str]:
    """Moves a tenth of each class of train to validation, whole groups where there are any; both keep file order."""
    rows = examples["train"]
    labels = np.array([label for _, label in rows])
    shared = grouping([ids for ids, _ in rows], groups)
    taken: set[int] = set()
    if shared is None:
        rng = np.random.default_rng(seed)
        for label in np.unique(labels):
            places = np.flatnonzero(labels == label)
            if len(places) < 2:
                reason = f"class {str(label)!r} has one training example: too few to take validation examples"
                raise ValueError(f"{path}: {reason}; add validation.jsonl")
            taken.update(rng.permutation(places)[: max(1, round(VALIDATION_SHARE * len(places)))].tolist())
    else:
        from sklearn.model_selection import StratifiedGroupKFold

        if (folds := min(round(1 / VALIDATION_SHARE), len(np.unique(shared)))) > 1:
            cuts = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
            taken.update(next(cuts.split(labels, labels, shared))[1].tolist())
        if not taken or len(set(np.delete(labels, list(taken)))) < len(set(labels)):
            reason = "validation examples cannot be taken from train without cutting a group or losing a class"
            raise ValueError(f"{path}: {reason}; add validation.jsonl")
    sides = [[row for index, row in enumerate(rows) if (index in taken) is moved] for moved in (False, True)]
    how = f"{len(sides[1])} examples (seed {seed}{', whole groups' if shared is not None else ''})"
    note = f"no validation.jsonl: a tenth of each class of train serves, {how}"
    return {"train": sides[0], "validation": sides[1], "test": examples["test"]}, note
