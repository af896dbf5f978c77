"""The evaluation tasks of a profile: every text once, and each task's examples as rows of these texts.

Texts that training and validation need come first, as Chapter 4 embeds no more than those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lib.config.schema import Profile
from lib.experiments import keys
from lib.store.records import once, store
from lib.tasks import Task, downsample, read


def tasks(profile: Profile) -> dict[str, Task]:
    """The tasks by name, read from their dataset folders."""
    return once("tasks", keys.tasks(profile), lambda: read(profile))


def texts(profile: Profile) -> list[str]:
    """Every task text once; two tasks share a text where both its id and its content are the same."""
    return _stored(profile)["texts"]


def count_for_validation(profile: Profile) -> int:
    """How many of the texts, the first ones, the splits for training and validation need."""
    return _stored(profile)["validation"]


def arrays(name: str, profile: Profile) -> dict[str, np.ndarray]:
    """A task as rows of the task texts.

    Classification: `classes`, `folds` (0 for none), and per split `inputs_<split>` (examples, 1 or 2) and
    `labels_<split>` (examples,); `groups_train` where folds must not cut a group. Retrieval: `candidates`, `sources`,
    and `targets_<number>` of each source. Clustering: `clusters` (texts,).
    """
    return store().arrays("task", keys.task_arrays(name, profile), lambda: _collected(profile)[1][name])


def examples(arrays: dict[str, np.ndarray], split: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of a classification task's split, at most `limit` of them with the class shares of all."""
    inputs, labels = arrays[f"inputs_{split}"], arrays[f"labels_{split}"]
    kept = slice(None) if limit is None else downsample(labels, limit)
    return inputs[kept], labels[kept]


def _stored(profile: Profile) -> dict[str, Any]:
    """`texts`, those of all tasks, and `validation`, how many of them training and validation need."""
    key = keys.tasks(profile)
    return once("task_texts", key, lambda: store().record("task_texts", key, lambda: _collected(profile)[0]))


def _collected(profile: Profile) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    return once("collected", keys.tasks(profile), lambda: _collect(tasks(profile), profile.tasks.limit))


def _collect(tasks: dict[str, Task], limit: int) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    """What `_stored` and `arrays` read: the texts of all tasks, and each task's rows of them."""
    rows: dict[tuple[str, str], int] = {}  # (id, text): place

    def collect(task: Task, ids: Iterable[str]) -> dict[str, int]:
        return {text_id: rows.setdefault((text_id, task.texts[text_id]), len(rows)) for text_id in ids}

    for task in tasks.values():
        for split in ("train", "validation"):
            kept = downsample(task.labels[split], limit) if split in task.labels else ()
            collect(task, (text_id for index in kept for text_id in task.inputs[split][index]))
    validation = len(rows)
    arrays = {name: _rows(task, collect(task, task.texts)) for name, task in tasks.items()}
    return {"texts": [text for _, text in rows], "validation": validation}, arrays


def _rows(task: Task, rows: dict[str, int]) -> dict[str, np.ndarray]:
    """A task's examples as rows of the task texts, all of them."""
    if task.kind == "retrieval":
        sources = [rows[source] for source in task.relevant]
        arrays = {"candidates": np.array(list(rows.values())), "sources": np.array(sources)}
        for number, targets in enumerate(task.relevant.values()):
            arrays[f"targets_{number}"] = np.array([rows[target] for target in targets if target in rows])
        return arrays
    if task.kind == "clustering":
        return {"clusters": np.array([str(task.clusters[text_id]) for text_id in rows])}
    arrays = {"classes": np.array(task.classes), "folds": np.int64(task.folds or 0)}
    for split, inputs in task.inputs.items():
        arrays[f"inputs_{split}"] = np.array([[rows[text_id] for text_id in ids] for ids in inputs])
        arrays[f"labels_{split}"] = np.asarray(task.labels[split])
    if task.folds and (groups := task.example_groups("train")) is not None:
        arrays["groups_train"] = groups
    return arrays
