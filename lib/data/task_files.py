"""Reading the tasks of dataset folders; the kind of a task is told by its files.

What makes a result wrong is refused, with file and line. What real data sets do have - an example given twice, a text
on both sides of a split, a pair in both orders, one text with two labels - is kept, counted and said in `notes`.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, TypeAdapter

from lib.config.schema import Profile, TaskFolder
from lib.data import sources
from lib.data.dataset_folder import Documents, Id, Name, checked, fields, json_lines, parsed

SPLITS = ("train", "validation", "test")
PARTS = 10  # of train, one of which serves for validation where a folder has none
_KINDS = {
    "relevant.json": "retrieval",
    "clusters.jsonl": "clustering",
    "train.jsonl": "classification",
}
_EXAMPLE = TypeAdapter(dict[str, Name])
_RELEVANT = TypeAdapter(
    Annotated[dict[Id, Annotated[list[Id], Field(min_length=1)]], Field(min_length=1)]
)


@dataclass(frozen=True)
class Task:
    """One task, checked; only what has texts is in it. A text of two tasks is the same one where id and content are."""

    kind: str  # "classification", "retrieval" or "clustering"
    texts: dict[
        str, str
    ]  # {id: text}, every text that the task uses, in the order of its documents
    # classification: {split: [(id,) or (a, b), ...]}, {split: (examples,) int64, indices into `classes`}, sorted names
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = (
        None  # of stratified cross-validation over "train", where there is no validation split
    )
    groups: dict[str, str] = field(
        default_factory=dict
    )  # {id: what it shares with others}; folds never cut a group
    relevant: dict[str, list[str]] = field(
        default_factory=dict
    )  # retrieval: {source id: [target ids]}
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
    """The profile's tasks by name, in the order of `profile.tasks.names`."""
    root, section = sources.root(profile), profile.tasks
    entries = {name: section.folders[name] for name in section.names}
    tasks = {
        name: read(folder(root, entry), entry.folds, section.seed)
        for name, entry in entries.items()
    }
    return {
        name: fewer_texts(task, entries[name].texts, section.seed) for name, task in tasks.items()
    }


def folder(root: Path, entry: TaskFolder) -> Path:
    """The folder of a task."""
    dataset, _, task = entry.folder.partition("/")
    return root / dataset / "tasks" / task


def kind(path: Path) -> str:
    """ "classification", "retrieval" or "clustering", from the names of a task's files."""
    held = [name for name in _KINDS if (path / name).is_file()]
    if len(held) != 1:
        names = "train.jsonl and test.jsonl, or relevant.json, or clusters.jsonl"
        raise ValueError(
            f"{path}: expected a folder with {names}, found {' and '.join(held) or 'none of them'}"
        )
    return _KINDS[held[0]]


def read(path: Path, folds: int | None = None, seed: int = 42) -> Task:
    """The task in the folder `path` of a dataset folder.

    With `folds`, of cross-validation over train, it has no validation split and may do without test. With neither,
    validation examples are taken from train by `seed`; no group is cut.
    """
    task_kind = kind(path)
    splits = [split for split in SPLITS if (path / f"{split}.jsonl").is_file()]
    if (not splits or "validation" in splits) if folds else (splits and "test" not in splits):
        raise ValueError(
            f"{path}: expected test.jsonl and no folds, or folds of train.jsonl without validation.jsonl"
        )
    documents = Documents(path.parents[2], path.parents[1].name)
    rows = list(zip(documents, documents.contents.tolist(), strict=True))
    contents = {document.id: content for document, content in rows}
    texts = {document.id: document.text for document, content in rows if content}
    groups = {document.id: document.group for document, _ in rows if document.group}
    if task_kind == "retrieval":
        gold = _relevant(path / "relevant.json", contents)
        kept = {a: [b for b in targets if b in texts] for a, targets in gold.items() if a in texts}
        kept = {source: targets for source, targets in kept.items() if targets}
        dropped = len(gold) - len(kept)
        notes = [f"{dropped} sources left out: a document without text"] if dropped else []
        return Task(task_kind, texts, groups=groups, relevant=kept, notes=tuple(notes))
    examples = _examples(path, splits or ["clusters"], contents)
    notes = _remarks(examples, groups)
    examples = examples[examples["whole"]]
    if splits and not folds and "validation" not in splits:
        splits.append("validation")
        examples = _carve(path, examples, groups, seed)
        notes.append(
            "no validation.jsonl: a tenth of each class of train serves, of whole groups where there are any"
        )
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


