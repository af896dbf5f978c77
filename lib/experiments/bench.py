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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

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
from lib.experiments.embedders import Joined, ParagraphVector, Teacher, Words
from lib.experiments.model import Model, find_device, has_bfloat16, hash_model
from lib.experiments.students import Base, TrainedStudent, load_layers
from lib.jobs import Job, run_jobs
from lib.store import NotComputed, Product, Store, hash_arrays, hash_texts
from lib.texts import halve_text

LSA_WIDTH = 1024  # as wide as the largest Paragraph Vectors, and scaled like them
JUDGING = ("evaluation.heads", "evaluation.readouts")
MODELS_PER_JOB = 8  # whose heads one job trains: few enough to occupy all processes

Seeds = Sequence[int] | Mapping[str, Sequence[int]]  # for every model, or by identity
Pair = tuple[Variant, int]  # a model and its seed


def shared_property(compute: Callable[[Any], Any]) -> Any:
    """A cached property of documents and tasks, which a bench and all its copies compute once."""

    def read(bench: Bench) -> Any:
        if compute.__name__ not in bench.shared:
            bench.shared[compute.__name__] = compute(bench)
        return bench.shared[compute.__name__]

    return property(read, doc=compute.__doc__)


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


def open_store() -> Store:
    """The store under the artifact root, as the environment variables of a run ask for it."""
    asked = {name: os.environ.get(f"THESIS_{name.upper()}") == "1" for name in ("keep", "reading")}
    return Store(paths.store(), **asked)


