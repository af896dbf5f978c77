"""Reads the tasks of dataset folders. The names of its files decide the kind of a task.

Mistakes that would make results wrong are refused. Flaws that are common in real data sets, such as
a text that occurs twice or in two splits, are counted in `notes`.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, TypeAdapter

from lib.config.schema import CorpusSettings, TaskSettings
from lib.data import dataset_folder
from lib.data.dataset_folder import Documents, Id, Name, content, validate
from lib.data.examples import group_examples, hang_together, number_dependent
from lib.data.files import parse_object, read_json_lines
from lib.data.sources import find_dataset

SPLITS = ("train", "validation", "test")
PARTS = 10  # one of ten parts of train becomes validation, if a folder has no validation split
FILES = {  # of each kind of task; the first must be there
    "retrieval": ["relevant.json"],
    "clustering": ["clusters.jsonl"],
    "classification": [f"{split}.jsonl" for split in SPLITS],
}
_Targets = Annotated[list[Id], Field(min_length=1)]
_RELEVANT = TypeAdapter(Annotated[dict[Id, _Targets], Field(min_length=1)])


class _Single(BaseModel):
    id: Name
    label: Name


class _Pair(BaseModel):
    a: Name
    b: Name
    label: Name


@dataclass(frozen=True)
class Task:
    """One task, checked. It contains only examples that have texts."""

    kind: str  # one of `FILES`
    texts: dict[str, str]  # {id: text} of all texts that it uses, in the order of the documents
    # A classification's {split: [(id,) or (a, b), ...]}, and {split: (examples,) int64, indices
    # into the sorted names of the classes}.
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None  # for cross-validation of "train", if there is no validation split
    cross_fit: bool = False  # "test" is cross-validated too, instead of tested by "train"
    # {id: number of its block}, see `_deal_texts`; empty unless the folds are blocks of texts.
    blocks: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)  # {id: what it shares with others}
    # A retrieval's {source: [targets]}, and a clustering's {id: cluster}.
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # remarks that readers of results should know

    def held_out(self) -> set[str]:
        """The ids of texts that a distillation corpus must not contain.

        They are those of validation and test examples, or with folds of all examples. Candidates
        of a retrieval that are neither source nor target may be in the corpus.
        """
        splits = SPLITS if self.folds else SPLITS[1:]
        examples = (ids for split in splits for ids in self.inputs.get(split, ()))
        return {*self.relevant, *self.clusters}.union(*self.relevant.values(), *examples)


class _Index(NamedTuple):
    contents: dict[str, int]  # {id: checksum} of all documents
    texts: dict[str, str]  # {id: text} of those with a token
    groups: dict[str, str]  # {id: group} of those in one


def read_tasks(roots: Sequence[Path], section: TaskSettings) -> dict[str, Task]:
    """Read the tasks of a profile by name, in the thesis' order."""
    tasks = {}
    for name in section.names:
        folder = find_task(roots, section.folders[name].folder)
        options = section.folders[name].model_dump(exclude={"folder"})
        tasks[name] = read_task(folder, **options, seed=section.seed)
    return tasks


def check_data(roots: Sequence[Path], corpus: CorpusSettings, tasks: TaskSettings) -> None:
    """Check that all dataset folders and tasks of a profile exist; else ValueError names one."""
    for name in corpus.names:
        dataset_folder.list_files(find_dataset(roots, name))
    for entry in tasks.folders.values():
        kind(find_task(roots, entry.folder))


def find_task(roots: Sequence[Path], entry: str) -> Path:
    """Find the folder of a task, which is named `<dataset folder>/<task>`."""
    dataset, _, task = entry.partition("/")
    return find_dataset(roots, dataset) / "tasks" / task


def held_out_contents(tasks: Mapping[str, Task]) -> np.ndarray:
    """Return checksums, (texts,) uint64, of all texts that a corpus must not contain."""
    texts = (task.texts[text_id] for task in tasks.values() for text_id in task.held_out())
    return np.unique(np.array([content(text) for text in texts], dtype=np.uint64))


def kind(folder: Path) -> str:
    """Tell from its files whether a task is a classification, retrieval or clustering."""
    kinds = [kind for kind, files in FILES.items() if (folder / files[0]).is_file()]
    if len(kinds) != 1:
        names = "train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl"
        given = " and ".join(FILES[kind][0] for kind in kinds) or "none of them"
        raise ValueError(f"{folder}: expected a folder with {names}, found {given}")
    return kinds[0]


