"""Reads the tasks of dataset folders. The names of its files decide the kind of a task.

Mistakes that would make results wrong are refused. Flaws that weaken results, such as a text
in two splits, are counted in `notes`.
"""

import functools
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.config.schema import TaskFolder, TaskSettings
from lib.data import dataset_folder
from lib.data.dataset_folder import MISSING, Documents, content, spell_name
from lib.data.files import Rows, read_rows
from lib.messages import one_line_errors

SPLITS = ("train", "validation", "test")
# Without a head, pairs of the second class are those with the larger cosines.
PAIR_LABELS = [["0", "1"], ["no", "yes"], ["false", "true"]]
FILES = {  # of each kind of task; the first must be there
    "retrieval": ["relevant.json"],
    "clustering": ["clusters.jsonl"],
    "classification": [f"{split}.jsonl" for split in SPLITS],
}


@dataclass(frozen=True, eq=False)
class Task:
    """One task, checked. It contains only examples that have texts."""

    kind: str  # one of `FILES`
    texts: dict[str, str]  # {id: text} of all texts that it uses, in the order of the documents
    # A row for each example: split, ids (one or two) and label. The split of a cluster's member is
    # "clusters", that of a source and target "relevant".
    examples: pd.DataFrame
    folds: int | None = None  # for cross-validation of "train", if a split is missing
    cross_fit: bool = False  # "test" is cross-validated too, instead of tested by "train"
    groups: dict[str, str] = field(default_factory=dict)  # {id: what it shares with others}
    notes: tuple[str, ...] = ()  # remarks that readers of results should know
    left_out: frozenset[int] = frozenset()  # contents of tested texts that a limit has cut off

    @functools.cached_property
    def contents(self) -> dict[str, int]:
        """{id: checksum of its words}, equal for copies."""
        return {text_id: content(text) for text_id, text in self.texts.items()}

    @functools.cached_property
    def classes(self) -> list[str]:
        """The sorted names of a classification's classes."""
        return sorted({*self.examples["label"]}) if self.kind == "classification" else []

    @functools.cached_property
    def inputs(self) -> dict[str, list[tuple[str, ...]]]:
        """A classification's {split: [(id,) or (a, b), ...]}."""
        splits = {split: self.examples["split"] == split for split in SPLITS}
        return {s: self.examples["ids"][rows].tolist() for s, rows in splits.items() if rows.any()}

    @functools.cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """A classification's {split: (examples,) int64, places in `classes`}."""
        codes = pd.Index(self.classes).get_indexer(self.examples["label"])
        return {split: codes[self.examples["split"] == split] for split in self.inputs}

    @functools.cached_property
    def relevant(self) -> dict[str, list[str]]:
        """A retrieval's {source: [targets]}."""
        pairs = self.examples["ids"][self.examples["split"] == "relevant"]
        ends = pd.DataFrame(pairs.tolist(), columns=["source", "target"])
        return ends.groupby("source", sort=False)["target"].agg(list).to_dict()

    @functools.cached_property
    def clusters(self) -> dict[str, str]:
        """A clustering's {id: cluster}."""
        members = self.examples[self.examples["split"] == "clusters"]
        return dict(zip(members["ids"].str[0], members["label"], strict=True))

    def held_out(self) -> set[str]:
        """The ids of texts that a distillation corpus must not contain: those of validation and
        test examples, or with folds of all examples. Candidates of a retrieval may be in it.
        """
        tested = self.examples if self.folds else self.examples[self.examples["split"] != "train"]
        return {*itertools.chain.from_iterable(tested["ids"])}


def read_tasks(roots: Sequence[Path], section: TaskSettings) -> dict[str, Task]:
    """Read the tasks of a profile by name, in its order."""
    tasks = {}
    for name, entry in section.folders.items():
        place = dataset_folder.find_dataset(roots, entry.folder)
        tasks[name] = read_task(place, section.seed, **entry.model_dump(exclude={"folder"}))
    return tasks


def held_out_contents(tasks: Mapping[str, Task]) -> np.ndarray:
    """Return checksums, (texts,) uint64, of all texts that a corpus must not contain."""
    parts = ({*map(task.contents.get, task.held_out())} | task.left_out for task in tasks.values())
    return np.unique(np.fromiter(itertools.chain(*parts), np.uint64))


def kind(folder: Path) -> str:
    """Tell from its files whether a task is a classification, retrieval or clustering."""
    kinds = [kind for kind, files in FILES.items() if (folder / files[0]).is_file()]
    found = sorted(file.name for file in folder.glob("[!.]*") if file.suffix != ".md")
    if len(kinds) != 1 or not {*found} <= {*FILES[kinds[0]]}:
        raise ValueError(f"{folder}: expected one of {[*FILES.values()]}, found {found}")
    return kinds[0]


