"""Reads the tasks of dataset folders. The names of its files decide the kind of a task.

Mistakes that would make results wrong are refused, with file and line. Other flaws are common in
real data sets: an example given twice, a text on both sides of a split, a pair in both orders, one
text with two labels. They are kept, counted and reported in `notes`.
"""

import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, TypeAdapter

from lib.config.roles import ROLES
from lib.config.schema import CorpusSettings, TaskSettings
from lib.data import dataset_folder
from lib.data.dataset_folder import Documents, Id, Name, read_json_lines, select_fields, validate
from lib.data.sources import find_dataset, find_folder

SPLITS = ("train", "validation", "test")
PARTS = 10  # one of ten parts of train becomes validation, if a folder has no validation split
_KINDS = {
    "relevant.json": "retrieval",
    "clusters.jsonl": "clustering",
    "train.jsonl": "classification",
}
Part = tuple[np.ndarray, np.ndarray]  # the examples that a head trains on and is tested on
_EXAMPLE = TypeAdapter(dict[str, Name])
_ID = TypeAdapter(Id)
_Targets = Annotated[list[Id], Field(min_length=1)]
_RELEVANT = TypeAdapter(Annotated[dict[Id, _Targets], Field(min_length=1)])


@dataclass(frozen=True)
class Task:
    """One task, checked. It contains only examples that have texts.

    Two tasks share a text if its id and content are the same.

    Attributes
    ----------
    kind : str
        "classification", "retrieval" or "clustering".
    texts : dict
        {id: text} for every text that the task uses, in the order of the documents.
    inputs, labels, classes
        For classification: {split: [(id,) or (a, b), ...]}, {split: (examples,) int64, indices into
        `classes`}, and the sorted names of the classes.
    folds : int or None
        Number of folds for stratified cross-validation over "train", if there is no validation
        split.
    cross_fit : bool
        Whether "test" is cross-validated too, instead of being tested with heads trained on
        "train".
    blocks : dict
        {id: number of its block}, see `deal_blocks`; empty unless the folds are blocks of texts.
    groups : dict
        {id: name of what the text shares with others}. Folds never split a group.
    relevant : dict
        For retrieval: {source id: [target ids]}.
    clusters : dict
        For clustering: {id: cluster}.
    notes : tuple of str
        Remarks that readers of results should know.
    """

    kind: str
    texts: dict[str, str]
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None
    cross_fit: bool = False
    blocks: dict[str, int] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def example_groups(self, split: str) -> np.ndarray | None:
        """Number the groups of examples, which `make_folds` must not split.

        (examples,) int64, equal where examples share a group; None if no document has a group. For
        a task with blocks, (examples, 2) int64: the blocks of the first and the last text.
        """
        if self.blocks:
            ends = [(self.blocks[ids[0]], self.blocks[ids[-1]]) for ids in self.inputs[split]]
            return np.array(ends, dtype=np.int64)
        return number_groups(self.inputs[split], self.groups)

    def held_out(self) -> set[str]:
        """Return the ids of texts that a distillation corpus must not contain.

        These are the texts of validation and test examples, or of all examples if there are folds.
        For retrieval they are the sources and their targets; other candidates may be in the corpus.
        """
        splits = SPLITS if self.folds else SPLITS[1:]
        examples = (ids for split in splits for ids in self.inputs.get(split, ()))
        return {*self.relevant, *self.clusters}.union(*self.relevant.values(), *examples)


def read_tasks(roots: Sequence[Path], section: TaskSettings) -> dict[str, Task]:
    """Read the tasks of a profile by name, in the thesis' order."""
    list_kinds(roots, section)
    tasks = {}
    for name in section.names:
        entry = section.folders[name]
        folder = find_task(roots, entry.folder)
        options = entry.model_dump(exclude={"folder"})
        tasks[name] = read_task(folder, **options, seed=section.seed)
    return tasks