@dataclass(eq=False)
class Bench:
    """The experiments of one profile. `readout` is one of `readouts.READOUTS`."""

    profile: Profile
    store: Store = field(default_factory=open_store)
    readout: str = "thesis"
    shared: dict[Any, Any] = field(default_factory=dict)  # with its copies: texts and tasks

    @classmethod
    def load(cls, name: str, **changes: Any) -> Bench:
        """The bench of a profile in `params/`, with changes as for `lib.config.profiles.load`."""
        return cls(profiles.load(name, **changes))

    def changed(self, section: str, **values: Any) -> Bench:
        """A bench with other values in one section; `ValueError` for one of documents or tasks."""
        if section in ("corpus", "tasks"):
            raise ValueError(f"{section} is read already; load another bench with overrides")
        return replace(self, profile=self.profile.changed(section, **values))

    def with_readout(self, name: str) -> Bench:
        """A bench that reads embeddings in another way, one of `readouts.READOUTS`."""
        return replace(self.changed("heads", **readouts.READOUTS[name]), readout=name)

    def reading(self) -> Bench:
        """A bench that raises `NotComputed` when this one would compute something."""
        return replace(self, store=replace(self.store, reading=True))

    # ---- texts ----------------------------------------------------------------------------------

    @shared_property
    def roots(self) -> list[Path]:
        """The folders that hold dataset folders."""
        profile = self.profile
        return find_roots(profile.build, profile.data_roots, paths.artifacts())

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
        documents = Documents(*(find_dataset(self.roots, name) for name in section.names))
        contents = documents.contents
        held_out = task_files.held_out_contents(self.tasks)
        inputs = section.model_dump(mode="json") | {"documents": hash_arrays(contents)}
        inputs["left_out"] = hash_arrays(np.intersect1d(held_out, contents))
        if any(folder.min_tokens for folder in section.folders):
            inputs["student"] = [student.model, student.revision, hash_model(student.model)]

        def count_tokens(texts: Sequence[str]) -> Sequence[int]:
            tokenizer = load_layers(student).tokenizer
            return [len(ids) for ids in tokenizer([*texts], verbose=False)["input_ids"]]

        draw = functools.partial(corpora.draw, section, documents, held_out, count_tokens)
        drawn = self.store.get(Product("corpus", inputs, ("data.corpus",)), draw)
        return Corpus.read(drawn, documents)

    @shared_property
    def held_out(self) -> Texts:
        """The held-out documents of the corpus."""
        return Texts(self.corpus.validation)

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
        """The student before training, in "fp32" if the device has no bfloat16."""
        section, precision = self.profile.student, self.profile.training.precision
        precision = precision if precision == "fp32" or has_bfloat16() else "fp32"
        read = (self.first_texts(None), self.held_out) if section.language_model else ([], [])
        return Base(self.store, section, precision, *read, self.teacher)

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
        chunks = replace(teacher, chunk=teacher.section.max_tokens)
        if variant.kind == "student":
            structural = chunks if variant.reads_chunks else teacher
            contextual = self.contextual(variant.contextual) if variant.contextual else None
            teachers = (structural if variant.structural else None, contextual)
            read = (profile, self.documents, self.held_out)
            return TrainedStudent(self.store, self.base, variant, seed, *read, *teachers)
        if variant.kind == "paragraph_vector":
            return self.contextual(str(variant.contextual), seed)
        if variant.kind == "tfidf":
            return Words(self.store, self.documents)
        documents = self.first_texts(profile.contextual_teacher.documents)
        dim = max(1, round(LSA_WIDTH * profile.width))
        lsa = Words(self.store, documents, dim, teacher if variant.cut else None)
        if variant.kind == "both":  # of a cut text the teacher reads the one piece
            return Joined(self.store, (teacher if variant.cut else chunks, lsa), scaled=True)
        base = replace(self.base, cut=variant.cut)
        fixed = {"sbert": teacher, "sbert_chunks": chunks, "base": base, "lsa": lsa}
        return fixed[variant.kind]

    def embed(self, models: Iterable[Model], texts: Sequence[str]) -> None:
        """Make missing models and vectors of texts in one queue of jobs, what one needs ahead."""
        missing: dict[str, tuple[Model, list[Sequence[str]]]] = {}  # by the model's name
        for model in models:
            for needed, read in model.list_work(texts):
                if not needed.is_embedded(read):
                    missing.setdefault(needed.product.name, (needed, []))[1].append(read)
        jobs = [(m.product.label, embed_texts, (m, parts)) for m, parts in missing.values()]
        self._run_jobs(jobs, "models")

    def _run_jobs(self, jobs: list[Job], what: str) -> None:
        if jobs and self.store.reading:
            raise NotComputed(f"{what}: {len(jobs)} missing in {self.store.folder}")
        run_jobs(jobs, what)

    def embeddings(self, label: str | Variant, seed: int) -> dict[str, np.ndarray]:
        """(texts, dim) of held-out documents, `validation`; first halves, then second: `halves`."""
        model, parts = self.model(label, seed), [halve_text(text) for text in self.held_out]
        halves = [first for first, _ in parts] + [second for _, second in parts]
        self.embed([model], [*self.held_out, *halves])
        texts = {"validation": self.held_out, "halves": halves}
        return {name: np.asarray(model.embed(part)) for name, part in texts.items()}

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
        names = {task: hash_examples(self.examples(task, split, limit)) for task in tasks}
        records = [
            (pair, task, self._name_record(pair, task, names[task]))
            for pair, task in itertools.product(self._pair_seeds(wanted, seeds), tasks)
        ]
        self._judge([each for each in records if not self.store.has(each[2])], split, limit)
        facts = {}
        for task in tasks:
            examples = self.examples(task, split)
            groups = self._name_groups(task, examples.text_ids)[examples.inputs[examples.tested]]
            facts[task] = {"task": task, "metric": "accuracy", "split": split, "groups": groups}
            facts[task] |= {"readout": self.readout, "chance": examples.chance}
        table = []
        for pair, task, product in records:
            record = self.store.find(product)
            row = self._describe(pair) | facts[task] | {"fingerprint": product.name}
            row |= {"value": float(record["accuracy"]), "by_head": record["heads"].tolist()}
            table.append(row | {"scores": record["scores"]})
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
        table = []
        for task in self.retrievals if tasks is None else tasks:
            queries = read_queries(self.tasks[task])
            groups = self._name_groups(task, queries.text_ids)[queries.examples]
            facts = {"task": task, "split": "test", "readout": "none", "fingerprint": ""}
            facts |= {"queries": len(queries.relevant), "groups": groups}
            self.embed([self.model(*pair) for pair in pairs], queries.texts)
            for pair, metric in itertools.product(pairs, ranking.METRICS):
                vectors = self.model(*pair).embed(queries.texts)
                value, scores = ranking.rank(vectors, queries, metric, top)
                chance = ranking.score_chance(queries, metric, top)
                row = self._describe(pair) | facts | {"metric": metric, "value": value}
                table.append(row | {"chance": chance, "scores": scores})
        return pd.DataFrame(table)

    def _pair_seeds(self, wanted: Iterable[str | Variant], seeds: Seeds) -> list[Pair]:
        """Each model, by its label or variant, with each of its seeds."""
        chosen = dict.fromkeys(map(read_label, wanted))
        given = seeds if isinstance(seeds, Mapping) else {v.identity: seeds for v in chosen}
        return [(v, n) for v in chosen for n in given.get(v.identity, self.profile.seeds)]

    def _describe(self, pair: Pair) -> dict[str, Any]:
        """What a row says of a model."""
        (variant, seed), model, seconds = pair, self.model(*pair), None
        if isinstance(model, TrainedStudent):
            seconds = float(self.store.find(model.weights, "seconds")["seconds"])
        row = {"model": variant.identity, **asdict(variant), "seed": seed, "seconds": seconds}
        return row | {"device": find_device(), "embedding_fingerprint": model.product.name}

    def examples(self, task: str, split: str, limit: float | None = None) -> Examples:
        """The examples that models are judged by; `limit` reduces those that heads train on."""
        if (key := (task, split, limit)) not in self.shared:
            most = self.profile.tasks.limit
            self.shared[key] = read_examples(task, self.tasks[task], split, most, limit)
        return self.shared[key]

    def _name_record(self, pair: Pair, task: str, examples: str) -> Product:
        """The record of a model on hashed examples. Only trained heads have settings and a seed."""
        variant, seed = pair
        heads = self.profile.heads.model_dump(mode="json")
        classifier = heads.pop("classifier")
        classifier = "words" if variant.kind == "tfidf" else classifier
        settings = {"heads": heads, "seed": seed} if classifier == "head" else {}
        inputs = {"model": self.model(*pair).product, "examples": examples}
        inputs |= {"classifier": classifier, **settings}
        label = f"{task}: {variant.identity}, seed {seed}"
        return Product("record", inputs, JUDGING, ("torch", "scikit-learn"), label)

    def _judge(
        self, missing: Sequence[tuple[Pair, str, Product]], split: str, limit: float | None
    ) -> None:
        """Embed and judge. The heads of one task are trained together."""
        examples = {task: self.examples(task, split, limit) for _, task, _ in missing}
        texts = dict.fromkeys(text for each in examples.values() for text in each.texts)
        self.embed(dict.fromkeys(self.model(*pair) for pair, *_ in missing), [*texts])
        groups: dict[tuple[str, str], list[Any]] = {}
        for pair, task, product in missing:
            group = groups.setdefault((task, product.inputs["classifier"]), [])
            group.append((product, self.model(*pair), pair[1]))
        jobs: list[Job] = []
        for (task, classifier), given in groups.items():
            for start in range(0, len(given), MODELS_PER_JOB):
                part = given[start : start + MODELS_PER_JOB]
                work = (self.store, part, examples[task], self.profile.heads, classifier)
                jobs.append((task, judge_and_keep, work))
        self._run_jobs(jobs, "classification heads")

    def _name_groups(self, task: str, text_ids: Sequence[str]) -> np.ndarray:
        """(texts,) the group of each text; without one, a short checksum shared with its copies."""
        pairs = [(text_id, self.tasks[task].texts[text_id]) for text_id in text_ids]
        return np.array([self._groups.get(p, f"text {content(p[1]):016x}") for p in pairs])

    @shared_property
    def _groups(self) -> dict[tuple[str, str], str]:
        """(id, text) -> the group of a text in any task."""
        return {
            (text_id, task.texts[text_id]): group
            for task in self.tasks.values()
            for text_id, group in task.groups.items()
            if text_id in task.texts
        }


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
    """Judge models with their seeds side by side on a task, and keep the records."""
    vectors = [(p.label, seed, replace(m).embed(examples.texts)) for p, m, seed in given]
    records = readouts.judge_models(vectors, examples, classifier, settings)
    for (product, *_), record in zip(given, records, strict=True):
        store.get(product, functools.partial(dict, record))
