"""Reading the tasks of dataset folders; the kind of a task is told by its files.

    train.jsonl, validation.jsonl, test.jsonl     classification, of documents or of pairs of documents
    relevant.json                                 retrieval
    clusters.jsonl                                clustering

What makes a result wrong is refused, with file and line. What real data sets do have - an example given twice, a text
on both sides of a split, a pair in both orders, one text with two labels - is kept, counted and said in `notes`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.config.schema import TaskFolder
from lib.data import dataset_folder, sources
from lib.data.dataset_folder import Documents

if TYPE_CHECKING:
    from lib.config.schema import Profile

SPLITS = ("train", "validation", "test")
VALIDATION_SHARE = 0.1  # of the training examples, where a folder has no validation split
_KINDS = {"relevant.json": "retrieval", "clusters.jsonl": "clustering", "train.jsonl": "classification"}


@dataclass(frozen=True)
class Task:
    """One task, checked; only what has texts is in it. A text of two tasks is the same one where id and content are."""

    kind: str  # "classification", "retrieval" or "clustering"
    texts: dict[str, str]  # {id: text}, every text that the task uses, in the order of its documents
    # classification: {split: [(id,) or (a, b), ...]}, {split: (examples,) int64, indices into `classes`}, sorted names
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None  # of stratified cross-validation over "train", where there is no validation split
    groups: dict[str, str] = field(default_factory=dict)  # {id: what it shares with others}; folds never cut a group
    relevant: dict[str, list[str]] = field(default_factory=dict)  # retrieval: {source id: [target ids]}
    clusters: dict[str, str] = field(default_factory=dict)  # clustering: {id: cluster}
    notes: tuple[str, ...] = ()  # what a reader of results should know

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
    root = sources.root(profile)
    documents = functools.cache(lambda name: Documents(root, name))
    tasks = {}
    for name in profile.tasks.names:
        entry = profile.tasks.folders[name]
        path = folder(root, entry)
        tasks[name] = read(path, documents(path.parents[1].name), folds=entry.folds, seed=profile.tasks.seed)
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
    """ "classification", "retrieval" or "clustering", from the names of a task's files."""
    if path.is_file():
        raise ValueError(f"{path} is a file; a task is a folder of files")
    held = [name for name in _KINDS if (path / name).is_file()]
    if len(held) != 1:
        names = "either train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl"
        raise ValueError(f"{path}: expected {names}, found {' and '.join(held) or 'none of them'}")
    return _KINDS[held[0]]


def read(path: Path, documents: Documents, *, folds: int | None = None, seed: int = 42) -> Task:
    """The task in the folder `path`, a dataset folder's that holds `documents`.

    With `folds`, of cross-validation over train, it has no validation split and may do without test. With neither,
    validation examples are taken from train by `seed`; no group is cut. Raises `ValueError` with file and line.
    """
    task_kind = kind(path)
    if folds and task_kind != "classification":
        raise ValueError(f"{path}: a {task_kind} has no folds; take folds={folds} out of the profile")
    rows = list(zip(documents, documents.contents.tolist(), strict=True))
    contents = {document.id: content for document, content in rows}
    texts = {document.id: document.text for document, content in rows if content}
    groups = {document.id: document.group for document, _ in rows if document.group}
    if task_kind == "retrieval":
        gold = _relevant(path / "relevant.json", contents)
        kept = {a: [b for b in targets if b in texts] for a, targets in gold.items() if a in texts}
        kept = {source: targets for source, targets in kept.items() if targets}
        return Task(task_kind, texts, groups=groups, relevant=kept, notes=_left_out(len(gold), len(kept), "sources"))
    splits = ["clusters"]
    if task_kind == "classification":
        splits = [split for split in SPLITS if (path / f"{split}.jsonl").is_file()]
        if "test" not in splits and not folds:
            needs = "a task holds train.jsonl and test.jsonl, or has folds"
            raise ValueError(f"{path / 'test.jsonl'}: the test split is missing; {needs}")
        if folds and "validation" in splits:
            raise ValueError(f"{path}: folds={folds} and validation.jsonl exclude each other; remove one")
    examples = _examples(path, splits, contents)
    notes = _remarks(examples, groups)
    examples = examples[examples["whole"]]
    if task_kind == "classification" and not folds and "validation" not in splits:
        examples, note = _carve(path, examples, groups, seed)
        splits.append("validation")
        notes.append(note)
    used = {*examples["a"], *examples["b"]}
    texts = {text_id: text for text_id, text in texts.items() if text_id in used}
    if task_kind == "clustering":
        clusters = dict(zip(examples["a"], examples["label"], strict=True))
        return Task(task_kind, texts, groups=groups, clusters=clusters, notes=tuple(notes))
    classes = sorted(set(examples["label"]))
    parts = {split: examples[examples["split"] == split] for split in SPLITS if split in splits}
    inputs = {split: part["ids"].tolist() for split, part in parts.items()}
    labels = {split: pd.Index(classes).get_indexer(part["label"]) for split, part in parts.items()}
    return Task(task_kind, texts, inputs, labels, classes, folds, groups, notes=tuple(notes))


