"""Documents with the events that they report: three sides, labelled pairs, texts to distil on."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lib.data import task_files
from lib.data.dataset_folder import Documents, content
from lib.data.files import read_json_lines
from lib.experiments.bench import Texts
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
    sides, complete = {}, (task / "clusters.jsonl").is_file()
    if complete:
        known = task_files.read_task(task)
        texts, groups, events = known.texts, known.groups, known.clusters
        topics = {text_id: event.partition("_")[0] for text_id, event in events.items()}
    else:
        documents = [each for each in Documents(task.parents[1]) if each.group in SIDES]
        texts = {each.id: each.text for each in documents}
        groups = topics = {each.id: each.group for each in documents}
    in_order = sorted({*topics.values()}, key=lambda topic: (len(topic), topic))  # "2" before "10"
    homes = {topic: SIDES[number % 3] for number, topic in enumerate(in_order)}
    homes |= {name: name for name in SIDES}
    for number, name in enumerate(SIDES):
        ids = [text_id for text_id, topic in topics.items() if homes[topic] == name]
        if complete:
            labelled = _draw_pairs([events[text_id] for text_id in ids], positives, [seed, number])
        else:
            labelled = _read_pairs(task / f"{name}.jsonl", ids)
        own = tuple(texts[text_id] for text_id in ids), tuple(groups.get(i, "") for i in ids)
        sides[name] = Side(*own, *labelled, complete)
        if len({*sides[name].positive}) < 2:
            raise ValueError(f"{task}: the side {name} needs positive and negative pairs")
    return sides


def _draw_pairs(names: list[str], positives: float, seed: Any) -> tuple[np.ndarray, ...]:
    """All positive pairs within topics, and random negative ones for the share; and the events."""
    events = np.unique(names, return_inverse=True)[1]
    topics = np.array([name.partition("_")[0] for name in names])
    pairs = np.column_stack(np.triu_indices(len(names), 1))
    pairs = pairs[np.equal(*topics[pairs.T])]
    positive = np.equal(*events[pairs.T])
    others = np.flatnonzero(~positive)
    wanted = min(len(others), round(positive.sum() * (1 - positives) / positives))
    drawn = np.random.default_rng(seed).choice(others, wanted, replace=False)
    kept = np.sort(np.concatenate([np.flatnonzero(positive), drawn]))
    return pairs[kept], positive[kept], events


def _read_pairs(path: Path, ids: list[str]) -> tuple[np.ndarray, ...]:
    """The annotated pairs of a side, and the events that positive ones connect."""
    rows = {text_id: row for row, text_id in enumerate(ids)}
    lines = [line for _, line in read_json_lines(path)]
    pairs = np.array([[rows[str(line["a"])], rows[str(line["b"])]] for line in lines])
    positive = np.array([{"yes": True, "no": False}[line["label"]] for line in lines])
    links = coo_array((np.ones(positive.sum()), pairs[positive].T), shape=(len(rows), len(rows)))
    return pairs, positive, connected_components(links, directed=False)[1].astype(np.int64)


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


class Windows(Texts):
    """Windows of words from documents to distil on, read from disk when needed."""

    def __init__(self, folders: Sequence[Documents], rows: np.ndarray, words: int):
        self.folders, self.words = folders, words
        self.rows = rows  # (windows, 3) int64: folder, document, and first word

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> str:
        folder, document, first = self.rows[row].tolist()
        words = split_words(self.folders[folder][document].text)
        return " ".join(words[first : first + self.words])


def draw_windows(
    folders: Sequence[Documents], sides: Mapping[str, Side], words: int, count: int, seed: int
) -> Windows:
    """Draw so many windows of words in random order.

    Documents with a text or a group of a tested side are left out, and so are windows without a
    token. A document's last window is kept if it has at least half the words, or if it is the whole
    document.
    """
    contents = {content(text) for name in TESTED for text in sides[name].texts}
    groups = {group for name in TESTED for group in sides[name].groups} - {""}
    rows = array("q")
    for number, folder in enumerate(folders):
        for row, document in enumerate(folder):
            if document.group in groups or int(folder.contents[row]) in contents:
                continue
            read = split_words(document.text)
            for first in range(0, len(read), words):
                part = read[first : first + words]
                if 2 * len(part) >= min(words, len(read)) and has_token("".join(part)):
                    rows.extend((number, row, first))
    windows = np.array(rows, dtype=np.int64).reshape(-1, 3)
    if len(windows) < count:
        told = f"{len(windows)} windows of {words} words, {count} are wanted"
        raise ValueError(f"the folders of news.texts hold {told}; lower news.documents")
    return Windows(folders, np.random.default_rng(seed).permutation(windows)[:count], words)