def read_task(
    folder: Path,
    *,
    folds: int | None = None,
    cross_fit: bool = False,
    blocks: int | None = None,
    texts: int | None = None,
    without: str | None = None,
    seed: int = 0,
) -> Task:
    """Read and check the task in a folder `<dataset folder>/tasks/<task>`.

    With `folds`, train is cross-validated, and with `cross_fit` test, too. With neither folds nor
    validation.jsonl, validation examples are taken from train. With `blocks`, the examples of all
    splits are cross-validated over blocks of texts, see `_deal_texts`; so are folds of pairs that
    hang together. `texts` is the largest number of texts, see `limit_texts`. Texts in which the
    regular expression `without` finds something are left out with all examples that use them.
    """
    index = _index(Documents(folder.parents[1]))
    if kind(folder) == "retrieval":
        task = _read_retrieval(folder, index)
    else:
        task = _read_labelled(folder, index, folds, blocks, cross_fit, seed)
    task = replace(task, folds=folds, cross_fit=cross_fit)
    if without is not None:
        kept = {text_id for text_id, text in task.texts.items() if not re.search(without, text)}
        told = f"{len(task.texts) - len(kept)} texts left out: {without!r} is in them"
        task = replace(_keep_texts(task, kept), notes=(*task.notes, told))
    task = limit_texts(task, texts, seed)
    if blocks:
        return _deal_texts(task, blocks, seed)
    paired = any(len(ids) == 2 for inputs in task.inputs.values() for ids in inputs)
    if folds and paired and any(hang_together(group_examples(task, s), folds) for s in task.inputs):
        task = _deal_texts(task, folds, seed)
        told = f"pairs share texts, so texts are dealt into {folds} parts, and a pair of two parts"
        return replace(task, notes=(*task.notes, f"{told} is tested by none"))
    return task


def _read_labelled(
    folder: Path, index: _Index, folds: int | None, blocks: int | None, cross_fit: bool, seed: int
) -> Task:
    """Read a classification or clustering, with validation examples unless it has folds."""
    splits = [split for split in SPLITS if (folder / f"{split}.jsonl").is_file()]
    folded = "validation" not in splits
    if splits and not ("test" in splits if blocks or not folds else folded):
        told = "test.jsonl and no folds, or folds of train.jsonl without validation.jsonl"
        raise ValueError(f"{folder}: expected {told}")
    examples, notes = _read_examples(folder, splits or ["clusters"], index)
    if blocks:
        examples["split"] = "train"
    elif splits and not folds and folded:
        _carve_validation(folder, examples, index, seed)
        told = "a tenth of each class of train serves, of whole groups where there are any"
        notes.append(f"no validation.jsonl: {told}")
    notes += _remark(examples, index, across=not (cross_fit or blocks))
    used = {*itertools.chain.from_iterable(examples["ids"])}
    texts = {text_id: text for text_id, text in index.texts.items() if text_id in used}
    task = Task("classification", texts, groups=index.groups, notes=tuple(notes))
    if not splits:
        clusters = {
            ids[0]: label for ids, label in zip(examples["ids"], examples["label"], strict=True)
        }
        return replace(task, kind="clustering", clusters=clusters)
    classes = sorted({*examples["label"]})
    parts = {split: examples[examples["split"] == split] for split in SPLITS}
    parts = {split: part for split, part in parts.items() if len(part)}
    labels = {split: pd.Index(classes).get_indexer(part["label"]) for split, part in parts.items()}
    inputs = {split: part["ids"].tolist() for split, part in parts.items()}
    return replace(task, inputs=inputs, labels=labels, classes=classes)


def _deal_texts(task: Task, count: int, seed: int) -> Task:
    """Cross-validate over blocks of texts; documents of a group, and equal texts, share a block.

    A pair of two blocks is tested by none, so a text of one pair alone goes where the other goes.
    All others are shuffled and dealt in turn: those of pairs by how many use them, single ones
    class by class, so that blocks are alike.
    """
    names = {
        text_id: task.groups.get(text_id) or str(content(text))
        for text_id, text in task.texts.items()
    }
    inputs = [*itertools.chain.from_iterable(task.inputs.values())]
    examples = [[names[text_id] for text_id in ids] for ids in inputs]
    uses = Counter(itertools.chain.from_iterable(examples))
    led, keys = {}, {}  # a name -> the one that it follows; or what it is dealt by
    for example, label in zip(examples, np.concatenate([*task.labels.values()]), strict=True):
        first, second = sorted((example[0], example[-1]), key=uses.__getitem__)
        if uses[first] == 1 and first != second:
            led[first] = second
        keys.update({name: label if len(example) == 1 else -uses[name] for name in example})
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation([name for name in keys if name not in led]).tolist()
    dealt = {name: place % count for place, name in enumerate(sorted(shuffled, key=keys.get))}
    dealt |= {name: dealt[other] for name, other in led.items()}
    used = itertools.chain.from_iterable(inputs)
    return replace(task, folds=count, blocks={text: dealt[names[text]] for text in used})