def _examples(path: Path, splits: list[str], contents: dict[str, int]) -> pd.DataFrame:
    """A row for each line of the splits, or of the clusters; the first that breaks a rule is named.

    Columns: split, label, ids (one or two), their ends a and b, the contents of these (low and high), whether both have
    a text (whole), and what the first example of the same ids in either order has (first_...).
    """
    rows = pd.DataFrame(_lines(path, splits), columns=["split", "file", "line", "ids", "label"])
    rows["a"], rows["b"], rows["both"] = rows["ids"].str[0], rows["ids"].str[-1], rows["ids"].str.join(" and ")
    ends = [[contents.get(text_id, 0) for text_id in (ids[0], ids[-1])] for ids in rows["ids"]]
    rows["low"], rows["high"] = np.sort(np.array(ends, dtype=np.uint64)).T
    rows["whole"] = rows["low"] > 0
    same = rows.groupby(["split", rows["ids"].map(sorted).map(tuple)])
    rows = rows.join(same[["line", "label", "ids"]].transform("first").add_prefix("first_"))
    rows["home"] = rows.groupby("ids")["split"].transform("first")
    trained = rows["label"][rows["whole"] & (rows["split"] == splits[0])].unique()
    rows["trained"] = ", ".join(trained)
    alone = (rows["a"] == rows["b"]) & (rows["ids"].str.len() == 2)
    relabelled = rows["label"] != rows["first_label"]
    few = pd.Series(len(trained) < 2, rows.index)
    where = "{file}:{line}: "
    rules = {
        where + "id {a!r} is no document of this folder": ~rows["a"].isin(contents),
        where + "id {b!r} is no document of this folder": ~rows["b"].isin(contents),
        where + "a and b are one document, {a!r}; remove the line": alone,
        where + "{both} has the label {label!r}, on line {first_line} {first_label!r}": relabelled,
        "{file}: expected at least two classes in {split}, got {trained}": few,
        where + "label {label!r} does not occur in train.jsonl": rows["whole"] & ~rows["label"].isin(trained),
        where + "{both} is in {home}.jsonl too; keep it in one split": rows["home"] != rows["split"],
    }
    for message, broken in rules.items():
        for row in rows[broken].head(1).to_dict("records"):
            raise ValueError(message.format(**row))
    return rows


def _lines(path: Path, splits: list[str]) -> Iterator[tuple[str, Path, int, tuple[str, ...], str]]:
    """(split, file, line, ids, label) of every line; labels are text, so 1 and "1" are one class."""
    pairs = None
    for split in splits:
        file, number = path / f"{split}.jsonl", 0
        for number, (where, values) in enumerate(dataset_folder.json_lines(file), start=1):
            if pairs is None:
                pairs = split == "train" and "a" in values
            if ("a" in values) != pairs:
                raise ValueError(f"{where}: expected {'a pair' if pairs else 'one document'} (as in the whole task)")
            keys = ("a", "b", "label") if pairs else ("id", "label")
            *ids, label = dataset_folder.text_fields(where, values, keys).values()
            yield split, file, number, tuple(ids), label
        if not number:
            raise ValueError(f"{file}: expected at least one example, the file is empty")


