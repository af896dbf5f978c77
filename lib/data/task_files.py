"""Reads the tasks of dataset folders. The names of its files decide the kind of a task.

Mistakes that would make results wrong are refused. Flaws that are common in real data sets, such as
a text that is in two splits, are counted in `notes`.
"""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from lib.config.profiles import validated
from lib.config.schema import CorpusSettings, TaskSettings
from lib.data.dataset_folder import Documents, Id, content, find_dataset, list_files
from lib.data.examples import group_examples, hang_together, number_dependent
from lib.data.files import parse_object, read_json_lines

SPLITS = ("train", "validation", "test")
FILES = {  # of each kind of task; the first must be there
    "retrieval": ["relevant.json"],
    "clustering": ["clusters.jsonl"],
    "classification": [f"{split}.jsonl" for split in SPLITS],
}
_NAMES = TypeAdapter(dict[str, Id])
_RELEVANT = TypeAdapter(dict[Id, list[Id]])
_Row = tuple[str, tuple[str, ...], str, str]  # as `Task.examples`


@dataclass(frozen=True, eq=False)
class Task:
    """One task, checked. It contains only examples that have texts."""

    kind: str  # one of `FILES`
    texts: dict[str, str]  # {id: text} of all texts that it uses, in the order of the documents
    # A row for each example: split, ids (one or two), label, and where it was read. The split of
    # a cluster's member is "clusters", that of a source and target "relevant".
    examples: pd.DataFrame
    folds: int | None = None  # for cross-validation of "train", if there is no validation split
    cross_fit: bool = False  # "test" is cross-validated too, instead of tested by "train"
    # {id: number of its block}, see `_deal_texts`; empty unless the folds are blocks of texts.
    blocks: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)  # {id: what it shares with others}
    notes: tuple[str, ...] = ()  # remarks that readers of results should know

    @functools.cached_property
    def contents(self) -> dict[str, int]:
        """{id: checksum of its text}, equal for equal texts."""
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
        relevant: dict[str, list[str]] = {source: [] for source, _ in pairs}
        for source, target in pairs:
            relevant[source].append(target)
        return relevant

    @functools.cached_property
    def clusters(self) -> dict[str, str]:
        """A clustering's {id: cluster}."""
        members = self.examples[self.examples["split"] == "clusters"]
        return {ids[0]: name for ids, name in zip(members["ids"], members["label"], strict=True)}

    def held_out(self) -> set[str]:
        """The ids of texts that a distillation corpus must not contain.

        They are those of validation and test examples, or with folds of all examples. Candidates
        of a retrieval that are neither source nor target may be in the corpus.
        """
        tested = self.examples if self.folds else self.examples[self.examples["split"] != "train"]
        return {*itertools.chain.from_iterable(tested["ids"])}


def read_tasks(roots: Sequence[Path], section: TaskSettings) -> dict[str, Task]:
    """Read the tasks of a profile by name, in its order."""
    tasks = {}
    for name, entry in section.folders.items():
        options = entry.model_dump(exclude={"folder"})
        tasks[name] = read_task(find_task(roots, entry.folder), **options, seed=section.seed)
    return tasks


def check_data(roots: Sequence[Path], corpus: CorpusSettings, tasks: TaskSettings) -> None:
    """Check that all dataset folders and tasks of a profile exist; else ValueError names one."""
    for name in corpus.names:
        list_files(find_dataset(roots, name))
    for entry in tasks.folders.values():
        kind(find_task(roots, entry.folder))


def find_task(roots: Sequence[Path], entry: str) -> Path:
    """Find the folder of a task, which is named `<dataset folder>/<task>`."""
    dataset, _, task = entry.partition("/")
    return find_dataset(roots, dataset) / "tasks" / task


def held_out_contents(tasks: Mapping[str, Task]) -> np.ndarray:
    """Return checksums, (texts,) uint64, of all texts that a corpus must not contain."""
    contents = (task.contents[text_id] for task in tasks.values() for text_id in task.held_out())
    return np.unique(np.fromiter(contents, np.uint64))


