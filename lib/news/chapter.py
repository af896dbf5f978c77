"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from lib.data import task_files
from lib.data.dataset_folder import Documents, find_dataset
from lib.experiments.bench import Bench, embed_texts
from lib.experiments.embedders import Teacher, Words
from lib.experiments.model import Model
from lib.jobs import run_jobs
from lib.news import events, models
from lib.news.events import Side, Windows
from lib.news.models import DistilledStudent
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

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        task = task_files.find_task(self.bench.roots, self.settings.events)
        return events.read_sides(task, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on."""
        words, documents = self.settings.words, self.settings.documents
        places = (find_dataset(self.bench.roots, name) for name in self.settings.texts)
        tested, seed = events.list_tested(self.sides), self.profile.corpus.seed
        return Windows(self.store, tuple(map(Documents, places)), tested, words, documents, seed)

    @functools.cached_property
    def teacher(self) -> Teacher:
        """The structural teacher, reading `max_tokens` of a clustered document."""
        return models.limit_teacher(self.bench.teacher, self.settings.max_tokens)

    def model(self, name: str, seed: int = 0) -> Model:
        """A student, the teacher, or words that are fitted to what students learn from."""
        if name == TEACHER:
            return self.teacher
        if name == TFIDF_BEFORE:
            documents = ConcatDataset([self.windows, self.sides["train"].texts])  # stay on disk
            return Words(self.store, documents)
        options = (name, seed, self.settings, self.profile.width, self.teacher)
        return DistilledStudent(self.store, *options, *self._choose_lesson(name, seed))

    def _choose_lesson(self, name: str, seed: int) -> tuple[Any, ...]:
        """What a student learns from: its teacher, documents, examples and held-out examples."""
        design, settings, side = parse(name), self.settings, self.sides["train"]
        own, most = models.derive_seed(name, seed), None
        if design.annotated:
            examples = np.unique(side.pairs)[:, None]
        elif design.takes_triplets:
            examples, most = events.draw_triplets(side, own), settings.triplets
        else:
            # A word has at least one token. So whole windows, cut to as many tokens as they have
            # words, are equally long and need no padding.
            most = min(settings.words + 2, settings.max_tokens)
            parts = np.split(np.arange(len(self.windows))[:, None], [settings.documents])
            return models.limit_teacher(self.teacher, most), self.windows, *parts
        examples = np.random.default_rng(own).permutation(examples)[:most]
        parts = np.split(examples, [len(examples) - events.count_held_out(len(examples))])
        return self.teacher, side.texts, *parts

    def prepare(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Make what the students among (model, seed) pairs lack, in one queue of jobs."""
        jobs = []
        for model in (self.model(*pair) for pair in pairs if pair[0] not in NOT_TRAINED):
            texts = [side.texts for side in self.sides.values()]
            if missing := [part for part in texts if not model.is_embedded(part)]:
                jobs.append((model.product.label, embed_texts, (model, missing)))
        if jobs and not self.store.reading:  # else `embed` says what is missing
            run_jobs(jobs, "news")

    def embed(self, name: str, seed: int = 0) -> dict[str, Any]:
        """Vectors of each side's texts, {side: (documents, dim)}; those of words are sparse."""
        parts = {side: given.texts for side, given in self.sides.items()}
        if name == ONE:
            return {side: np.ones((len(texts), 1)) for side, texts in parts.items()}
        if name == TFIDF:
            return {side: Words(self.store, texts).encode(texts) for side, texts in parts.items()}
        if name == TOKENS:
            return {side: self._average_tokens(texts) for side, texts in parts.items()}
        model = self.model(name, seed)
        return {side: model.embed(texts)[:] for side, texts in parts.items()}

    def _average_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Means of the teacher's token embeddings, without its special tokens."""
        table = models.read_table(self.teacher)
        rows = models.read_ids(self.teacher, texts)[:]
        return np.stack([table[row[1:-1]].mean(0) for row in rows])