def _remarks(rows: pd.DataFrame, groups: dict[str, str]) -> list[str]:
    """What real examples do have, counted for each split and for each two of them."""
    splits = dict(list(rows.groupby("split", sort=False)))
    notes = []
    for split, part in splits.items():
        label = part.groupby(["low", "high"])["label"].transform("first")
        alike = (part["low"] == part["high"]) & (part["a"] != part["b"])
        counts = {
            "examples stand there twice": part.duplicated("ids"),
            "pairs stand there in the other order too": part["ids"] != part["first_ids"],
            "pairs join two documents of one text": part["whole"] & alike,
            "examples have the text of an earlier one and another label": part["whole"] & (part["label"] != label),
        }
        notes += [f"{split}.jsonl: {counted.sum()} {what}" for what, counted in counts.items() if counted.any()]
    for (before, earlier), (after, later) in itertools.combinations(splits.items(), 2):
        turned = later["ids"].str[::-1].isin(earlier["ids"]).sum()
        if texts := len({*earlier["low"], *earlier["high"]} & {*later["low"], *later["high"]} - {0}):
            also = f", {turned} pairs the other way round" if turned else ""
            notes.append(f"{texts} texts are in both {before} and {after}{also}")
        sides = ({groups.get(text_id) for text_id in (*part["a"], *part["b"])} for part in (earlier, later))
        if shared := len(set.intersection(*sides) - {None}):
            notes.append(f"{shared} groups have documents in both {before} and {after}")
    for split, part in splits.items():
        notes += _left_out(len(part), part["whole"].sum(), "documents" if split == "clusters" else f"{split} examples")
    return notes


def _relevant(path: Path, contents: dict[str, int]) -> dict[str, list[str]]:
    """{source id: [target ids]} of a retrieval task."""
    relevant = dataset_folder.json_file(path)
    if not relevant:
        raise ValueError(f"{path}: expected a non-empty object {{source id: [target ids]}}")
    for source, targets in relevant.items():
        where = f"{path}: source {source!r}"
        if not isinstance(targets, list) or not all(isinstance(target, str | int) for target in targets):
            raise ValueError(f"{where}: expected a list of target ids, got {str(targets)[:40]}")
        if not targets:
            raise ValueError(f"{where} has no target; remove it")
        targets = relevant[source] = list(map(str, targets))
        for text_id in (source, *targets):
            if text_id not in contents:
                raise ValueError(f"{where}: id {text_id!r} is no document of this folder")
        if source in targets or len(set(targets)) != len(targets):
            raise ValueError(f"{where} lists itself or a target twice")
    return relevant


def _left_out(given: int, kept: int, what: str) -> tuple[str, ...]:
    """The thesis, too, drops what has no text (author's code); here it is counted."""
    return (f"{given - kept} of {given} {what} left out: a document without text",) if given > kept else ()


def grouping(inputs: Sequence[tuple[str, ...]], groups: dict[str, str]) -> np.ndarray | None:
    """(examples,) int64: equal numbers where examples share a group, also through others; None if no text has a group.

    A text without a group is a group of its own.
    """
    if not any(text_id in groups for ids in inputs for text_id in ids):
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = [f"group {groups[i]}" if i in groups else f"id {i}" for ids in inputs for i in (ids[0], ids[-1])]
    numbers, names = pd.factorize(pd.Series(named))
    ends = numbers.reshape(-1, 2).T
    links = coo_array((np.ones(len(inputs)), ends), shape=(len(names), len(names)))
    return connected_components(links, directed=False)[1][ends[0]].astype(np.int64)


def _carve(path: Path, rows: pd.DataFrame, groups: dict[str, str], seed: int) -> tuple[pd.DataFrame, str]:
    """Moves a tenth of each class of train to validation, whole groups where there are any; both keep file order."""
    train = rows[rows["split"] == "train"]
    labels = np.array(train["label"].tolist())
    shared = grouping(train["ids"].tolist(), groups)
    taken: list[int] = []
    if shared is None:
        rng = np.random.default_rng(seed)
        for label in np.unique(labels):
            places = np.flatnonzero(labels == label)
            if len(places) < 2:
                reason = f"class {str(label)!r} has one training example: too few to take validation examples"
                raise ValueError(f"{path}: {reason}; add validation.jsonl")
            taken += rng.permutation(places)[: max(1, round(VALIDATION_SHARE * len(places)))].tolist()
    else:
        from sklearn.model_selection import StratifiedGroupKFold

        if (folds := min(round(1 / VALIDATION_SHARE), len(np.unique(shared)))) > 1:
            cuts = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
            taken += next(cuts.split(labels, labels, shared))[1].tolist()
        if not taken or len(set(np.delete(labels, taken))) < len(set(labels)):
            reason = "validation examples cannot be taken from train without cutting a group or losing a class"
            raise ValueError(f"{path}: {reason}; add validation.jsonl")
    split = rows["split"].mask(rows.index.isin(train.index[taken]), "validation")
    how = f"{len(taken)} examples (seed {seed}{', whole groups' if shared is not None else ''})"
    return rows.assign(split=split), f"no validation.jsonl: a tenth of each class of train serves, {how}"