def list_kinds(roots: Sequence[Path], section: TaskSettings) -> dict[str, str]:
    """Return the kind of every task of a profile, from the names of its files, without reading it.

    Raises
    ------
    ValueError
        If a folder is missing, or a name from the thesis is given to a task of another kind.
    """
    kinds = {}
    for name in section.names:
        kinds[name] = kind(find_task(roots, section.folders[name].folder))
        role = ROLES.get(name, kinds[name])
        if role != kinds[name]:
            told = f"{name} is a {role} task in the thesis; give yours a name of its own"
            raise ValueError(f"tasks.folders.{name} is a {kinds[name]} task, and {told}")
    return kinds


def check_data(roots: Sequence[Path], corpus: CorpusSettings, tasks: TaskSettings) -> None:
    """Check that all dataset folders and tasks of a profile exist; else ValueError names one."""
    for name in corpus.names:
        if not any(find_dataset(roots, name).glob("documents*")):
            raise ValueError(f"{find_dataset(roots, name)}: it has no documents.jsonl")
    list_kinds(roots, tasks)


def find_task(roots: Sequence[Path], entry: str) -> Path:
    """Find the folder of a task, which is named `<dataset folder>/<task>`."""
    dataset, _, task = entry.partition("/")
    return find_folder(find_dataset(roots, dataset) / "tasks", task)


def held_out_contents(tasks: Mapping[str, Task]) -> np.ndarray:
    """Return checksums, (texts,) uint64, of all texts that a corpus must not contain."""
    texts = (task.texts[text_id] for task in tasks.values() for text_id in task.held_out())
    return np.unique(np.array([dataset_folder.content(text) for text in texts], dtype=np.uint64))