def _read_retrieval(folder: Path, index: _Index) -> Task:
    path, relevant = folder / "relevant.json", {}
    value = parse_object(path, path.read_bytes())
    gold = validate(path, _RELEVANT, value)
    for source, targets in gold.items():
        if missing := {source, *targets} - index.contents.keys():
            raise ValueError(f"{path}: id {min(missing)!r} is no document of this folder")
        if len({source, *targets}) <= len(targets):
            raise ValueError(f"{path}: source {source!r} lists itself or a target twice")
        kept = [target for target in targets if target in index.texts]
        if source in index.texts and kept:
            relevant[source] = kept
    if not relevant:
        raise ValueError(f"{path}: no source with a text has a target with one")
    dropped = len(gold) - len(relevant)
    notes = (f"{dropped} sources left out: a document without text",) if dropped else ()
    return Task("retrieval", index.texts, groups=index.groups, relevant=relevant, notes=notes)


def _index(documents: Documents) -> _Index:
    index = _Index({}, {}, {})
    for document, checksum in zip(documents, documents.contents.tolist(), strict=True):
        index.contents[document.id] = checksum
        if checksum:
            index.texts[document.id] = document.text
        if document.group:
            index.groups[document.id] = document.group
    return index


def limit_texts(task: Task, limit: int | None, seed: int) -> Task:
    """Reduce a task to the `limit` texts that most examples use; None keeps all.

    Texts that are used equally often are taken in random order, in turn from each split.
    `ValueError` if a class would lose all of its examples, or a retrieval all of its sources.
    """
    if limit is None or len(task.texts) <= limit:
        return task
    return _keep_texts(task, _choose_texts(task, limit, np.random.default_rng(seed)))


def _keep_texts(task: Task, kept: set[str]) -> Task:
    """The task on some of its texts; `ValueError` if a class or all sources are lost."""
    inputs, labels, relevant = {}, {}, {}
    for split, examples in task.inputs.items():
        rows = [row for row, ids in enumerate(examples) if kept.issuperset(ids)]
        inputs[split] = [examples[row] for row in rows]
        labels[split] = task.labels[split][rows]
    for source, targets in task.relevant.items():
        left = [target for target in targets if target in kept]
        if source in kept and left:
            relevant[source] = left
    lost_class = any({*labels[split]} != {*task.labels[split]} for split in labels)
    if lost_class or (task.relevant and not relevant):
        raise ValueError(f"{len(kept)} texts leave a class without examples, or no source")
    texts = {text_id: text for text_id, text in task.texts.items() if text_id in kept}
    clusters = {text_id: name for text_id, name in task.clusters.items() if text_id in kept}
    return replace(
        task, texts=texts, inputs=inputs, labels=labels, relevant=relevant, clusters=clusters
    )


def _choose_texts(task: Task, limit: int, generator: np.random.Generator) -> set[str]:
    """Leave out the text that fewest of the remaining examples use, again and again.

    What a retrieval uses is counted once, at the beginning.
    """
    turns = dict[str, int]()
    for inputs in task.inputs.values():
        for turn, row in enumerate(generator.permutation(len(inputs))):
            for text_id in inputs[row]:
                turns[text_id] = min(turn, turns.get(text_id, turn))
    uses, partners = Counter[str](), defaultdict[str, list[str]](list)
    for ids in itertools.chain(*task.inputs.values()):
        uses.update(ids)
        for text_id, other in itertools.permutations(ids, 2):
            partners[text_id].append(other)
    for source, targets in task.relevant.items():
        uses.update((source, *targets))
    # Of texts that are used equally often, the last in turn is left out first.
    shuffled = generator.permutation([*task.texts]).tolist()[::-1]
    shuffled.sort(key=lambda text_id: -turns.get(text_id, 0))
    order = {text_id: place for place, text_id in enumerate(shuffled)}
    # One number to sort by: uses first, then the place in `shuffled`.
    one_use, kept = len(shuffled), {*shuffled}
    ranks = np.array([one_use * uses[text_id] + order[text_id] for text_id in shuffled])
    while len(kept) > limit:
        text_id = shuffled[np.argmin(ranks)]
        kept.remove(text_id)
        ranks[order[text_id]] = np.iinfo(ranks.dtype).max  # never chosen again
        for other in partners[text_id]:
            if other in kept:
                ranks[order[other]] -= one_use
    return kept


