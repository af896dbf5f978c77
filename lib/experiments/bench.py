"""From labels of models to tidy records: a profile's texts, tasks and models.

    bench = Bench.load("mini")
    records = bench.run(["cosine", "MSE"], seeds=[0, 1, 2])

This is the one reader of a profile. A label becomes a model, whose name is known before anything is
computed; what the store lacks is made in one queue of jobs; heads judge the vectors.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from lib.config import paths, profiles
from lib.config.schema import HeadSettings, Profile
from lib.data import corpus as corpora
from lib.data import task_files
from lib.data.corpus import Corpus
from lib.data.dataset_folder import Documents, content, find_dataset, find_roots
from lib.data.examples import read_examples, read_queries
from lib.data.task_files import Task
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.evaluation import ranking, readouts
from lib.evaluation.readouts import Examples
from lib.experiments.base import Base, load_layers
from lib.experiments.embedders import Joined, ParagraphVector, Teacher, Words
from lib.experiments.model import Model, find_device, has_bfloat16, hash_model
from lib.experiments.students import TrainedStudent
from lib.jobs import Job, run_jobs
from lib.store import NotComputed, Product, Store, hash_arrays, hash_texts
from lib.texts import halve_text

LSA_WIDTH = 1024  # as wide as the largest Paragraph Vectors, and scaled like them
JUDGING = ("evaluation.heads", "evaluation.readouts")
MODELS_PER_JOB = 8  # whose heads one job trains: few enough to occupy all processes

T = TypeVar("T")
Seeds = Sequence[int] | Mapping[str, Sequence[int]]  # for every model, or by identity
Pair = tuple[Variant, int]  # a model and its seed


class shared_property(Generic[T]):
    """A cached property of documents and tasks, which a bench and all its copies compute once."""

    def __init__(self, compute: Callable[[Any], T]):
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, bench: Any, owner: type) -> T:
        name = self.compute.__name__
        if name not in bench.shared:
            bench.shared[name] = self.compute(bench)
        return bench.shared[name]


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
        """(texts,) hashes, kept so that all texts are read only once."""
        return hash_texts(iter(self))


class Bench:
    """The experiments of one profile, kept by default in the store under the artifact root.

    `readout` says how embeddings are read, one of `readouts.READOUTS`; see `with_readout`.
    """

    readout = "thesis"

    def __init__(self, profile: Profile, store: Store | None = None):
        self.profile = profile
        keep = os.environ.get("THESIS_KEEP") == "1"
        reading = os.environ.get("THESIS_READING") == "1"
        self.store = store or Store(paths.store(), keep=keep, reading=reading)
        self.shared: dict[str, Any] = {}

    @classmethod
    def load(cls, name: str, **changes: Any) -> Bench:
        """The bench of a profile in `params/`, with changes as for `lib.config.profiles.load`."""
        return cls(profiles.load(name, **changes))

    def changed(self, section: str, **values: Any) -> Bench:
        """A bench with other values in one section; `ValueError` for one of documents or tasks."""
        if section in ("corpus", "tasks"):
            raise ValueError(f"{section} is read already; load another bench with overrides")
        return self._copy(self.profile.changed(section, **values), self.store)

    def with_readout(self, name: str) -> Bench:
        """A bench that reads embeddings in another way, one of `readouts.READOUTS`."""
        bench = self.changed("heads", **readouts.READOUTS[name])
        bench.readout = name
        return bench

    def reading(self) -> Bench:
        """A bench that raises `NotComputed` when this one would compute something."""
        return self._copy(self.profile, replace(self.store, reading=True))

    def _copy(self, profile: Profile, store: Store) -> Bench:
        bench = Bench(profile, store)
        bench.readout, bench.shared = self.readout, self.shared
        return bench

    @property
    def precision(self) -> str:
        """The precision of students: the profile's, but "fp32" if the device has no bfloat16."""
        wanted = self.profile.training.precision
        return wanted if wanted == "fp32" or has_bfloat16() else "fp32"

    # ---- texts ----------------------------------------------------------------------------------

    @shared_property
    def roots(self) -> list[Path]:
        """The folders that hold dataset folders."""
        profile = self.profile
        return find_roots(profile.build, profile.data_roots, paths.artifacts())

    def check_data(self) -> None:
        """Raise `ValueError`, in one line, if a dataset folder or a task is missing."""
        task_files.check_data(self.roots, self.profile.corpus, self.profile.tasks)

    @shared_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by name, in the thesis' order."""
        return task_files.read_tasks(self.roots, self.profile.tasks)

    @property
    def classifications(self) -> list[str]:
        """The tasks that heads are trained on."""
        return [name for name, task in self.tasks.items() if task.kind == "classification"]

    @property
    def retrievals(self) -> list[str]:
        """The tasks that rank texts."""
        return [name for name, task in self.tasks.items() if task.kind == "retrieval"]

    @shared_property
    def corpus(self) -> Corpus:
        """The distillation corpus, without what tasks are validated or tested on."""
        section, student = self.profile.corpus, self.profile.student
        folders = [Documents(find_dataset(self.roots, name)) for name in section.names]
        held_out = task_files.held_out_contents(self.tasks)
        contents = [folder.contents for folder in folders]
        inputs = section.model_dump(mode="json") | {"documents": hash_arrays(*contents)}
        inputs["left_out"] = hash_arrays(np.intersect1d(held_out, np.concatenate(contents)))
        if any(folder.min_tokens for folder in section.folders):
            inputs["student"] = [student.model, student.revision, hash_model(student.model)]

        def count_tokens(texts: Sequence[str]) -> Sequence[int]:
            tokenizer = load_layers(student).tokenizer
            return [len(ids) for ids in tokenizer([*texts], verbose=False)["input_ids"]]

        def draw() -> dict[str, np.ndarray]:
            return corpora.draw(section, folders, held_out, count_tokens)

        product = Product("corpus", inputs, ("data.corpus",))
        return Corpus.read(self.store.get(product, draw), folders)

    @shared_property
    def held_out(self) -> Texts:
        """The held-out documents of the corpus."""
        return Texts(self.corpus.validation)

    @shared_property
    def halves(self) -> list[str]:
        """First halves of the held-out documents, then second halves."""
        parts = [halve_text(text) for text in self.held_out]
        return [first for first, _ in parts] + [second for _, second in parts]

    @property
    def documents(self) -> Texts:
        """The documents that students are trained on."""
        return self.first_texts(self.profile.training.documents)

    @functools.cache  # noqa: B019  # a process has few benches
    def first_texts(self, count: int | None) -> Texts:
        """The texts of the first `count` training documents of the corpus; None for all."""
        return Texts(self.corpus.train[:count])

    # ---- models ---------------------------------------------------------------------------------

    @functools.cached_property
    def teacher(self) -> Teacher:
        """The structural teacher."""
        return Teacher(self.store, self.profile.structural_teacher)

    @functools.cached_property
    def base(self) -> Base:
        """The student before training."""
        section = self.profile.student
        read = (self.first_texts(None), self.held_out) if section.language_model else ([], [])
        return Base(self.store, section, self.precision, *read, self.teacher)

    def contextual(self, label: str, seed: int = 0) -> Model:
        """A contextual teacher: a Paragraph Vector, LSA, or several of them side by side."""
        if "+" in label:
            parts = [self.contextual(part, seed) for part in label.split("+")]
            return Joined(self.store, tuple(parts))
        if label == variants.LSA:
            return self.model(label)
        section = self.profile.contextual_teacher
        settings = section.model_dump(exclude={"documents"})
        settings["seed"] = (section.seed + seed) % 2**32
        documents = self.first_texts(section.documents)
        return ParagraphVector(self.store, label, self.profile.width, settings, documents)

    @functools.cache  # noqa: B019
    def model(self, label: str | Variant, seed: int = 0) -> Model:
        """The model of a label. Nothing is computed before it embeds something."""
        variant, teacher, profile = read_label(label), self.teacher, self.profile
        if variant.kind == "student":
            return self._student(variant, seed)
        if variant.kind == "paragraph_vector":
            return self.contextual(str(variant.contextual), seed)
        if variant.kind == "tfidf":
            return Words(self.store, self.documents)
        chunks = replace(teacher, chunk=teacher.section.max_tokens)
        documents = self.first_texts(profile.contextual_teacher.documents)
        dim = max(1, round(LSA_WIDTH * profile.width))
        lsa = Words(self.store, documents, dim, teacher if variant.cut else None)
        if variant.kind == "both":  # of a cut text the teacher reads the one piece
            return Joined(self.store, (teacher if variant.cut else chunks, lsa), scaled=True)
        base = replace(self.base, cut=variant.cut)
        fixed = {"sbert": teacher, "sbert_chunks": chunks, "base": base, "lsa": lsa}
        return fixed[variant.kind]

    def _student(self, variant: Variant, seed: int) -> TrainedStudent:
        structural = self.model("SBERT, mean of chunks") if variant.reads_chunks else self.teacher
        return TrainedStudent(
            self.store,
            self.base,
            variant,
            seed,
            self.profile.training,
            self.profile.soft_cca,
            self.profile.width,
            self.documents,
            self.held_out,
            self.teacher,
            structural if variant.structural else None,
            self.contextual(variant.contextual) if variant.contextual else None,
        )

    def embed(self, models: Iterable[Model], texts: Sequence[str]) -> None:
        """Make missing models and their missing vectors of texts, in one queue of jobs.

        What a model needs is ahead of it in the queue. A job that comes too early waits for it.
        """
        wanted: dict[str, tuple[Model, list[Sequence[str]]]] = {}  # name -> model, missing texts
        for model in models:
            for part in model.parts:
                for needed, read in (*part.list_needs(), (part, texts)):
                    _, missing = wanted.setdefault(needed.product.name, (needed, []))
                    if not needed.is_embedded(read):
                        missing.append(read)
        jobs: list[Job] = []
        for model, missing in wanted.values():
            if missing:
                jobs.append((model.product.label, embed_texts, (model, missing)))
        self._run_jobs(jobs, "models")

    def _run_jobs(self, jobs: list[Job], what: str) -> None:
        if jobs and self.store.reading:
            raise NotComputed(f"{what}: {len(jobs)} missing in {self.store.folder}")
        if jobs:
            run_jobs(jobs, what)

    def embeddings(self, label: str | Variant, seed: int) -> dict[str, Any]:
        """(texts, dim) of held-out documents: `validation`, `halves`; a student's `history` too."""
        model = self.model(label, seed)
        self.embed([model], [*self.held_out, *self.halves])
        texts = {"validation": self.held_out, "halves": self.halves}
        vectors = {name: np.asarray(model.embed(part)) for name, part in texts.items()}
        return vectors | (model.history() if isinstance(model, TrainedStudent) else {})

    def halves_mrr(self, label: str | Variant, seed: int) -> float:
        """Mean reciprocal rank of a held-out document's other half, without labels or heads."""
        return float(ranking.rank_halves(self.embeddings(label, seed)["halves"]).mean())

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

        Models that a mapping of `seeds` (identity -> seeds) lacks run with the profile's seeds.
        `tasks` are by default all classifications. Chapter 4 has the split "validation", Chapter 5
        "test"; a task without the split is cross-validated. `limit` is how many training examples
        heads get; below 1, the share of the task's examples.

        Columns are model, the variant's fields, task, metric, readout, split, seed, value
        (accuracy, mean over folds and heads), seconds (of training), device, embedding_fingerprint,
        fingerprint, by_head (accuracies), scores (of each test example, the share of correct
        heads), groups (of the examples' texts), chance.
        """
        tasks = self.classifications if tasks is None else tasks
        products = {
            (pair, task): self._name_record(pair, task, split, limit)
            for pair, task in itertools.product(self._pair_seeds(wanted, seeds), tasks)
        }
        missing = {place: each for place, each in products.items() if not self.store.has(each)}
        if missing:
            self._make_records(missing, split, limit)
        table, facts = [], {}
        for task in tasks:
            examples = self.examples(task, split)
            groups = self._name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
            facts[task] = {"chance": examples.chance, "groups": groups}
        for (pair, task), product in products.items():
            record = self.store.find(product)
            row = self._start_row(pair, task, "accuracy", split, float(record["accuracy"]))
            row |= {"fingerprint": product.name, "by_head": record["heads"].tolist()}
            table.append(row | {"scores": record["scores"]} | facts[task])
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
        tasks = self.retrievals if tasks is None else tasks
        queries = {task: read_queries(self.tasks[task]) for task in tasks}
        texts = dict.fromkeys(text for each in queries.values() for text in each.texts)
        self.embed([self.model(*pair) for pair in pairs], [*texts])
        table = []
        for task, each in queries.items():
            facts = {"groups": self._name_groups(task, each.text_ids)[each.examples]}
            facts["queries"] = len(each.relevant)
            chance = {name: ranking.score_chance(each, name, top) for name in ranking.METRICS}
            for pair, metric in itertools.product(pairs, ranking.METRICS):
                vectors = self.model(*pair).embed(each.texts)
                value, scores = ranking.rank(vectors, each, metric, top)
                row = self._start_row(pair, task, metric, "test", value)
                table.append(row | facts | {"scores": scores, "chance": chance[metric]})
        return pd.DataFrame(table)

    def examples(self, task: str, split: str, limit: float | None = None) -> Examples:
        """The examples that models are judged by; `limit` reduces those that heads train on."""
        return self._read_examples(task, split, limit)[0]

    def _read_examples(self, task: str, split: str, limit: float | None) -> tuple[Examples, str]:
        """Examples with their hash; all benches with the same tasks read them once."""
        if (name := (task, split, limit)) not in self._examples:
            most = self.profile.tasks.limit
            try:
                read = read_examples(task, self.tasks[task], split, most, limit)
            except ValueError as error:
                raise ValueError(f"{task}: {error}; lower its folds (tasks.folders)") from error
            self._examples[name] = read, hash_examples(read)
        return self._examples[name]

    def _name_record(self, pair: Pair, task: str, split: str, limit: float | None) -> Product:
        """The record of a model on some examples. Only trained heads have settings and a seed."""
        variant, seed = pair
        classifier = self._choose_classifier(variant)
        inputs: dict[str, Any] = {
            "model": self.model(variant, seed).product,
            "examples": self._read_examples(task, split, limit)[1],
            "classifier": classifier,
        }
        if classifier == "head":
            heads = self.profile.heads.model_dump(mode="json", exclude={"classifier"})
            inputs |= {"heads": heads, "seed": seed}
        label = f"{task}: {variant.identity}, seed {seed}"
        return Product("record", inputs, JUDGING, ("torch", "scikit-learn"), label)

    def _make_records(
        self, missing: Mapping[tuple[Pair, str], Product], split: str, limit: float | None
    ) -> None:
        """Embed and judge. The heads of one task are trained together."""
        examples = {task: self.examples(task, split, limit) for _, task in missing}
        texts = dict.fromkeys(text for each in examples.values() for text in each.texts)
        self.embed([self.model(*pair) for pair in dict.fromkeys(p for p, _ in missing)], [*texts])
        groups: dict[tuple[str, str], list[Any]] = {}
        for (pair, task), product in missing.items():
            group = groups.setdefault((task, self._choose_classifier(pair[0])), [])
            group.append((product, self.model(*pair), pair[1]))
        jobs: list[Job] = []
        for (task, classifier), given in groups.items():
            for start in range(0, len(given), MODELS_PER_JOB):
                part = given[start : start + MODELS_PER_JOB]
                work = (self.store, part, examples[task], self.profile.heads, classifier)
                jobs.append((task, judge_and_keep, work))
        self._run_jobs(jobs, "classification heads")

    def _choose_classifier(self, variant: Variant) -> str:
        return "words" if variant.kind == "tfidf" else self.profile.heads.classifier

    def _name_groups(self, task: str, text_ids: Sequence[str]) -> np.ndarray:
        """(texts,) the group of each text; without one, a short checksum shared with its copies."""
        texts = [self.tasks[task].texts[text_id] for text_id in text_ids]
        pairs = zip(text_ids, texts, strict=True)
        return np.array([self._groups.get(p, f"text {content(p[1]):016x}") for p in pairs])

    @shared_property
    def _examples(self) -> dict[tuple[str, str, float | None], tuple[Examples, str]]:
        """(task, split, limit) -> examples that were read, with their hash."""
        return {}

    @shared_property
    def _groups(self) -> dict[tuple[str, str], str]:
        """(id, text) -> the group of a text in any task."""
        return {
            (text_id, task.texts[text_id]): group
            for task in self.tasks.values()
            for text_id, group in task.groups.items()
            if text_id in task.texts
        }

    def _start_row(
        self, pair: Pair, task: str, metric: str, split: str, value: float
    ) -> dict[str, Any]:
        variant, seed = pair
        model, note = self.model(variant, seed), None
        if isinstance(model, TrainedStudent):
            note = self.store.find(model.weights, "seconds")
        row = {"model": variant.identity, **asdict(variant), "task": task, "metric": metric}
        return row | {
            "readout": self.readout if metric == "accuracy" else "none",  # rankings are by cosine
            "split": split,
            "seed": seed,
            "value": value,
            "seconds": float(note["seconds"]) if note else None,
            "device": find_device(),
            "fingerprint": "",
            "embedding_fingerprint": model.product.name,
        }

    def _pair_seeds(self, wanted: Iterable[str | Variant], seeds: Seeds) -> list[Pair]:
        """Each model, by its label or variant, with each of its seeds."""
        chosen = dict.fromkeys(map(read_label, wanted))
        given = seeds if isinstance(seeds, Mapping) else {v.identity: seeds for v in chosen}
        default = self.profile.seeds
        return [(v, seed) for v in chosen for seed in given.get(v.identity, default)]


def read_label(label: str | Variant) -> Variant:
    return variants.parse(label) if isinstance(label, str) else label


def hash_examples(examples: Examples) -> str:
    """16 hex digits that identify texts, labels and folds."""
    folds = itertools.chain(*examples.parts)
    return hash_arrays(hash_texts(examples.texts), examples.inputs, examples.labels, *folds)


# ---- jobs ---------------------------------------------------------------------------------------


def embed_texts(model: Model, parts: Sequence[Sequence[str]]) -> None:
    """Embed several sets of texts with a copy, so that no weights stay in this process."""
    copy = replace(model)
    for texts in parts:
        copy.embed(texts)


def judge_and_keep(
    store: Store,
    given: Sequence[tuple[Product, Model, int]],
    examples: Examples,
    settings: HeadSettings,
    classifier: str,
) -> None:
    """Judge models with their seeds side by side on a task, and keep the missing records."""
    missing = [(product, model, seed) for product, model, seed in given if not store.has(product)]
    vectors = [(p.label, seed, replace(m).embed(examples.texts)) for p, m, seed in missing]
    records = readouts.judge_models(vectors, examples, classifier, settings)
    for (product, *_), record in zip(missing, records, strict=True):
        store.get(product, functools.partial(dict, record))
