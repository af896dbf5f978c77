"""Documents with the events that they report: three sides, labelled pairs, texts to distil on."""

import functools
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pooch import file_hash
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.data import task_files
from lib.data.dataset_folder import Documents, content
from lib.data.files import read_rows
from lib.store import Arrays, Product, Store, hash_texts
from lib.texts import has_token, split_words

SIDES = ("train", "public", "private")
TESTED = SIDES[1:]


@dataclass(frozen=True)
class Side:
    """The documents of a side, all of which are clustered, and its labelled pairs, which score."""

    texts: tuple[str, ...]
    groups: tuple[str, ...]  # of texts
    pairs: np.ndarray  # (pairs, 2) rows of documents
    positive: np.ndarray  # (pairs,) whether both documents report the same event
    events: np.ndarray  # (documents,) numbers; if only pairs are known, what positive ones connect
    complete: bool  # whether all events are known


def read_sides(task: Path, positives: float, seed: int) -> dict[str, Side]:
    """The three sides of a task's folder, `<dataset folder>/tasks/<task>`.

    It has documents with their events, in `clusters.jsonl`, or a file of pairs for each side, whose
    documents have the side as `group`. An event `<topic>_<name>` belongs to a topic, and a topic to
    the side that it is named after, or else to the sides in turn. Of known events, `positives` is
    the share of positive pairs among the labelled ones; negative pairs are drawn with `seed`.
    """
    if (task / "clusters.jsonl").is_file():
        sides = _deal_clusters(task, positives, seed)
    else:
        sides = {name: _read_pairs(task, name) for name in SIDES}
    for name, side in sides.items():
        if len({*side.positive}) < 2:
            raise ValueError(f"{task}: the side {name} needs positive and negative pairs")
    return sides


def _deal_clusters(folder: Path, positives: float, seed: int) -> dict[str, Side]:
    """Of each side all positive pairs within topics, and random negative ones for the share."""
    task, sides = task_files.read_task(folder), {}
    topics = {text_id: event.partition("_")[0] for text_id, event in task.clusters.items()}
    in_order = sorted({*topics.values()}, key=lambda topic: (len(topic), topic))  # "2" before "10"
    side_of = {topic: SIDES[number % 3] for number, topic in enumerate(in_order)}
    side_of |= {name: name for name in SIDES}
    for number, name in enumerate(SIDES):
        ids = [text_id for text_id, topic in topics.items() if side_of[topic] == name]
        events = np.unique([task.clusters[text_id] for text_id in ids], return_inverse=True)[1]
        topic = np.array([topics[text_id] for text_id in ids])
        pairs = np.column_stack(np.triu_indices(len(ids), 1))
        pairs = pairs[np.equal(*topic[pairs.T])]
        positive = np.equal(*events[pairs.T])
        others = np.flatnonzero(~positive)
        wanted = min(len(others), round(positive.sum() * (1 - positives) / positives))
        drawn = np.random.default_rng([seed, number]).choice(others, wanted, replace=False)
        kept = np.sort(np.concatenate([np.flatnonzero(positive), drawn]))
        texts = tuple(task.texts[text_id] for text_id in ids)
        groups = tuple(task.groups.get(text_id, "") for text_id in ids)
        sides[name] = Side(texts, groups, pairs[kept], positive[kept], events, complete=True)
    return sides


def _read_pairs(folder: Path, name: str) -> Side:
    """A side of annotated pairs: all documents whose group is the side are clustered."""
    texts = {each.id: each.text for each in Documents(folder.parents[1]) if each.group == name}
    rows = {text_id: row for row, text_id in enumerate(texts)}
    lines = [line for _, line in read_rows(folder / f"{name}.jsonl")]
    pairs = np.array([[rows[str(line[end])] for end in "ab"] for line in lines])
    positive = np.array([{"yes": True, "no": False}[line["label"]] for line in lines])
    links = coo_array((np.ones(positive.sum()), pairs[positive].T), shape=(len(rows), len(rows)))
    events = connected_components(links, directed=False)[1].astype(np.int64)
    return Side((*texts.values(),), (*texts,), pairs, positive, events, complete=False)


def draw_triplets(side: Side, seed: int) -> np.ndarray:
    """(triplets, 3) rows of documents: anchor, positive and a drawn negative.

    An annotated document is an anchor with each of its positives, or with itself if it has none,
    but not without a negative pair.
    """
    ends = np.stack([side.pairs, side.pairs[:, ::-1]], axis=1).reshape(-1, 2)  # both ways
    positive, order, rows = np.repeat(side.positive, 2), np.random.default_rng(seed), []
    for anchor in np.unique(ends):
        own = ends[:, 0] == anchor
        others, negatives = ends[own & positive, 1], ends[own & ~positive, 1]
        if len(negatives):
            others = others if len(others) else [anchor]
            rows += [(anchor, other, order.choice(negatives)) for other in others]
    return np.array(rows)


@dataclass(frozen=True)
class Windows(Sequence[str]):
    """Windows of words from documents to distil on, in random order, read from disk when needed.

    Documents with a text or a group of a tested side are left out, and so are windows without a
    token. A document's last window is kept if it has at least half the words, or if it is the whole
    document. The last windows are held out.
    """

    store: Store
    folders: tuple[Documents, ...]
    sides: Mapping[str, Side]
    words: int
    documents: int
    seed: int

    @functools.cached_property
    def _tested(self) -> list[list[Any]]:
        """Checksums of the texts on tested sides, and their groups."""
        tested = [self.sides[name] for name in TESTED]
        contents = {content(text) for side in tested for text in side.texts}
        return [sorted(contents), sorted({*tested[0].groups, *tested[1].groups} - {""})]

    @functools.cached_property
    def product(self) -> Product:
        files = [file_hash(path) for folder in self.folders for path in folder.files]
        inputs = {"files": files, "tested": self._tested}
        inputs["settings"] = [self.words, self.documents, self.seed]
        return Product("news_windows", inputs, ("news.events", "texts"), (), "windows")

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """(windows, 3) int64: folder, document, and first word."""
        return self.store.get(self.product, self._draw)["rows"]

    @functools.cached_property
    def names(self) -> np.ndarray:
        """(windows,) hashes by `hash_texts`, kept so that all windows are read only once."""
        return hash_texts(iter(self))

    def __len__(self) -> int:
        return self.documents + count_held_out(self.documents)

    def __getitem__(self, row: Any) -> str:
        folder, document, first = self.rows[row].tolist()
        words = split_words(self.folders[folder][document].text)
        return " ".join(words[first : first + self.words])

    def _draw(self) -> Arrays:
        windows, (contents, groups) = array("q"), map(frozenset, self._tested)
        for number, folder in enumerate(self.folders):
            for row, document in enumerate(folder):
                if document.group in groups or int(folder.contents[row]) in contents:
                    continue
                words = split_words(document.text)
                for first in range(0, len(words), self.words):
                    part = words[first : first + self.words]
                    long = 2 * len(part) >= min(self.words, len(words))
                    if long and has_token("".join(part)):
                        windows.extend((number, row, first))
        rows = np.array(windows, dtype=np.int64).reshape(-1, 3)
        if len(rows) < len(self):
            counts = f"{len(rows)} windows of {self.words} words, {len(self)} are wanted"
            raise ValueError(f"the folders of news.texts hold {counts}; lower news.documents")
        return {"rows": np.random.default_rng(self.seed).permutation(rows)[: len(self)]}


def count_held_out(count: int) -> int:
    """How many examples are held out for early stopping."""
    return max(1, count // 10)
