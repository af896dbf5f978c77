"""The one reader of a profile: what students share is made or read once here, and passed on.

    bench = Bench.load("mini")
    records = bench.run(["cosine", "MSE"], seeds=[0, 1, 2])

A label becomes a `Variant`; documents become token ids and teachers' rows; these make a student
(`students.py`); its embeddings of a task's texts are judged (`judging.py`, `ranking.py`); what is
right becomes a record. Each step is a product of the cache: settings and content of data go into
its key, so nothing is made again that would come out the same.
"""

import functools
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.config import paths, profiles
from lib.config.roles import ROLES
from lib.config.schema import Profile
from lib.data import corpus as corpora
from lib.data import sources, task_files
from lib.data.corpus import Corpus
from lib.data.dataset_folder import Documents as DocumentFolder
from lib.data.dataset_folder import content
from lib.data.task_files import Task
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments import judging, models, ranking, students
from lib.experiments.judging import Examples
from lib.store import parallel
from lib.store.cache import Cache, NotComputed, Product, Rows, hash_content, hash_items
from lib.store.files import fingerprint

HELD_OUT = 300  # documents, at most, whose halves a person's student is judged by
MODELS_PER_JOB = 8  # whose heads one job trains: amortises the loop, and occupies all processes
Seeds = Sequence[int] | Mapping[str, Sequence[int]]  # of every model, or by identity
Pair = tuple[Variant, int]  # a model and its seed

# What does not compute a student, though its modules are imported on the way.
_VALUES = ("lib.store", "lib.config", "lib.data", "lib.student.export", "lib.distillation.variants")
_CONTEXTUAL = ("lib.distillation.projection", "lib.distillation.held_out_cca")
_SHARED = (
    "roots",
    "corpus",
    "tasks",
    "queries",
    "_groups",
    "_held_out",
    "_memory",
)  # see `changed`


class Texts(Sequence[str]):
    """The texts of documents, read from disk when they are asked for."""

    def __init__(self, documents: Sequence[Any]):
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, row: Any) -> Any:
        part = self.documents[row]
        return Texts(part) if isinstance(row, slice) else part.text


@dataclass(frozen=True)
class Encoder:
    """What embeds texts with one model, as values that other processes can be given.

    table: the product whose rows the embeddings are. make: computes rows. tokens: whether it reads
    the student's token ids; else it reads texts.
    """

    table: Product
    make: Callable[[list[Any]], dict[str, Any]]
    tokens: bool

    @property
    def identity(self) -> str:
        """Names the model by all that made it."""
        return fingerprint([self.table.kind, self.table.inputs])


