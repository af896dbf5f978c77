"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lib.data import sources, task_files
from lib.experiments.bench import Bench
from lib.experiments.embedders import PACKAGES, Teacher, Words
from lib.experiments.model import Model
from lib.jobs import run_jobs
from lib.news import designs, events, models, reports
from lib.news.events import Side, Windows
from lib.news.models import AverageTokens, DistilledStudent, OneCluster
from lib.store import Product, hash_arrays, hash_texts

ONE, TOKENS = "one cluster", "teacher tokens, averaged"
TFIDF = "TF-IDF"  # fitted to the texts that are clustered: news is full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # fitted to what students learn from
TEACHER, UNTUNED = "teacher", "teacher, untuned"  # the second only if the first is a tuned one
NOT_TRAINED = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, UNTUNED, TOKENS)
TIMED = 20  # documents that are timed, alone and as one batch


class News:
    """The news chapter of a bench's profile."""

    def __init__(self, bench: Bench):
        self.bench, self.profile, self.store = bench, bench.profile, bench.store
        self.settings = bench.profile.news
        self.is_mini = getattr(self.profile.build, "builder", "") == "mini"

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        if self.is_mini and self.settings.events == reports.NAME:
            task = reports.deal_reports(self.profile.build.seed)
        else:
            task = task_files.find_task(self.bench.roots, self.settings.events)
        return events.read_sides(task, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def ratings(self) -> tuple[tuple[str, ...], np.ndarray] | None:
        """In mini the 50 Lee stories and people's mean ratings of their likeness, (50, 50)."""
        if not self.is_mini:
            return None
        from lib.data.builders.mini import gensim_files

        path = gensim_files.path(gensim_files.RATINGS)
        ratings = np.triu(np.loadtxt(path), 1)  # the file holds each pair once
        return (*gensim_files.lines(gensim_files.STORIES),), ratings + ratings.T

    @functools.cached_property
    def clustered(self) -> dict[str, tuple[str, ...]]:
        """The texts that models embed, by use: the three sides, in mini also "rated"."""
        rated = {"rated": self.ratings[0]} if self.is_mini else {}
        return {name: side.texts for name, side in self.sides.items()} | rated

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on."""
        words, documents = self.settings.words, self.settings.documents
        places = tuple(sources.find_dataset(self.bench.roots, name) for name in self.settings.texts)
        tested, seed = events.list_tested(self.sides), self.profile.corpus.seed
        return Windows(self.store, places, tested, words, documents, seed)

    @functools.cached_property
    def untuned(self) -> Teacher:
        """The structural teacher, reading `max_tokens` of a clustered document."""
        return models.limit_teacher(self.bench.teacher, self.settings.max_tokens)

    @functools.cached_property
    def teacher(self) -> Teacher:
        """The teacher of the students."""
        if not self.settings.tuned_teacher:
            return self.untuned
        from lib.news import tuning

        side, section = self.sides["train"], self.untuned.section
        lesson = {"documents": side.texts, "triplets": events.draw_triplets(side, tuning.SEED)}
        untuned = models.limit_teacher(self.untuned, min(tuning.TOKENS, section.max_tokens))
        return tuning.TunedTeacher(self.store, section, untuned=untuned, **lesson)

    def model(self, name: str, seed: int = 0, use: str = "public") -> Model:
        """A model. Only `TFIDF` depends on the use of the texts, to which it is fitted."""
        width = self.profile.width
        if name == ONE:
            return OneCluster(self.store)
        if name == TFIDF:
            return Words(self.store, self.clustered[use])
        if name == TFIDF_BEFORE:
            from torch.utils.data import ConcatDataset  # windows stay on disk

            return Words(self.store, ConcatDataset([self.windows, self.clustered["train"]]))
        if name == TOKENS:
            return AverageTokens(self.store, self.teacher, width)
        if name in (TEACHER, UNTUNED):
            return self.teacher if name == TEACHER else self.untuned
        options = (name, seed, self.settings, width, self.teacher)
        return DistilledStudent(self.store, *options, *self._choose_lesson(name, seed))

    def _choose_lesson(self, name: str, seed: int) -> tuple[Any, ...]:
        """What a student learns from: its teacher, documents, examples and held-out examples."""
        design, settings, side = designs.parse(name), self.settings, self.sides["train"]
        own = models.derive_seed(name, seed)
        if design.annotated:
            examples, most = np.unique(side.pairs)[:, None], None
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
        """Make what (model, seed) pairs lack, in one queue of jobs."""
        jobs = []
        for model in (self.model(*pair) for pair in pairs):
            parts = [texts for texts in self.clustered.values() if not model.is_embedded(texts)]
            if parts:
                jobs.append((model.product.label, embed_parts, (model, parts)))
        if jobs and not self.store.reading:  # else `embed` says what is missing
            run_jobs(jobs, "news")

    def embed(self, name: str, seed: int) -> dict[str, Any]:
        """Vectors of the texts that are clustered, {use: (documents, dim)}; TF-IDF's are sparse."""
        model, parts = self.model(name, seed), self.clustered.items()
        if name == TFIDF:
            return {use: self.model(name, use=use).embed(texts) for use, texts in parts}
        return {use: model.embed(texts)[:] for use, texts in parts}

    def measure_size(self, name: str) -> float:
        """Megabytes of a model; NaN for one without weights."""
        model, key = self.model(name), "megabytes"
        if isinstance(model, Teacher):
            return float(models.read_embeddings(model, self.profile.width, key)[key])
        return getattr(model, key, np.nan)

    def measure_times(self, students: Sequence[str]) -> dict[str, np.ndarray]:
        """Model -> CPU milliseconds per document, alone and in a batch; the teacher is included."""
        texts = [*self.clustered["public"][:TIMED]]
        given = (self.teacher, students, self.profile.width, texts)
        inputs = {"students": [*students], "width": self.profile.width}
        inputs |= {"teacher": self.teacher.product, "texts": hash_arrays(hash_texts(texts))}
        product = Product("news_times", inputs, models.MODULES, PACKAGES, "times")
        # Kept, because a second measurement would differ.
        kept = self.store.get(product, lambda: {"times": models.measure_times(*given)})
        return dict(zip((TEACHER, *students), kept["times"], strict=True))


def embed_parts(model: Model, parts: Sequence[Sequence[str]]) -> None:
    """Embed sets of texts with a copy, so that no trained student stays in the queue's memory."""
    copy = replace(model)
    for texts in parts:
        copy.embed(texts)
