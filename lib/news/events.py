"""Documents with the events that they report: three sides, labelled pairs, texts to distil on.

A task folder has `clusters.jsonl`, documents with their events, or three files of pairs,
`train.jsonl`, `public.jsonl` and `private.jsonl`. An event called `<topic>_<name>` belongs to a
topic, and a topic to one side: the side that it is named after, or else the sides in turn. With
files of pairs, a document's `group` is its side.
"""

import functools
import math
import warnings
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.data import task_files
from lib.data.dataset_folder import Documents, Id, content, read_json_lines, validate
from lib.store.cache import hash_items
from lib.texts import has_token, split_words

SIDES = ("train", "public", "private")
CLUSTERS = "clusters.jsonl"
_ID = TypeAdapter(Id)
_ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Side:
    """The documents of a side, all of which are clustered, and its labelled pairs, which score.

    Attributes
    ----------
    texts, groups : tuple of str
        The text and the group of each document.
    pairs : (pairs, 2) int64
        Rows of documents.
    positive : (pairs,) bool
        Whether both documents report the same event.
    events : (documents,) int64
        The event of each document. If only pairs are known, documents that positive pairs connect
        have one event.
    complete : bool
        Whether all events are known.
    """

    texts: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: np.ndarray
    positive: np.ndarray
    events: np.ndarray
    complete: bool


def read_sides(task: Path, positives: float, seed: int) -> dict[str, Side]:
    """The three sides of a task folder.

    Parameters
    ----------
    task : Path
        `<dataset folder>/tasks/<task>`.
    positives : float
        If events are known, the share of positive pairs among the labelled ones.
    seed : int
        Seed for drawing the negative pairs.

    Raises
    ------
    ValueError
        If a label file is missing or names an unknown document, or if a side has no positive or no
        negative pair.
    """
    if (task / CLUSTERS).is_file():
        sides = _read_clusters(task, positives, seed)
    else:
        missing = [name for name in SIDES if not (task / f"{name}.jsonl").is_file()]
        if missing:
            raise ValueError(
                f"{task}: expected {CLUSTERS}, or pair files, of which {missing[0]}.jsonl "
                "is missing"
            )
        sides = {name: _read_pairs(task, name) for name in SIDES}
    for name, side in sides.items():
        for wanted, kind in ((True, "positive"), (False, "negative")):
            if wanted not in side.positive:
                raise ValueError(
                    f"{task}: the side {name} has no {kind} pair; give it other events"
                )
    return sides


def _read_clusters(folder: Path, positives: float, seed: int) -> dict[str, Side]:
    task = task_files.read_task(folder)
    for note in task.notes:  # documents without words, which are left out, and the like
        warnings.warn(f"{folder}: {note}", stacklevel=3)
    topics = {text_id: event.partition("_")[0] for text_id, event in task.clusters.items()}
    side_of = _deal_topics({*topics.values()})
    sides = {}
    for number, name in enumerate(SIDES):
        ids = [text_id for text_id, topic in topics.items() if side_of[topic] == name]
        if not ids:
            raise ValueError(
                f"{folder}: no event of the side {name}: expected at least three topics"
            )
        events = np.unique([task.clusters[text_id] for text_id in ids], return_inverse=True)[1]
        topic = np.array([topics[text_id] for text_id in ids])
        pairs, positive = _draw_pairs(events, topic, positives, [seed, number])
        texts = tuple(task.texts[text_id] for text_id in ids)
        groups = tuple(task.groups.get(text_id, "") for text_id in ids)
        sides[name] = Side(texts, groups, pairs, positive, events, complete=True)
    return sides


def _deal_topics(topics: set[str]) -> dict[str, str]:
    """Topic -> side."""
    in_order = sorted(topics, key=lambda topic: (len(topic), topic))  # "2" before "10"
    return {
        topic: topic if topic in SIDES else SIDES[number % 3]
        for number, topic in enumerate(in_order)
    }


