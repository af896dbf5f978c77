"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from lib.data import task_files
from lib.data.dataset_folder import Documents, find_dataset
from lib.experiments.bench import Bench
from lib.experiments.embedders import Teacher, Words
from lib.experiments.model import Model
from lib.news import events, training
from lib.news.events import Side, Windows
from lib.news.students import parse
from lib.news.training import DistilledStudent

ONE, TOKENS, TEACHER = "one cluster", "teacher tokens, averaged", "teacher"
TFIDF = "TF-IDF"  # fitted to the texts that are clustered: news is full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # fitted to what students learn from
NOT_TRAINED = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, TOKENS)


class News:
    """The news chapter of a bench's profile."""

    def __init__(self, bench: Bench):
        self.bench, self.profile, self.store = bench, bench.profile, bench.store
        self.settings = bench.profile.news
        self.teacher = self._limit_teacher(self.settings.max_tokens)  # of clustered documents

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        task = task_files.find_task(self.bench.roots, self.settings.events)
        return events.read_sides(task, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on, and a tenth more that is held out."""
        settings, seed = self.settings, self.profile.corpus.seed
        folders = [Documents(find_dataset(self.bench.roots, name)) for name in settings.texts]
        count = settings.documents + max(1, settings.documents // 10)
        return events.draw_windows(folders, self.sides, settings.words, count, seed)

    def _limit_teacher(self, most: int) -> Teacher:
        """The structural teacher, reading so many tokens of a text."""
        section = self.bench.teacher.section.model_copy(update={"max_tokens": most})
        return replace(self.bench.teacher, section=section)

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
            triplets = events.draw_triplets(side, own)
            examples = generator.permutation(triplets)[: settings.triplets]
        else:
            # A word has at least one token. So whole windows, cut to as many tokens as they have
            # words, are equally long and need no padding.
            taught = self._limit_teacher(min(settings.words + 2, settings.max_tokens))
            documents, examples = self.windows, np.arange(len(self.windows))[:, None]
        tenth = len(examples) // 10 if documents is side.texts else settings.documents // 10
        parts = tuple(np.split(examples, [-max(1, tenth)]))  # to learn from, and held out
        options = (self.profile, self.teacher, taught, documents, parts)
        return DistilledStudent(self.store, name, seed, *options)

    def prepare(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Make what the students among (model, seed) pairs lack, in one queue of jobs."""
        students = [self.model(*pair) for pair in pairs if pair[0] not in NOT_TRAINED]
        self.bench.embed(students, [text for side in self.sides.values() for text in side.texts])

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