def kind(folder: Path) -> str:
    """Return "classification", "retrieval" or "clustering", from the names of a task's files."""
    held = [name for name in _KINDS if (folder / name).is_file()]
    if len(held) != 1:
        names = "train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl"
        given = " and ".join(held) or "none of them"
        raise ValueError(f"{folder}: expected a folder with {names}, found {given}")
    return _KINDS[held[0]]


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

    Parameters
    ----------
    folder : Path
        Contains train.jsonl and test.jsonl, relevant.json, or clusters.jsonl.
    folds : int, optional
        Number of folds for cross-validation over train. Then there must be no validation split, and
        test may be missing. With neither folds nor validation.jsonl, validation examples are taken
        from train, without splitting groups.
    cross_fit : bool
        Whether test is cross-validated too. This requires folds and a test split.
    blocks : int, optional
        Instead of folds: the examples of all splits are cross-validated over so many blocks of
        texts, see `deal_blocks`.
    texts : int, optional
        The largest number of texts to keep, see `limit_texts`.
    without : str, optional
        A regular expression. Texts in which it finds something, for instance a mark of their class,
        are left out, with all examples that use them.
    seed : int
        Seed for the choice of validation examples, of the texts to keep, and of the blocks.

    Raises
    ------
    ValueError
        For any mistake in the files, in one line with file and line number.
    """
    task_kind = kind(folder)
    splits = [split for split in SPLITS if (folder / f"{split}.jsonl").is_file()]
    if blocks:
        return _read_blocks(folder, splits, blocks, texts, without, seed)
    folded = splits and "validation" not in splits
    if not (folded if folds else not splits or "test" in splits):
        told = "test.jsonl and no folds, or folds of train.jsonl without validation.jsonl"
        raise ValueError(f"{folder}: expected {told}")
    if cross_fit and not (folds and "test" in splits):
        told = "folds and test.jsonl, which cross_fit cross-validates in Chapter 5"
        raise ValueError(f"{folder}: expected {told}")
    documents = Documents(folder.parents[1])
    if task_kind == "retrieval":
        task = _read_retrieval(folder, documents)
    elif task_kind == "clustering":
        task = _read_clustering(folder, documents)
    else:
        task = _read_classification(folder, documents, splits, folds, cross_fit, seed)
    return limit_texts(_leave_out(task, without), texts, seed)


def _read_blocks(
    folder: Path,
    splits: list[str],
    blocks: int,
    texts: int | None,
    without: str | None,
    seed: int,
) -> Task:
    """The examples of all splits as one, "train", cross-validated over blocks of texts."""
    if "test" not in splits:
        raise ValueError(f"{folder}: expected examples, which blocks cross-validate")
    documents = Documents(folder.parents[1])
    task = _read_classification(folder, documents, splits, None, False, seed, pooled=True)
    inputs = {"train": list(itertools.chain.from_iterable(task.inputs.values()))}
    labels = {"train": np.concatenate([*task.labels.values()])}
    task = _leave_out(replace(task, inputs=inputs, labels=labels), without)
    task = limit_texts(task, texts, seed)
    # Documents of a group, and equal texts, are not parted.
    names = {
        text_id: task.groups.get(text_id) or str(dataset_folder.content(text))
        for text_id, text in task.texts.items()
    }
    named = [tuple(names[text_id] for text_id in ids) for ids in task.inputs["train"]]
    dealt = deal_blocks(named, task.labels["train"], blocks, np.random.default_rng(seed))
    used = itertools.chain.from_iterable(task.inputs["train"])
    blocks_of_texts = {text_id: dealt[names[text_id]] for text_id in used}
    return replace(task, folds=blocks, blocks=blocks_of_texts)


def deal_blocks(
    inputs: Sequence[tuple[str, ...]],
    labels: np.ndarray,
    count: int,
    generator: np.random.Generator,
) -> dict[str, int]:
    """Deal the texts of examples into blocks: {name: number of its block}.

    inputs: one or two names of each example, of what must not be parted.

    A pair of two blocks is tested by none, so a text that one pair alone uses goes where the other
    text goes. All others are shuffled and dealt in turn: those of pairs by how many use them,
    single ones class by class, so that blocks are alike.
    """
    uses = Counter(itertools.chain.from_iterable(inputs))
    led = {}  # a name -> the one that it follows
    for names in inputs:
        first, second = sorted((names[0], names[-1]), key=uses.__getitem__)
        if uses[first] == 1 and first != second:
            led[first] = second
    keys = {}
    for names, label in zip(inputs, np.asarray(labels).tolist(), strict=True):
        for name in names:
            keys[name] = label if len(names) == 1 else -uses[name]
    shuffled = generator.permutation([name for name in keys if name not in led]).tolist()
    order = sorted(shuffled, key=keys.__getitem__)
    blocks = {name: place % count for place, name in enumerate(order)}
    return blocks | {name: blocks[other] for name, other in led.items()}


def _read_retrieval(folder: Path, documents: Documents) -> Task:
    contents, texts, groups = _index(documents)
    gold = _read_relevant(folder / "relevant.json", contents)
    relevant = {}
    for source, targets in gold.items():
        kept = [target for target in targets if target in texts]
        if source in texts and kept:
            relevant[source] = kept
    if not relevant:
        told = "no source with a text has a target with one"
        raise ValueError(f"{folder / 'relevant.json'}: {told}")
    dropped = len(gold) - len(relevant)
    notes = (f"{dropped} sources left out: a document without text",) if dropped else ()
    return Task("retrieval", texts, groups=groups, relevant=relevant, notes=notes)


def _read_clustering(folder: Path, documents: Documents) -> Task:
    contents, texts, groups = _index(documents)
    examples = _read_examples(folder, ["clusters"], contents)
    notes = tuple(_remark(examples, groups))
    examples = examples[examples["whole"]]
    clusters = dict(zip(examples["a"], examples["label"], strict=True))
    texts = {text_id: text for text_id, text in texts.items() if text_id in clusters}
    return Task("clustering", texts, groups=groups, clusters=clusters, notes=notes)


def _read_classification(
    folder: Path,
    documents: Documents,
    splits: list[str],
    folds: int | None,
    cross_fit: bool,
    seed: int,
    *,
    pooled: bool = False,
) -> Task:
    contents, texts, groups = _index(documents)
    examples = _read_examples(folder, splits, contents)
    notes = _remark(examples, groups, across=not (cross_fit or pooled))
    examples = examples[examples["whole"]]
    if not (folds or pooled) and "validation" not in splits:
        splits = [*splits, "validation"]
        examples = _carve_validation(folder, examples, groups, seed)
        notes.append(
            "no validation.jsonl: a tenth of each class of train serves, "
            "of whole groups where there are any"
        )
    used = {*examples["a"], *examples["b"]}
    texts = {text_id: text for text_id, text in texts.items() if text_id in used}
    classes = sorted(set(examples["label"]))
    inputs, labels = {}, {}
    for split in SPLITS:
        if split in splits:
            part = examples[examples["split"] == split]
            inputs[split] = part["ids"].tolist()
            labels[split] = pd.Index(classes).get_indexer(part["label"])
    return Task(
        "classification",
        texts,
        inputs,
        labels,
        classes,
        folds,
        cross_fit,
        groups=groups,
        notes=tuple(notes),
    )


def _index(documents: Documents) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    """Return {id: checksum} of all documents, {id: text} of those with a token, and {id: group}."""
    contents, texts, groups = {}, {}, {}
    for document, checksum in zip(documents, documents.contents.tolist(), strict=True):
        contents[document.id] = checksum
        if checksum:
            texts[document.id] = document.text
        if document.group:
            groups[document.id] = document.group
    return contents, texts, groups


def limit_texts(task: Task, limit: int | None, seed: int) -> Task:
    """Reduce a task to the `limit` texts that most examples use; None keeps all.

    Long documents are expensive to embed, and a few hundred often contain a third of the pairs.
    Texts that are used equally often are taken in random order, in turn from each split, so that
    splits of single documents keep equally many.

    Raises
    ------
    ValueError
        If a class would lose all of its examples, or a retrieval all of its sources.
    """
    if limit is None or len(task.texts) <= limit:
        return task
    return _keep_texts(task, _choose_texts(task, limit, np.random.default_rng(seed)))


def _leave_out(task: Task, pattern: str | None) -> Task:
    if pattern is None:
        return task
    marked = re.compile(pattern)
    kept = {text_id for text_id, text in task.texts.items() if not marked.search(text)}
    told = f"{len(task.texts) - len(kept)} texts left out: {pattern!r} is in them"
    return replace(_keep_texts(task, kept), notes=(*task.notes, told))


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
        told = "texts leave a class without examples, or no source: allow more"
        raise ValueError(f"{len(kept)} of {len(task.texts)} {told}")
    texts = {text_id: text for text_id, text in task.texts.items() if text_id in kept}
    clusters = {text_id: name for text_id, name in task.clusters.items() if text_id in kept}
    return replace(
        task, texts=texts, inputs=inputs, labels=labels, relevant=relevant, clusters=clusters
    )


def _choose_texts(task: Task, limit: int, generator: np.random.Generator) -> set[str]:
    """Leave out the text that fewest of the remaining examples use, again and again."""
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
    shuffled = generator.permutation([*task.texts]).tolist()
    places = {text_id: (-turns.get(text_id, 0), -place) for place, text_id in enumerate(shuffled)}
    kept = {*shuffled}
    queue = [(uses[text_id], places[text_id], text_id) for text_id in shuffled]
    heapq.heapify(queue)
    while len(kept) > limit:
        count, _, text_id = heapq.heappop(queue)
        if text_id not in kept or count > uses[text_id]:  # it has lost a partner since
            continue
        kept.remove(text_id)
        for other in partners[text_id]:
            if other in kept:
                uses[other] -= 1
                heapq.heappush(queue, (uses[other], places[other], other))
    return kept


def _read_relevant(path: Path, contents: Mapping[str, int]) -> dict[str, list[str]]:
    value = dataset_folder.parse_object(path, path.read_bytes())
    relevant = validate(path, _RELEVANT, value)
    if len(relevant) < len(value):  # two spellings of one id
        names = Counter(validate(path, _ID, source) for source in value)
        raise ValueError(f"{path}: source {names.most_common(1)[0][0]!r} occurs twice")
    for source, targets in relevant.items():
        if missing := {source, *targets} - contents.keys():
            told = f"id {min(missing)!r} is no document of this folder"
            raise ValueError(f"{path}: source {source!r}: {told}")
        if len({source, *targets}) <= len(targets):
            raise ValueError(f"{path}: source {source!r} lists itself or a target twice")
    return relevant


def _read_examples(folder: Path, splits: list[str], contents: Mapping[str, int]) -> pd.DataFrame:
    """Read every line of the splits, or of the clusters, and raise for the first mistake.

    Columns: split, where, label, ids (one or two), first and last id (a, b), the smaller and larger
    of their checksums (low, high), whether both have a text (whole), and the values of the first
    example with the same ids in either order (first_...).
    """
    rows = pd.DataFrame(_read_lines(folder, splits), columns=["split", "where", "ids", "label"])
    rows["a"], rows["b"] = rows["ids"].str[0], rows["ids"].str[-1]
    rows["both"] = rows["ids"].str.join(" and ")
    ends = [[contents.get(text_id, 0) for text_id in (ids[0], ids[-1])] for ids in rows["ids"]]
    rows["low"], rows["high"] = np.sort(np.array(ends, dtype=np.uint64)).T
    rows["whole"] = rows["low"] > 0
    same = rows.groupby(["split", rows["ids"].map(sorted).map(tuple)])
    rows = rows.join(same[["where", "label", "ids"]].transform("first").add_prefix("first_"))
    rows["home"] = rows.groupby("ids")["split"].transform("first")
    _refuse_broken(rows, splits, contents)
    return rows


def _refuse_broken(rows: pd.DataFrame, splits: list[str], contents: Mapping[str, int]) -> None:
    trained = rows["label"][rows["whole"] & (rows["split"] == splits[0])].unique()
    pair = rows["ids"].str.len() == 2
    other_label = rows["label"] != rows["first_label"]
    rules = {
        "id {a!r} is no document of this folder": ~rows["a"].isin(contents),
        "id {b!r} is no document of this folder": ~rows["b"].isin(contents),
        "a and b are one document, {a!r}": (rows["a"] == rows["b"]) & pair,
        "{both} has the label {label!r:.40}, and {first_label!r:.40} at {first_where}": other_label,
        "expected at least two classes in {split}, got {trained}": (rows.index == 0)
        & (len(trained) < 2),
        "label {label!r:.40} does not occur in train.jsonl": rows["whole"]
        & ~rows["label"].isin(trained),
        "{both} is in {home}.jsonl too; keep it in one split": rows["home"] != rows["split"],
        "no example of {split}.jsonl has a text": ~rows.groupby("split")["whole"].transform("any"),
    }
    for message, broken in rules.items():
        if broken.any():
            row = rows[broken].iloc[0].to_dict()
            told = message.format(**row, trained=", ".join(trained))
            more = f"; {broken.sum() - 1} lines more" if broken.sum() > 1 else ""
            raise ValueError(f"{row['where']}: {told}{more}")


def _read_lines(folder: Path, splits: list[str]) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield (split, file:line, ids, label) of every line. Labels are text: 1 and "1" are equal."""
    keys = None
    for split in splits:
        for where, values in read_json_lines(folder / f"{split}.jsonl"):
            if keys is None:
                pairs = split == "train" and "a" in values
                keys = ("a", "b", "label") if pairs else ("id", "label")
            example = validate(where, _EXAMPLE, select_fields(where, values, keys))
            *ids, label = example.values()
            yield split, where, tuple(ids), label


