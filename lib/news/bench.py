"""What the models of the news chapter share, made or read once, and its students.

    news = NewsBench(Bench.load("mini"))
    news.prepare([("bag;cosine", 0)])
    news.embed_model("bag;cosine", 0)["public"]

This module reads the profile's news section and stores products. The modules that train and judge
(`distil.py`, `clustering.py`, `tuning.py`) get plain values.
"""

import functools
import itertools
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lib.config import paths
from lib.data import sources
from lib.data.dataset_folder import Documents
from lib.experiments import models, products
from lib.experiments.bench import Bench
from lib.experiments.products import Encoder, find_code
from lib.news import designs, distil, embedders, events, reports, timing, tuning
from lib.news.designs import TOKEN_DIM, Design, scale_width
from lib.news.distil import NewsLesson
from lib.news.events import Side, Windows
from lib.news.students import Sizes
from lib.news.teacher import TeacherRows, TeacherSource, read_token_embeddings
from lib.store import parallel
from lib.store.cache import Cache, Product, Rows, hash_content, hash_items
from lib.store.files import sha256

TIMED = 20  # documents that are timed, alone and as one batch
_TRAINING = {"epochs", "batch_size", "rates", "patience", "plateau_patience"}
_SLOW = ("GRU", "Transformer(2", "BiLSTM")  # the slowest last
_TEACHER_CODE = find_code("lib.news.teacher")
_TUNING_CODE = find_code("lib.news.tuning")
_STUDENT_CODE = find_code("lib.news.distil")
_TIMING_CODE = find_code("lib.news.timing", "lib.news.teacher")
_TEACHER_PACKAGES = ("torch", "transformers", "sentence-transformers")