def _read_examples(
    folder: Path, splits: list[str], index: _Index
) -> tuple[pd.DataFrame, list[str]]:
    """Read the examples that have texts, (split, ids, label), and notes on the others."""
    examples, notes, trained, form = [], [], set[str](), None
    first, homes = dict[tuple[str, ...], tuple[str, str]](), dict[tuple[str, ...], str]()
    for split in splits:
        path, part = folder / f"{split}.jsonl", []
        for where, values in read_json_lines(path):
            pairs = split == "train" and "a" in values
            form = form or TypeAdapter(_Pair if pairs else _Single)
            *ids, label = validate(where, form, values).model_dump().values()
            part.append((split, tuple(ids), label))
            other, place = first.setdefault((split, *sorted(ids)), (label, where))  # either order
            home = homes.setdefault(tuple(ids), split)
            if missing := {*ids} - index.contents.keys():
                raise ValueError(f"{where}: id {min(missing)!r} is no document of this folder")
            if len({*ids}) < len(ids):
                raise ValueError(f"{where}: a and b are one document, {ids[0]!r}")
            if other != label:
                raise ValueError(f"{where}: label {label!r:.40}, another one at {place}")
            if home != split:
                raise ValueError(f"{where}: it is in {home}.jsonl too; keep it in one split")
        whole = [example for example in part if index.texts.keys() >= {*example[1]}]
        labels = {label for *_, label in whole}
        trained = trained or labels
        if not whole or len(trained) < 2 or labels - trained:
            told = f"expected texts, of at least two classes, which are in {splits[0]}.jsonl"
            raise ValueError(f"{path}: {told}; found {sorted(labels)[:5]}")
        if dropped := len(part) - len(whole):
            notes.append(f"{path.name}: {dropped} examples left out: a document without text")
        examples += whole
    return pd.DataFrame(examples, columns=["split", "ids", "label"], dtype=object), notes


def _remark(examples: pd.DataFrame, index: _Index, across: bool) -> list[str]:
    """Count examples that repeat texts and, if `across`, what splits share."""
    contents, _, groups = index
    notes, texts, held = [], dict[str, set[int]](), dict[str, set[str]]()
    for split, inputs in examples.groupby("split", sort=False)["ids"]:
        checksums = {tuple(sorted(contents[text_id] for text_id in ids)) for ids in inputs}
        if repeated := len(inputs) - len(checksums):
            notes.append(f"{split}.jsonl: {repeated} examples repeat the texts of another one")
        texts[split] = {*itertools.chain(*checksums)}
        held[split] = {groups[name] for name in itertools.chain(*inputs) if name in groups}
    for what, sides in (("texts", texts), ("groups", held)):
        for before, after in itertools.combinations(sides if across else (), 2):
            if shared := len(sides[before] & sides[after]):
                notes.append(f"{shared} {what} are in both {before} and {after}")
    return notes


def _carve_validation(folder: Path, examples: pd.DataFrame, index: _Index, seed: int) -> None:
    """Move a tenth of each class from train to validation; a group moves with its first example."""
    train = examples[examples["split"] == "train"]
    # If most pairs hang together, splits share texts, and `_remark` says how many.
    shared = number_dependent(train["ids"].tolist(), index.groups, index.contents)
    numbers = np.arange(len(train)) if shared is None else shared
    place = np.random.default_rng(seed).permutation(numbers.max() + 1)[numbers]
    shuffled = train.assign(place=place).sort_values("place", kind="stable")
    classes = shuffled.groupby("label")["label"]
    early = PARTS * classes.cumcount() < classes.transform("size")  # the first tenth of each class
    taken = early.groupby(shuffled["place"]).transform("first")  # a group follows its first example
    taken = taken[train.index]  # in the order of the file
    if train["label"][~taken].nunique() < train["label"].nunique():
        told = "no tenth of train leaves all groups whole and all classes; add validation.jsonl"
        raise ValueError(f"{folder}: {told}")
    examples.loc[taken.index[taken], "split"] = "validation"
