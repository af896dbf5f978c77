"""The texts and models of the news chapter, by name: `News(bench).embed("bag;cosine", seed=0)`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.config import paths
from lib.data import sources
from lib.experiments.bench import Bench
from lib.experiments.lexical import Words
from lib.experiments.model import Model
from lib.experiments.structural import PACKAGES, Teacher
from lib.jobs import run_jobs
from lib.news import designs, events, models, reports, tokens
from lib.news.events import Side, Windows
from lib.news.models import AverageTokens, DistilledStudent, OneCluster
from lib.store import Arrays, Product

ONE = "one cluster"
TFIDF = "TF-IDF"  # fitted to the texts that are clustered: news is full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # fitted to what students learn from
TEACHER = "teacher"
UNTUNED = "teacher, untuned"  # only if `TEACHER` is a tuned one
TOKENS = "teacher tokens, averaged"
NOT_TRAINED = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, UNTUNED, TOKENS)
TIMED = 20  # documents that are timed, alone and as one batch
_SLOW = ("GRU", "Transformer(2", "BiLSTM")  # the slowest students first


class News:
    """The news chapter of a bench's profile.

    The "use" of a text is its side, "train", "public" or "private", or in mini also "rated".
    """

    def __init__(self, bench: Bench):
        self.bench, self.profile, self.store = bench, bench.profile, bench.store
        self.settings = bench.profile.news

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        dataset, _, task = self.settings.events.partition("/")
        folder = sources.find_folder(self._find_dataset(dataset) / "tasks", task)
        return events.read_sides(folder, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def ratings(self) -> tuple[tuple[str, ...], np.ndarray] | None:
        """Stories and people's ratings of their likeness, see `events`; None except in mini."""
        return events.read_ratings() if self._is_mini else None

    @functools.cached_property
    def clustered(self) -> dict[str, tuple[str, ...]]:
        """The texts that models embed, by use."""
        texts = {name: side.texts for name, side in self.sides.items()}
        return texts if self.ratings is None else texts | {"rated": self.ratings[0]}

    @functools.cached_property
    def windows(self) -> Windows:
        """The texts to distil on."""
        settings = self.settings
        places = tuple(self._find_dataset(name) for name in settings.texts)
        drawn = (settings.words, settings.documents, self.profile.corpus.seed)
        return Windows(self.store, places, events.list_tested(self.sides), *drawn)

    @property
    def _is_mini(self) -> bool:
        return getattr(self.profile.build, "builder", "") == "mini"

    def _find_dataset(self, name: str) -> Path:
        """A dataset folder. The reports of mini are written first if they are missing."""
        if self._is_mini and name == reports.NAME:
            home = sources.find_built(self.profile.build, paths.artifacts()).parent
            return reports.write_reports(self.profile.build.seed, home)
        return sources.find_dataset(self.bench.roots, name)

    @functools.cached_property
    def untuned(self) -> Teacher:
        """The structural teacher, which reads as much as is said of a clustered document."""
        return tokens.limit_teacher(self.bench.teacher, self.settings.max_tokens)

    @functools.cached_property
    def teacher(self) -> Teacher:
        """The teacher of the students."""
        if not self.settings.tuned_teacher:
            return self.untuned
        from lib.news import tuning

        side, section = self.sides["train"], self.untuned.section
        lesson = {"documents": side.texts, "triplets": events.draw_triplets(side, tuning.SEED)}
        untuned = tokens.limit_teacher(self.untuned, min(tuning.TOKENS, section.max_tokens))
        return tuning.TunedTeacher(self.store, section, untuned=untuned, **lesson)

    def model(self, name: str, seed: int = 0, use: str = "public") -> Model:
        """A model. Only `TFIDF` depends on the use of the texts, to which it is fitted."""
        width = self.profile.width
        if name == ONE:
            return OneCluster(self.store)
        if name == TFIDF:
            return Words(self.store, self.clustered[use])
        if name == TFIDF_BEFORE:
            return Words(self.store, events.Chain(self.windows, self.clustered["train"]))
        if name == TOKENS:
            return AverageTokens(self.store, self.teacher, width)
        if name in (TEACHER, UNTUNED):
            return self.teacher if name == TEACHER else self.untuned
        options = (name, seed, self.settings, width, self.teacher)
        return DistilledStudent(self.store, *options, *self._choose_lesson(name, seed))

    def _choose_lesson(self, name: str, seed: int) -> tuple[Any, ...]:
        """What a student learns from: its teacher, documents, examples and held-out examples."""
        design, settings, side = designs.parse(name), self.settings, self.sides["train"]
        if not design.reads_annotated:
            # A word has at least one token. So whole windows, cut to as many tokens as they have
            # words, are equally long and need no padding.
            most = min(settings.words + 2, settings.max_tokens)
            rows = np.arange(len(self.windows))[:, None]
            parts = np.split(rows, [settings.documents])
            return tokens.limit_teacher(self.teacher, most), self.windows, *parts
        own = models.derive_seed(name, seed)
        if design.annotated:
            examples, most = np.unique(side.pairs)[:, None], None
        else:
            examples, most = events.draw_triplets(side, own), settings.triplets
        examples = np.random.default_rng(own).permutation(examples)[:most]
        parts = np.split(examples, [len(examples) - events.count_held_out(len(examples))])
        return self.teacher, side.texts, *parts

    def prepare(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Make what (model, seed) pairs lack, in one queue of jobs.

        Teachers go first, then the slowest students, so that no core waits at the end. The first
        student has its teacher embed the windows; others wait for the file's lock.
        """
        jobs = []
        for name, seed in sorted(pairs, key=_rank_speed):
            model = self.model(name, seed)
            parts = [texts for texts in self.clustered.values() if not model.is_embedded(texts)]
            if parts:
                jobs.append((model.product.label, embed_parts, (model, parts)))
        if jobs and not self.store.reading:  # else `embed` says what is missing
            run_jobs(jobs, "news")

    def embed(self, name: str, seed: int) -> dict[str, Any]:
        """Vectors of the texts that are clustered, {use: (documents, dim)}; TF-IDF's are sparse."""
        model = self.model(name, seed)
        return {
            use: (self.model(name, use=use) if name == TFIDF else model).embed(texts)[:]
            for use, texts in self.clustered.items()
        }

    def measure_size(self, name: str) -> float:
        """Megabytes of a model; NaN for one without weights."""
        model = self.model(name)
        if isinstance(model, Teacher):
            facts = tokens.read_embeddings(model, self.profile.width, "megabytes")
            return float(facts["megabytes"])
        return getattr(model, "megabytes", np.nan)

    def measure_times(self, students: Sequence[str]) -> dict[str, np.ndarray]:
        """Model -> CPU milliseconds per document, alone and in a batch; the teacher is included."""
        texts = [*self.clustered["public"][:TIMED]]
        inputs = {
            "students": [*students],
            "width": self.profile.width,
            "teacher": self.teacher.product,
            "texts": models.name_texts(texts),
        }
        modules = ("news.timing", *models.MODULES)
        product = Product("news_times", inputs, modules, PACKAGES, "times")

        def measure() -> Arrays:
            from lib.news import timing

            sbert = self.teacher.sbert
            sbert.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
            ids = tokens.read_ids(self.teacher, texts)[:]
            sizes = models.read_sizes(self.teacher, self.profile.width)
            others = {TEACHER: (sbert.encode, texts)}
            return {"times": timing.measure_students(students, sizes, ids, others)}

        times = self.store.get(product, measure)["times"]  # kept: a second measurement would differ
        return dict(zip((TEACHER, *students), times, strict=True))


def embed_parts(model: Model, parts: Sequence[Sequence[str]]) -> None:
    """Embed sets of texts with a copy, so that no trained student stays in the queue's memory."""
    copy = replace(model)
    for texts in parts:
        copy.embed(texts)


def _rank_speed(pair: tuple[str, int]) -> int:
    slow = [place for place, part in enumerate(_SLOW, 1) if part in pair[0]]
    return 0 if pair[0] in NOT_TRAINED else min(slow, default=len(_SLOW) + 1)