def fewer_texts(task: Task, limit: int | None, seed: int) -> Task:
    """The task on at most `limit` of its texts, those that most examples use, and its examples of these; None: all.

    For long documents, which are dear to embed: a few hundred often hold a third of the pairs. Of texts used equally
    often a shuffled order decides, in which splits take turns, so that each keeps as many single documents.
    """
    if limit is None or len(task.texts) <= limit:
        return task
    generator, turns = np.random.default_rng(seed), dict[str, int]()
    for inputs in task.inputs.values():
        for turn, row in enumerate(generator.permutation(len(inputs))):
            turns |= {text_id: min(turn, turns.get(text_id, turn)) for text_id in inputs[row]}
    examples = [
        *itertools.chain(*task.inputs.values()),
        *((a, *targets) for a, targets in task.relevant.items()),
    ]
    uses = Counter(itertools.chain.from_iterable(examples))
    shuffled = generator.permutation([*task.texts]).tolist()
    kept = {*sorted(shuffled, key=lambda text_id: (-uses[text_id], turns.get(text_id, 0)))[:limit]}
    places = {split: range(len(inputs)) for split, inputs in task.inputs.items()}
    rows = {
        split: [row for row in places[split] if kept.issuperset(task.inputs[split][row])]
        for split in places
    }
    relevant = {
        a: [b for b in targets if b in kept] for a, targets in task.relevant.items() if a in kept
    }
    fewer = replace(
        task,
        texts={text_id: text for text_id, text in task.texts.items() if text_id in kept},
        inputs={
            split: [task.inputs[split][row] for row in kept_rows]
            for split, kept_rows in rows.items()
        },
        labels={split: task.labels[split][kept_rows] for split, kept_rows in rows.items()},
        relevant={source: targets for source, targets in relevant.items() if targets},
        clusters={
            text_id: cluster for text_id, cluster in task.clusters.items() if text_id in kept
        },
    )
    if any({*fewer.labels[split]} != {*task.labels[split]} for split in rows) or (
        task.relevant and not fewer.relevant
    ):
        raise ValueError(
            f"{limit} of {len(task.texts)} texts leave a class without examples, or no source: allow more"
        )
    return fewer


def _relevant(path: Path, contents: dict[str, int]) -> dict[str, list[str]]:
    relevant = checked(path, _RELEVANT, parsed(path, path.read_bytes()))
    for source, targets in relevant.items():
        if missing := {source, *targets} - contents.keys():
            raise ValueError(
                f"{path}: source {source!r}: id {min(missing)!r} is no document of this folder"
            )
        if len({source, *targets}) <= len(targets):
            raise ValueError(f"{path}: source {source!r} lists itself or a target twice")
    return relevant


def _examples(path: Path, splits: list[str], contents: dict[str, int]) -> pd.DataFrame:
    """A row for each line of the splits, or of the clusters; the first that breaks a rule is named.

    Columns: split, where, label, ids (one or two), their ends a and b, the contents of these (low and high), whether
    both have a text (whole), and what the first example of the same ids in either order has (first_...).
    """
    rows = pd.DataFrame(_lines(path, splits), columns=["split", "where", "ids", "label"])
    rows["a"], rows["b"], rows["both"] = (
        rows["ids"].str[0],
        rows["ids"].str[-1],
        rows["ids"].str.join(" and "),
    )
    ends = [[contents.get(text_id, 0) for text_id in (ids[0], ids[-1])] for ids in rows["ids"]]
    rows["low"], rows["high"] = np.sort(np.array(ends, dtype=np.uint64)).T
    rows["whole"] = rows["low"] > 0
    same = rows.groupby(["split", rows["ids"].map(sorted).map(tuple)])
    rows = rows.join(same[["where", "label", "ids"]].transform("first").add_prefix("first_"))
    rows["home"] = rows.groupby("ids")["split"].transform("first")
    trained = rows["label"][rows["whole"] & (rows["split"] == splits[0])].unique()
    rows["trained"] = ", ".join(trained)
    rules = {
        "id {a!r} is no document of this folder": ~rows["a"].isin(contents),
        "id {b!r} is no document of this folder": ~rows["b"].isin(contents),
        "a and b are one document, {a!r}": (rows["a"] == rows["b"]) & (rows["ids"].str.len() == 2),
        "{both} has the label {label!r:.40}, and {first_label!r:.40} at {first_where}": rows[
            "label"
        ]
        != rows["first_label"],
        "expected at least two classes in {split}, got {trained}": (rows.index == 0)
        & (len(trained) < 2),
        "label {label!r:.40} does not occur in train.jsonl": rows["whole"]
        & ~rows["label"].isin(trained),
        "{both} is in {home}.jsonl too; keep it in one split": rows["home"] != rows["split"],
    }
    for message, broken in rules.items():
        for row in rows[broken].head(1).to_dict("records"):
            told = f"; {broken.sum() - 1} lines more" if broken.sum() > 1 else ""
            raise ValueError(f"{row['where']}: {message.format(**row)}{told}")
    return rows


