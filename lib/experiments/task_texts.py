"""The evaluation tasks of a profile: every text once, and each task's examples as rows of these texts.

Texts that training and validation need come first, as Chapter 4 embeds no more than those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lib.config import paths
from lib.config.schema import Profile
from lib.experiments import keys
from lib.store.records import once, store
from lib.tasks import Task, downsample, load


def tasks(profile: Profile) -> dict[str, Task]:
    """The tasks by name, read from their sources."""
    return once("tasks", keys.tasks(profile), lambda: _tasks(profile))


def texts(profile: Profile) -> dict[str, str]:
    """Every task text once: {text id: text}; ids are `<task>/<id>` where two tasks give one id two texts."""
    return _stored(profile)["texts"]


def count_for_validation(profile: Profile) -> int:
    """How many of the texts, the first ones, the splits for training and validation need."""
    return _stored(profile)["validation"]


def arrays(name: str, profile: Profile) -> dict[str, np.ndarray]:
    """A task as rows of the task texts.

    Classification: `classes`, `folds` (0 for none), and per split `inputs_<split>` (examples, 1 or 2) and
    `labels_<split>` (examples,). Retrieval: `candidates`, `sources`, and `targets_<number>` of each source. Clustering:
    `clusters` (texts,).
    """
    return store().arrays("task", keys.task_arrays(name, profile), lambda: _collected(profile)[1][name])


def names(kind: str, profile: Profile) -> list[str]:
    """The profile's tasks of a kind, "classification", "retrieval" or "clustering", in the profile's order."""
    mark = {"classification": "classes", "retrieval": "candidates", "clustering": "clusters"}[kind]
    return [name for name in profile.tasks.names if mark in arrays(name, profile)]


def examples(arrays: dict[str, np.ndarray], split: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of a classification task's split, at most `limit` of them with the class shares of all."""
    inputs, labels = arrays[f"inputs_{split}"], arrays[f"labels_{split}"]
    kept = slice(None) if limit is None else downsample(labels, limit)
    return inputs[kept], labels[kept]


def _tasks(profile: Profile) -> dict[str, Task]:
    section = profile.tasks
    settings = section.model_dump(exclude={"source", "names", "limit", "folders"})
    if section.source == "folder":
        settings = {"root": paths.data_root(profile), "folders": section.folders, "seed": section.seed}
    elif section.source == "hub":
        settings = {"root": paths.data_root(profile)}
    return load(section.source, section.names, **settings)


def _stored(profile: Profile) -> dict[str, Any]:
    """`texts`, {text id: text} of all tasks, and `validation`, how many of them training and validation need."""
    key = keys.tasks(profile)
    return once("task_texts", key, lambda: store().record("task_texts", key, lambda: _collected(profile)[0]))


def _collected(profile: Profile) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    return once("collected", keys.tasks(profile), lambda: _collect(tasks(profile), profile.tasks.limit))


def _collect(tasks: dict[str, Task], limit: int) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    """What `_task_texts` and `arrays` read: the texts of all tasks, and each task's rows of them."""
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
    rows = {
        name: _rows(task, {text_id: row[unique[name][text_id]] for text_id in task.texts})
        for name, task in tasks.items()
    }
    return {"texts": every, "validation": validation}, rows


def _rows(task: Task, rows: dict[str, int]) -> dict[str, np.ndarray]:
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
