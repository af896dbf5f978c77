"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

import functools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from lib.data import task_files
from lib.data.dataset_folder import Documents, content, find_dataset
from lib.data.examples import number_linked
from lib.data.files import read_rows
from lib.experiments.bench import Bench
from lib.experiments.models import Model, Words
from lib.news import training
from lib.news.students import parse
from lib.store import hash_texts
from lib.texts import has_token, split_words

SIDES = ("train", "public", "private")
TESTED = SIDES[1:]
ONE, TOKENS, TEACHER = "one cluster", "teacher tokens, averaged", "teacher"
TFIDF = "TF-IDF"  # fitted to the texts that are clustered: news is full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # fitted to what students learn from
NOT_TRAINED = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, TOKENS)


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

    It has `clusters.jsonl`, or a file of pairs for each side, whose documents have the side as
    `group`. An event `<topic>_<name>` belongs to a topic, and a topic to the side that it is named
    after, or else to the sides in turn. Of known events, so many negative pairs are drawn with
    `seed` that `positives` is the share of positive ones.
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
    lines = [line for _, line in read_rows(path)]
    pairs = np.array([[rows[str(line["a"])], rows[str(line["b"])]] for line in lines])
    if len(np.unique(np.sort(pairs), axis=0)) < len(pairs) or np.equal(*pairs.T).any():
        raise ValueError(f"{path}: a pair is there twice, or has one document twice")
    positive = np.array([{"yes": True, "no": False}[line["label"]] for line in lines])
    names = [*((row,) for row in rows.values()), *pairs[positive].tolist()]
    return pairs, positive, number_linked(names)[: len(rows)]


def draw_triplets(side: Side, seed: int) -> np.ndarray:
    """(triplets, 3) documents: anchor with a negative pair, positive (else itself), negative."""
    ends = np.stack([side.pairs, side.pairs[:, ::-1]], axis=1).reshape(-1, 2)  # both ways
    positive, order, rows = np.repeat(side.positive, 2), np.random.default_rng(seed), []
    for anchor in np.unique(ends):
        own = ends[:, 0] == anchor
        others, negatives = ends[own & positive, 1].tolist(), ends[own & ~positive, 1]
        if len(negatives):
            rows += [(anchor, other, order.choice(negatives)) for other in others or [anchor]]
    return np.array(rows)


class Windows(Sequence[str]):
    """Windows of words from documents to distil on, read from disk when needed."""

    def __init__(self, folders: Sequence[Documents], rows: np.ndarray, words: int):
        self.folders, self.words = folders, words
        self.rows = rows  # (windows, 3) int64: folder, document, and first word
        self.text_hashes = hash_texts(iter(self))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, window: Any) -> str:
        folder, document, first = self.rows[window].tolist()
        words = split_words(self.folders[folder][document].text)
        return " ".join(words[first : first + self.words])


def draw_windows(
    folders: Sequence[Documents], sides: Mapping[str, Side], words: int, count: int, seed: int
) -> Windows:
    """Windows with a token in random order, of documents that share no text or group with a tested
    side. A document's last window of fewer than half the words is left out, unless it is all.
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


class News:
    """The news chapter of a bench's profile."""

    def __init__(self, bench: Bench):
        self.bench, self.profile, self.store = bench, bench.profile, bench.store
        self.settings = bench.profile.news
        limit = self.settings.max_tokens  # of clustered documents
        self.teacher = bench.changed("structural_teacher", max_tokens=limit).teacher

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        task = find_dataset(self.bench.roots, self.settings.events)
        return read_sides(task, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on, and a tenth more that is held out."""
        settings, seed = self.settings, self.profile.corpus.seed
        folders = [Documents(find_dataset(self.bench.roots, name)) for name in settings.texts]
        count = settings.documents + max(1, settings.documents // 10)
        return draw_windows(folders, self.sides, settings.words, count, seed)

    def model(self, name: str, seed: int = 0) -> Model:
        """A student, the teacher, or words that are fitted to what students learn from."""
        if name == TEACHER:
            return self.teacher
        side, settings = self.sides["train"], self.settings
        if name == TFIDF_BEFORE:
            return Words(self.store, ConcatDataset([self.windows, side.texts]))  # stay on disk
        design, own = parse(name), training.derive_seed(name, seed)
        taught, documents, generator = self.teacher, side.texts, np.random.default_rng(own)
        if design.annotated:
            examples = generator.permutation(np.unique(side.pairs)[:, None])
        elif design.loss in ("triplet", "complex"):
            examples = generator.permutation(draw_triplets(side, own))[: settings.triplets]
        else:
            # A word has at least one token. So whole windows, cut to as many tokens as they have
            # words, are equally long and need no padding.
            limit = min(settings.words + 2, settings.max_tokens)
            taught = self.bench.changed("structural_teacher", max_tokens=limit).teacher
            documents, examples = self.windows, np.arange(len(self.windows))[:, None]
        tenth = len(examples) // 10 if documents is side.texts else settings.documents // 10
        parts = tuple(np.split(examples, [-max(1, tenth)]))  # to learn from, and held out
        options = (self.profile, self.teacher, taught, documents, parts)
        return training.DistilledStudent(self.store, name, seed, *options)

    def prepare(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Make what the students among (model, seed) pairs lack, in one queue of jobs."""
        students = [self.model(*pair) for pair in pairs if pair[0] not in NOT_TRAINED]
        self.bench.prepare(students, [text for side in self.sides.values() for text in side.texts])

    def embed(self, name: str, seed: int = 0) -> dict[str, Any]:
        """Vectors of each side's texts, {side: (documents, dim)}; those of words are sparse."""
        untrained = {
            ONE: lambda texts: np.ones((len(texts), 1)),
            TFIDF: lambda texts: Words(self.store, texts).encode(texts),
            TOKENS: self._average_tokens,
        }
        encode = untrained.get(name) or self.model(name, seed).embed
        return {side: encode(given.texts)[:] for side, given in self.sides.items()}

    def _average_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Means of the teacher's token embeddings, without its special tokens."""
        table, rows = training.read_table(self.teacher), training.read_ids(self.teacher, texts)
        return np.stack([table[row[1:-1]].mean(0) for row in rows[:]])
