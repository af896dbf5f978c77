"""What models read: five sets of texts, as texts and as the student's token ids.

"train" and "validation" are documents of the distillation corpus, "train" those that the students see; "halves" are the
validation documents cut in two, all first halves before all second ones. "all_tasks" is every text of every task once,
"tasks" its beginning, which training and validation need: Chapter 4 embeds no more."""

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import Profile
from lib.data import corpus as dataset_corpus
from lib.data.corpus import Corpus
from lib.data.dataset_folder import Document
from lib.experiments import keys, models
from lib.store.records import once, store
from lib.tasks import Task, downsample, read

NAMES = ("train", "validation", "halves", "tasks", "all_tasks")
_PIECE = 1000  # texts whose token ids are in memory at once


def corpus(profile: Profile) -> Corpus:
    """The distillation corpus, all of it. The store keeps which documents it draws; texts stay in their folders."""
    recipe = keys.corpus(profile)
    select = functools.partial(
        dataset_corpus.select, profile, lambda: models.base_student(profile).tokenizer
    )
    return once(recipe, lambda: dataset_corpus.read(profile, store().arrays(recipe, select)))


@dataclass(frozen=True)
class Texts(Sequence[str]):
    """The texts of documents, read from disk when they are asked for."""

    documents: Sequence[Document]

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, row: int | slice) -> Any:
        return Texts(self.documents[row]) if isinstance(row, slice) else self.documents[row].text


class TokenIds(Sequence[np.ndarray]):
    """Documents as token ids, int32 (tokens,) each. ids: of all, one after another. lengths: (documents,)."""

    def __init__(self, ids: np.ndarray, lengths: np.ndarray):
        self.ids, self.lengths, self.ends = ids, lengths, np.cumsum(lengths)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[each] for each in range(len(self))[row]]
        return self.ids[self.ends[row] - self.lengths[row] : self.ends[row]]


def texts(name: str, profile: Profile) -> Sequence[str]:
    """The texts of a set, in the order of its rows; those of documents stay on disk."""
    if name in ("tasks", "all_tasks"):
        of_tasks = _of_tasks(profile)
        return of_tasks["texts"][: of_tasks["validation"] if name == "tasks" else None]
    whole = corpus(profile)
    if name == "train":
        return Texts(whole.train[: profile.training.documents])
    if name == "validation":
        return Texts(whole.validation)
    halves = [_halves(document.text) for document in whole.validation]
    return [first for first, _ in halves] + [second for _, second in halves]


def token_ids(name: str, profile: Profile) -> TokenIds:
    """The texts of a set as the student's token ids, truncated at its maximum, special tokens included."""
    student = functools.cache(lambda: models.base_student(profile))

    def tokenize(part: Sequence[str]) -> dict[str, np.ndarray]:
        ids = student().tokenize(part)
        flat = np.fromiter(itertools.chain.from_iterable(ids), dtype=np.int32)
        return {"ids": flat, "lengths": np.array([len(row) for row in ids], dtype=np.int64)}

    return TokenIds(
        **store().mapped(
            keys.tokens(name, profile), lambda: texts(name, profile), tokenize, piece=_PIECE
        )
    )


def _halves(text: str) -> tuple[str, str]:
    """The words of a text in two parts of about one length; both are the text if it is one word."""
    words = text.split()
    middle = len(words) // 2
    return " ".join(words[:middle]) or text, " ".join(words[middle:])


def task(name: str, profile: Profile) -> dict[str, np.ndarray]:
    """A task as rows of "all_tasks": `clusters` (texts,), or `candidates`, `sources` and their `targets_<number>`, or
    `classes`, `folds` (0 for none), `inputs_<split>` (examples, 1 or 2), `labels_<split>`, perhaps `groups_train`."""
    rows = _of_tasks(profile)["tasks"][name]
    return {
        key: np.array(values, dtype=None if values else np.int64) for key, values in rows.items()
    }


def examples(
    task: dict[str, np.ndarray], split: str, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of a classification task's split, at most `limit` of them with the class shares of all."""
    labels = task[f"labels_{split}"]
    kept = slice(None) if limit is None else downsample(labels, limit)
    return task[f"inputs_{split}"][kept], labels[kept]


def groups(inputs: np.ndarray, profile: Profile) -> np.ndarray:
    """What the texts of examples share with others, an article for instance: names, in the shape of `inputs`."""
    return np.array(_of_tasks(profile)["groups"])[inputs]


def _of_tasks(profile: Profile) -> dict[str, Any]:
    """`texts` and their `groups`; `validation`, how many of them, the first, all splits but test need; `tasks`."""
    recipe = keys.tasks(profile)
    return once(
        recipe, lambda: store().record(recipe, lambda: _collect(read(profile), profile.tasks.limit))
    )


def _collect(tasks: dict[str, Task], limit: int) -> dict[str, Any]:
    """What `_of_tasks` keeps; two tasks share a text where both its id and its content are the same."""
    rows: dict[tuple[str, str], int] = {}  # (id, text): place

    def collect(task: Task, ids: Iterable[str]) -> dict[str, int]:
        return {
            text_id: rows.setdefault((text_id, task.texts[text_id]), len(rows)) for text_id in ids
        }

    for task, split in itertools.product(tasks.values(), ("train", "validation")):
        kept = downsample(task.labels[split], limit) if split in task.labels else ()
        collect(task, (text_id for index in kept for text_id in task.inputs[split][index]))
    validation = len(rows)
    collected = {name: _rows(task, collect(task, task.texts)) for name, task in tasks.items()}
    groups = ((task.texts, *group) for task in tasks.values() for group in task.groups.items())
    named = {(text_id, texts[text_id]): name for texts, text_id, name in groups if text_id in texts}
    return {
        "texts": [text for _, text in rows],
        "groups": [
            named.get(text, f"{place}: {text[0]}") for text, place in rows.items()
        ],  # alone if it has none
        "validation": validation,
        "tasks": collected,
    }


def _rows(task: Task, rows: dict[str, int]) -> dict[str, Any]:
    """A task's examples as plain values; rows: of each of its texts."""
    if task.kind == "retrieval":
        targets = [
            [rows[target] for target in targets if target in rows]
            for targets in task.relevant.values()
        ]
        numbered = {f"targets_{number}": places for number, places in enumerate(targets)}
        return {
            "candidates": list(rows.values()),
            "sources": [rows[source] for source in task.relevant],
            **numbered,
        }
    if task.kind == "clustering":
        return {"clusters": [str(task.clusters[text_id]) for text_id in rows]}
    values: dict[str, Any] = {"classes": task.classes, "folds": task.folds or 0}
    for split, inputs in task.inputs.items():
        values[f"inputs_{split}"] = [[rows[text_id] for text_id in ids] for ids in inputs]
        values[f"labels_{split}"] = task.labels[split].tolist()
    if task.folds and (groups := task.example_groups("train")) is not None:
        values["groups_train"] = groups.tolist()
    return values
