"""The texts of a profile, read once and kept in the store: what models are trained on and evaluated on.

Four sets of texts: "train" and "validation" are documents of the distillation corpus; "all_tasks" is every text of
every task once, "tasks" its beginning: the texts of training and validation, as Chapter 4 embeds no more than those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from lib.config import paths
from lib.config.schema import Profile
from lib.data import corpus as corpus_sources
from lib.data.corpus import Corpus, Document
from lib.experiments import keys
from lib.experiments.models import base_student
from lib.store.records import fingerprint, ragged, store, unragged
from lib.tasks import Task, downsample, load

T = TypeVar("T")
SETS = ("train", "validation", "tasks", "all_tasks")
_held: dict[tuple[str, str], Any] = {}  # what this process has read, by kind and key


def corpus(profile: Profile) -> Corpus:
    """The whole distillation corpus, training and validation documents."""
    return _once("corpus", keys.corpus(profile), lambda: _corpus(profile))


def tasks(profile: Profile) -> dict[str, Task]:
    """The tasks by name, read from their sources."""
    return _once("tasks", keys.tasks(profile), lambda: _tasks(profile))


def task_texts(profile: Profile) -> dict[str, str]:
    """Every task text once: {text id: text}; ids are `<task>/<id>` where two tasks give one id two texts."""
    return _task_texts(profile)["texts"]


def task_arrays(name: str, profile: Profile) -> dict[str, np.ndarray]:
    """A task as rows of the task texts.

    Classification: `classes`, `folds` (0 for none), and per split `inputs_<split>` (examples, 1 or 2) and
    `labels_<split>` (examples,). Retrieval: `candidates`, `sources`, and `targets_<number>` of each source. Clustering:
    `clusters` (texts,).
    """
    return store().arrays("task", f"{keys.tasks(profile)}-{name}", lambda: _collected(profile)[1][name])


def names(kind: str, profile: Profile) -> list[str]:
    """The profile's tasks of a kind, "classification", "retrieval" or "clustering", in the profile's order."""
    mark = {"classification": "classes", "retrieval": "candidates", "clustering": "clusters"}[kind]
    return [name for name in profile.tasks.names if mark in task_arrays(name, profile)]


def texts(name: str, profile: Profile) -> list[str]:
    """The texts of a set, in the order of its rows; of the training documents those that the students see."""
    if name in ("tasks", "all_tasks"):
        every = list(task_texts(profile).values())
        return every if name == "all_tasks" else every[: _task_texts(profile)["validation"]]
    split = corpus(profile).validation if name == "validation" else corpus(profile).train[: profile.training.documents]
    return [document.text for document in split]


def token_ids(name: str, profile: Profile) -> list[list[int]]:
    """The texts of a set as the student's token ids, truncated at its maximum, special tokens included."""
    key = fingerprint({"base": keys.base(profile), "texts": keys.text_set(name, profile)})
    return unragged(store().arrays("tokens", key, lambda: ragged(base_student(profile).tokenize(texts(name, profile)))))


def examples(arrays: dict[str, np.ndarray], split: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of a classification task's split, at most `limit` of them with the class shares of all."""
    inputs, labels = arrays[f"inputs_{split}"], arrays[f"labels_{split}"]
    kept = slice(None) if limit is None else downsample(labels, limit)
    return inputs[kept], labels[kept]


def _corpus(profile: Profile) -> Corpus:
    if profile.corpus.source == "hub":  # the library `datasets` keeps these on disk; they are never all held
        return _read_corpus(profile)
    stored = store().record("corpus", keys.corpus(profile), lambda: _plain(_read_corpus(profile)))
    return Corpus(*([Document(**document) for document in stored[split]] for split in ("train", "validation")))


def _read_corpus(profile: Profile) -> Corpus:
    section = profile.corpus
    sizes = section.model_dump(include={"train_documents", "validation_documents", "seed"})
    if section.source == "gensim":
        return corpus_sources.gensim_corpus(**sizes)
    sizes |= section.model_dump(include={"datasets", "min_news_tokens"})
    tokenizer = base_student(profile).tokenizer if section.min_news_tokens else None
    if section.source == "folder":
        return corpus_sources.folder_corpus(paths.data_root(profile), tokenizer=tokenizer, **sizes)
    return corpus_sources.hub_corpus(tokenizer=tokenizer, **sizes)


def _tasks(profile: Profile) -> dict[str, Task]:
    section = profile.tasks
    settings = section.model_dump(exclude={"source", "names", "limit", "folders"})
    if section.source == "folder":
        settings = {"root": paths.data_root(profile), "folders": section.folders, "seed": section.seed}
    elif section.source == "hub":
        settings = {"root": paths.data_root(profile)}
    return load(section.source, section.names, **settings)


def _task_texts(profile: Profile) -> dict[str, Any]:
    """`texts`, {text id: text} of all tasks, and `validation`, how many of them training and validation need."""
    key = keys.tasks(profile)
    return _once("task_texts", key, lambda: store().record("task_texts", key, lambda: _collected(profile)[0]))


def _collected(profile: Profile) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    return _once("collected", keys.tasks(profile), lambda: _collect(tasks(profile), profile.tasks.limit))


def _collect(tasks: dict[str, Task], limit: int) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    """What `_task_texts` and `task_arrays` read: the texts of all tasks, and each task's rows of them."""
    every: dict[str, str] = {}
    unique: dict[str, dict[str, str]] = {name: {} for name in tasks}

    def collect(name: str, ids: Iterable[str]) -> None:
        for text_id in ids:
            text = tasks[name].texts[text_id]
            unique[name][text_id] = text_id if every.get(text_id, text) == text else f"{name}/{text_id}"
            every[unique[name][text_id]] = text

    for name, task in tasks.items():
        for split in ("train", "validation"):
            kept = downsample(np.asarray(task.labels[split]), limit) if split in task.labels else ()
            collect(name, (text_id for index in kept for text_id in task.inputs[split][index]))
    validation = len(every)
    for name, task in tasks.items():
        collect(name, task.texts)
    row = {text_id: number for number, text_id in enumerate(every)}
    arrays = {
        name: _task_arrays(task, {text_id: row[unique[name][text_id]] for text_id in task.texts})
        for name, task in tasks.items()
    }
    return {"texts": every, "validation": validation}, arrays


def _task_arrays(task: Task, rows: dict[str, int]) -> dict[str, np.ndarray]:
    """A task's examples as rows of the task texts, all of them."""
    if task.kind == "retrieval":
        return {
            "candidates": np.array(list(rows.values())),
            "sources": np.array([rows[source] for source in task.relevant]),
            **{
                f"targets_{number}": np.array([rows[target] for target in targets if target in rows])
                for number, targets in enumerate(task.relevant.values())
            },
        }
    if task.kind == "clustering":
        return {"clusters": np.array([str(task.clusters[text_id]) for text_id in rows])}
    arrays = {"classes": np.array(task.classes), "folds": np.int64(task.folds or 0)}
    for split, inputs in task.inputs.items():
        arrays[f"inputs_{split}"] = np.array([[rows[text_id] for text_id in ids] for ids in inputs])
        arrays[f"labels_{split}"] = np.asarray(task.labels[split])
    return arrays


def _plain(corpus: Corpus) -> dict[str, list[dict[str, str]]]:
    return {split: [vars(document) for document in getattr(corpus, split)] for split in ("train", "validation")}


def _once(kind: str, key: str, read: Callable[[], T]) -> T:
    if (kind, key) not in _held:
        _held[kind, key] = read()
    return _held[kind, key]