def _lines(path: Path, splits: list[str]) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """(split, file:line, ids, label) of every line; labels are text, so 1 and "1" are one class."""
    keys = None
    for split in splits:
        for where, values in json_lines(path / f"{split}.jsonl"):
            keys = keys or (
                ("a", "b", "label") if split == "train" and "a" in values else ("id", "label")
            )
            *ids, label = checked(where, _EXAMPLE, fields(where, values, keys)).values()
            yield split, where, tuple(ids), label


def _remarks(rows: pd.DataFrame, groups: dict[str, str]) -> list[str]:
    """What real examples do have, counted for each split and for each two of them."""
    splits = dict(list(rows.groupby("split", sort=False)))
    notes = []
    for split, part in splits.items():
        label = part.groupby(["low", "high"])["label"].transform("first")
        counts = {
            "examples stand there twice": part.duplicated("ids"),
            "pairs stand there in the other order too": part["ids"] != part["first_ids"],
            "pairs join two documents of one text": (part["low"] == part["high"])
            & (part["a"] != part["b"]),
            "examples have the text of an earlier one and another label": part["label"] != label,
        }
        counts = {what: counted & part["whole"] for what, counted in counts.items()}
        counts["examples left out: a document without text"] = ~part["whole"]
        notes += [
            f"{split}.jsonl: {counted.sum()} {what}"
            for what, counted in counts.items()
            if counted.any()
        ]
    texts = {split: {*part["low"], *part["high"]} - {0} for split, part in splits.items()}
    held = {
        split: {groups[i] for i in (*part["a"], *part["b"]) if i in groups}
        for split, part in splits.items()
    }
    for what, sides in (("texts", texts), ("groups", held)):
        for before, after in itertools.combinations(splits, 2):
            if shared := len(sides[before] & sides[after]):
                notes.append(f"{shared} {what} are in both {before} and {after}")
    return notes


def grouping(inputs: Sequence[tuple[str, ...]], groups: dict[str, str]) -> np.ndarray | None:
    """(examples,) int64: equal numbers where examples share a group, also through others; None if no text has a group.

    A text without a group is a group of its own.
    """
    if not any(text_id in groups for ids in inputs for text_id in ids):
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    named = [
        f"group {groups[i]}" if i in groups else f"id {i}"
        for ids in inputs
        for i in (ids[0], ids[-1])
    ]
    numbers, names = pd.factorize(pd.Series(named))
    ends = numbers.reshape(-1, 2).T
    links = coo_array((np.ones(len(inputs)), ends), shape=(len(names), len(names)))
    return connected_components(links, directed=False)[1][ends[0]].astype(np.int64)


def _carve(path: Path, rows: pd.DataFrame, groups: dict[str, str], seed: int) -> pd.DataFrame:
    """Moves a tenth of each class of train to validation; of a group all, where its first example is wanted."""
    train = rows[rows["split"] == "train"]
    shared = grouping(train["ids"].tolist(), groups)
    numbers = np.arange(len(train)) if shared is None else shared
    train = train.assign(place=np.random.default_rng(seed).permutation(numbers.max() + 1)[numbers])
    classes = train.sort_values("place", kind="stable").groupby("label")["label"]
    wanted = PARTS * classes.cumcount() < classes.transform("size")
    taken = train.index[wanted.groupby(train["place"]).transform("first")[train.index]]
    if train["label"].drop(taken).nunique() < train["label"].nunique():
        raise ValueError(
            f"{path}: no tenth of train leaves all groups whole and all classes; add validation.jsonl"
        )
    return rows.assign(split=rows["split"].mask(rows.index.isin(taken), "validation"))