class NewsBench:
    """Everything that the models of the news chapter share, and what they embed.

    The "use" of a text is what it is for: "distilled" (held-out texts last); "train", "public" and
    "private", the three sides; and, in mini, "rated".

    Parameters
    ----------
    bench : Bench
    """

    def __init__(self, bench: Bench):
        self.bench = bench
        self.profile = bench.profile
        self.settings = bench.profile.news
        self.cache = bench.cache

    # ---- texts ----------------------------------------------------------------------------------

    @functools.cached_property
    def sides(self) -> dict[str, Side]:
        """The three sides by name."""
        dataset, _, task = self.settings.events.partition("/")
        folder = sources.find_folder(self._find_dataset(dataset) / "tasks", task)
        return events.read_sides(folder, self.settings.positives, self.profile.corpus.seed)

    @functools.cached_property
    def ratings(self) -> tuple[list[str], np.ndarray] | None:
        """Stories and people's ratings of their likeness, see `events`; None except in mini."""
        return events.read_ratings() if self._is_mini else None

    @functools.cached_property
    def texts(self) -> dict[str, Sequence[str]]:
        """Every text by its use. The texts to distil on are read from disk when needed."""
        return {"distilled": self._windows} | self.clustered

    @functools.cached_property
    def clustered(self) -> dict[str, Sequence[str]]:
        """The texts that are not distilled on, by use."""
        texts: dict[str, Sequence[str]] = {name: side.texts for name, side in self.sides.items()}
        return texts if self.ratings is None else texts | {"rated": self.ratings[0]}

    @functools.cached_property
    def _windows(self) -> Windows:
        settings, seed = self.settings, self.profile.corpus.seed
        places = tuple(self._find_dataset(name) for name in settings.texts)
        folders = [Documents(place) for place in places]
        tested = [self.sides[name] for name in ("public", "private")]
        inputs = {
            "words": settings.words,
            "documents": settings.documents,
            "seed": seed,
            "files": [[sha256(path) for path in folder.files] for folder in folders],
            "tested": [
                hash_content(hash_items([*side.texts]), hash_items([*side.groups]))
                for side in tested
            ],
        }
        product = Product("news_windows", inputs, (find_code("lib.news.events"),))

        def draw() -> dict[str, np.ndarray]:
            drawn = events.draw_windows(
                folders, self.sides, words=settings.words, documents=settings.documents, seed=seed
            )
            return {"rows": drawn}

        return Windows(places, self.cache.arrays(product, draw)["rows"])

    @property
    def _is_mini(self) -> bool:
        build = self.profile.build
        return build is not None and build.builder == "mini"

    def _find_dataset(self, name: str) -> Path:
        """A dataset folder. The reports of mini are written first if they are missing."""
        build = self.profile.build
        if build is not None and self._is_mini and name == reports.NAME:
            home = sources.find_built(build, paths.artifacts()).parent
            return reports.write_reports(build.seed, home)
        return sources.find_dataset(self.bench.roots, name)

    # ---- the teacher ----------------------------------------------------------------------------

    @property
    def is_tuned(self) -> bool:
        return self.settings.tuned_teacher

    def load_teacher(self) -> Any:
        """The teacher, which reads as many tokens as it does of a clustered document."""
        return self._find_teacher(self.is_tuned).load(self.settings.max_tokens)

    def teacher_rows(self, use: str) -> dict[str, Rows]:
        """The teacher's `vectors` of the texts of a use, (texts, dim), and their token `ids`."""
        encoder = self._find_rows(use, self.is_tuned)
        return self.cache.rows(encoder.table, self.texts[use], encoder.make)

    @functools.cached_property
    def token_embeddings(self) -> dict[str, np.ndarray]:
        """The teacher's token embeddings, see `teacher.read_token_embeddings`."""
        return read_tokens(*self._tokens_job(self.is_tuned))

    @functools.cached_property
    def sizes(self) -> Sizes:
        """The widths of the profile's students."""
        vocabulary, teacher_token = self.token_embeddings["tokens"].shape
        return Sizes.scale(
            self.profile.width,
            vocabulary=vocabulary,
            teacher_token=teacher_token,
            output=int(self.token_embeddings["output"]),
        )

    def _find_teacher(self, tuned: bool) -> TeacherSource:
        section, device = self.profile.structural_teacher, self.bench.device
        if not tuned:
            return TeacherSource(section, device)
        read = functools.partial(self.cache.arrays, self._tuned, models.miss_product)
        return TeacherSource(section, device, read)

    def _name_teacher(self, tuned: bool) -> dict[str, Any]:
        """The inputs of a product that identify the teacher."""
        section = self.profile.structural_teacher
        inputs = section.model_dump(mode="json", exclude={"max_tokens", "batch_size"})
        inputs |= {"files": models.hash_model(section.model), "device": self.bench.device}
        if not tuned:
            return inputs
        note = self.cache.find(self._tuned) or {}
        return inputs | {"tuned": sorted(note["files"].values())}

    @functools.cached_property
    def _tuned(self) -> Product:
        """The product of the tuned teacher, which is tuned if it is missing."""
        cache, product = self.cache, self._tuned_product
        if cache.find(product) is None:
            texts, most = self.sides["train"].texts, product.inputs["max_tokens"]
            source = self._find_teacher(False)
            job = make_tuned, (cache, product, source, texts, self._tuning_triplets, most)
            self.bench.run_jobs([job], "teacher, tuned")
        return product

    @functools.cached_property
    def _tuned_product(self) -> Product:
        """The name of the tuned teacher, which depends on the train side alone."""
        inputs = self._name_teacher(False) | {
            "max_tokens": min(tuning.TOKENS, self.settings.max_tokens),
            "texts": hash_content(hash_items(self.sides["train"].texts)),
            "triplets": hash_content(self._tuning_triplets),
        }
        return Product("news_tuned", inputs, (_TUNING_CODE,), _TEACHER_PACKAGES)

    @functools.cached_property
    def _tuning_triplets(self) -> np.ndarray:
        return events.draw_triplets(self.sides["train"], tuning.SEED)

    def _find_rows(self, use: str, tuned: bool) -> Encoder:
        """The table of the teacher's vectors and token ids of texts.

        A word has at least one token. So whole windows, cut to their number of words, are equally
        long and need no padding.
        """
        most = self.settings.max_tokens
        if use == "distilled":
            most = min(self.settings.words + 2, most)
        inputs = self._name_teacher(tuned) | {"max_tokens": most}
        table = Product("news_teacher", inputs, (_TEACHER_CODE,), _TEACHER_PACKAGES)
        return Encoder(table, TeacherRows(self._find_teacher(tuned), most))

    def _tokens_job(self, tuned: bool) -> tuple[Cache, Product, TeacherSource, int, int]:
        width = scale_width(TOKEN_DIM, self.profile.width)
        inputs = self._name_teacher(tuned) | {"width": width}
        packages = (*_TEACHER_PACKAGES, "scikit-learn", "numpy", "scipy")
        product = Product("news_tokens", inputs, (_TEACHER_CODE,), packages)
        source = self._find_teacher(tuned)
        return self.cache, product, source, width, self.settings.max_tokens

    # ---- models ---------------------------------------------------------------------------------

    def embed_model(self, model: str, seed: int) -> dict[str, Any]:
        """A model's vectors of the texts that are clustered.

        Returns
        -------
        dict
            {use: (documents, dim)}, sparse for TF-IDF; `megabytes`, if the model has a size; for
            students also `held_out`, the held-out loss after each epoch. Empty for `embedders.ONE`.
        """
        if model == embedders.ONE:
            return {}
        if model == embedders.TFIDF:
            return embedders.embed_words(self.clustered)
        if model == embedders.TFIDF_BEFORE:
            known = itertools.chain(self.texts["distilled"], self.clustered["train"])
            return embedders.embed_words(self.clustered, known)
        if model == embedders.TOKENS:
            return embedders.average_tokens(self._clustered_ids, self.token_embeddings["tokens"])
        if model in (embedders.TEACHER, embedders.UNTUNED):
            return self._embed_teacher(model == embedders.TEACHER and self.is_tuned)
        return train_news_student(*self._student_job(model, seed))

    @functools.cached_property
    def _clustered_ids(self) -> dict[str, Rows]:
        return {use: self.teacher_rows(use)["ids"] for use in self.clustered}

    def _embed_teacher(self, tuned: bool) -> dict[str, Any]:
        vectors: dict[str, Any] = {}
        for use, texts in self.clustered.items():
            encoder = self._find_rows(use, tuned)
            vectors[use] = self.cache.rows(encoder.table, texts, encoder.make)["vectors"][:]
        return vectors | {"megabytes": read_tokens(*self._tokens_job(tuned))["megabytes"]}

    def prepare(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Make what (model, seed) pairs lack, in processes: the teacher's rows, then students."""
        students = [pair for pair in pairs if pair[0] not in embedders.NOT_TRAINED]
        if students:
            self._prepare_teacher()
        # The slowest students go first, so that no core waits at the end.
        students.sort(key=lambda pair: [name in pair[0] for name in _SLOW], reverse=True)
        jobs = [(train_news_student, self._student_job(*pair)) for pair in students]
        missing = [job for job in jobs if self.cache.find(job[1][1]) is None]
        self.bench.run_jobs(missing, "students")

    def _prepare_teacher(self) -> None:
        jobs: list[parallel.Job] = []
        clustered = [text for texts in self.clustered.values() for text in texts]
        for use, texts in (("distilled", self.texts["distilled"]), ("train", clustered)):
            encoder = self._find_rows(use, self.is_tuned)
            if not self.cache.has_rows(encoder.table, texts):
                jobs.append((products.add_rows, (self.cache, encoder, texts)))
        tokens = self._tokens_job(self.is_tuned)
        if self.cache.find(tokens[1]) is None:
            jobs.append((read_tokens, tokens))
        self.bench.run_jobs(jobs, "teacher")

    def student_product(self, model: str, seed: int) -> Product:
        """A student's vectors as a product. The teacher's rows are made if they are missing."""
        return self._student_job(model, seed)[1]

    def _student_job(
        self, model: str, seed: int
    ) -> tuple[Cache, Product, NewsLesson, tuple[Product, str] | None]:
        """The arguments of `train_news_student`."""
        design = designs.parse(model)
        lesson, use = self._plan_lesson(model, seed)
        start = self._find_start(design)
        inputs = {
            "model": model,
            "seed": seed,
            "sizes": asdict(lesson.sizes),
            "training": self.settings.model_dump(mode="json", include=_TRAINING),
            "start": None if start is None else self._hashes["tokens"][start[1]],
            "documents": self._hashes[use],
            "examples": hash_content(lesson.examples, lesson.held_out),
            "clustered": [hash_content(ids) for ids in self._clustered_ids.values()],
            "device": self.bench.device,
        }
        label, packages = f"{model}, seed {seed}", ("torch", "numpy")
        product = Product("news_student", inputs, (_STUDENT_CODE,), packages, label)
        return self.cache, product, lesson, start

    def _plan_lesson(self, model: str, seed: int) -> tuple[NewsLesson, str]:
        """What a student learns from, and the use of these documents."""
        design, settings = designs.parse(model), self.settings
        # Each identity is a run of its own, as in the paper: twins share no random numbers.
        own = np.random.SeedSequence([seed, zlib.crc32(model.encode())]).generate_state(1)
        seed = int(own[0])
        use = "train" if design.annotated or design.takes_triplets else "distilled"
        taught = self.teacher_rows(use)
        if use == "distilled":
            examples = np.arange(len(taught["ids"]))[:, None]
            held_out = events.count_held_out(settings.documents)
        else:
            examples = self._draw_annotated(design, seed)
            held_out = events.count_held_out(len(examples))
        lesson = NewsLesson(
            design,
            self.sizes,
            settings,
            seed,
            taught["ids"],
            taught["vectors"],
            examples[:-held_out],
            examples[-held_out:],
            self._clustered_ids,
        )
        return lesson, use

    def _draw_annotated(self, design: Design, seed: int) -> np.ndarray:
        """Annotated documents, or triplets of them, in random order."""
        side, order = self.sides["train"], np.random.default_rng(seed)
        if design.annotated:
            return order.permutation(np.unique(side.pairs)[:, None])
        triplets = order.permutation(events.draw_triplets(side, seed))
        return triplets[: self.settings.triplets]

    def _find_start(self, design: Design) -> tuple[Product, str] | None:
        """The token embeddings that a student starts from; None for random ones."""
        product = self._tokens_job(self.is_tuned)[1]
        if design.tokens == "teacher":
            return product, "tokens"
        if design.tokens == "new" and self.settings.tokens == "pca":
            return product, "reduced"
        return None

    @functools.cached_property
    def _hashes(self) -> dict[str, Any]:
        """Hashes of what students learn from and start from."""
        hashes: dict[str, Any] = {}
        for use in ("distilled", "train"):
            taught = self.teacher_rows(use)
            hashes[use] = [hash_content(taught["ids"]), hash_content(taught["vectors"])]
        columns = ("tokens", "reduced")
        hashes["tokens"] = {name: hash_content(self.token_embeddings[name]) for name in columns}
        return hashes

    # ---- times ----------------------------------------------------------------------------------

    def measure_times(self, students: Sequence[str]) -> dict[str, list[float]]:
        """Model -> CPU milliseconds per document, alone and in a batch; the teacher is included.

        Times are stored, because a second measurement would differ.
        """
        texts = [*self.clustered["public"][:TIMED]]
        inputs = {
            "students": [*students],
            "sizes": asdict(self.sizes),
            "teacher": self._name_teacher(self.is_tuned),
            "texts": hash_content(hash_items(texts)),
            "max_tokens": self.settings.max_tokens,
        }
        product = Product("news_times", inputs, (_TIMING_CODE,), _TEACHER_PACKAGES)

        def measure() -> dict[str, list[float]]:
            teacher = self.load_teacher()
            teacher.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
            others = {embedders.TEACHER: (teacher.encode, texts)}
            ids = self.teacher_rows("public")["ids"][:TIMED]
            return timing.measure_students(students, self.sizes, ids, others)

        return self.cache.record(product, measure)


# ---- jobs ---------------------------------------------------------------------------------------


def read_tokens(
    cache: Cache, product: Product, source: TeacherSource, width: int, max_tokens: int
) -> dict[str, np.ndarray]:
    """Token embeddings from the cache, made if they are missing."""
    return cache.arrays(product, lambda: read_token_embeddings(source.load(max_tokens), width))


def make_tuned(
    cache: Cache,
    product: Product,
    source: TeacherSource,
    texts: Sequence[str],
    triplets: np.ndarray,
    max_tokens: int,
) -> None:
    """Tune a teacher, if it is not in the cache."""
    cache.arrays(product, lambda: tuning.tune_teacher(source, texts, triplets, max_tokens))


def train_news_student(
    cache: Cache, product: Product, lesson: NewsLesson, start: tuple[Product, str] | None
) -> dict[str, np.ndarray]:
    """A student's vectors from the cache; it is trained if they are missing.

    `start` is the product and the column of the token embeddings that the student starts from.
    """

    def train() -> dict[str, np.ndarray]:
        tokens = None if start is None else cache.arrays(start[0], models.miss_product)[start[1]]
        return distil.train_and_embed(lesson, tokens, models.find_device())

    facts = {"model": lesson.design.identity, "seed": product.inputs["seed"]}
    return cache.arrays(product, train, lambda _: facts)