def _remark(rows: pd.DataFrame, groups: Mapping[str, str], across: bool = True) -> list[str]:
    """Count the flaws of examples in each split and, if `across`, between each two splits."""
    notes = []
    texts, held = {}, {}
    for split, part in rows.groupby("split", sort=False):
        one_text = (part["low"] == part["high"]) & (part["a"] != part["b"])
        first_label = part.groupby(["low", "high"])["label"].transform("first")
        counts = {
            "examples stand there twice": part.duplicated("ids"),
            "pairs stand there in the other order too": part["ids"] != part["first_ids"],
            "pairs join two documents of one text": one_text,
            "examples have the text of an earlier one and another label": part["label"]
            != first_label,
        }
        counts = {what: counted & part["whole"] for what, counted in counts.items()}
        counts["examples left out: a document without text"] = ~part["whole"]
        for what, counted in counts.items():
            if counted.any():
                notes.append(f"{split}.jsonl: {counted.sum()} {what}")
        texts[split] = {*part["low"], *part["high"]} - {0}
        held[split] = {groups[name] for name in (*part["a"], *part["b"]) if name in groups}
    for what, sides in (("texts", texts), ("groups", held)):
        for before, after in itertools.combinations(sides if across else (), 2):
            if shared := len(sides[before] & sides[after]):
                notes.append(f"{shared} {what} are in both {before} and {after}")
    return notes