def read_task(folder: Path, seed: int = 0, **options: Any) -> Task:
    """Read and check the task in a folder `<dataset folder>/tasks/<task>`; `options` are those of
    `lib.config.schema.TaskFolder`. Without validation.jsonl (Chapter 4) or test.jsonl (Chapter 5),
    train is cross-validated. Texts that `without` matches are left out, with their examples.
    """
    asked = TaskFolder(folder="any/task", **options)  # checks them; `folder` says where it is
    documents = Documents(folder.parents[1]).table.to_pandas().set_index("id")
    examples = _read_examples(folder, {*documents.index})
    if asked.blocks:
        examples["split"] = "train"
    documents = documents[documents["content"] > 0]
    if asked.without:
        documents = documents[[not re.search(asked.without, text) for text in documents["text"]]]
    groups = documents["group"][documents["group"] != ""].to_dict()
    every = documents["text"].to_dict()
    task = Task(kind(folder), every, examples, cross_fit=asked.cross_fit, groups=groups)
    task, notes = keep_texts(task, {*every}), []
    if dropped := len(examples) - len(task.examples):
        notes.append(f"{dropped} examples left out, with texts that are blank or unwanted")
    odd = {*MISSING, "-1"} if task.kind == "clustering" else MISSING
    notes += dataset_folder.question_names(task.examples["label"], "label", odd)
    if task.kind == "classification":
        trained = {*task.examples["label"][task.examples["split"] == "train"]}
        if len(trained) < 2 or trained != {*task.classes}:
            raise ValueError(f"{folder}: expected two classes, and all of them in train.jsonl")
        pairs = task.examples["ids"].map(len).max() > 1
        if pairs and [name.lower() for name in task.classes] not in PAIR_LABELS:
            told = f"labels of pairs: expected one of {PAIR_LABELS} (the second for pairs that"
            raise ValueError(f"{folder}: {told} belong together), got {task.classes}")
        if asked.cross_fit or not {"validation", "test"} <= task.inputs.keys():
            task = replace(task, folds=asked.blocks or asked.folds)
        either = task.examples["ids"].map(lambda ids: tuple(sorted(ids)))
        if again := task.examples.assign(ids=either).duplicated().sum():
            notes.append(f"{again} examples repeat others, and count again")
        each = task.examples.explode("ids")
        for what, names in (("texts", task.contents), ("groups", task.groups)):
            shared = each.groupby(each["ids"].map(names.get))["split"].nunique() > 1
            if shared.any() and not asked.cross_fit:
                notes.append(f"{shared.sum()} {what} are in more than one split")
    return limit_texts(replace(task, notes=tuple(notes)), asked.texts, seed)


def _read_examples(folder: Path, known: set[str]) -> pd.DataFrame:
    """Read the examples of a task, also those whose documents have no text."""
    examples = []
    for path in filter(Path.is_file, (folder / file for file in FILES[kind(folder)])):
        rows: Rows = read_rows(path)
        if path.suffix == ".json":
            with one_line_errors(f"read {path}"):
                found = json.loads(path.read_bytes(), object_pairs_hook=list)  # repeated keys, too
                pairs = [(a, b if b and isinstance(b, list) else [b]) for a, b in found]
            ends = ((a, b) for a, targets in pairs for b in targets)
            rows = ((path, {"a": a, "b": b, "label": "relevant"}) for a, b in ends)
        for where, fields in rows:
            keys = ("a", "b", "label") if "a" in fields else ("id", "label")
            with one_line_errors(f"read {where}"):
                *ids, label = (spell_name(fields.get(key)) for key in keys)
            ids, label = tuple(ids), label.strip()  # as groups
            if len({*ids} & known) < len(ids) or not label:
                told = f"expected {len(ids)} different documents of this folder and a label"
                unknown = sorted({*ids} - known)
                raise ValueError(f"{where}: {told}, got {fields}; unknown: {unknown}")
            examples.append((path.stem, ids, label))
    table = pd.DataFrame(examples, columns=["split", "ids", "label"], dtype=object)
    either = table["ids"].map(lambda ids: tuple(sorted(ids)))  # a turned pair would leak, too
    wrong = (table.groupby(either)[["split", "label"]].transform("nunique") > 1).any(axis=1)
    if wrong.any():
        ids = table["ids"][wrong].iloc[0]
        raise ValueError(f"{folder}: {ids} are in two splits, or have two labels")
    return table


def limit_texts(task: Task, limit: int | None, seed: int) -> Task:
    """Reduce a task to `limit` texts; None keeps all. Examples, shuffled and in turn from each
    split, are taken whole while their texts fit: a pair with both texts, a source with its targets.
    Other candidates of a retrieval fill what is left. `ValueError` if a class is lost.
    """
    if limit is None or len(task.texts) <= limit:
        return task
    shuffled = task.examples.iloc[shuffle_by_content(task, task.examples["ids"], seed)]
    turns = shuffled.groupby("split").cumcount().sort_values(kind="stable")
    ids = [*shuffled["ids"].loc[turns.index]]
    if task.kind == "retrieval":
        ids = [(source, *task.relevant[source]) for source, _ in ids]
        others = [(text_id,) for text_id in task.texts]
        ids += [others[place] for place in shuffle_by_content(task, others, seed)]
    kept = set[str]()
    for each in ids:
        if len(kept) + len({*each} - kept) <= limit:
            kept.update(each)
    limited = keep_texts(task, kept)
    cut = task.held_out() - limited.held_out()
    return replace(limited, left_out=task.left_out | {task.contents[text_id] for text_id in cut})


def shuffle_by_content(task: Task, ids: Iterable[Sequence[str]], seed: int) -> np.ndarray:
    """Draw an order of tuples of ids, as their places, in which that of the file plays no part."""
    contents = (sorted(map(task.contents.get, each)) for each in ids)
    return np.argsort([np.random.default_rng([seed, *each]).random() for each in contents])


def keep_texts(task: Task, kept: set[str]) -> Task:
    """The task on some of its texts; `ValueError` if all examples of a class or split are lost."""
    examples = task.examples[task.examples["ids"].map(kept.issuperset)].reset_index(drop=True)
    counts = [each.groupby("split")["label"].nunique() for each in (task.examples, examples)]
    if task.kind != "clustering" and not counts[0].equals(counts[1]):
        raise ValueError(f"among {len(kept)} texts, a class of a split has no examples; allow more")
    if task.kind != "retrieval":  # in which all texts are candidates
        kept = {*itertools.chain.from_iterable(examples["ids"])}
    texts = {text_id: text for text_id, text in task.texts.items() if text_id in kept}
    return replace(task, texts=texts, examples=examples)
