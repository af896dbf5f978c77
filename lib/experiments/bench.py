"""The one reader of a profile: it makes or reads once what students share, and passes it on.

    bench = Bench.load("mini")
    records = bench.run(["cosine", "MSE"], seeds=[0, 1, 2])

A label becomes a `Variant`; documents become token ids and teachers' rows; these make a student
(`students.py`); its embeddings of a task's texts are judged (`judging.py`, `ranking.py`); the
scores become a record. Each step is a product of the cache. Its key depends on settings and on the
content of data, so nothing is computed twice.
"""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from lib.config import paths, profiles
from lib.config.schema import Profile
from lib.data import corpus as corpora
from lib.data import sources, task_files
from lib.data.corpus import Corpus
from lib.data.dataset_folder import Documents
from lib.data.task_files import Task
from lib.distillation import variants
from lib.distillation.negatives import RowsWithNegatives
from lib.distillation.variants import Variant
from lib.experiments import cutting, encoders, judging, models, products, ranking, students
from lib.experiments.judging import Examples
from lib.experiments.products import Encoder
from lib.store import code, parallel
from lib.store.cache import Cache, Code, NotComputed, Product, Rows, hash_content, hash_items
from lib.store.files import fingerprint
from lib.texts import halve_text, keep_order

LSA_WIDTH = 1024  # as wide as the largest Paragraph Vectors, and scaled like them
OF_WORDS = ("tfidf", "lsa")  # kinds of models that are fitted in a moment and not stored
NOT_KEPT = (*OF_WORDS, "both")  # kinds whose vectors are computed where they are needed
MODELS_PER_JOB = 8  # whose heads one job trains: few enough to occupy all processes
Seeds = Sequence[int] | Mapping[str, Sequence[int]]  # for every model, or by identity
Pair = tuple[Variant, int]  # a model and its seed
Job = tuple[Callable[..., None], tuple]
T = TypeVar("T")

# Code that only contextual students run. If it changes, others need not be trained again.
_CONTEXTUAL = ("lib.distillation.projection", "lib.distillation.held_out_cca")
# Attributes that depend only on documents and tasks, so `changed` can pass them on.
_SHARED = ("roots", "corpus", "tasks", "readout", "_groups", "_memory")


class Texts(Sequence[str]):
    """The texts of documents, read from disk when needed."""

    def __init__(self, documents: Sequence[Any]):
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, row: Any) -> Any:
        part = self.documents[row]
        return Texts(part) if isinstance(row, slice) else part.text

    @functools.cached_property
    def names(self) -> np.ndarray:
        """(texts,) hashes by `hash_items`, kept so that all texts are read only once."""
        return hash_items(iter(self))


