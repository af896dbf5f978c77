"""From labels of models to tidy records: a profile's texts, tasks and models."""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.config import profiles
from lib.config.schema import Profile
from lib.data import corpus as corpora
from lib.data import task_files
from lib.data.dataset_folder import Documents, find_dataset
from lib.data.examples import read_examples, read_queries
from lib.distillation import variants
from lib.evaluation import ranking, readouts
from lib.evaluation.readouts import Examples
from lib.experiments import models
from lib.experiments.students import Base, TrainedStudent, share_layers
from lib.jobs import Job, run_jobs
from lib.recipes import find_roots
from lib.store import NotComputed, Product, Store, hash_arrays, hash_texts
from lib.texts import tokenize_texts

LSA_WIDTH = 1024  # as wide as the largest Paragraph Vectors, and scaled like them
JUDGING = ("evaluation.heads", "evaluation.readouts")
MODELS_PER_JOB = 8  # whose heads one job trains: few enough to keep all processes busy

Seeds = Sequence[int] | Mapping[str, Sequence[int]]  # for every model, or by identity
Wanted = Iterable[str | variants.Variant]  # models by label
Pair = tuple[variants.Variant, int]  # a model and its seed
Judged = tuple[Product, models.Model, int]  # the record to make, a model to judge, its seed


def shared_property(compute: Callable[[Any], Any]) -> Any:
    """A property of documents and tasks, computed once for a bench and all of its copies."""

    def read(bench: Bench) -> Any:
        if compute not in bench.shared:
            bench.shared[compute] = compute(bench)
        return bench.shared[compute]

    return property(read, doc=compute.__doc__)


class Texts(Sequence[str]):
    """The texts of documents, read from disk when needed; a slice keeps their hashes."""

    def __init__(self, documents: Sequence[Any], hashes: np.ndarray | None = None):
        self.documents = documents
        self.text_hashes = hash_texts(each.text for each in documents) if hashes is None else hashes

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, row: Any) -> Any:
        part, several = self.documents[row], isinstance(row, slice | np.ndarray)
        return Texts(part, self.text_hashes[row]) if several else part.text


