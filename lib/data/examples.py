"""What models are judged by: the examples of a classification in their folds, and queries.

Folds part neither groups nor texts: not the pairs that share one, nor what repeats its words.
Otherwise a classifier is tested on what it has read.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd

from lib.data.task_files import Task
from lib.evaluation.ranking import Queries
from lib.evaluation.readouts import Examples, Part

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
    inputs, labels = list[tuple[str, ...]](), list[np.ndarray]()
    for part in [trained] if folded else ["train", split]:
        size = cut if split == "validation" else len(task.labels[part])
        kept = downsample(task.labels[part], size)
        labels.append(task.labels[part][kept])
        inputs += [task.inputs[part][row] for row in kept]
    numbers = np.concatenate(labels)
    if folded:
        parts = make_folds([name_texts(task, ids) for ids in inputs], numbers, task.folds)
    else:
        parts = [tuple(np.split(np.arange(len(inputs)), [len(labels[0])]))]
    if limit is not None:
        for place, (train, test) in enumerate(parts):
            size = int(limit) if limit >= 1 else max(1, round(limit * len(train)))
            parts[place] = train[downsample(numbers[train], size)], test
    given = np.array(inputs, dtype=object)
    rows, ids = pd.factorize(given.ravel())
    texts = [task.texts[text_id] for text_id in ids]
    shared, places = number_dependent(task, inputs), rows.reshape(given.shape)
    return Examples(name, [*ids], texts, places, numbers, len(task.classes), parts, shared)


def read_queries(task: Task) -> Queries:
    """The queries of a retrieval, or of a clustering: each text that shares its cluster.

    Of a clustering, texts that are given again are left out: they would find each other.
    `ValueError` if no cluster has two texts.
    """
    ids, targets = pd.Series(task.texts.keys()), task.relevant
    if task.kind == "clustering":
        ids = ids[~ids.map(task.contents).duplicated()]
        clusters = ids.groupby(ids.map(task.clusters)).agg(list)
        targets = {text_id: clusters[task.clusters[text_id]] for text_id in ids}
    rows = {text_id: row for row, text_id in enumerate(ids)}
    relevant = {
        rows[source]: sorted({rows[target] for target in others if target != source})
        for source, others in targets.items()
        if len(others) > 1 or others[0] != source
    }
    if not relevant:
        raise ValueError("no cluster has two texts, so there is nothing to find")
    return Queries([*ids], [task.texts[text_id] for text_id in ids], relevant)


def name_texts(task: Task, ids: Sequence[str]) -> set[Hashable]:
    """What an example shares with others: the contents of its texts, and their groups."""
    groups = {f"group {task.groups[text_id]}" for text_id in ids if text_id in task.groups}
    return {*groups, *(task.contents[text_id] for text_id in ids)}


def number_dependent(task: Task, inputs: Sequence[tuple[str, ...]]) -> np.ndarray | None:
    """Number examples, (examples,) int64, equal where they depend on each other; None if none do.

    Two do if they share a text or a group, also through further examples. But if so most examples
    would hang together, as in most pair tasks, only texts that are given again as other documents
    count, and pairs of the same two texts. Where there are groups, a text without one is a group of
    its own.
    """
    used = {*itertools.chain.from_iterable(inputs)}
    grouped = not used.isdisjoint(task.groups)
    numbers = number_linked(name_texts(task, ids) for ids in inputs)
    if hang_together(numbers, 2):
        copies = Counter(task.contents[text_id] for text_id in used)
        names = []
        for ids in inputs:
            read = tuple(sorted(task.contents[text_id] for text_id in ids))
            each = {read} | {name for name in name_texts(task, ids) if copies[name] != 1}
            names.append(each | {f"id {i}" for i in ids if grouped and i not in task.groups})
        numbers = number_linked(names)
    return numbers if grouped or len(np.unique(numbers)) < len(numbers) else None


def hang_together(numbers: np.ndarray, count: int) -> bool:
    """Whether numbered examples are of fewer than `count` groups, or most are of one."""
    sizes = np.bincount(numbers)
    return len(sizes) < count or bool(2 * sizes.max() > sizes.sum())


def number_linked(names: Iterable[Iterable[Hashable]]) -> np.ndarray:
    """Number items, (items,) int64, so that those that share a name, also through others, agree."""
    from scipy.cluster.hierarchy import DisjointSet

    links, first = DisjointSet(), dict[Hashable, int]()
    for place, each in enumerate(names):
        links.add(place)
        for name in each:
            links.merge(place, first.setdefault(name, place))
    return pd.factorize(np.array([links[place] for place in links]))[0]


def make_folds(names: Sequence[set[Hashable]], labels: np.ndarray, count: int) -> list[Part]:
    """Make stratified folds in file order (the author's code, IMDB) that part no `names`.

    Names are what each example shares with others. Where pairs hang together through them, a fold
    has the pairs of some texts, those that most pairs use, and all that share a name with it are
    left out of its training. `ValueError` if there are too few groups or examples of a class.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    groups, uses = number_linked(names), Counter(itertools.chain.from_iterable(names))
    if hang_together(groups, count):
        most = [max((uses[name], str(name)) for name in each) for each in names]
        groups = pd.factorize(pd.Series(most))[0]
    kind = StratifiedKFold if len(np.unique(groups)) == len(groups) else StratifiedGroupKFold
    folds = []
    for train, test in kind(count, shuffle=False).split(labels, labels, groups):
        tested = set[Hashable]().union(*(names[row] for row in test))
        apart = train[[names[row].isdisjoint(tested) for row in train]]
        if not len(test) or len(np.unique(labels[apart])) < 2:
            told = (
                "is empty, or leaves one class outside; folds part neither groups nor equal texts"
            )
            raise ValueError(f"one of {count} folds {told}")
        folds.append((apart, test))
    return folds


def make_group_folds(groups: Sequence[str], contents: Sequence[int]) -> list[np.ndarray]:
    """Make at least two folds of items, each with a group and a text; returns (places,) for each.

    The largest has at most one group more than the smallest. A single group is ignored.
    """
    from sklearn.model_selection import GroupKFold

    numbers = number_linked(zip(groups, contents, strict=True))
    if not numbers.any():
        numbers = number_linked((each,) for each in contents)
    sizes = np.bincount(numbers)
    if len(sizes) < 2:
        raise ValueError("folds need two different texts")
    # Groups go to the smallest fold, the largest first; those of one size in random order.
    numbers = np.random.default_rng(42).permutation(len(sizes))[numbers]
    splitter = GroupKFold(max(2, min(FOLDS, len(numbers) // FOLD, len(sizes))))
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
