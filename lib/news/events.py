"""Documents with the events that they report: three sides, pairs with labels, and texts to distil on.

A task folder has either `clusters.jsonl`, documents with their events, or pair files, `train.jsonl`, `public.jsonl` and
`private.jsonl`. An event called `<topic>_<name>` belongs to a topic, and a topic to one side: to the side that it is
named after, or to each side in turn. Of pair files a document's `group` is its side.
"""

import math
import re
import warnings
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.config import paths
from lib.config.profiles import Profile
from lib.data import sources, task_files
from lib.data.dataset_folder import Documents, content, has_token, json_lines
from lib.news import reports

SIDES = ("train", "public", "private")
CLUSTERS = "clusters.jsonl"
_ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Side:
    """The documents of one side, all of which are clustered, and the labelled pairs of them, which are scored.

    texts, groups: of each document. pairs: (pairs, 2) int64 rows of documents. positive: (pairs,) bool, of one event.
    events: (documents,) int64; where only pairs are known, what positive pairs connect. complete: all events are known.
    """

    texts: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: np.ndarray
    positive: np.ndarray
    events: np.ndarray
    complete: bool


def read(profile: Profile) -> dict[str, Side]:
    """The three sides of a profile's events; `ValueError` for gold that names no document, and for a side without a
    positive or without a negative pair."""
    task = folder(profile)
    if (task / CLUSTERS).is_file():
        sides = _of_clusters(task, profile.news.positives, profile.corpus.seed)
    else:
        if missing := [name for name in SIDES if not (task / f"{name}.jsonl").is_file()]:
            raise ValueError(
                f"{task}: expected {CLUSTERS}, or pair files, of which {missing[0]}.jsonl is missing"
            )
        sides = {name: _of_pairs(task, name) for name in SIDES}
    for name, side in sides.items():
        for wanted, kind in ((True, "positive"), (False, "negative")):
            if wanted not in side.positive:
                raise ValueError(
                    f"{task}: the side {name} has no {kind} pair; give it other events"
                )
    return sides


def folder(profile: Profile) -> Path:
    """The task folder of a profile's events."""
    dataset, _, task = profile.news.events.partition("/")
    return root(profile, dataset) / dataset / "tasks" / task


def root(profile: Profile, dataset: str) -> Path:
    """The folder that holds one of the profile's news folders: what mini builds, or a person's own, as in thesis."""
    if profile.build is None or profile.build.builder != "mini":
        return paths.data_root(profile)
    return reports.root(profile.build.seed) if dataset == reports.NAME else sources.root(profile)


def _of_clusters(folder: Path, positives: float, seed: int) -> dict[str, Side]:
    """Within each topic every pair of one event is positive; negatives are drawn so that the share is as wanted."""
    read_task = task_files.read(folder)
    for note in read_task.notes:  # documents without words, which are left out, and the like
        warnings.warn(f"{folder}: {note}", stacklevel=2)
    topics = {text_id: event.partition("_")[0] for text_id, event in read_task.clusters.items()}
    named = sorted({*topics.values()}, key=lambda topic: (len(topic), topic))  # "2" before "10"
    place = {
        topic: topic if topic in SIDES else SIDES[number % 3] for number, topic in enumerate(named)
    }
    sides = {}
    for number, name in enumerate(SIDES):
        own = [text_id for text_id, topic in topics.items() if place[topic] == name]
        if not own:
            raise ValueError(
                f"{folder}: no event of the side {name}: expected at least three topics"
            )
        events = np.unique([read_task.clusters[text_id] for text_id in own], return_inverse=True)[1]
        topic = np.array([topics[text_id] for text_id in own])
        pairs = np.column_stack(np.triu_indices(len(own), 1))
        pairs = pairs[topic[pairs[:, 0]] == topic[pairs[:, 1]]]
        positive = events[pairs[:, 0]] == events[pairs[:, 1]]
        others = np.flatnonzero(~positive)
        wanted = min(len(others), round(positive.sum() * (1 - positives) / positives))
        drawn = np.random.default_rng([seed, number]).choice(others, wanted, replace=False)
        kept = np.sort(np.concatenate([np.flatnonzero(positive), drawn]))
        texts = tuple(read_task.texts[text_id] for text_id in own)
        groups = tuple(read_task.groups.get(text_id, "") for text_id in own)
        sides[name] = Side(texts, groups, pairs[kept], positive[kept], events, complete=True)
    return sides


