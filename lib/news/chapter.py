"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from lib.data.dataset_folder import Documents, find_dataset
from lib.experiments.bench import Bench
from lib.experiments.embedders import Teacher, Words
from lib.experiments.model import Model
from lib.news import events, training
from lib.news.events import Side, Windows
from lib.news.students import parse

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
        task = find_dataset(self.bench.roots, self.settings.events)
        return events.read_sides(task, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on."""
        places = (find_dataset(self.bench.roots, name) for name in self.settings.texts)
        folders, settings = tuple(map(Documents, places)), self.settings
        options = (settings.words, settings.documents, self.profile.corpus.seed)
        return Windows(self.store, folders, self.sides, *options)

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
        if design.annotated or design.loss in ("triplet", "complex"):
            taught, documents = self.teacher, side.texts
            if design.annotated:
                examples, most = np.unique(side.pairs)[:, None], None
            else:
                examples, most = events.draw_triplets(side, own), settings.triplets
            examples = np.random.default_rng(own).permutation(examples)[:most]
            learned = len(examples) - events.count_held_out(len(examples))
        else:
            # A word has at least one token. So whole windows, cut to as many tokens as they have
            # words, are equally long and need no padding.
            taught = self._limit_teacher(min(settings.words + 2, settings.max_tokens))
            documents, learned = self.windows, settings.documents
            examples = np.arange(len(documents))[:, None]
        parts = tuple(np.split(examples, [learned]))
        options = (settings, self.profile.width, self.teacher, taught, documents, parts)
        return training.DistilledStudent(self.store, name, seed, *options)

    def prepare(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Make what the students among (model, seed) pairs lack, in one queue of jobs."""
        students = [self.model(*pair) for pair in pairs if pair[0] not in NOT_TRAINED]
        self.bench.embed(students, [text for side in self.sides.values() for text in side.texts])

    def embed(self, name: str, seed: int = 0) -> dict[str, Any]:
        """Vectors of each side's texts, {side: (documents, dim)}; those of words are sparse."""
        texts = {side: given.texts for side, given in self.sides.items()}
        if name == ONE:
            return {side: np.ones((len(part), 1)) for side, part in texts.items()}
        if name == TFIDF:
            return {side: Words(self.store, part).encode(part) for side, part in texts.items()}
        if name == TOKENS:
            return {side: self._average_tokens(part) for side, part in texts.items()}
        model = self.model(name, seed)
        return {side: model.embed(part)[:] for side, part in texts.items()}

    def _average_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Means of the teacher's token embeddings, without its special tokens."""
        table = training.read_table(self.teacher)
        rows = training.read_ids(self.teacher, texts)[:]
        return np.stack([table[row[1:-1]].mean(0) for row in rows])
