"""Evaluation tasks: what a task is, where tasks come from, and how splits are cut.

`load("gensim" | "folder" | "hub", names, ...)` gives the tasks of a source by name. The names are the thesis' (Section
5.2.1): ARXIV, IMDB, OC, AAN, S2ORC and PAN are classifications, WINES and GAMES retrievals; a folder may also hold
clusterings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Task:
    """One task. Texts are shared by id: two tasks of one source that hold the same id hold the same text.

    Attributes:
        name: as in the thesis.
        kind: "classification", "retrieval" or "clustering".
        texts: {id: text}, every text that the task uses, in a fixed order.
        inputs: classification: {split: [(id,) or (a, b), ...]}.
        labels: classification: {split: (examples,) int64, indices into `classes`}.
        classes: classification: the names of the classes.
        folds: number of stratified, unshuffled cross-validation folds over "train", where there is no validation split.
        relevant: retrieval: {source id: [target ids]}; all texts are candidates.
        clusters: clustering: {id: cluster}.
        notes: what a reader of results should know, e.g. that validation examples were taken from train.
    """

    name: str
    kind: str
    texts: dict[str, str]
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load(source: str, names: Sequence[str], **settings: Any) -> dict[str, Task]:
    """The tasks `names` of a source, in that order.

    Args:
        source: "gensim" (data.build.mini), "folder" (tasks.folder) or "hub" (data.build.thesis).
        names: task names.
        settings: passed to the source's own `load`.

    Raises:
        ValueError: unknown source or task; whatever the source's files have wrong.
    """
    if source == "gensim":
        from lib.data.build.mini.mini_tasks import load as load_source
    elif source == "folder":
        from lib.tasks.folder import load as load_source
    elif source == "hub":
        from lib.data.build.thesis.hub_tasks import load as load_source
    else:
        raise ValueError(f"source: expected gensim, folder or hub, got {source!r}")
    return load_source(tuple(names), **settings)


def classification(
    name: str, texts: dict[str, str], examples: dict[str, list[tuple[tuple[str, ...], str]]], **fields: Any
) -> Task:
    """A classification task from {split: [(ids, class name)]}; only texts that occur are kept, classes are sorted."""
    classes = sorted({label for split in examples.values() for _, label in split})
    number = {label: index for index, label in enumerate(classes)}
    used = {text_id for split in examples.values() for ids, _ in split for text_id in ids}
    return Task(
        name,
        "classification",
        {text_id: text for text_id, text in texts.items() if text_id in used},
        inputs={split: [ids for ids, _ in found] for split, found in examples.items()},
        labels={
            split: np.array([number[label] for _, label in found], dtype=np.int64) for split, found in examples.items()
        },
        classes=classes,
        **fields,
    )


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Indices of at most `limit` examples with the class shares of all, the first ones of each class (thesis code).

    Each class keeps floor(its share x limit) examples, the smallest class also gets what rounding left over.

    Args:
        labels: (examples,) class indices, in file order.
        limit: number of examples to keep; with as many or fewer examples all are kept.

    Returns:
        (kept,) int64, ascending.
    """
    labels = np.asarray(labels)
    if limit < 1:
        raise ValueError(f"limit: expected at least 1 example, got {limit}")
    if len(labels) <= limit:
        return np.arange(len(labels), dtype=np.int64)
    classes, counts = np.unique(labels, return_counts=True)
    kept = counts * limit // len(labels)
    # The smallest class rarely holds fewer examples than it is to get; then the next smallest takes the rest.
    for index in np.argsort(counts, kind="stable"):
        kept[index] += min(limit - kept.sum(), counts[index] - kept[index])
    found = [np.flatnonzero(labels == label)[:n] for label, n in zip(classes, kept, strict=True)]
    return np.sort(np.concatenate(found)).astype(np.int64)