@dataclass(eq=False)
class Bench:
    """The experiments of one profile."""

    profile: Profile
    store: Store = field(default_factory=lambda: Store(keep=os.environ.get("THESIS_KEEP") == "1"))
    shared: dict[Any, Any] = field(default_factory=dict, repr=False)  # by all copies

    @classmethod
    def load(cls, name: str, **changes: Any) -> Bench:
        """The bench of a profile in `params/`, with changes as for `lib.config.profiles.load`."""
        return cls(profiles.load(name, **changes))

    def changed(self, section: str, **values: Any) -> Bench:
        """A bench with other values in one section; `ValueError` for sections corpus and tasks."""
        if section in ("corpus", "tasks"):
            raise ValueError(f"{section} is read already; load another bench with overrides")
        return replace(self, profile=self.profile.changed(section, **values))

    def with_readout(self, name: str) -> Bench:
        """A bench that reads embeddings in another way, one of `readouts.READOUTS`."""
        return self.changed("heads", readout=name)

    def reading(self) -> Bench:
        """A bench that raises `NotComputed` when this one would compute something."""
        return replace(self, store=replace(self.store, reading=True))

    @shared_property
    def roots(self) -> list[Path]:
        """The folders that hold dataset folders."""
        return find_roots(self.profile.build, self.profile.data_roots)

    @shared_property
    def tasks(self) -> dict[str, task_files.Task]:
        """The tasks by name, in the thesis' order."""
        return task_files.read_tasks(self.roots, self.profile.tasks)

    @property
    def classifications(self) -> list[str]:
        """The tasks that heads are trained on."""
        return [name for name, task in self.tasks.items() if task.kind == "classification"]

    def examples(self, task: str, split: str, limit: float | None = None) -> Examples:
        """The examples that models are judged by; `limit` reduces those that heads train on."""
        key, part = (task, split, limit), self.profile.tasks.limit
        if key not in self.shared:
            self.shared[key] = read_examples(task, self.tasks[task], split, part, limit)
        return self.shared[key]

    @shared_property
    def corpus(self) -> corpora.Corpus:
        """The distillation corpus, without what tasks are validated or tested on."""
        section, student = self.profile.corpus, self.profile.student
        documents = Documents(*(find_dataset(self.roots, name) for name in section.names))
        held_out = task_files.held_out_contents(self.tasks)
        inputs = section.model_dump(mode="json")
        folders = pd.factorize(documents.table["source"].to_numpy())[0]  # of the documents
        inputs["contents"] = hash_arrays(held_out, documents.contents, folders)
        inputs["student"] = [student.model, student.revision, models.hash_model(student.model)]

        def count_tokens(texts: Sequence[str]) -> Sequence[int]:
            tokenizer = share_layers(student).tokenizer
            return [len(ids) for ids in tokenize_texts(tokenizer, texts, verbose=False)]

        draw = functools.partial(corpora.draw, section, documents, held_out, count_tokens)
        drawn = self.store.get(Product("corpus", inputs, ("data.corpus",)), draw)
        parts = (documents[drawn[part]] for part in ("train", "validation"))
        return corpora.Corpus(*parts, json.loads(str(drawn["left_out"])))

    @shared_property
    def held_out(self) -> Texts:
        """The held-out documents of the corpus."""
        return Texts(self.corpus.validation)

    @shared_property
    def train(self) -> Texts:
        """The training documents of the corpus."""
        return Texts(self.corpus.train)

    @property
    def documents(self) -> Texts:
        """The documents that students are trained on."""
        return self.train[: self.profile.training.documents]

    @functools.cached_property
    def teacher(self) -> models.Teacher:
        """The structural teacher."""
        return models.Teacher(self.store, self.profile.structural_teacher)

    @functools.cached_property
    def base(self) -> Base:
        """The student before training, in "fp32" if the device has no bfloat16."""
        section = self.profile.student
        precision = self.profile.training.precision if models.has_bfloat16() else "fp32"
        read = (self.train, self.held_out) if section.language_model else ([], [])
        return Base(self.store, section, precision, *read, self.teacher)

    def contextual(self, label: str, seed: int = 0) -> models.Model:
        """A contextual teacher: a Paragraph Vector, LSA, or several of them side by side."""
        if "+" in label:
            parts = [self.contextual(part, seed) for part in label.split("+")]
            return models.Joined(self.store, tuple(parts))
        if label == variants.LSA:
            return self.model(label)
        section = self.profile.contextual_teacher
        settings = section.model_dump(exclude={"documents"})
        settings |= {"seed": (section.seed + seed) % 2**32}
        documents = self.train[: section.documents]
        return models.ParagraphVector(self.store, label, self.profile.width, settings, documents)

    @functools.cache  # noqa: B019  # a process has few benches
    def model(self, label: str | variants.Variant, seed: int = 0) -> models.Model:
        """The model of a label. Nothing is computed before it embeds something."""
        variant = variants.parse(label) if isinstance(label, str) else label
        teacher, profile = self.teacher, self.profile
        chunks = replace(teacher, chunk=teacher.section.max_tokens)
        base = replace(self.base, cut=True) if variant.cut else self.base
        if variant.kind == "student":
            structural = chunks if variant.reads_chunks else teacher
            contextual = self.contextual(variant.contextual) if variant.contextual else None
            teachers = (structural if variant.structural else None, contextual)
            read = (profile, self.documents, self.held_out)
            return TrainedStudent(self.store, base, variant, seed, *read, *teachers)
        if variant.kind == "paragraph_vector":
            return self.contextual(str(variant.contextual), seed)
        if variant.kind == "TF-IDF":
            return models.Words(self.store, self.documents)
        documents = self.train[: profile.contextual_teacher.documents]
        dim = max(1, round(LSA_WIDTH * profile.width))
        lsa = models.Words(self.store, documents, dim, teacher if variant.cut else None)
        if variant.kind == "chunks + LSA":  # a cut text has a single piece
            return models.Joined(self.store, (teacher if variant.cut else chunks, lsa), scaled=True)
        fixed = {"SBERT": teacher, "SBERT, mean of chunks": chunks, "Longformer": base, "LSA": lsa}
        return fixed[variant.kind]

    def prepare(self, wanted: Iterable[models.Model], texts: Sequence[str]) -> None:
        """Make missing models and vectors of texts, and what they need, in one queue of jobs."""
        parts = itertools.chain.from_iterable(getattr(each, "models", (each,)) for each in wanted)
        storing = {part.product.name: part for part in parts if part.stores_vectors}.values()
        missing = [model for model in storing if not self.store.has_rows(model.product, texts)]
        missing.sort(key=lambda model: -getattr(model, "cost", 0))  # else cores wait at the end
        self._run_jobs([(m.product.label, m.embed_and_unload, (texts,)) for m in missing], "models")

    def _run_jobs(self, jobs: list[Job], what: str) -> None:
        if jobs and self.store.reading:
            raise NotComputed(f"{what}: {len(jobs)} missing in {self.store.folder}")
        run_jobs(jobs, what)

    def run(
        self, wanted: Wanted, *, seeds: Seeds, split: str = "validation", limit: float | None = None
    ) -> pd.DataFrame:
        """Tidy records of classification: a row for each model, task and seed.

        Models that a mapping `seeds` (identity -> seeds) lacks run with the profile's. A task
        without the split ("validation" in Chapter 4, "test" in Chapter 5) is cross-validated.
        `limit` is how many training examples heads get; below 1, their share.
        Columns are model, the variant's fields, task, metric, readout, split, seed, value
        (accuracy, mean over folds and heads), scores (of each test example, the share of correct
        heads), groups (of the examples' texts), chance, perfect (the accuracy of perfect vectors),
        folds, device, and two products' names.
        """
        examples = {task: self.examples(task, split, limit) for task in self.classifications}
        names = {task: hash_examples(each) for task, each in examples.items()}
        pairs = itertools.product(self._pair_seeds(wanted, seeds), examples)
        records = {(pair, task): self._name_record(pair, task, names[task]) for pair, task in pairs}
        self._judge(records, examples)
        facts, readout = {}, self.profile.heads.readout
        for task, each in examples.items():
            groups = name_groups(self.tasks[task], each.text_ids)[each.inputs[each.tested]]
            facts[task] = {"task": task, "metric": "accuracy", "readout": readout, "split": split}
            facts[task] |= {"groups": groups, "chance": each.chance, "folds": len(each.parts)}
            facts[task]["perfect"] = self._judge_perfect(each)
        rows = []
        for (pair, task), product in records.items():
            record = self.store.read(product)
            row = self._describe(pair) | facts[task] | {"fingerprint": product.name}
            rows.append(row | {"value": float(record["accuracy"]), "scores": record["scores"]})
        return pd.DataFrame(rows)

    def retrieve(
        self, wanted: Wanted, *, seeds: Seeds, tops: Mapping[str, float | None] = ranking.TOPS
    ) -> pd.DataFrame:
        """Tidy records of all retrievals: like `run`, with the metrics MAP and MRR over sources.

        `tops` are readout -> how many texts are ranked, and targets below them ignored; below 1,
        their share. By "thesis", as in the published numbers, these are the first 1,000, by "none"
        all. An example of `scores` is a source with one of its targets, and has the groups of both.
        """
        pairs, rows = self._pair_seeds(wanted, seeds), []
        tasks = {name: task for name, task in self.tasks.items() if task.kind == "retrieval"}
        for name, task in tasks.items():
            queries = read_queries(task)
            groups = name_groups(task, queries.text_ids)[queries.examples]
            facts = {"task": name, "split": "test", "groups": groups, "fingerprint": "", "folds": 1}
            self.prepare([self.model(*pair) for pair in pairs], queries.texts)
            for (readout, top), metric in itertools.product(tops.items(), ranking.METRICS):
                if top is not None and top < 1:
                    top = max(1, round(top * len(queries.texts)))
                facts |= {"readout": readout, "metric": metric}
                facts["chance"] = ranking.score_chance(queries, metric, top)
                for pair in pairs:
                    vectors = self.model(*pair).embed(queries.texts)
                    value, scores = ranking.rank(vectors, queries, metric, top)
                    rows.append(self._describe(pair) | facts | {"value": value, "scores": scores})
        return pd.DataFrame(rows)

    def _pair_seeds(self, wanted: Wanted, seeds: Seeds) -> list[Pair]:
        """Each model, by its label or variant, with each of its seeds."""
        chosen = dict.fromkeys(variants.parse(v) if isinstance(v, str) else v for v in wanted)
        given = seeds if isinstance(seeds, Mapping) else {v.identity: seeds for v in chosen}
        return [(v, n) for v in chosen for n in given.get(v.identity, self.profile.seeds)]

    def _describe(self, pair: Pair) -> dict[str, Any]:
        """The columns of a row that describe its model."""
        row = {"model": pair[0].identity, **asdict(pair[0]), "seed": pair[1]}
        row["device"] = models.find_device()
        return row | {"embedding_fingerprint": self.model(*pair).product.name}

    def _name_record(self, pair: Pair, task: str, examples: str) -> Product:
        """The record of a model on hashed examples. Only trained heads have settings and a seed."""
        variant, seed = pair
        heads = self.profile.heads.model_dump(mode="json", exclude={"readout"})
        name = "words" if variant.kind == "TF-IDF" else self.profile.heads.readout
        inputs = {"readout": name, "examples": examples, "model": self.model(*pair).product}
        inputs |= {"heads": heads, "seed": seed} if name == "thesis" else {}
        label = f"{task}: {variant.identity}, seed {seed}"
        return Product("record", inputs, JUDGING, ("torch", "scikit-learn"), label)

    def _judge_perfect(self, examples: Examples) -> float:
        """What this readout makes of vectors that know all labels: less than 1 is its own fault."""
        settings = self.profile.heads
        inputs = {"examples": hash_examples(examples), "heads": settings.model_dump(mode="json")}
        product = Product("perfect", inputs, JUDGING, ("torch", "scikit-learn"), examples.task)
        model = ("perfect vectors", 0, readouts.make_perfect_vectors(examples))
        how = ([model], examples, settings.readout, settings)
        return float(self.store.get(product, lambda: readouts.judge_models(*how)[0])["accuracy"])

    def _judge(self, records: Mapping[Any, Product], examples: Mapping[str, Examples]) -> None:
        """Make missing records of (pair, task). The heads of one task are trained together."""
        groups: dict[tuple[str, str], list[Judged]] = {}
        for (pair, task), product in records.items():
            if not self.store.has(product):
                group = groups.setdefault((task, product.inputs["readout"]), [])
                group.append((product, self.model(*pair), pair[1]))
        lacking = [model for group in groups.values() for _, model, _ in group]
        self.prepare(lacking, [text for task, _ in groups for text in examples[task].texts])
        jobs = []
        for (task, readout), group in groups.items():
            for start in range(0, len(group), MODELS_PER_JOB):
                part = group[start : start + MODELS_PER_JOB]
                work = (self.store, part, examples[task], readout, self.profile.heads)
                jobs.append((task, judge_and_keep, work))
        self._run_jobs(jobs, "classification heads")


def name_groups(task: task_files.Task, text_ids: Sequence[str]) -> np.ndarray:
    """(texts,) the group of each text; without one, its checksum, shared with its copies."""
    return np.array([task.groups.get(i, f"text {task.contents[i]:016x}") for i in text_ids])


def hash_examples(examples: Examples) -> str:
    """16 hex digits that identify texts, labels and folds."""
    folds = itertools.chain(*examples.parts)
    return hash_arrays(hash_texts(examples.texts), examples.inputs, examples.labels, *folds)


def judge_and_keep(store: Store, group: Sequence[Judged], examples: Examples, *how: Any) -> None:
    """Judge models side by side, by readout and settings; keep the records."""
    texts = examples.texts
    given = [(each.label, seed, model.embed_and_unload(texts)) for each, model, seed in group]
    results = readouts.judge_models(given, examples, *how)
    for (record, _, _), result in zip(group, results, strict=True):
        store.get(record, functools.partial(dict, result))