def number_groups(
    inputs: Sequence[tuple[str, ...]], groups: Mapping[str, str]
) -> np.ndarray | None:
    """Number examples, (examples,) int64, so that those that share a group have equal numbers.

    Examples may also share a group indirectly, through other examples. A text without a group is a
    group of its own. The result is None if no text has a group.
    """
    if not any(text_id in groups for ids in inputs for text_id in ids):
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = []
    for ids in inputs:
        for text_id in (ids[0], ids[-1]):
            names.append(f"group {groups[text_id]}" if text_id in groups else f"id {text_id}")
    numbers, distinct = pd.factorize(pd.Series(names))
    ends = numbers.reshape(-1, 2).T
    links = coo_array((np.ones(len(inputs)), ends), shape=(len(distinct), len(distinct)))
    return connected_components(links, directed=False)[1][ends[0]].astype(np.int64)


def _carve_validation(
    folder: Path, rows: pd.DataFrame, groups: Mapping[str, str], seed: int
) -> pd.DataFrame:
    """Move a tenth of each class from train to validation; a group moves with its first example."""
    train = rows[rows["split"] == "train"]
    shared = number_groups(train["ids"].tolist(), groups)
    numbers = np.arange(len(train)) if shared is None else shared
    train = train.assign(place=np.random.default_rng(seed).permutation(numbers.max() + 1)[numbers])
    classes = train.sort_values("place", kind="stable").groupby("label")["label"]
    wanted = PARTS * classes.cumcount() < classes.transform("size")
    taken = train.index[wanted.groupby(train["place"]).transform("first")[train.index]]
    if train["label"].drop(taken).nunique() < train["label"].nunique():
        told = "no tenth of train leaves all groups whole and all classes; add validation.jsonl"
        raise ValueError(f"{folder}: {told}")
    return rows.assign(split=rows["split"].mask(rows.index.isin(taken), "validation"))