def _draw_pairs(
    events: np.ndarray, topic: np.ndarray, positives: float, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """All positive pairs, and enough random negative pairs within topics for the share."""
    pairs = np.column_stack(np.triu_indices(len(events), 1))
    pairs = pairs[topic[pairs[:, 0]] == topic[pairs[:, 1]]]
    positive = events[pairs[:, 0]] == events[pairs[:, 1]]
    others = np.flatnonzero(~positive)
    wanted = min(len(others), round(positive.sum() * (1 - positives) / positives))
    drawn = np.random.default_rng(seed).choice(others, wanted, replace=False)
    kept = np.sort(np.concatenate([np.flatnonzero(positive), drawn]))
    return pairs[kept], positive[kept]


def _read_pairs(folder: Path, name: str) -> Side:
    """A side of annotated pairs: all documents whose group is the side are clustered.

    Documents without text are left out with their pairs, and a warning counts them.
    """
    inside = [each for each in Documents(folder.parents[1]) if each.group == name]
    documents = [document for document in inside if has_token(document.text)]
    rows = {document.id: row for row, document in enumerate(documents)}
    blank = {document.id for document in inside} - rows.keys()
    if blank:
        told = f"{name}: documents without text left out, with their pairs: {len(blank)}"
        warnings.warn(f"{folder}: {told}", stacklevel=3)
    pairs, positive = [], []
    for where, values in read_json_lines(folder / f"{name}.jsonl"):
        ends = [validate(where, _ID, values.get(key)) for key in ("a", "b")]
        unknown = [end for end in ends if end not in rows and end not in blank]
        if unknown:
            raise ValueError(f"{where}: id {unknown[0]!r} is no document of the side {name}")
        if str(values.get("label")) not in _ANSWERS:
            raise ValueError(f"{where}: expected the label yes or no, got {values.get('label')!r}")
        if blank.isdisjoint(ends):
            pairs.append([rows[end] for end in ends])
            positive.append(_ANSWERS[values["label"]])
    ends, same = np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(positive, dtype=bool)
    links = coo_array((np.ones(same.sum()), ends[same].T), shape=(len(rows), len(rows)))
    events = connected_components(links, directed=False)[1].astype(np.int64)
    texts = tuple(document.text for document in documents)
    ids = tuple(document.id for document in documents)
    return Side(texts, ids, ends, same, events, complete=False)


def draw_triplets(side: Side, seed: int) -> np.ndarray:
    """(triplets, 3) rows of documents: anchor, positive and negative.

    Each annotated document is paired with each of its positives, or with itself if it has none. The
    negative is drawn from its negative pairs; documents without one are left out.
    """
    order, partners = np.random.default_rng(seed), dict[tuple[int, bool], list[int]]()
    for (a, b), positive in zip(side.pairs.tolist(), side.positive.tolist(), strict=True):
        partners.setdefault((a, positive), []).append(b)
        partners.setdefault((b, positive), []).append(a)
    rows = []
    for anchor in np.unique(side.pairs).tolist():
        negatives = partners.get((anchor, False))
        if negatives:
            for other in partners.get((anchor, True), [anchor]):
                rows.append((anchor, other, order.choice(negatives)))
    return np.array(rows)


@dataclass(frozen=True)
class Windows(Sequence[str]):
    """Windows of words from documents, read from disk when needed.

    Attributes
    ----------
    places : tuple of Path
        Dataset folders.
    rows : (windows, 4) int64
        Folder and document of each window, and its start and end in the text, in characters.
    """

    places: tuple[Path, ...]
    rows: np.ndarray

    @functools.cached_property
    def folders(self) -> list[Documents]:
        return [Documents(place) for place in self.places]

    @functools.cached_property
    def names(self) -> np.ndarray:
        """(windows,) hashes by `hash_items`, kept so that all windows are read only once."""
        return hash_items(iter(self))

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens the folders itself."""
        return {name: value for name, value in self.__dict__.items() if name != "folders"}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return replace(self, rows=self.rows[row])
        folder, document, start, end = self.rows[row].tolist()
        return " ".join(self.folders[folder][document].text[start:end].split())


def draw_windows(
    folders: Sequence[Documents], sides: dict[str, Side], *, words: int, documents: int, seed: int
) -> np.ndarray:
    """The rows of `Windows` to distil on, in random order, with held-out windows last.

    A document is left out if its text is on the public or private side, or if it shares a group
    with such a text. A document's last window is kept if it has at least half the words, or if it
    is the whole document. Windows without a token are left out.

    Parameters
    ----------
    folders : sequence of Documents
    sides : dict
        As `read_sides` returns them.
    words : int
        Length of a window.
    documents : int
        Windows to train on; `count_held_out` more are drawn.
    seed : int

    Raises
    ------
    ValueError
        If the folders have too few windows.
    """
    tested = [side for name, side in sides.items() if name != "train"]
    contents = {content(text) for side in tested for text in side.texts}
    groups = {group for side in tested for group in side.groups} - {""}
    cut = array("q")
    for number, folder in enumerate(folders):
        for row, document in enumerate(folder):
            if document.group in groups or int(folder.contents[row]) in contents:
                continue
            for start, end in _cut_windows(document.text, words):
                if has_token(document.text[start:end]):
                    cut.extend((number, row, start, end))
    windows = np.array(cut, dtype=np.int64).reshape(-1, 4)
    wanted = documents + count_held_out(documents)
    if len(windows) < wanted:
        names = ", ".join(folder.name for folder in folders)
        raise ValueError(
            f"the folders {names} hold {len(windows)} windows of {words} words, {wanted} are "
            "wanted; lower news.documents or add a folder to news.texts"
        )
    return windows[np.random.default_rng(seed).permutation(len(windows))[:wanted]]


def _cut_windows(text: str, words: int) -> list[tuple[int, int]]:
    """Where the windows of a text begin and end."""
    starts, end = list[int](), 0
    for word in split_words(text):
        starts.append(text.index(word, end))
        end = starts[-1] + len(word)
    count = len(starts)
    last = count - math.ceil(words / 2)  # where a window of half the words begins
    ends = [*starts, len(text)]
    firsts = range(0, max(last + 1, min(count, 1)), words)
    return [(starts[first], ends[min(first + words, count)]) for first in firsts]


def count_held_out(count: int) -> int:
    """How many documents are held out for early stopping: a tenth, at least one."""
    return max(1, count // 10)


def read_ratings() -> tuple[list[str], np.ndarray]:
    """The 50 Lee stories and people's mean ratings of their likeness, (50, 50) from 0 to 1."""
    from lib.data.builders.mini import gensim_files

    path = gensim_files.path(gensim_files.RATINGS)
    ratings = np.triu(np.loadtxt(path), 1)  # the file holds each pair once
    return gensim_files.lines(gensim_files.STORIES), ratings + ratings.T