def kind(folder: Path) -> str:
    """Tell from its files whether a task is a classification, retrieval or clustering."""
    kinds = [kind for kind, files in FILES.items() if (folder / files[0]).is_file()]
    if len(kinds) != 1:
        names = " or ".join(files[0] for files in FILES.values())
        raise ValueError(f"{folder}: expected a folder with {names}, found {kinds or 'none'}")
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
    validation.jsonl, a tenth of train becomes validation. With `blocks`, the examples of all
    splits are cross-validated over blocks of texts, see `_deal_texts`; so are folds of pairs that
    hang together. `texts` is the largest number of texts, see `limit_texts`. Texts in which the
    regular expression `without` finds something are left out with all examples that use them.
    """
    documents = Documents(folder.parents[1]).table.to_pandas().set_index("id")
    groups = documents["group"][documents["group"] != ""].to_dict()
    examples = _read_examples(folder, {*documents.index})
    if blocks:
        examples = examples.replace({"split": dict.fromkeys(SPLITS, "train")})
    every = documents["text"].to_dict()
    task = Task(kind(folder), every, examples, folds, cross_fit, groups=groups)
    task = _leave_out(task, without)
    if task.kind == "classification" and not blocks:
        task = _arrange_splits(task, folder, seed)
    task = limit_texts(task, texts, seed)
    if blocks:
        return _deal_texts(task, blocks, seed)
    paired = any(len(ids) == 2 for inputs in task.inputs.values() for ids in inputs)
    if folds and paired and any(hang_together(group_examples(task, s), folds) for s in task.inputs):
        told = f"pairs share texts, so texts are dealt into {folds} parts, and a pair of two parts"
        task = replace(task, notes=(*task.notes, f"{told} is tested by none"))
        return _deal_texts(task, folds, seed)
    return task


def _read_examples(folder: Path, known: set[str]) -> pd.DataFrame:
    """Read the examples of a task, also those whose documents have no text."""
    rows = []
    files = [folder / name for name in FILES[kind(folder)] if (folder / name).is_file()]
    for path in files:
        read = _read_relevant if path.suffix == ".json" else _read_labelled
        for where, ids, label in read(path, files[0]):
            if missing := {*ids} - known:
                raise ValueError(f"{where}: id {min(missing)!r} is no document of this folder")
            if len({*ids}) < len(ids):
                raise ValueError(f"{where}: two different documents expected, got {ids[0]!r} twice")
            rows.append((path.stem, ids, label, where))
    columns = ["split", "ids", "label", "where"]
    examples = pd.DataFrame(rows, columns=columns, dtype=object)
    in_order = examples["ids"].map(lambda ids: tuple(sorted(ids)))
    labels = examples.groupby(["split", in_order])["label"]
    homes = examples.groupby("ids")["split"]
    for told, values in {"another label": labels, "another split": homes}.items():
        wrong = examples["where"][values.transform("nunique") > 1]
        if len(wrong):
            raise ValueError(f"{wrong.iloc[-1]}: the same documents have {told} elsewhere")
    return examples.drop(columns="where")


def _read_labelled(path: Path, first: Path) -> Iterator[tuple[str, tuple[str, ...], str]]:
    pairs = "a" in next(read_json_lines(first), ("", {}))[1]
    for where, values in read_json_lines(path):
        named = {key: values.get(key) for key in (("a", "b") if pairs else ("id",))}
        named |= {"label": values.get("label")}
        *ids, label = validated(_NAMES.validate_python, named, where).values()
        yield where, tuple(ids), label


def _read_relevant(path: Path, _: Path) -> Iterator[tuple[str, tuple[str, ...], str]]:
    relevant = validated(_RELEVANT.validate_python, parse_object(path, path.read_bytes()), path)
    for source, targets in relevant.items():
        yield from ((str(path), (source, target), "") for target in dict.fromkeys(targets))


def _leave_out(task: Task, without: str | None) -> Task:
    """The task without texts that have no token, or in which the regular expression is found."""
    kept = {
        text_id
        for text_id, text in task.texts.items()
        if task.contents[text_id] and not (without and re.search(without, text))
    }
    whole = _keep_texts(task, kept)
    if task.kind != "retrieval":  # in which all texts are candidates
        whole = _keep_texts(whole, {*itertools.chain.from_iterable(whole.examples["ids"])})
    if dropped := len(task.examples) - len(whole.examples):
        told = f"{dropped} examples left out, with texts that are blank or unwanted"
        return replace(whole, notes=(told,))
    return whole


def _arrange_splits(task: Task, folder: Path, seed: int) -> Task:
    """The task with validation examples unless it has folds, and notes on what splits share."""
    given, examples = task.inputs.keys(), task.examples.copy()
    if not ("validation" not in given if task.folds else "test" in given):
        told = "test.jsonl and no folds, or folds of train.jsonl without validation.jsonl"
        raise ValueError(f"{folder}: expected {told}")
    trained = {*examples["label"][examples["split"] == "train"]}
    if len(trained) < 2 or trained != {*examples["label"]}:
        raise ValueError(f"{folder}: expected at least two classes, and all of them in train.jsonl")
    if not task.folds and "validation" not in given:
        _carve_validation(task, folder, examples, seed)
    texts, notes = examples.explode("ids"), [*task.notes]
    for what, names in (("texts", task.contents), ("groups", task.groups)):
        homes = texts["split"].groupby(texts["ids"].map(names.get)).nunique()
        if (homes > 1).any() and not task.cross_fit:
            notes.append(f"{(homes > 1).sum()} {what} are in more than one split")
    return replace(task, examples=examples, notes=tuple(notes))


def _carve_validation(task: Task, folder: Path, examples: pd.DataFrame, seed: int) -> None:
    """Move a tenth of each class from train to validation; a group moves with its first example."""
    train = examples[examples["split"] == "train"]
    # If most pairs hang together, splits share texts, and `notes` say how many.
    shared = number_dependent(task, train["ids"].tolist())
    numbers = np.arange(len(train)) if shared is None else shared
    place = np.random.default_rng(seed).permutation(numbers.max() + 1)[numbers]
    shuffled = train.assign(place=place).sort_values("place", kind="stable")
    classes = shuffled.groupby("label")["label"]
    early = 10 * classes.cumcount() < classes.transform("size")  # the first tenth of each class
    taken = early.groupby(shuffled["place"]).transform("first")  # a group follows its first example
    taken = taken[train.index]  # in the order of the file
    if train["label"][~taken].nunique() < train["label"].nunique():
        told = "no tenth of train leaves all groups whole and all classes; add validation.jsonl"
        raise ValueError(f"{folder}: {told}")
    examples.loc[taken.index[taken], "split"] = "validation"


def _deal_texts(task: Task, count: int, seed: int) -> Task:
    """Cross-validate over blocks of texts; documents of a group, and equal texts, share a block.

    A pair of two blocks is tested by none, so a text of one pair alone goes where the other goes.
    All others are shuffled and dealt in turn: those of pairs by how many use them, single ones
    class by class, so that blocks are alike.
    """
    used = {*itertools.chain.from_iterable(task.examples["ids"])}
    names = {each: task.groups.get(each) or str(task.contents[each]) for each in used}
    examples = [[names[text_id] for text_id in ids] for ids in task.examples["ids"]]
    uses = Counter(itertools.chain.from_iterable(examples))
    led, keys = {}, {}  # a name -> the one that it follows; or what it is dealt by
    for example, label in zip(examples, task.examples["label"], strict=True):
        first, second = sorted((example[0], example[-1]), key=uses.__getitem__)
        if uses[first] == 1 and first != second:
            led[first] = second
        keys.update({name: label if len(example) == 1 else -uses[name] for name in example})
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation([name for name in keys if name not in led]).tolist()
    dealt = {name: place % count for place, name in enumerate(sorted(shuffled, key=keys.get))}
    dealt |= {name: dealt[other] for name, other in led.items()}
    return replace(task, folds=count, blocks={each: dealt[names[each]] for each in used})


def limit_texts(task: Task, limit: int | None, seed: int) -> Task:
    """Reduce a task to the `limit` texts that most examples use; None keeps all.

    Texts that are used equally often are taken in random order, in turn from each split.
    `ValueError` if a class would lose all of its examples, or a retrieval all of its sources.
    """
    if limit is None or len(task.texts) <= limit:
        return task
    return _keep_texts(task, _choose_texts(task, limit, np.random.default_rng(seed)))


def _keep_texts(task: Task, kept: set[str]) -> Task:
    """The task on some of its texts; `ValueError` if all examples of a class or split are lost."""
    examples = task.examples[task.examples["ids"].map(kept.issuperset)]
    counts = [each.groupby("split")["label"].nunique() for each in (task.examples, examples)]
    if task.kind != "clustering" and not counts[0].equals(counts[1]):
        raise ValueError(f"{len(kept)} texts leave a class of a split without examples")
    texts = {text_id: text for text_id, text in task.texts.items() if text_id in kept}
    return replace(task, texts=texts, examples=examples.reset_index(drop=True))


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