def make_folds(labels: np.ndarray, count: int, groups: np.ndarray | None) -> list[Part]:
    """Make stratified folds in file order, unshuffled (the author's code, IMDB).

    No group is split.

    groups: as of `Task.example_groups`. With blocks there is a fold for each block: an example is
    tested if both of its texts are in it, and trained on if neither is.

    Raises
    ------
    ValueError
        If there are fewer groups than folds, no class has an example for each fold, a fold is
        empty, or all examples outside a fold are of one class.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and groups.ndim == 2:
        inside = [groups == number for number in range(count)]
        folds = [(np.flatnonzero(~i.any(1)), np.flatnonzero(i.all(1))) for i in inside]
        return _check_folds(folds, labels)
    if groups is not None and len(np.unique(groups)) < count:
        told = "folds never split a group, and there are fewer groups than folds"
        raise ValueError(f"{told}, {len(np.unique(groups))} for {count}")
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return _check_folds(list(kind(count, shuffle=False).split(labels, labels, groups)), labels)


def _check_folds(folds: list[Part], labels: np.ndarray) -> list[Part]:
    if any(not len(test) or len(np.unique(labels[train])) < 2 for train, test in folds):
        raise ValueError(f"one of {len(folds)} folds is empty, or only one class is outside it")
    return folds


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Choose at most `limit` examples, the first ones of each class (the author's code).

    Each class keeps floor(its share x limit) examples. The smallest class also gets the remainder
    from rounding.

    Parameters
    ----------
    labels : (examples,) int
    limit : int

    Returns
    -------
    (kept,) int64, ascending rows of `labels`.
    """
    if len(labels) <= limit:
        return np.arange(len(labels), dtype=np.int64)
    classes, counts = np.unique(labels, return_counts=True)
    kept = counts * limit // len(labels)
    # If the smallest class has too few examples for the remainder, the next smallest takes more.
    for index in np.argsort(counts, kind="stable"):
        kept[index] += min(limit - kept.sum(), counts[index] - kept[index])
    rows = [np.flatnonzero(labels == label)[:n] for label, n in zip(classes, kept, strict=True)]
    return np.sort(np.concatenate(rows)).astype(np.int64)