class Bench:
    """Everything that the experiments of one profile share, and the experiments.

    Parameters
    ----------
    profile : Profile
    cache : Cache, optional
        Where products are kept; by default under the artifact root.
    """

    def __init__(self, profile: Profile, cache: Cache | None = None):
        self.profile = profile
        keep = os.environ.get("THESIS_KEEP") == "1"
        self.cache = cache or Cache(paths.artifacts() / "store", keep=keep)

    @classmethod
    def load(cls, name: str, **changes: Any) -> "Bench":
        """The bench of a profile in `params/`; changes as `lib.config.profiles.load` takes them."""
        return cls(profiles.load(name, **changes))

    def changed(self, section: str, **values: Any) -> "Bench":
        """A bench with other values in one section that decides neither documents nor tasks."""
        bench = Bench(self.profile.changed(section, **values), self.cache)
        bench.__dict__ |= {name: getattr(self, name) for name in _SHARED if name in self.__dict__}
        return bench

    def reading(self) -> "Bench":
        """A bench that raises `NotComputed` where this one would compute."""
        bench = Bench(self.profile, replace(self.cache, reading=True))
        bench.__dict__ |= {name: getattr(self, name) for name in _SHARED if name in self.__dict__}
        return bench

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get the profile and the cache, and read from there what they need."""
        return {"profile": self.profile, "cache": self.cache}

    # ---- what is shared -------------------------------------------------------------------------

    @functools.cached_property
    def device(self) -> str:
        return models.find_device()

    @property
    def precision(self) -> str:
        """In what students are computed: "fp32" where the device has no bfloat16."""
        return self.profile.training.precision if models.has_bfloat16() else "fp32"

    @functools.cached_property
    def roots(self) -> list[Path]:
        """The folders that hold dataset folders."""
        return paths.find_data_roots(self.profile)

    @functools.cached_property
    def corpus(self) -> Corpus:
        """The distillation corpus; texts stay in their folders until they are asked for."""
        section = self.profile.corpus
        folders = [self.open_documents(name) for name in section.names]
        held_out = np.array(sorted(self._held_out), dtype=np.uint64)
        inputs = {
            "settings": section.model_dump(mode="json"),
            "documents": [hash_content(folder.contents) for folder in folders],
            "held_out": hash_content(
                np.intersect1d(held_out, np.concatenate([folder.contents for folder in folders]))
            ),
        }
        count = None
        if any(folder.min_tokens for folder in section.folders):
            inputs["student"] = self._base_inputs
            count = lambda texts: self.token_table(texts)["whole"][:]  # noqa: E731
        product = Product("corpus", inputs, ("lib.data.corpus",), ("lib.store", "lib.config"))
        selection = self.cache.arrays(
            product, lambda: corpora.draw(section, folders, held_out, count)
        )
        return Corpus.read(selection, folders)

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name, in the thesis' order; ValueError for a role given to another kind."""
        section, read = self.profile.tasks, {}
        for name in section.names:
            entry = section.folders[name]
            dataset, _, task = entry.folder.partition("/")
            folder = sources.find_dataset(self.roots, dataset) / "tasks" / task
            kind = task_files.kind(folder)
            if ROLES.get(name, kind) != kind:
                raise ValueError(
                    f"tasks.folders.{name} is a {kind} task, and {name} is a {ROLES[name]} task "
                    "in the thesis; give yours a name of its own"
                )
            read[name] = task_files.read_task(
                folder, folds=entry.folds, texts=entry.texts, seed=section.seed
            )
        return read

    @property
    def classifications(self) -> list[str]:
        """The tasks that heads are trained on."""
        return [name for name, task in self.tasks.items() if task.kind == "classification"]

    @property
    def retrievals(self) -> list[str]:
        """The tasks that rank texts."""
        return [name for name, task in self.tasks.items() if task.kind == "retrieval"]

    @functools.cached_property
    def _held_out(self) -> set[int]:
        """Contents of the texts that tasks are validated and tested on; the corpus has none."""
        return {
            content(task.texts[text_id])
            for task in self.tasks.values()
            for text_id in task.held_out()
        }

    @functools.cached_property
    def _groups(self) -> dict[tuple[str, str], str]:
        """(id, text) -> what it shares with other texts, an article for instance."""
        return {
            (text_id, task.texts[text_id]): group
            for task in self.tasks.values()
            for text_id, group in task.groups.items()
            if text_id in task.texts
        }

    @functools.cached_property
    def _memory(self) -> dict[str, Any]:
        """Facts that were worked out once, under fingerprints of what they depend on."""
        return {}

    def remember(self, name: list[Any], find: Callable[[], Any]) -> Any:
        """What `find` returns, worked out once in this process for this name."""
        key = fingerprint(name)
        if key not in self._memory:
            self._memory[key] = find()
        return self._memory[key]

    def open_documents(self, name: str) -> DocumentFolder:
        """The documents of a dataset folder."""
        return DocumentFolder(sources.find_dataset(self.roots, name))

    def texts(self, name: str) -> Sequence[str]:
        """The texts of a set.

        "train": the documents that students see; "validation": held-out documents; "halves": these
        cut in two, all first halves before all second ones.
        """
        if name == "train":
            return Texts(self.corpus.train[: self.profile.training.documents])
        if name == "validation":
            return Texts(self.corpus.validation)
        if name != "halves":
            raise ValueError(f"unknown set of texts {name!r}; expected train, validation or halves")
        halves = [ranking.halve_text(document.text) for document in self.corpus.validation]
        return [first for first, _ in halves] + [second for _, second in halves]

    def token_ids(self, name: str) -> Sequence[np.ndarray]:
        """The texts of a set as the student's token ids, truncated, special tokens included."""
        return self.token_table(self.texts(name))["ids"]

    def token_table(self, texts: Sequence[str]) -> dict[str, Rows]:
        """`ids` of each text for the student, int32, and `whole`, its tokens if none were cut."""
        inputs = self._base_inputs
        packages = ("transformers", "tokenizers")
        product = Product("tokens", inputs, ("lib.student.packing",), _VALUES, packages)
        return self.cache.rows(product, texts, _Tokenizer(self.profile))

    def structural(self, name: str) -> dict[str, Rows]:
        """`embeddings` of a set by the structural teacher, (texts, dim), and `lengths`, its tokens."""
        return self.structural_rows(self.texts(name))

    def structural_rows(self, texts: Sequence[str]) -> dict[str, Rows]:
        """As `structural`, of any texts."""
        product = self._structural_product("structural", ("lib.teachers.sbert",))
        section = self.profile.structural_teacher
        return self.cache.rows(product, texts, _StructuralRows(section, self.device))

    def base_student(self):
        """A fresh copy of the student before training."""
        settings = self.profile.training
        dropout = settings.dropout, settings.attention_dropout
        return models.load_base_student(self.profile.student, *dropout)

    def structural_teacher(self):
        """The structural teacher, an `SBERT`."""
        return models.load_structural_teacher(self.profile.structural_teacher, self.device)

    @functools.cached_property
    def _base_inputs(self) -> dict[str, Any]:
        section = self.profile.student
        return section.model_dump(mode="json") | {"files": models.hash_model(section.model)}

    def _structural_product(self, kind: str, modules: tuple[str, ...]) -> Product:
        section = self.profile.structural_teacher
        inputs = section.model_dump(mode="json") | {"files": models.hash_model(section.model)}
        packages = ("torch", "transformers", "sentence-transformers")
        return Product(kind, inputs | {"device": self.device}, modules, _VALUES, packages)

    # ---- contextual teachers --------------------------------------------------------------------

    def paragraph_vector(self, label: str) -> dict[str, Any]:
        """Facts about a single Paragraph Vector: vocabulary_size, seconds, truncated, documents."""
        self._find_paragraph_vector(label, 0)
        note = self.cache.find(self._paragraph_vector_product(label, 0)) or {}
        return {name: note[name] for name in _FACTS}

    def contextual(self, label: str, texts: Sequence[str], seed: int = 0) -> students.SideBySide:
        """(texts, dim) rows of a Paragraph Vector; of a compound its parts side by side."""
        return students.SideBySide(
            [self._paragraph_vector_rows(part, texts, seed) for part in label.split("+")]
        )

    def contextual_rows(self, variant: Variant, name: str) -> students.ContextualRows:
        """What a student's contextual teacher says of a set, as the student learns from it."""
        settings, label = self.profile.training, str(variant.contextual)
        rows, order = self.contextual(label, self.texts(name)), None
        if settings.contextual_rows == "dealt" and name == "train":
            order = students.deal_rows(variant, len(rows))
        training = self.contextual(label, self.texts("train"))
        return students.standardize_rows(training, rows, settings, order)

    def _paragraph_vector_product(self, label: str, seed: int) -> Product:
        settings = self.profile.reseeded(seed).contextual_teacher
        inputs = {
            "label": label,
            "width": self.profile.width,
            "settings": settings.model_dump(mode="json", exclude={"workers"}),
            "texts": self._contextual_corpus,
        }
        modules, packages = ("lib.teachers.paragraph_vector",), ("gensim", "nltk", "numpy", "scipy")
        return Product("paragraph_vector", inputs, modules, _VALUES, packages)

    @property
    def _contextual_corpus(self) -> str:
        count = self.profile.contextual_teacher.documents
        name = ["contextual corpus", self.profile.corpus.model_dump(mode="json"), count]
        texts = Texts(self.corpus.train[:count])
        return self.remember(name, lambda: hash_content(hash_items(texts)))

    def _train_paragraph_vector(self, label: str, seed: int) -> Callable[[], Any]:
        settings = self.profile.reseeded(seed).contextual_teacher
        texts = Texts(self.corpus.train[: settings.documents])
        values = settings.model_dump(exclude={"documents"})
        return functools.partial(_train_paragraph_vector, label, self.profile.width, texts, values)

    def _paragraph_vector_rows(self, label: str, texts: Sequence[str], seed: int) -> Rows:
        encoder = self._find_paragraph_vector(label, seed)
        return self.cache.rows(encoder.table, texts, encoder.make)["vectors"]

    def _find_paragraph_vector(self, label: str, seed: int) -> Encoder:
        product = self._paragraph_vector_product(label, seed)
        if self.cache.find(product) is None:
            train = self._train_paragraph_vector(label, seed)
            self.cache.model(product, train, _describe_paragraph_vector)
        table = _name_paragraph_vector_rows(self.cache.find(product) or {})
        return Encoder(table, _ParagraphVectorRows(self.cache, product), tokens=False)

    # ---- students -------------------------------------------------------------------------------

    def lesson(self, variant: Variant, seed: int, parts: int | None = None) -> students.Lesson:
        """All that makes a student, as values.

        parts: after each of so many parts of its training, a student of a contextual teacher is
        measured.
        """
        profile, held_out, start = self.profile, None, None
        if variant.contextual is not None:
            held_out = self._documents(variant, "validation")
            base = self._find_encoder(Variant("base"), 0)
            start = self.cache.rows(base.table, self.token_ids("validation"), base.make)["vectors"]
        return students.Lesson(
            replace(variant, cut=False),
            seed,
            profile.student,
            profile.training,
            profile.soft_cca,
            profile.width,
            self.precision,
            self._documents(variant, "train"),
            held_out,
            start,
            parts or students.WATCHED_PARTS,
        )

    def _documents(self, variant: Variant, name: str) -> students.Documents:
        taught = self.structural(name)
        return students.Documents(
            self.token_ids(name),
            taught["lengths"][:],
            taught["embeddings"] if variant.structural else None,
            self.contextual_rows(variant, name) if variant.contextual else None,
        )

    def student_product(self, variant: Variant, seed: int) -> Product:
        """The trained student as a product; the teachers' rows are made if they are missing."""
        settings = self.profile.training
        unread = {"checkpoint_every", "gradient_checkpointing"}
        if variant.contextual is None:
            unread |= {"contextual_features", "contextual_rows"}
        unread |= {"batch_size"} if variant.contextual_loss == "cca" else {"cca_batch_size"}
        unread |= set() if variant.masked else {"max_structural_len"}
        inputs: dict[str, Any] = {
            "variant": {key: value for key, value in asdict(variant).items() if key != "cut"},
            "seed": seed,
            "base": self._base_inputs,
            "training": settings.model_dump(mode="json", exclude=unread),
            "computed": [self.device, self.precision],
            "documents": self._hash_set("train", variant.structural, variant.masked),
        }
        if variant.contextual is not None:
            inputs["held_out"] = self._hash_set("validation", variant.structural, True)
            inputs["contextual"] = [
                self._hash_contextual(str(variant.contextual), name)
                for name in ("train", "validation")
            ]
            inputs["width"] = self.profile.width
            if variant.contextual_loss == "soft_cca":
                inputs["soft_cca"] = self.profile.soft_cca.model_dump(mode="json")
        losses = tuple(sorted(_find_loss_modules(variant)))
        stop = (*_VALUES, "lib.losses")
        stop += () if variant.contextual else _CONTEXTUAL
        stop += () if variant.pooling == "cls" else ("lib.student.cls",)
        packages = ("torch", "transformers", "accelerate")
        packages += ("scikit-learn",) if variant.contextual else ()
        return Product("student", inputs, ("lib.experiments.students", *losses), stop, packages)

    def _hash_set(self, name: str, embeddings: Any, lengths: bool) -> list[str]:
        """Content of what students read of a set: token ids, and what the structural teacher says."""
        settings, profile = self.profile.training, self.profile
        where = [
            name,
            settings.documents,
            profile.student.model_dump(),
            profile.structural_teacher.model_dump(),
        ]
        parts = [self.remember(["tokens", *where], lambda: hash_content(self.token_ids(name)))]
        for wanted, column in ((embeddings, "embeddings"), (lengths, "lengths")):
            if wanted:
                parts.append(
                    self.remember(
                        [column, *where],
                        functools.partial(
                            lambda column: hash_content(self.structural(name)[column]), column
                        ),
                    )
                )
        return parts

    def _hash_contextual(self, label: str, name: str) -> str:
        profile = self.profile
        where = [
            label,
            name,
            profile.training.documents,
            profile.contextual_teacher.model_dump(),
            profile.width,
        ]
        find = lambda: hash_content(self.contextual(label, self.texts(name)))  # noqa: E731
        return self.remember(["contextual", *where], find)

    def make_student(self, product: Product, lesson: students.Lesson) -> dict[str, np.ndarray]:
        """Train a student, or read it; the weights that training changed."""
        checkpoint = self.cache.scratch(product, ".checkpoint")
        # A short training is repeated rather than resumed.
        settings = lesson.training
        short = settings.checkpoint_every * settings.batch_size * settings.accumulation
        resumed = checkpoint.exists() or settings.documents > short
        facts: dict[str, Any] = {"model": lesson.variant.identity, "seed": lesson.seed}

        def train() -> dict[str, np.ndarray]:
            student, losses, watched = students.train_student(
                lesson, checkpoint=checkpoint if resumed else None
            )
            facts["loss"], facts["watched"] = losses, watched.tolist()
            return students.pack_weights(student)

        weights = self.cache.arrays(product, train, lambda _: facts)
        shutil.rmtree(checkpoint, ignore_errors=True)
        return weights

    def name_student(
        self, pooling: str, product: Product | None, note: Mapping[str, Any]
    ) -> Encoder:
        """What embeds with a trained student, or without a product with the base."""
        inputs = {"base": self._base_inputs, "computed": [self.device, self.precision]}
        if product is not None:
            inputs |= {"student": _hash_files(note), "pooling": pooling}
        cls = pooling == "cls"
        module = "lib.student.cls" if cls else "lib.student.encoder"
        stop = _VALUES if cls else (*_VALUES, "lib.student.cls")
        table = Product("vectors", inputs, (module,), stop, ("torch", "transformers"))
        make = _StudentRows(self.profile.student, self.precision, pooling, self.cache, product)
        return Encoder(table, make, tokens=True)

    def _find_encoder(self, variant: Variant, seed: int) -> Encoder:
        """What embeds with a model, which must be there."""
        section = self.profile.structural_teacher
        if variant.kind == "base":
            return self.name_student("mean", None, {})
        if variant.kind == "student":
            product = self.student_product(variant, seed)
            note = self.cache.find(product)
            if note is None:
                raise NotComputed(f"the student {variant.identity}, seed {seed}, is missing")
            return self.name_student(variant.pooling, product, note)
        if variant.kind == "paragraph_vector":
            return self._find_paragraph_vector(str(variant.contextual), seed)
        if variant.kind == "sbert":
            table = self._structural_product("structural", ("lib.teachers.sbert",))
            return Encoder(table, _StructuralRows(section, self.device), tokens=False)
        if variant.kind == "sbert_chunks":
            modules = ("lib.evaluation.baselines", "lib.teachers.sbert")
            table = self._structural_product("chunks", modules)
            return Encoder(table, _ChunkRows(section, self.device), tokens=False)
        raise ValueError(f"{variant} embeds no single text")

    # ---- embeddings -----------------------------------------------------------------------------

    def embeddings(
        self, model: Variant | str, seed: int, *, split: str | None = "validation"
    ) -> dict[str, Any]:
        """A model's embeddings of held-out documents, and a student's history.

        Parameters
        ----------
        model : Variant or label
        split : {"validation", "test", None}
            What the model is to be judged on, too; None for controls, which are judged on nothing.

        Returns
        -------
        dict
            "validation" (documents, dim); "halves" of these unless `split` is None; of a student
            "loss" (updates,); of one with a contextual teacher "watched" (measurements, 4).
        """
        variant = variants.parse(model) if isinstance(model, str) else model
        self.embed([(variant, seed)], split=split)
        sets = ("validation",) if split is None else ("validation", "halves")
        result = {name: self._embed_texts(variant, seed, self.texts(name)) for name in sets}
        if variant.kind == "student":
            note = self.cache.find(self.student_product(variant, seed)) or {}
            result["loss"] = np.array(note["loss"])
            if variant.contextual:
                result["watched"] = np.array(note["watched"])
        return result

    def task_vectors(
        self, model: Variant | str, seed: int, task: str, *, split: str = "validation"
    ) -> Any:
        """(texts, dim) of a task's texts, rows as in `examples(task, split).texts` or, of a
        retrieval, as in `task.texts`; sparse for TF-IDF."""
        variant = variants.parse(model) if isinstance(model, str) else model
        self.embed([(variant, seed)], split=split, tasks=[task])
        return self._embed_texts(variant, seed, self._task_texts(task, split))

    def _embed_texts(self, variant: Variant, seed: int, texts: Sequence[str]) -> Any:
        """(texts, dim) vectors of a model that is there."""
        if variant.kind == "tfidf":
            from lib.evaluation import baselines

            return baselines.tfidf(self.texts("train"), texts)
        if variant.kind == "paragraph_vector":
            return self.contextual(str(variant.contextual), texts, seed)[:]
        encoder = self._find_encoder(variant, seed)
        items = self._find_items(encoder.tokens, texts, variant.cut)
        rows = self.cache.rows(encoder.table, items, encoder.make)
        return rows["embeddings" if "embeddings" in rows else "vectors"][:]

    def _find_items(self, tokens: bool, texts: Sequence[str], cut: bool = False) -> Any:
        """What a model reads: token ids, cut where the structural teacher stops, or the texts."""
        if not tokens:
            return texts
        ids = self.token_table(texts)["ids"]
        if not cut:
            return ids
        limit = self.profile.structural_teacher.max_tokens
        return [  # the last token is special
            row if len(row) <= limit else np.append(row[: limit - 1], row[-1:]) for row in ids[:]
        ]

    def _task_texts(self, task: str, split: str) -> list[str]:
        if self.tasks[task].kind == "classification":
            return self.examples(task, split).texts
        return list(self.tasks[task].texts.values())

    def examples(self, task: str, split: str, limit: float | None = None) -> Examples:
        """The examples that models are judged by on a classification."""
        cut = self.profile.tasks.limit
        name = ["examples", task, split, cut, limit, self._task_inputs(task)]
        read = functools.partial(judging.read_examples, task, self.tasks[task], split, cut, limit)
        return self.remember(name, read)

    def _task_inputs(self, task: str) -> list[Any]:
        section = self.profile.tasks
        return [section.folders[task].model_dump(mode="json"), section.seed]

    def embed(
        self, pairs: Iterable[Pair], *, split: str | None, tasks: Sequence[str] | None = None
    ) -> None:
        """Make what is missing of models and their embeddings; see `embeddings` for the split.

        What students share comes first, then everything in one queue: training a student and
        embedding with it is one job.
        """
        pairs = [pair for pair in dict.fromkeys(pairs) if pair[0].kind != "tfidf"]
        texts = self._list_texts(split, tasks)
        self._prepare([variant for variant, _ in pairs], texts)
        jobs: list[tuple[Callable[..., None], tuple]] = []
        trained: dict[str, list[tuple]] = {}  # the jobs of a model that is missing, by its key
        for variant, seed in pairs:
            if variant.kind == "student":
                product = self.student_product(variant, seed)
                if self.cache.find(product) is None:
                    lesson = self.lesson(variant, seed, 1 if split is None else None)
                    items = self._find_items(True, texts, variant.cut)
                    trained.setdefault(product.key, [self, product, lesson]).append(items)
                    continue
            elif variant.kind == "paragraph_vector":
                for part in str(variant.contextual).split("+"):
                    if not self._has_paragraph_vector(part, seed, texts):
                        jobs.append(self._paragraph_vector_job(part, seed, texts))
                continue
            encoder = self._find_encoder(variant, seed)
            items = self._find_items(encoder.tokens, texts, variant.cut)
            if not self.cache.has_rows(encoder.table, items):
                jobs.append((_add_rows, (self.cache, encoder, items)))
        jobs += [(_train_and_embed, tuple(job)) for job in trained.values()]
        self._run_jobs(jobs, "models")

    def _list_texts(self, split: str | None, tasks: Sequence[str] | None) -> list[str]:
        """Every text that models embed for a split, once."""
        texts = [self.texts("validation")]
        if split is not None:
            texts.append(self.texts("halves"))
            if tasks is None:
                tasks = [*self.classifications, *(self.retrievals if split == "test" else ())]
            texts += [self._task_texts(name, split) for name in tasks]
        return list(dict.fromkeys(itertools.chain.from_iterable(texts)))

    def _prepare(self, wanted: Sequence[Variant], texts: Sequence[str]) -> None:
        """Make what students share: token ids, the structural teacher's rows, Paragraph Vectors."""
        if any(variant.kind in ("base", "student") for variant in wanted):
            self.token_table(texts)
        learners = [variant for variant in wanted if variant.kind == "student"]
        documents = [*self.texts("train"), *self.texts("validation")] if learners else []
        if documents:
            self.token_table(documents)
        judged = texts if any(variant.kind == "sbert" for variant in wanted) else []
        jobs = []
        if read := [*documents, *judged]:
            encoder = self._find_encoder(Variant("sbert"), 0)
            if not self.cache.has_rows(encoder.table, read):
                jobs.append((_add_rows, (self.cache, encoder, read)))
        teachers = [
            str(variant.contextual).split("+") for variant in learners if variant.contextual
        ]
        for part in dict.fromkeys(itertools.chain.from_iterable(teachers)):
            if not self._has_paragraph_vector(part, 0, documents):
                jobs.append(self._paragraph_vector_job(part, 0, documents))
        if any(variant.contextual for variant in learners):  # which are measured before training
            base = self._find_encoder(Variant("base"), 0)
            ids = self.token_ids("validation")
            if not self.cache.has_rows(base.table, ids):
                jobs.append((_add_rows, (self.cache, base, ids)))
        self._run_jobs(jobs, "texts and teachers")

    def _has_paragraph_vector(self, label: str, seed: int, texts: Sequence[str]) -> bool:
        note = self.cache.find(self._paragraph_vector_product(label, seed))
        return note is not None and self.cache.has_rows(_name_paragraph_vector_rows(note), texts)

    def _paragraph_vector_job(
        self, label: str, seed: int, texts: Sequence[str]
    ) -> tuple[Callable[..., None], tuple]:
        product, train = self._paragraph_vector_product(label, seed), self._train_paragraph_vector
        return _embed_paragraph_vector, (self.cache, product, train(label, seed), texts)

    def _run_jobs(self, jobs: list[tuple[Callable[..., None], tuple]], description: str) -> None:
        if jobs and self.cache.reading:
            raise NotComputed(f"{description}: {len(jobs)} are missing in {self.cache.folder}")
        if jobs:
            parallel.run_jobs(jobs, description)

    # ---- records --------------------------------------------------------------------------------

    def run(
        self,
        wanted: Iterable[str | Variant],
        *,
        seeds: Seeds,
        tasks: Sequence[str] | None = None,
        split: str = "validation",
        limit: float | None = None,
    ) -> pd.DataFrame:
        """Tidy records of classification: a row for each model, task and seed.

        Parameters
        ----------
        wanted : iterable of labels or variants
        seeds : sequence, or dict of identity -> seeds
            Models that the dict lacks run with the profile's.
        tasks : sequence of str, optional
            All classifications by default.
        split : {"validation", "test"}
            Chapter 4 validates, Chapter 5 tests; a task without the split is cross-validated.
        limit : float, optional
            Training examples of a head; below 1, the share of a task's.

        Returns
        -------
        DataFrame
            model, the variant's fields, task, metric, split, seed, value (the mean over folds and
            heads), seconds (of the processor, in training), device, embedding_fingerprint,
            fingerprint, by_head (accuracies), scores (over test examples), groups, chance.
        """
        pairs = self._pair_seeds(wanted, seeds)
        tasks = self.classifications if tasks is None else tasks
        if not tasks:
            raise ValueError(
                "tasks.folders names no classification to judge models by; "
                "`retrieve` judges by retrievals"
            )
        trained = [
            variant for variant, _ in pairs if variant.kind in ("student", "paragraph_vector")
        ]
        self._prepare(trained, [])
        products: dict[tuple[Pair, str], Product | None] = {}
        for pair, task in itertools.product(pairs, tasks):
            products[pair, task] = self._record_product(*pair, self.examples(task, split, limit))
        missing = [
            place
            for place, product in products.items()
            if product is None or self.cache.find(product) is None
        ]
        if missing:
            self.embed([pair for pair, _ in missing], split=split)
            for pair, task in missing:
                examples = self.examples(task, split, limit)
                products[pair, task] = self._record_product(*pair, examples)
            self._judge({place: products[place] for place in missing}, split, limit)
        rows = []
        for (pair, task), product in products.items():
            assert product is not None
            record = self.cache.record(product, _miss_record)
            row = self._start_row(pair, task, "accuracy", split, record["accuracy"])
            examples = self.examples(task, split)
            row |= {
                "fingerprint": product.key,
                "by_head": record["heads"],
                "scores": np.array(record["scores"]),
                "groups": self._name_groups(
                    task, examples.text_ids, examples.inputs[examples.tested]
                ),
                "chance": examples.chance,
            }
            rows.append(row)
        return pd.DataFrame(rows)

    def retrieve(
        self,
        wanted: Iterable[str | Variant],
        *,
        seeds: Seeds,
        tasks: Sequence[str] | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """Tidy records of retrieval: as `run`, with the metrics MAP and MRR over a task's sources.

        top: None ranks every text (the definition of MAP); 1000 ignores what is ranked lower, as
        the published numbers do. An example of `scores` is a source with one of its targets and has
        the groups of both; `queries` says how many sources there are.
        """
        pairs = self._pair_seeds(wanted, seeds)
        self.embed(pairs, split="test")
        rows = []
        for task in self.retrievals if tasks is None else tasks:
            queries = ranking.read_queries(self.tasks[task])
            facts = {
                "groups": self._name_groups(task, queries.text_ids, queries.examples),
                "queries": len(queries.relevant),
            }
            chance = {
                metric: ranking.score_chance(queries, metric, top) for metric in ranking.METRICS
            }
            for variant, seed in pairs:
                vectors = self._embed_texts(variant, seed, queries.texts)
                for metric in ranking.METRICS:
                    value, scores = ranking.score_queries(vectors, queries, metric, top)
                    row = self._start_row((variant, seed), task, metric, "test", value)
                    rows.append(row | facts | {"scores": scores, "chance": chance[metric]})
        return pd.DataFrame(rows)

    def halves_mrr(self, model: str | Variant, seed: int) -> float:
        """Mean reciprocal rank of a held-out document's other half: no labels, no heads."""
        return float(ranking.rank_halves(self.embeddings(model, seed)["halves"]).mean())

    def judge_halves(self, student: Any, variant: Variant) -> pd.DataFrame:
        """What `halves_mrr` averages, for a student and what is there without it.

        The documents are those that no training reads: the corpus' validation documents, then what
        tasks are validated and tested on, `HELD_OUT` at most. Of each as many words are read as the
        student reads tokens.

        Returns
        -------
        DataFrame
            A row for the base, the structural teacher, the mean of its chunks, TF-IDF and the
            student: model, task, metric, `scores` and `groups` (documents,), `chance`.
        """
        from lib.evaluation import baselines

        documents = [(each.text, each.group or each.id) for each in self.corpus.validation]
        for task in self.tasks.values():
            names = sorted(task.held_out())
            documents += [(task.texts[name], task.groups.get(name, name)) for name in names]
        unique = {
            content(text): (text.split()[: student.max_positions], group)
            for text, group in documents
        }
        whole = [each for each in unique.values() if len(each[0]) > 1][:HELD_OUT]
        if not whole:
            raise ValueError(
                f"none of {len(unique)} held-out documents has two words, so no halves"
            )
        halves = [ranking.halve_text(" ".join(words)) for words, _ in whole]
        texts = [first for first, _ in halves] + [second for _, second in halves]
        teacher, base = self.structural_teacher(), self.base_student().to(self.device)
        encoders: dict[str, Callable[[], Any]] = {
            "Longformer": lambda: base.encode(texts, precision=self.precision),
            "SBERT": lambda: teacher.encode(texts),
            "SBERT, mean of chunks": lambda: baselines.mean_of_chunks(teacher, texts),
            "TF-IDF": lambda: baselines.tfidf(self.texts("train"), texts).toarray(),
            variant.identity: lambda: student.encode(texts, precision=self.precision),
        }
        scores = []
        for encode in parallel.track(
            encoders.values(), f"halves of {len(whole)} documents", len(encoders)
        ):
            scores.append(ranking.rank_halves(encode()).reshape(2, -1).mean(axis=0))
        return pd.DataFrame(
            {
                "model": list(encoders),
                "scores": scores,
                "groups": [np.array([group for _, group in whole])] * len(scores),
                "task": "halves of documents",
                "metric": "MRR",
                "chance": np.mean(1 / np.arange(1, len(texts))),
            }
        )

    def _record_product(self, variant: Variant, seed: int, examples: Examples) -> Product | None:
        """A model's record on some examples; None if the model is missing."""
        classifier = self._choose_classifier(variant)
        model, modules, stop, packages = self._name_model(variant, seed)
        if model is None:
            return None
        settings = self.profile.heads.model_dump(mode="json", exclude={"classifier"})
        inputs = {
            "model": model,
            "examples": self._hash_examples(examples),
            "classifier": classifier,
            "heads": settings if classifier == "head" else {"features": settings["features"]},
            "seed": seed if classifier == "head" else None,
        }
        packages = tuple(dict.fromkeys(("torch", "scikit-learn", *packages)))
        code = ("lib.experiments.judging", "lib.evaluation.heads", "lib.evaluation.classifiers")
        return Product("record", inputs, (*code, *modules), stop, packages)

    def _name_model(
        self, variant: Variant, seed: int
    ) -> tuple[list[Any] | None, tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """What names a model's vectors of any text, and the modules and packages that make them."""
        if variant.kind == "tfidf":
            name = ["train texts", self.profile.training.documents, self._contextual_corpus]
            fitted = self.remember(name, lambda: hash_content(hash_items(self.texts("train"))))
            return ["tfidf", fitted], ("lib.evaluation.baselines",), _VALUES, ("scikit-learn",)
        parts = [variant]
        if variant.kind == "paragraph_vector":
            labels = str(variant.contextual).split("+")
            parts = [replace(variant, contextual=label) for label in labels]
        names: list[Any] = []
        for part in parts:
            if part.kind == "student" and self.cache.find(self.student_product(part, seed)) is None:
                return None, (), _VALUES, ()
            if part.kind == "paragraph_vector":
                product = self._paragraph_vector_product(str(part.contextual), seed)
                if self.cache.find(product) is None:
                    return None, (), _VALUES, ()
            encoder = self._find_encoder(part, seed)
            names.append(encoder.identity)
        if variant.cut:
            names.append(["cut", self.profile.structural_teacher.max_tokens])
        table = encoder.table
        return names, table.modules, table.stop, table.packages

    def _hash_examples(self, examples: Examples) -> str:
        def find() -> str:
            folds = [part for pair in examples.parts for part in pair]
            texts = hash_items(examples.texts)
            return hash_content(texts, examples.inputs, examples.labels, *folds)

        return self.remember(["examples", id(examples)], find)

    def _judge(
        self, missing: Mapping[tuple[Pair, str], Product], split: str, limit: float | None
    ) -> None:
        """Every missing record: the heads of one task are trained together."""
        groups: dict[tuple[str, str], list[Pair]] = {}
        for pair, task in missing:
            groups.setdefault((task, self._choose_classifier(pair[0])), []).append(pair)
        jobs: list[tuple[Callable[..., None], tuple]] = []
        for (task, classifier), pairs in groups.items():
            examples = self.examples(task, split, limit)
            for start in range(0, len(pairs), MODELS_PER_JOB):
                part = pairs[start : start + MODELS_PER_JOB]
                features = [self._read_features(*pair, examples.texts) for pair in part]
                names = [variant.identity for variant, _ in part]
                seeds = [seed for _, seed in part]
                given = list(zip(names, seeds, features, strict=True))
                products = [missing[pair, task] for pair in part]
                work = (self.cache, products, given, examples, self.profile.heads, classifier)
                jobs.append((_judge_models, work))
        self._run_jobs(jobs, "classification heads")

    def _read_features(self, variant: Variant, seed: int, texts: Sequence[str]) -> Any:
        """Rows that are read where they are needed; TF-IDF's are made at once."""
        if variant.kind in ("tfidf", "paragraph_vector"):
            return self._embed_texts(variant, seed, texts)
        encoder = self._find_encoder(variant, seed)
        items = self._find_items(encoder.tokens, texts, variant.cut)
        rows = self.cache.rows(encoder.table, items, encoder.make)
        return rows["embeddings" if "embeddings" in rows else "vectors"]

    def _choose_classifier(self, variant: Variant) -> str:
        chosen = self.profile.heads.classifier
        return "logistic regression" if variant.kind == "tfidf" else chosen

    def _name_groups(self, task: str, text_ids: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """What the texts of examples share with others, in the shape of `rows`."""
        texts = self.tasks[task].texts
        names = np.array([self._groups.get((i, texts[i]), f"{i}: {texts[i]}") for i in text_ids])
        return names[rows]

    def _start_row(
        self, pair: Pair, task: str, metric: str, split: str, value: float
    ) -> dict[str, Any]:
        variant, seed = pair
        model, *_ = self._name_model(variant, seed)
        note = {}
        if variant.kind == "student":
            note = self.cache.find(self.student_product(variant, seed)) or {}
        row = {"model": variant.identity, **asdict(variant), "task": task, "metric": metric}
        row |= {"split": split, "seed": seed, "value": value, "seconds": note.get("seconds")}
        row |= {
            "device": self.device,
            "fingerprint": "",
            "embedding_fingerprint": fingerprint(model),
        }
        return row

    def _pair_seeds(self, wanted: Iterable[str | Variant], seeds: Seeds) -> list[Pair]:
        """Each model, by its label or variant, with each of its seeds."""
        chosen = dict.fromkeys(
            model if isinstance(model, Variant) else variants.parse(model) for model in wanted
        )
        given = seeds if isinstance(seeds, Mapping) else {v.identity: seeds for v in chosen}
        return [
            (variant, seed)
            for variant in chosen
            for seed in given.get(variant.identity, self.profile.seeds)
        ]


# ---- what jobs do, in any process ---------------------------------------------------------------

_FACTS = ("vocabulary_size", "seconds", "truncated", "documents")


def _hash_files(note: Mapping[str, Any]) -> list[str]:
    return sorted(note["files"].values())


def _find_loss_modules(variant: Variant) -> set[str]:
    """The modules of `lib.losses` that hold the losses of a variant."""
    from lib import losses

    return {getattr(losses, name).__module__ for name in variant.losses}


def _name_paragraph_vector_rows(note: Mapping[str, Any]) -> Product:
    inputs, modules = {"model": _hash_files(note)}, ("lib.teachers.paragraph_vector",)
    return Product("vectors", inputs, modules, _VALUES, ("gensim", "nltk"))


@dataclass(frozen=True)
class _Tokenizer:
    profile: Profile

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        from lib.student.packing import tokenize_whole

        student = _load_base(self.profile.student)
        rows, whole = tokenize_whole(student.tokenizer, texts, student.max_positions)
        return {"ids": [np.array(row, dtype=np.int32) for row in rows], "whole": np.array(whole)}


@dataclass(frozen=True)
class _StructuralRows:
    section: Any
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        teacher = models.load_structural_teacher(self.section, self.device)
        vectors = teacher.encode(texts, self.section.batch_size)
        return {"embeddings": vectors, "lengths": teacher.lengths(texts)}


@dataclass(frozen=True)
class _ChunkRows:
    section: Any
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        from lib.evaluation import baselines

        teacher = models.load_structural_teacher(self.section, self.device)
        return {"vectors": baselines.mean_of_chunks(teacher, texts)}


@dataclass(frozen=True)
class _ParagraphVectorRows:
    cache: Cache
    product: Product

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        return {"vectors": self.cache.model(self.product, _miss_record).encode(texts)}


@dataclass(frozen=True)
class _StudentRows:
    """Rows by the base, or by a trained student whose weights are in the cache."""

    student: Any
    precision: str
    pooling: str = "mean"
    cache: Cache | None = None
    product: Product | None = None

    def __call__(self, ids: list[np.ndarray]) -> dict[str, Any]:
        student = models.load_base_student(self.student)
        if self.pooling == "cls":
            from lib.student.cls import ClsStudent

            student = ClsStudent(student)
        if self.product is not None:
            assert self.cache is not None
            weights = self.cache.arrays(self.product, _miss_record)
            student = students.unpack_weights(student, weights)
        student = student.to(models.find_device())
        return {"vectors": student.encode(ids, precision=self.precision)}


def _add_rows(cache: Cache, encoder: Encoder, items: Sequence[Any]) -> None:
    cache.rows(encoder.table, items, encoder.make)


def _train_and_embed(
    bench: Bench, product: Product, lesson: students.Lesson, *items: Sequence[Any]
) -> None:
    cache = bench.cache
    bench.make_student(product, lesson)
    note = cache.find(product)
    if note is None:
        raise LookupError(f"the student {lesson.variant.identity} vanished: run again")
    encoder = bench.name_student(lesson.variant.pooling, product, note)
    for part in items:
        cache.rows(encoder.table, part, encoder.make)


def _embed_paragraph_vector(
    cache: Cache, product: Product, train: Callable[[], Any], texts: Sequence[str]
) -> None:
    cache.model(product, train, _describe_paragraph_vector)
    note = cache.find(product)
    if note is None:
        raise LookupError("a Paragraph Vector vanished: run again")
    cache.rows(_name_paragraph_vector_rows(note), texts, _ParagraphVectorRows(cache, product))


def _train_paragraph_vector(label: str, width: float, texts: Sequence[str], settings: dict) -> Any:
    from lib.teachers.paragraph_vector import ParagraphVector

    return ParagraphVector.parse(label, width=width).train(texts, **settings)


def _describe_paragraph_vector(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in _FACTS if name != "seconds"}


def _judge_models(
    cache: Cache,
    products: Sequence[Product],
    given: Sequence[tuple[str, int, Any]],
    examples: Examples,
    settings: Any,
    classifier: str,
) -> None:
    missing = [number for number, product in enumerate(products) if cache.find(product) is None]
    results = judging.judge_models(
        [given[number] for number in missing], examples, settings, classifier
    )
    for number, result in zip(missing, results, strict=True):
        cache.record(products[number], functools.partial(dict, result))


def _miss_record() -> Any:
    raise LookupError("what was computed vanished while it was read: run again")


@functools.lru_cache(maxsize=2)
def _load_base(section: Any):
    return models.load_base_student(section)
