"""What models are judged by: the examples of a classification in their folds, and queries.

Folds part neither groups nor texts: not the pairs that share one, nor what repeats its words.
Otherwise a classifier is tested on what it has read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lib.evaluation.ranking import Queries
from lib.evaluation.readouts import Examples, Part

if TYPE_CHECKING:
    from lib.data.task_files import Task

Inputs = Sequence[tuple[str, ...]]  # the ids of examples, one or two
FOLDS, FOLD = 5, 20  # at most so many folds of groups; fewer if a fold would have fewer items


def read_examples(
    name: str, task: Task, split: str, cut: int, limit: float | None = None
) -> Examples:
    """The examples that models are judged by. `ValueError` if folds cannot be made.

    A task without `split` is cross-validated on "train", a `cross_fit` task on that split. For
    "validation" (Chapter 4) at most `cut` examples of each split are taken. `limit` is the number
    of training examples (Chapter 5), or below 1 their share.
    """
    folded = task.cross_fit or split not in task.inputs
    trained = "test" if task.cross_fit and split == "test" else "train"
    inputs, labels, kept = list[tuple[str, ...]](), list[np.ndarray](), np.empty(0)
    for part in [trained] if folded else ["train", split]:
        size = len(task.labels[part])
        kept = downsample(task.labels[part], cut if split == "validation" else size)
        labels.append(task.labels[part][kept])
        inputs += [task.inputs[part][row] for row in kept]
    if folded:
        groups = group_examples(task, trained)
        parts = make_folds(labels[0], task.folds, None if groups is None else groups[kept])
    else:
        train, test = np.split(np.arange(len(inputs)), [len(labels[0])])
        parts = [(train, test)]
    numbers = np.concatenate(labels)
    if limit is not None:
        whole, parts = parts, []
        for train, test in whole:
            size = int(limit) if limit >= 1 else max(1, round(limit * len(train)))
            parts.append((train[downsample(numbers[train], size)], test))
    given = np.array(inputs, dtype=object)
    rows, ids = pd.factorize(given.ravel())
    texts = [task.texts[text_id] for text_id in ids]
    places, classes = rows.reshape(given.shape), len(task.classes)
    return Examples(name, [*ids], texts, places, numbers, classes, parts)


def read_queries(task: Task) -> Queries:
    """The queries of a retrieval, or of a clustering: each text that shares its cluster.

    Of a clustering, texts that are given again are left out: they would find each other.
    `ValueError` if no cluster has two texts.
    """
    ids = pd.Series(task.texts.keys())
    if task.kind == "clustering":
        ids = ids[~ids.map(task.contents).duplicated()].reset_index(drop=True)
        clusters = ids.index.to_series().groupby(ids.map(task.clusters)).apply(list)
        relevant = {
            row: [other for other in cluster if other != row]
            for cluster in clusters
            for row in cluster
            if len(cluster) > 1
        }
    else:
        rows = dict(zip(ids, ids.index, strict=True))
        relevant = {
            rows[source]: sorted({rows[target] for target in targets})
            for source, targets in task.relevant.items()
        }
    if not relevant:
        raise ValueError("no cluster has two texts, so there is nothing to find")
    return Queries([*ids], [task.texts[text_id] for text_id in ids], relevant)


def group_examples(task: Task, split: str) -> np.ndarray | None:
    """What `make_folds` must not part: as `number_groups`, or blocks if the task has them.

    Blocks are (examples, 2) int64, those of the first and the last text.
    """
    inputs = task.inputs[split]
    if task.blocks:
        return np.array([(task.blocks[ids[0]], task.blocks[ids[-1]]) for ids in inputs])
    return number_groups(task, inputs, linked=True)


def number_groups(task: Task, inputs: Inputs, *, linked: bool) -> np.ndarray | None:
    """Number examples, (examples,) int64, equal where they depend on each other; None if none do.

    Two do if they have the same texts, if the text of one is given again as another document of the
    other, if they share a group or, with `linked`, a text; also through further examples. Where
    there are groups, a text without one is a group of its own.
    """
    used = {*itertools.chain.from_iterable(inputs)}
    grouped = not used.isdisjoint(task.groups)
    copies = Counter(task.contents[text_id] for text_id in used)
    names = []
    for ids in inputs:
        read = sorted(task.contents[text_id] for text_id in ids)
        each: set[Hashable] = {tuple(read), *(text for text in read if linked or copies[text] > 1)}
        if grouped:
            each |= {f"group {task.groups[i]}" if i in task.groups else f"id {i}" for i in ids}
        names.append(each)
    numbers = _number_linked(names)
    return numbers if grouped or len(np.unique(numbers)) < len(numbers) else None


def number_dependent(task: Task, inputs: Inputs) -> np.ndarray | None:
    """`number_groups`, linked unless most examples would hang together, as in most pair tasks.

    Intervals then count pairs that share a text as independent.
    """
    linked = number_groups(task, inputs, linked=True)
    return number_groups(task, inputs, linked=False) if hang_together(linked, 2) else linked


def hang_together(numbers: np.ndarray | None, count: int) -> bool:
    """Whether groups of `number_groups` are fewer than `count`, or one has most examples."""
    sizes = np.bincount(np.arange(2 * count) if numbers is None else numbers)
    return len(sizes) < count or bool(2 * sizes.max() > sizes.sum())


def _number_linked(names: Iterable[Iterable[Hashable]]) -> np.ndarray:
    """Number items, (items,) int64, so that those that share a name, also through others, agree."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = pd.Series([list(each) for each in names]).explode()
    rows, (places, distinct) = links.index.to_numpy(), pd.factorize(links)
    count, size = rows[-1] + 1, rows[-1] + 1 + len(distinct)
    graph = coo_array((np.ones(len(rows)), (rows, count + places)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:count].astype(np.int64)


def make_folds(labels: np.ndarray, count: int, groups: np.ndarray | None) -> list[Part]:
    """Make stratified folds in file order (the author's code, IMDB) that part no `groups`.

    With blocks, see `group_examples`, there is a fold for each: an example is tested if both of its
    texts are in it, and trained on if neither is. `ValueError` if there are too few groups or
    examples of a class.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and groups.ndim == 2:
        inside = [groups == number for number in range(count)]
        folds = [(np.flatnonzero(~i.any(1)), np.flatnonzero(i.all(1))) for i in inside]
    else:
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        folds = list(kind(count, shuffle=False).split(labels, labels, groups))
    if any(not len(test) or len(np.unique(labels[train])) < 2 for train, test in folds):
        told = "is empty, or leaves one class outside; folds part neither groups nor equal texts"
        raise ValueError(f"one of {count} folds {told}")
    return folds


def make_group_folds(groups: Sequence[str], contents: Sequence[int]) -> list[np.ndarray]:
    """Make at least two folds of items, each with a group and a text; returns (places,) for each.

    The largest has at most one group more than the smallest. A single group is ignored.
    """
    from sklearn.model_selection import GroupKFold

    numbers = _number_linked(zip(groups, contents, strict=True))
    if not numbers.any():
        numbers = _number_linked((each,) for each in contents)
    sizes = np.bincount(numbers)
    if len(sizes) < 2:
        raise ValueError("folds need two different texts")
    count = max(2, min(FOLDS, len(numbers) // FOLD, len(sizes)))
    if sizes.min() == sizes.max():
        splitter = GroupKFold(count, shuffle=True, random_state=42)
    else:  # the largest first, each to the smallest fold; random among those of one size
        splitter = GroupKFold(count)
        numbers = np.random.default_rng(42).permutation(len(sizes))[numbers]
    return [test for _, test in splitter.split(numbers, groups=numbers)]


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Choose at most `limit` examples, the first ones of each class (the author's code).

    Each class keeps floor(its share x limit), the smallest also the remainder. Ascending rows.
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