def _of_pairs(folder: Path, name: str) -> Side:
    """A side of annotated pairs: all documents whose group is the side are clustered."""
    every = Documents(folder.parents[2], folder.parents[1].name)
    documents = [document for document in every if document.group == name]
    rows = {document.id: row for row, document in enumerate(documents)}
    pairs, positive = [], []
    for where, values in json_lines(folder / f"{name}.jsonl"):
        ends = [values.get("a"), values.get("b")]
        if missing := [end for end in ends if not isinstance(end, str) or end not in rows]:
            raise ValueError(f"{where}: id {missing[0]!r} is no document of the side {name}")
        if str(values.get("label")) not in _ANSWERS:
            raise ValueError(f"{where}: expected the label yes or no, got {values.get('label')!r}")
        pairs.append([rows[end] for end in ends])
        positive.append(_ANSWERS[values["label"]])
    ends, same = np.array(pairs), np.array(positive)
    links = coo_array((np.ones(same.sum()), ends[same].T), shape=(len(rows), len(rows)))
    events = connected_components(links, directed=False)[1].astype(np.int64)
    texts, groups = (
        tuple(getattr(document, field) for document in documents) for field in ("text", "id")
    )
    return Side(texts, groups, ends, same, events, complete=False)


def triplets(side: Side, seed: int) -> np.ndarray:
    """(triplets, 3) rows of a side's documents: one for each annotated document and each of its positives.

    The negative is drawn from the pairs that the document is no positive of; a document without a positive is its own,
    one without a negative is left out.
    """
    order, partners = np.random.default_rng(seed), dict[tuple[int, bool], list[int]]()
    for (a, b), positive in zip(side.pairs.tolist(), side.positive.tolist(), strict=True):
        partners.setdefault((a, positive), []).append(b)
        partners.setdefault((b, positive), []).append(a)
    rows = []
    for anchor in np.unique(side.pairs).tolist():
        if negatives := partners.get((anchor, False)):
            rows += [
                (anchor, other, order.choice(negatives))
                for other in partners.get((anchor, True), [anchor])
            ]
    return np.array(rows)


@dataclass(frozen=True)
class Windows(Sequence[str]):
    """Windows of documents' words, read from disk when they are asked for.

    folders: of text. rows: (windows, 4) int64, a window's folder and document, where it begins and ends in the text.
    """

    folders: Sequence[Documents]
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return replace(self, rows=self.rows[row])
        folder, document, start, end = self.rows[row].tolist()
        return " ".join(self.folders[folder][document].text[start:end].split())


def text_folders(profile: Profile) -> list[Documents]:
    """The folders whose documents are distilled on."""
    return [Documents(root(profile, name), name) for name in profile.news.texts]


def drawn_windows(profile: Profile, sides: dict[str, Side]) -> np.ndarray:
    """The rows of `Windows` to distil on, in a random order, held-out ones last: no words of the tested sides.

    A document is left out if its text is one of the public or private side's, or if it shares a group with one. A last
    window is kept if it has at least half the words, or if it is the whole document; none is without a token.
    """
    section = profile.news
    tested = [side for name, side in sides.items() if name != "train"]
    contents = {content(text) for side in tested for text in side.texts}
    groups = {group for side in tested for group in side.groups} - {""}
    cut = array("q")
    for number, folder in enumerate(text_folders(profile)):
        for row, document in enumerate(folder):
            if document.group not in groups and int(folder.contents[row]) not in contents:
                words = [word.start() for word in re.finditer(r"\S+", document.text)]
                count, words = len(words), [*words, len(document.text)]
                last = count - math.ceil(
                    section.words / 2
                )  # where a window of half the words begins
                for first in range(0, max(last + 1, min(count, 1)), section.words):
                    start, end = words[first], words[min(first + section.words, count)]
                    if has_token(document.text[start:end]):
                        cut.extend((number, row, start, end))
    windows = np.array(cut, dtype=np.int64).reshape(-1, 4)
    wanted = section.documents + held_out(section.documents)
    if len(windows) < wanted:
        told = f"the folders {', '.join(section.texts)} hold {len(windows)} windows of {section.words} words"
        raise ValueError(
            f"{told}, {wanted} are wanted; lower news.documents or add a folder to news.texts"
        )
    return windows[np.random.default_rng(profile.corpus.seed).permutation(len(windows))[:wanted]]


def held_out(count: int) -> int:
    """How many further documents, or how many of given ones, are kept for early stopping: a tenth."""
    return max(1, count // 10)


def rated_stories(profile: Profile) -> tuple[list[str], np.ndarray] | None:
    """The 50 Lee stories and people's mean ratings of how alike two are, (50, 50), 0 to 1; None outside of mini."""
    if profile.build is None or profile.build.builder != "mini":
        return None
    from lib.data.builders.mini import gensim_files

    ratings = np.triu(
        np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1
    )  # the file holds each pair once
    return gensim_files.lines(gensim_files.STORIES), ratings + ratings.T
