"""What models are judged by: the examples of a classification in their folds, and queries.

No group or text is on both sides of a fold, not even as a copy or in another pair. Otherwise a
classifier would be tested on what it has read.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import DisjointSet
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold

from lib.data.task_files import Task
from lib.evaluation.ranking import Queries
from lib.evaluation.readouts import Examples, Part

FOLDS, FOLD = 5, 20  # at most so many folds of groups; fewer if a fold would have fewer items


def read_examples(
    name: str, task: Task, split: str, per_split: int, trained_on: float | None = None
) -> Examples:
    """The examples that models are judged by. `ValueError` if folds cannot be made.
    A task without `split` is cross-validated on "train", a `cross_fit` task on that split. For
    "validation" (Chapter 4) at most `per_split` examples of each split are taken. `trained_on` is
    the number of training examples (Chapter 5), or below 1 their share.
    """
    folded = task.cross_fit or split not in task.inputs
    trained = "test" if task.cross_fit and split == "test" else "train"
    inputs, labels = list[tuple[str, ...]](), list[np.ndarray]()
    for part in [trained] if folded else ["train", split]:
        size = per_split if split == "validation" else len(task.labels[part])
        kept = downsample(task.labels[part], size)
        labels.append(task.labels[part][kept])
        inputs += [task.inputs[part][row] for row in kept]
    numbers = np.concatenate(labels)
    if folded:
        parts = make_folds(number_texts(task, inputs), numbers, task.folds)
    else:
        parts = [tuple(np.split(np.arange(len(inputs)), [len(labels[0])]))]  # train was read first
    if trained_on is not None:
        for place, (train, test) in enumerate(parts):
            size = int(trained_on) if trained_on >= 1 else max(1, round(trained_on * len(train)))
            parts[place] = train[downsample(numbers[train], size)], test
    given = np.array(inputs, dtype=object)
    rows, ids = pd.factorize(given.ravel())
    texts = [task.texts[text_id] for text_id in ids]
    places, classes = rows.reshape(given.shape), len(task.classes)
    return Examples(name, [*ids], texts, places, numbers, classes, parts)


def read_queries(task: Task) -> Queries:
    """The queries of a retrieval or clustering, whose copies are one text; `ValueError` if none."""
    seen = dict[int, str]()
    # Sorted, so that the order of the file does not decide which copy stands for the others.
    in_order = sorted(task.texts, key=lambda i: (task.texts[i], task.clusters.get(i, "")))
    first = {text_id: seen.setdefault(task.contents[text_id], text_id) for text_id in in_order}
    ids, targets = pd.Series([i for i in task.texts if first[i] == i]), task.relevant
    if task.kind == "clustering":
        names = {text_id: task.clusters[text_id] for text_id in task.texts}
        members = pd.Series([*names]).groupby([*names.values()]).agg(list)
        targets = {text_id: members[name] for text_id, name in names.items()}
    rows = {text_id: row for row, text_id in enumerate(ids)}
    found = dict[int, set[int]]()
    for source, others in targets.items():
        found.setdefault(rows[first[source]], set()).update(rows[first[each]] for each in others)
    relevant = {row: sorted(each - {row}) for row, each in found.items() if each - {row}}
    if not relevant:
        raise ValueError("no cluster has two texts, so there is nothing to find")
    return Queries([*ids], [task.texts[text_id] for text_id in ids], relevant)


def number_texts(task: Task, inputs: Sequence[tuple[str, ...]]) -> list[set[int]]:
    """The texts of each example by numbers, which agree for equal texts and within a group."""
    ids = [*dict.fromkeys(itertools.chain.from_iterable(inputs))]
    names = [{content := task.contents[i], task.groups.get(i, content)} for i in ids]
    numbers = dict(zip(ids, number_linked(names).tolist(), strict=True))
    return [{numbers[text_id] for text_id in each} for each in inputs]


def number_linked(names: Iterable[Iterable[Hashable]]) -> np.ndarray:
    """Number items, (items,) int64, so that those linked by shared names have one number."""
    links, first = DisjointSet(), dict[Hashable, int]()
    for place, each in enumerate(names):
        links.add(place)
        for name in each:
            links.merge(place, first.setdefault(name, place))
    return pd.factorize(np.array([links[place] for place in links]))[0]


def make_folds(texts: Sequence[set[int]], labels: np.ndarray, count: int) -> list[Part]:
    """Make stratified folds in file order (the author's code, IMDB) that split no `texts`.
    These are each example's texts, as `number_texts` numbers them. If they link most of the pairs,
    the texts are dealt into folds. `ValueError` for too few groups or examples of a class.
    """
    groups, labels = number_linked(texts), pd.factorize(labels)[0]  # whatever the classes' names
    sizes = np.bincount(groups)  # texts link most of the pairs if most are of one group
    if max(map(len, texts)) > 1 and (len(sizes) < count or 2 * sizes.max() > sizes.sum()):
        folds = _deal_texts(texts, count)
    elif len(sizes) == len(groups):
        folds = [*StratifiedKFold(count).split(labels, labels)]
    else:
        folds = [*StratifiedGroupKFold(count).split(labels, labels, groups)]
    if any(not len(test) or len(np.unique(labels[train])) < 2 for train, test in folds):
        raise ValueError("a group stays in one fold: a fold is empty, or holds all of a class")
    return folds


def _deal_texts(pairs: Sequence[set[int]], count: int) -> list[Part]:
    """Make folds of texts, dealt in random order, those first that most pairs use.
    A pair is tested if both texts are in the fold, and trained on if neither is. A pair of two
    folds is never tested, so a text that only one pair uses goes where the other text goes.
    """
    uses = Counter(itertools.chain.from_iterable(pairs))
    shuffled = np.random.default_rng(42).permutation([*uses]).tolist()
    shuffled.sort(key=lambda text: -uses[text])
    fold = {text: turn % count for turn, text in enumerate(shuffled)}
    for pair in pairs:
        leader = max(pair, key=uses.__getitem__)
        fold.update({text: fold[leader] for text in pair if uses[text] == 1})
    ends = np.array([(fold[min(pair)], fold[max(pair)]) for pair in pairs])
    inside = [ends == number for number in range(count)]
    return [(np.flatnonzero(~i.any(axis=1)), np.flatnonzero(i.all(axis=1))) for i in inside]


def make_group_folds(groups: Sequence[str], contents: Sequence[int]) -> list[np.ndarray]:
    """Make at least two folds, (places,) of items that have a group and a text each, in any order.
    The largest exceeds the smallest by one group at most. A single group is ignored.
    """
    numbers = number_linked(zip(groups, contents, strict=True))
    if not numbers.any():
        numbers = number_linked((each,) for each in contents)
    sizes = np.bincount(numbers)
    if len(sizes) < 2:
        raise ValueError("folds need two different texts")
    # Groups go to the smallest fold, the largest first; those of one size by their checksums.
    least = pd.Series(np.asarray(contents, np.uint64)).groupby(numbers).transform("min")
    numbers = np.unique(least, return_inverse=True)[1]
    splitter = GroupKFold(max(2, min(FOLDS, len(numbers) // FOLD, len(sizes))))
    return [test for _, test in splitter.split(numbers, groups=numbers)]


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Choose at most `limit` examples, the first ones of each class (the author's code). Each class
    keeps floor(its share x limit), the smallest also the remainder. Ascending rows.
    """
    if len(labels) <= limit:
        return np.arange(len(labels), dtype=np.int64)
    labels = pd.factorize(labels)[0]  # so that names of classes do not matter
    counts = np.bincount(labels)
    kept = counts * limit // len(labels)
    # If the smallest class has too few examples for the remainder, the next smallest takes more.
    for index in np.argsort(counts, kind="stable"):
        kept[index] += min(limit - kept.sum(), counts[index] - kept[index])
    rows = [np.flatnonzero(labels == label)[:n] for label, n in enumerate(kept)]
    return np.sort(np.concatenate(rows)).astype(np.int64)