class Bench:
    """The experiments of one profile, and everything that they share.

    Parameters
    ----------
    profile : Profile
    cache : Cache, optional
        Where products are stored; by default under the artifact root.

    Attributes
    ----------
    readout : str
        How embeddings are read, one of `judging.READOUTS`; see `with_readout`.
    """

    readout = "thesis"

    def __init__(self, profile: Profile, cache: Cache | None = None):
        code.take_snapshot()  # of the code that this process computes with
        self.profile = profile
        keep = os.environ.get("THESIS_KEEP") == "1"
        self.cache = cache or Cache(paths.store(), keep=keep)

    @classmethod
    def load(cls, name: str, **changes: Any) -> "Bench":
        """The bench of a profile in `params/`, with changes as for `lib.config.profiles.load`."""
        return cls(profiles.load(name, **changes))

    def changed(self, section: str, **values: Any) -> "Bench":
        """A bench with other values in one section, which must not decide documents or tasks."""
        bench = Bench(self.profile.changed(section, **values), self.cache)
        bench.__dict__ |= {name: getattr(self, name) for name in _SHARED if name in self.__dict__}
        return bench

    def with_readout(self, name: str) -> "Bench":
        """A bench with another readout, one of `judging.READOUTS`."""
        bench = self.changed("heads", **judging.READOUTS[name])
        bench.readout = name
        return bench

    def reading(self) -> "Bench":
        """A bench that raises `NotComputed` when this one would compute something."""
        bench = Bench(self.profile, replace(self.cache, reading=True))
        bench.__dict__ |= {name: getattr(self, name) for name in _SHARED if name in self.__dict__}
        return bench

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get only the profile and the cache, and read what they need."""
        return {"profile": self.profile, "cache": self.cache}

    # ---- what is shared -------------------------------------------------------------------------

    @functools.cached_property
    def device(self) -> str:
        return models.find_device()

    @property
    def precision(self) -> str:
        """The precision of students: the profile's, but "fp32" if the device has no bfloat16."""
        wanted = self.profile.training.precision
        return wanted if wanted == "fp32" or models.has_bfloat16() else "fp32"

    @functools.cached_property
    def roots(self) -> list[Path]:
        """The folders that hold dataset folders."""
        profile = self.profile
        return sources.find_roots(profile.build, profile.data_roots, paths.artifacts())

    def check_data(self) -> None:
        """Raise `ValueError`, in one line, if a dataset folder or a task is missing."""
        task_files.check_data(self.roots, self.profile.corpus, self.profile.tasks)

    @functools.cached_property
    def corpus(self) -> Corpus:
        """The distillation corpus. Its texts are read from their folders when needed."""
        section = self.profile.corpus
        folders = [self.open_documents(name) for name in section.names]
        held_out = task_files.held_out_contents(self.tasks)
        contents = [folder.contents for folder in folders]
        inputs = {
            "settings": section.model_dump(mode="json"),
            "documents": [hash_content(each) for each in contents],
            "left_out": hash_content(np.intersect1d(held_out, np.concatenate(contents))),
        }
        count = None
        if any(folder.min_tokens for folder in section.folders):
            inputs["student"] = products.name_layers(self.profile.student)

            def count(texts: Sequence[str]) -> Sequence[int]:
                return self.token_table(texts)["whole"][:]

        product = Product("corpus", inputs, (products.find_code("lib.data.corpus"),))
        draw = functools.partial(corpora.draw, section, folders, held_out, count)
        return Corpus.read(self.cache.arrays(product, draw), folders)

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name, in the thesis' order.

        Raises `ValueError` if a task has another kind than its role in the thesis.
        """
        return task_files.read_tasks(self.roots, self.profile.tasks)

    @property
    def classifications(self) -> list[str]:
        """The tasks that heads are trained on."""
        return [name for name, task in self.tasks.items() if task.kind == "classification"]

    @property
    def retrievals(self) -> list[str]:
        """The tasks that rank texts."""
        return [name for name, task in self.tasks.items() if task.kind == "retrieval"]

    @functools.cached_property
    def _groups(self) -> dict[tuple[str, str], str]:
        """(id, text) -> the group that it shares with other texts, an article for instance."""
        return {
            (text_id, task.texts[text_id]): group
            for task in self.tasks.values()
            for text_id, group in task.groups.items()
            if text_id in task.texts
        }

    @functools.cached_property
    def _memory(self) -> dict[str, Any]:
        """Facts that were worked out, by the fingerprint of what they depend on."""
        return {}

    def remember(self, name: list[Any], find: Callable[[], Any]) -> Any:
        """The result of `find`, which is called only once for this name."""
        key = fingerprint(name)
        if key not in self._memory:
            self._memory[key] = find()
        return self._memory[key]

    @functools.cached_property
    def _named(self) -> dict[Any, Any]:
        """Results of `_name_once`. They stay valid: a bench's settings and data never change."""
        return {}

    def _name_once(self, name: Any, find: Callable[[], T]) -> T:
        if name not in self._named:
            self._named[name] = find()
        return self._named[name]

    def open_documents(self, name: str) -> Documents:
        """The documents of a dataset folder."""
        return Documents(sources.find_dataset(self.roots, name))

    def texts(self, name: str) -> Sequence[str]:
        """The texts of a set.

        "train": the documents that students read; "validation": held-out documents; "halves": the
        held-out documents cut in two, all first halves before all second halves. Raises
        `ValueError` for another name.
        """
        if name == "train":
            return self.first_texts(self.profile.training.documents)
        if name == "validation":
            return self.remember(["validation"], lambda: Texts(self.corpus.validation))
        if name != "halves":
            raise ValueError(f"unknown set of texts {name!r}; expected train, validation or halves")
        halves = [halve_text(document.text) for document in self.corpus.validation]
        return [first for first, _ in halves] + [second for _, second in halves]

    def first_texts(self, count: int | None) -> Texts:
        """The texts of the first `count` training documents of the corpus; None for all."""
        return self.remember(["train", count], lambda: Texts(self.corpus.train[:count]))

    def token_ids(self, name: str) -> Sequence[np.ndarray]:
        """The student's token ids of a set of texts, truncated, special tokens included."""
        return self.token_table(self.texts(name))["ids"]

    def token_table(self, texts: Iterable[str]) -> dict[str, Rows]:
        """`ids`, each text's int32 token ids for the student, and `whole`, its uncut length."""
        section = self.profile.student
        packages = ("transformers", "tokenizers")
        inputs = products.name_layers(section)
        product = Product("tokens", inputs, (products.TOKENS_CODE,), packages)
        return self.cache.rows(product, texts, encoders.TokenRows(section))

    def count_tokens(self, texts: Iterable[str]) -> pd.DataFrame:
        """Uncut lengths: `longformer_tokens` with special tokens, `sbert_tokens` without."""
        texts = keep_order(texts)
        whole = self.token_table(texts)["whole"]
        counts = {"longformer_tokens": whole[:], "sbert_tokens": self._structural_lengths(texts)[:]}
        return pd.DataFrame(counts)

    def structural(self, name: str) -> dict[str, Rows]:
        """The structural teacher's `embeddings` of a set, (texts, dim), and `lengths` in tokens."""
        texts, encoder = self.texts(name), self._find_encoder(Variant("sbert"), 0)
        vectors = self.cache.rows(encoder.table, texts, encoder.make)["vectors"]
        return {"embeddings": vectors, "lengths": self._structural_lengths(texts)}

    def _structural_lengths(self, texts: Sequence[str]) -> Rows:
        product = self._structural_product("lengths", products.TEACHER_CODE)
        make = encoders.LengthRows(self.profile.structural_teacher)
        return self.cache.rows(product, texts, make)["lengths"]

    def base_student(self):
        """A fresh copy of the student before training."""
        settings = self.profile.training
        return self._make_base().load(settings.dropout, settings.attention_dropout)

    def language_model(self) -> dict[str, Any] | None:
        """Losses of the base in guessing masked words: `loss`, `held_out`, `unigram`.

        See `lib.student.masked_words`. None if the base is not a language model.
        """
        product = self._make_base().language_model
        return None if product is None else self.cache.find(product)

    def _name_base(self) -> models.Base:
        """The student before training, whose language model need not be made yet."""
        return self._name_once("base", self._find_base)

    def _find_base(self) -> models.Base:
        section = self.profile.student
        if section.language_model is None:
            return models.Base(section)

        def hash_documents() -> list[str]:
            return [hash_content(ids) for ids in self._read_language()]

        computed = [self.device, self.precision]
        inputs = {
            "layers": products.name_layers(section),
            "settings": section.language_model.model_dump(mode="json"),
            "documents": self.remember(["words", section.model_dump(mode="json")], hash_documents),
            "computed": computed,
        }
        packages = ("torch", "transformers", "tokenizers")
        code = (products.LANGUAGE_MODEL_CODE,)
        return models.Base(section, self.cache, Product("language_model", inputs, code, packages))

    def _make_base(self) -> models.Base:
        """The student before training, ready to be loaded."""
        base = self._name_base()
        if base.language_model is not None and self.cache.find(base.language_model) is None:
            computed = [self.device, self.precision]
            products.make_language_model(base, *self._read_language(), computed)
        return base

    def _read_language(self) -> list[Sequence[np.ndarray]]:
        """Token ids of all training documents of the corpus, and of the held-out documents."""
        texts = (self.first_texts(None), self.texts("validation"))
        return [self.token_table(part)["ids"] for part in texts]

    def structural_teacher(self):
        """The structural teacher, an `SBERT`."""
        return encoders.load_structural_teacher(self.profile.structural_teacher, self.device)

    def _structural_product(self, kind: str, computed_by: Code) -> Product:
        section = self.profile.structural_teacher
        inputs = section.model_dump(mode="json") | {"files": models.hash_model(section.model)}
        packages = ("torch", "transformers", "sentence-transformers")
        label = {"structural": "SBERT", "chunks": "SBERT, mean of chunks"}.get(kind, kind)
        return Product(kind, inputs | {"device": self.device}, (computed_by,), packages, label)

    # ---- contextual teachers --------------------------------------------------------------------

    def paragraph_vector(self, label: str) -> dict[str, Any]:
        """Facts about a single Paragraph Vector: vocabulary_size, seconds, truncated, documents."""
        product = self._paragraph_vector_product(label, 0)
        if self.cache.find(product) is None:
            self.run_jobs([self._paragraph_vector_job(label, 0, [])], "Paragraph Vectors")
        note = self.cache.find(product) or {}
        return {name: note[name] for name in products.PARAGRAPH_VECTOR_FACTS}

    def load_paragraph_vector(self, label: str) -> Any:
        """A trained single Paragraph Vector, of `lib.teachers.paragraph_vector`."""
        self.paragraph_vector(label)  # trains it if it is missing
        return self.cache.model(self._paragraph_vector_product(label, 0), models.miss_product)

    def contextual(self, label: str, texts: Iterable[str], seed: int = 0) -> students.JoinedColumns:
        """(texts, dim) rows of a Paragraph Vector or LSA; the parts of a compound are joined."""
        parts, texts = [], keep_order(texts)
        for part in label.split("+"):
            if part == variants.LSA:
                parts.append(self._read_lsa(texts))
                continue
            if not self._has_paragraph_vector(part, seed, texts):
                self.run_jobs([self._paragraph_vector_job(part, seed, texts)], "Paragraph Vectors")
            product = self._paragraph_vector_product(part, seed)
            encoder = products.name_paragraph_vector_rows(self.cache, product)
            parts.append(self.cache.rows(encoder.table, texts, encoder.make)["vectors"])
        return students.JoinedColumns(parts)

    def contextual_rows(self, variant: Variant, name: str) -> students.ContextualRows:
        """The contextual teacher's rows of a set, as the student learns from them."""
        settings, label = self.profile.training, str(variant.contextual)
        taught, order = self.contextual(label, self.texts(name)), None
        if settings.contextual_rows == "dealt" and name == "train":
            order = students.deal_rows(variant, len(taught))
        training = self.contextual(label, self.texts("train"))
        return students.standardize_rows(training, taught, settings, order)

    def _read_lsa(self, texts: Sequence[str]) -> Rows:
        """(texts, dim) rows of LSA as a teacher, stored on disk like those of other teachers."""
        lsa, (_, dim) = Variant("lsa"), self._find_lsa()

        def embed(part: list[str]) -> dict[str, np.ndarray]:
            rows = self._embed_texts(lsa, 0, part)
            # A small corpus has fewer directions than projections expect: the others are 0.
            return {"vectors": np.pad(rows, [(0, 0), (0, dim - rows.shape[1])])}

        return self.cache.rows(self._name_model(lsa, 0), texts, embed)["vectors"]

    def _paragraph_vector_product(self, label: str, seed: int) -> Product:
        settings = self.profile.reseeded(seed).contextual_teacher
        inputs = {
            "label": label,
            "width": self.profile.width,
            "settings": settings.model_dump(mode="json"),
            "texts": hash_content(self.first_texts(settings.documents).names),
        }
        packages = ("gensim", "nltk", "numpy", "scipy")
        code = (products.PARAGRAPH_VECTOR_CODE,)
        return Product("paragraph_vector", inputs, code, packages, f"{label}, seed {seed}")

    def _has_paragraph_vector(self, label: str, seed: int, texts: Sequence[str]) -> bool:
        product = self._paragraph_vector_product(label, seed)
        encoder = products.name_paragraph_vector_rows(self.cache, product)
        there = self.cache.has_rows(encoder.table, texts)
        return there and self.cache.find(product) is not None

    def _paragraph_vector_job(self, label: str, seed: int, *parts: Sequence[str]) -> Job:
        product = self._paragraph_vector_product(label, seed)
        settings = self.profile.reseeded(seed).contextual_teacher
        train = functools.partial(
            products.train_paragraph_vector,
            label,
            self.profile.width,
            self.first_texts(settings.documents),
            settings.model_dump(exclude={"documents"}),
        )
        return products.embed_paragraph_vector, (self.cache, product, train, *parts)

    # ---- students -------------------------------------------------------------------------------

    def lesson(self, variant: Variant, seed: int) -> students.Lesson:
        """All that makes a student, as plain values."""
        profile, base, held_out, start = self.profile, self._make_base(), None, None
        if variant.contextual is not None:
            held_out = self._read_documents(variant, "validation")
            encoder = self._find_encoder(Variant("base"), 0)
            start = self.cache.rows(encoder.table, held_out.token_ids, encoder.make)["vectors"]
        return students.Lesson(
            replace(variant, cut=False),
            seed,
            base,
            profile.training,
            profile.soft_cca,
            profile.width,
            self.precision,
            self._read_documents(variant, "train"),
            held_out,
            start,
        )

    def _read_documents(self, variant: Variant, name: str) -> students.TaughtDocuments:
        targets = self._read_targets(variant, name) if variant.structural else None
        if variant.negatives:
            targets = RowsWithNegatives(targets, variant.negatives)
        return students.TaughtDocuments(
            self.token_ids(name),
            self.structural(name)["lengths"][:],
            targets,
            self.contextual_rows(variant, name) if variant.contextual else None,
        )

    def _read_targets(self, variant: Variant, name: str) -> Rows:
        """(texts, dim) targets of a student's structural loss for a set of texts."""
        if not variant.reads_chunks:
            return self.structural(name)["embeddings"]
        encoder = self._find_encoder(Variant("sbert_chunks"), 0)
        return self.cache.rows(encoder.table, self.texts(name), encoder.make)["vectors"]

    def student_product(self, variant: Variant, seed: int) -> Product:
        """The trained student as a product. The teachers' rows are made if they are missing."""
        return self._name_once((variant, seed), lambda: self._name_student(variant, seed))

    def _name_student(self, variant: Variant, seed: int) -> Product:
        settings = self.profile.training
        unread = {"checkpoint_every", "gradient_checkpointing"}
        if settings.passes == 1:  # keeps the names from before `passes` existed
            unread.add("passes")
        if variant.contextual is None:
            unread |= {"contextual_features", "contextual_rows"}
        if variant.contextual_loss != "cca":
            unread.add("cca_batch_size")
        if not variant.masked:
            unread.add("max_structural_len")
        base = self._name_base()
        inputs: dict[str, Any] = {
            "variant": {key: value for key, value in asdict(variant).items() if key != "cut"},
            "losses": variant.losses,
            "arguments": variant.structural and variants.structural_loss(variant.structural),
            "seed": seed,
            "base": products.name_base(base),
            "training": settings.model_dump(mode="json", exclude=unread),
            "computed": [self.device, self.precision, models.count_processes()],
            "documents": self._hash_documents("train", variant),
        }
        if variant.contextual is not None:
            inputs["held_out"] = self._hash_documents("validation", variant)
            inputs["width"] = self.profile.width
            if variant.contextual_loss == "soft_cca":
                inputs["soft_cca"] = self.profile.soft_cca.model_dump(mode="json")
        stop = ["lib.losses", "lib.distillation.variants"]
        stop += [] if variant.contextual else _CONTEXTUAL
        stop += [] if variant.pooling == "cls" else ["lib.student.cls"]
        training = products.find_code("lib.experiments.students", stop=stop)
        packages = ["torch", "transformers", "accelerate"]
        packages += ["scikit-learn"] if variant.contextual else []
        losses = Code(tuple(_find_loss_modules(variant)))
        code = (training, losses, *products.list_base_code(base))
        if variant.negatives:
            code += (products.find_code("lib.distillation.negatives"),)
        label = f"{variant.identity}, seed {seed}"
        return Product("student", inputs, code, tuple(packages), label)

    def _hash_documents(self, name: str, variant: Variant) -> list[str]:
        """Hashes of what a student reads of a set, and of its teachers' rows."""
        profile = self.profile
        sections = [profile.student, profile.structural_teacher, profile.contextual_teacher]
        where = [name, profile.training.documents, profile.width]
        where += [section.model_dump(mode="json") for section in sections]
        read: dict[str, Callable[[], Any]] = {"tokens": lambda: self.token_ids(name)}
        if variant.structural:
            read["chunks" if variant.reads_chunks else "embeddings"] = functools.partial(
                self._read_targets, variant, name
            )
        if variant.masked:
            read["lengths"] = lambda: self.structural(name)["lengths"]
        if label := variant.contextual:
            read[label] = lambda: self.contextual(label, self.texts(name))
        return [
            self.remember([part, *where], lambda rows=rows: hash_content(rows()))
            for part, rows in read.items()
        ]

    def _find_encoder(self, variant: Variant, seed: int) -> Encoder:
        """What embeds with a model; a student must have been trained."""
        name = ("encoder", variant, seed)
        return self._name_once(name, lambda: self._name_encoder(variant, seed))

    def _name_encoder(self, variant: Variant, seed: int) -> Encoder:
        computed = [self.device, self.precision]
        if variant.kind == "base":
            return products.name_encoder(self._name_base(), computed)
        if variant.kind == "student":
            product = self.student_product(variant, seed)
            base = self._name_base()
            return products.name_encoder(base, computed, variant.pooling, self.cache, product)
        section = self.profile.structural_teacher
        if variant.kind == "sbert":
            table = self._structural_product("structural", products.TEACHER_CODE)
            return Encoder(table, encoders.StructuralRows(section, self.device))
        if variant.kind == "sbert_chunks":
            table = self._structural_product("chunks", products.CHUNKS_CODE)
            return Encoder(table, encoders.ChunkRows(section, self.device))
        raise ValueError(f"{variant.identity} embeds no single text")

    # ---- embeddings -----------------------------------------------------------------------------

    def embeddings(
        self, model: Variant | str, seed: int, *, split: str | None = "validation"
    ) -> dict[str, Any]:
        """A model's embeddings of held-out documents, and a student's history.

        Parameters
        ----------
        model : Variant or label
        split : {"validation", "test", None}
            The split that the model will be judged on, whose texts are embedded at the same time.
            None for controls, which are not judged.

        Returns
        -------
        dict
            "validation" (documents, dim); unless `split` is None, "halves" (2 documents, dim); for
            a student also "loss" (updates,); with a contextual teacher also "watched"
            (measurements, 4), see `students.train_student`.
        """
        variant = variants.parse(model) if isinstance(model, str) else model
        made = ("embedded", variant, seed, split)
        self._name_once(made, lambda: self.embed([(variant, seed)], split=split))
        sets = ("validation",) if split is None else ("validation", "halves")
        result = {name: self._embed_texts(variant, seed, self.texts(name)) for name in sets}
        if variant.kind == "student":
            note = self.cache.find(self.student_product(variant, seed)) or {}
            result["loss"] = np.array(note["loss"])
            if variant.contextual is not None:
                result["watched"] = np.array(note["watched"])
        return result

    def _embed_texts(self, variant: Variant, seed: int, texts: Sequence[str]) -> Any:
        """(texts, dim) vectors of texts from a model that exists."""
        if variant.kind not in NOT_KEPT:
            return self._read_rows(variant, seed, texts)[:]
        model = self._name_model(variant, 0)
        name = [model.kind, model.inputs, variant.cut, hash_content(hash_items(texts))]
        return self.remember(name, lambda: self._embed_at_once(variant, texts))

    def _embed_at_once(self, variant: Variant, texts: Sequence[str]) -> Any:
        """Vectors of a model in `NOT_KEPT`, which every readout and round shares."""
        from lib.evaluation import baselines
        from lib.evaluation.joined import join_rows

        if variant.kind == "both":
            parts = (_find_dense(variant), Variant("lsa", cut=variant.cut))
            return join_rows(*(self._embed_texts(part, 0, texts) for part in parts))
        texts = self._cut_texts(texts) if variant.cut else texts
        if variant.kind == "tfidf":
            return baselines.tfidf(self.texts("train"), texts)
        read, dim = self._find_lsa()
        name = ["lsa", hash_content(read.names), dim]
        return self.remember(name, lambda: baselines.fit_lsa(read, dim))(texts)

    def _cut_texts(self, texts: Sequence[str]) -> Sequence[str]:
        """The beginnings of texts, as far as the structural teacher reads."""
        section = self.profile.structural_teacher
        name = ["cut", hash_content(hash_items(texts)), section.model_dump(mode="json")]
        return self.remember(name, lambda: cutting.cut_texts(section, texts))

    def _find_lsa(self) -> tuple[Texts, int]:
        """The documents that LSA is fitted to, and its width."""
        read = self.first_texts(self.profile.contextual_teacher.documents)
        return read, max(1, round(LSA_WIDTH * self.profile.width))

    def _read_rows(self, variant: Variant, seed: int, texts: Sequence[str]) -> Any:
        """Like `_embed_texts`, but rows are read from disk when needed."""
        if variant.kind == "paragraph_vector":
            return self.contextual(str(variant.contextual), texts, seed)
        encoder = self._find_encoder(variant, seed)
        items = self._find_items(encoder.reads_tokens, texts, variant.cut)
        return self.cache.rows(encoder.table, items, encoder.make)["vectors"]

    def _find_items(self, reads_tokens: bool, texts: Sequence[str], cut: bool = False) -> Any:
        """The input of a model: the texts, or token ids, perhaps cut where the teacher stops."""
        if not reads_tokens:
            return texts
        ids = self.token_table(texts)["ids"]
        return encoders.CutIds(ids, self.profile.structural_teacher.max_tokens) if cut else ids

    def _task_texts(self, task: str, split: str) -> list[str]:
        if self.tasks[task].kind == "classification":
            return self.examples(task, split).texts
        return list(self.tasks[task].texts.values())

    def examples(self, task: str, split: str, limit: float | None = None) -> Examples:
        """The examples that models are judged by on a classification.

        Raises
        ------
        ValueError
            If the task cannot be cut into its folds.
        """
        section = self.profile.tasks
        name = ["examples", task, split, limit, section.model_dump(mode="json")]
        entry = self.tasks[task]
        read = functools.partial(judging.read_examples, task, entry, split, section.limit, limit)
        try:
            return self.remember(name, read)
        except ValueError as error:
            raise ValueError(f"{task}: {error}; lower its folds (tasks.folders)") from error

    def embed(self, pairs: Iterable[Pair], *, split: str | None) -> None:
        """Make missing models and their missing embeddings; for `split`, see `embeddings`.

        What students share is made first, then everything else in one queue. Training a student and
        embedding with it is one job.
        """
        pairs = [(_find_dense(variant), seed) for variant, seed in pairs]
        pairs = [pair for pair in dict.fromkeys(pairs) if pair[0].kind not in OF_WORDS]
        texts = self._list_texts(split)
        self._prepare([variant for variant, _ in pairs], texts)
        jobs: list[Job] = []
        trained: dict[str, list[Any]] = {}  # the arguments of a training, by the student's key
        for variant, seed in pairs:
            if variant.kind == "paragraph_vector":
                for part in str(variant.contextual).split("+"):
                    if not self._has_paragraph_vector(part, seed, texts):
                        jobs.append(self._paragraph_vector_job(part, seed, texts))
                continue
            if variant.kind == "student":
                product = self.student_product(variant, seed)
                if self.cache.find(product) is None:
                    computed = [self.device, self.precision]
                    work = [self.cache, product, self.lesson(variant, seed), computed]
                    items = self._find_items(True, texts, variant.cut)
                    trained.setdefault(product.key, work).append(items)
                    continue
            encoder = self._find_encoder(variant, seed)
            items = self._find_items(encoder.reads_tokens, texts, variant.cut)
            if not self.cache.has_rows(encoder.table, items):
                if encoder.reads_tokens:
                    self._make_base()
                jobs.append((products.add_rows, (self.cache, encoder, items)))
        jobs += [(products.train_and_embed, tuple(work)) for work in trained.values()]
        self.run_jobs(jobs, "models")

    def _list_texts(self, split: str | None) -> list[str]:
        """Every distinct text that models must embed for a split."""
        texts = [self.texts("validation")]
        if split is not None:
            texts.append(self.texts("halves"))
            tasks = [*self.classifications, *(self.retrievals if split == "test" else ())]
            texts += [self._task_texts(name, split) for name in tasks]
        return list(dict.fromkeys(itertools.chain.from_iterable(texts)))

    def _prepare(self, wanted: Sequence[Variant], texts: Sequence[str]) -> None:
        """Make what students share: token ids, the structural teacher's rows, Paragraph Vectors."""
        learners = [variant for variant in wanted if variant.kind == "student"]
        read = [self.texts("train"), self.texts("validation")] if learners else []
        jobs: list[Job] = []
        if learners or any(variant.kind == "base" for variant in wanted):
            for part in (*read, texts):
                self.token_table(part)
        chunks = any(variant.reads_chunks for variant in learners)
        for kind in ("sbert", "sbert_chunks") if chunks else ("sbert",):
            teacher = self._find_encoder(Variant(kind), 0)
            for part in read:
                if not self.cache.has_rows(teacher.table, part):
                    jobs.append((products.add_rows, (self.cache, teacher, part)))
        labels = [str(variant.contextual).split("+") for variant in learners if variant.contextual]
        for label in dict.fromkeys(itertools.chain.from_iterable(labels)):
            if label == variants.LSA:
                continue
            lacking = [part for part in read if not self._has_paragraph_vector(label, 0, part)]
            if lacking:
                jobs.append(self._paragraph_vector_job(label, 0, *lacking))
        if labels:  # the base's embeddings are the first measurement of contextual students
            base, ids = self._find_encoder(Variant("base"), 0), self.token_ids("validation")
            if not self.cache.has_rows(base.table, ids):
                self._make_base()
                jobs.append((products.add_rows, (self.cache, base, ids)))
        self.run_jobs(jobs, "texts and teachers")

    def run_jobs(self, jobs: list[Job], description: str) -> None:
        """Run jobs, if there are any. A bench that only reads raises `NotComputed`."""
        if jobs and self.cache.reading:
            raise NotComputed(f"{description}: {len(jobs)} missing in {self.cache.folder}")
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
            Models that the dict lacks run with the profile's seeds.
        tasks : sequence of str, optional
            By default, all classifications.
        split : {"validation", "test"}
            Chapter 4 validates, Chapter 5 tests. A task without the split is cross-validated.
        limit : float, optional
            How many training examples heads get; below 1, the share of the task's examples.

        Returns
        -------
        DataFrame
            model, the variant's fields, task, metric, readout, split, seed, value (accuracy, mean
            over folds and heads), seconds (of training), device, embedding_fingerprint,
            fingerprint, by_head (accuracies), scores (of each test example, the share of correct
            heads), groups (of the examples' texts), chance.

        Raises
        ------
        ValueError
            If there is no classification.
        """
        pairs = self._pair_seeds(wanted, seeds)
        tasks = self.classifications if tasks is None else tasks
        if not tasks:
            raise ValueError(
                "tasks.folders names no classification to judge models by; "
                "use `retrieve` for retrievals"
            )
        trained = [
            variant for variant, _ in pairs if variant.kind in ("student", "paragraph_vector")
        ]
        self._prepare(trained, [])

        def name_records(places: Iterable[tuple[Pair, str]]) -> dict[tuple[Pair, str], Any]:
            return {
                (pair, task): self._record_product(
                    *pair, self.examples(task, split, limit), limit, split
                )
                for pair, task in places
            }

        products_of = name_records(itertools.product(pairs, tasks))
        missing = [
            place
            for place, product in products_of.items()
            if product is None or self.cache.find(product) is None
        ]
        if missing:
            self.embed([pair for pair, _ in missing], split=split)
            made = name_records(missing)
            self._judge(made, split, limit)
            products_of |= made
        table = []
        for (pair, task), product in products_of.items():
            record = self.cache.record(product, models.miss_product)
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
            table.append(row)
        return pd.DataFrame(table)

    def retrieve(
        self,
        wanted: Iterable[str | Variant],
        *,
        seeds: Seeds,
        tasks: Sequence[str] | None = None,
        top: int | None = None,
    ) -> pd.DataFrame:
        """Tidy records of retrieval: like `run`, with the metrics MAP and MRR over the sources.

        With `top` None every text is ranked, as MAP is defined; with 1000, texts ranked lower are
        ignored, as in the published numbers. An example of `scores` is a source with one of its
        targets, and has the groups of both. `queries` is the number of sources.
        """
        pairs = self._pair_seeds(wanted, seeds)
        self.embed(pairs, split="test")
        table = []
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
                    table.append(row | facts | {"scores": scores, "chance": chance[metric]})
        return pd.DataFrame(table)

    def halves_mrr(self, model: str | Variant, seed: int) -> float:
        """Mean reciprocal rank of a held-out document's other half, without labels or heads."""
        return float(ranking.rank_halves(self.embeddings(model, seed)["halves"]).mean())

    def _record_product(
        self, variant: Variant, seed: int, examples: Examples, limit: float | None, split: str
    ) -> Product | None:
        """A model's record on some examples; None if the model is missing."""
        model = self._name_model(variant, seed)
        if model is None:
            return None
        classifier = self._choose_classifier(variant)
        settings = None
        if classifier == "head":
            settings = self.profile.heads.model_dump(mode="json", exclude={"classifier"})
        inputs = {
            "model": model.inputs,
            "kind": model.kind,
            "cut": self.profile.structural_teacher.max_tokens if variant.cut else None,
            "examples": self._hash_examples(examples, limit, split),
            "classifier": classifier,
            "heads": settings,
            "seed": seed if classifier == "head" else None,
        }
        packages = tuple(dict.fromkeys(("torch", "scikit-learn", *model.packages)))
        label = f"{examples.task}: {variant.identity}, seed {seed}"
        return Product("record", inputs, (products.JUDGING_CODE, *model.code), packages, label)

    def _name_model(self, variant: Variant, seed: int) -> Product | None:
        """The product whose rows are a model's vectors of any text; None if it is missing."""
        if variant.kind == "tfidf":
            inputs = {"fitted": hash_content(self.texts("train").names)}
            return Product("tfidf", inputs, (products.WORDS_CODE,), ("scikit-learn",))
        if variant.kind == "lsa":
            return self._name_lsa(variant.cut)
        if variant.kind == "both":
            dense = self._name_model(_find_dense(variant), 0)
            parts = [dense, self._name_lsa(variant.cut)]
            inputs = {"parts": [part.inputs for part in parts]}
            code = (products.JOINED_CODE, *itertools.chain(*(part.code for part in parts)))
            packages = tuple(itertools.chain(*(part.packages for part in parts)))
            return Product("both", inputs, code, packages)
        if variant.kind == "paragraph_vector":
            parts = [
                self._paragraph_vector_product(part, seed)
                for part in str(variant.contextual).split("+")
            ]
            if any(self.cache.find(part) is None for part in parts):
                return None
            inputs = {"parts": [part.inputs for part in parts]}
            return Product("paragraph_vector", inputs, parts[0].code, parts[0].packages)
        if (
            variant.kind == "student"
            and self.cache.find(self.student_product(variant, seed)) is None
        ):
            return None
        return self._find_encoder(variant, seed).table

    def _name_lsa(self, cut: bool) -> Product:
        """LSA of whole texts, or of what the structural teacher reads of them."""
        read, dim = self._find_lsa()
        inputs: dict[str, Any] = {"fitted": hash_content(read.names), "dim": dim}
        if not cut:
            return Product("lsa", inputs, (products.WORDS_CODE,), ("scikit-learn",))
        inputs["cut"] = self._find_encoder(Variant("sbert"), 0).table.inputs
        code = (products.WORDS_CODE, products.CUTTING_CODE)
        return Product("lsa", inputs, code, ("scikit-learn", "transformers", "tokenizers"))

    def _hash_examples(self, examples: Examples, limit: float | None, split: str) -> str:
        def find() -> str:
            folds = [part for pair in examples.parts for part in pair]
            texts = hash_items(examples.texts)
            return hash_content(texts, examples.inputs, examples.labels, *folds)

        section = self.profile.tasks.model_dump(mode="json")
        return self.remember(["hash", examples.task, split, limit, section], find)

    def _judge(
        self, missing: Mapping[tuple[Pair, str], Product], split: str, limit: float | None
    ) -> None:
        """Make every missing record. The heads of one task are trained together."""
        groups: dict[tuple[str, str], list[Pair]] = {}
        for pair, task in missing:
            groups.setdefault((task, self._choose_classifier(pair[0])), []).append(pair)
        jobs: list[Job] = []
        for (task, classifier), pairs in groups.items():
            examples = self.examples(task, split, limit)
            for start in range(0, len(pairs), MODELS_PER_JOB):
                part = pairs[start : start + MODELS_PER_JOB]
                given = [
                    (variant.identity, seed, self._read_features(variant, seed, examples.texts))
                    for variant, seed in part
                ]
                records = [missing[pair, task] for pair in part]
                work = (self.cache, records, given, examples, self.profile.heads, classifier)
                jobs.append((products.judge_and_record, work))
        self.run_jobs(jobs, "classification heads")

    def _read_features(self, variant: Variant, seed: int, texts: Sequence[str]) -> Any:
        """Vectors that jobs read from disk; those of `NOT_KEPT` are computed here."""
        at_once = variant.kind in NOT_KEPT
        return (self._embed_texts if at_once else self._read_rows)(variant, seed, texts)

    def _choose_classifier(self, variant: Variant) -> str:
        chosen = self.profile.heads.classifier
        return "words" if variant.kind == "tfidf" else chosen

    def _name_groups(self, task: str, text_ids: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Groups of the examples' texts, in the shape of `rows`.

        A text without a group is a group by itself, named by its id and a checksum, because an
        array of names is as wide as the longest of them.
        """
        texts = [self.tasks[task].texts[text_id] for text_id in text_ids]
        named = zip(text_ids, texts, hash_items(texts), strict=True)
        names = [self._groups.get((i, text), f"{i}: {number:016x}") for i, text, number in named]
        return np.array(names)[rows]

    def _start_row(
        self, pair: Pair, task: str, metric: str, split: str, value: float
    ) -> dict[str, Any]:
        variant, seed = pair
        model, note = self._name_model(variant, seed), {}
        name = "" if model is None else fingerprint([model.kind, model.inputs])
        if variant.kind == "student":
            note = self.cache.find(self.student_product(variant, seed)) or {}
        row = {"model": variant.identity, **asdict(variant), "task": task, "metric": metric}
        row |= {
            "readout": self.readout if metric == "accuracy" else "none",  # rankings are by cosine
            "split": split,
            "seed": seed,
            "value": value,
            "seconds": note.get("seconds"),
            "device": self.device,
            "fingerprint": "",
            "embedding_fingerprint": name,
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


def _find_dense(variant: Variant) -> Variant:
    """The dense part of a model that joins two: of a cut text the teacher reads the one piece."""
    if variant.kind != "both":
        return variant
    return Variant("sbert" if variant.cut else "sbert_chunks")


def _find_loss_modules(variant: Variant) -> list[str]:
    """The modules of `lib.losses` that hold the losses of a variant."""
    from lib import losses

    return sorted({getattr(losses, name).__module__ for name in variant.losses})
