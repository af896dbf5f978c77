"""From your texts to vectors, table, encoder and page: what `python -m lib.embed` does."""

import argparse
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.config import paths, versions
from lib.config.console import quiet_transformers
from lib.data import check, task_files
from lib.data.corpus import PickedDocuments
from lib.data.dataset_folder import Documents, content
from lib.data.task_files import Task
from lib.data.text_sources import find_dataset_folder
from lib.experiments.bench import Texts
from lib.experiments.embedders import Centred, Teacher
from lib.experiments.model import find_model
from lib.store import Store, check_target, replace_folder
from lib.teachers.rows import scale_rows
from lib.texts import count_words
from lib.vectors import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT, page
from lib.vectors.encoder import Encoder
from lib.vectors.judging import compare_models, judge_all
from lib.vectors.models import combine, embed_pieces, fit_words, list_dense

KIND = "vectors"  # of the folder that is written
TEXTS, TASK_WORDS = 1000, 1_100_000  # at most so many texts and words of a task
FITTED = 10_000  # at most so many documents that words are fitted to


class OwnTexts:
    """Texts that are ready to be embedded, and the models for it.

    `given` are the arguments of `lib.embed`, and `say` prints a line. Raises `ValueError` or
    `OSError` if the arguments do not fit.
    """

    def __init__(self, given: argparse.Namespace, say: Callable[[str], Any]):
        if given.model == STUDENT and given.student is None:
            raise ValueError("--model student needs --student, the folder of a trained one")
        student = given.student and given.student.expanduser().resolve()
        self.asked, self.say = given.model, say
        self.store, self.tasks = Store(paths.store()), dict[str, Task]()
        self.dense = list_dense(self.store, student=student)
        source = find_dataset_folder(given.texts, given.text, given.label)
        self.folder, self.name, self.notes = source
        self.out = check_target(given.out or Path(f"{self.name}_vectors"), KIND)
        self.notes += [line for line in check.findings(self.folder) if ": note: " in line]
        self.documents = Documents(self.folder)
        contents, first = np.unique(self.documents.contents, return_index=True)
        rows = np.sort(first[contents != 0])  # neither blank nor repeated
        if len(rows) < 2:
            raise ValueError(f"{given.texts}: expected two different texts, got {len(rows)}")
        picked = PickedDocuments([self.documents], np.column_stack([np.zeros_like(rows), rows]))
        self.texts = Texts(picked)
        self.places = {name: place for place, name in enumerate(picked.contents)}
        fitted = np.sort(np.random.default_rng(0).permutation(len(rows))[:FITTED])
        self.words = fit_words(self.store, [self.texts[place] for place in fitted.tolist()])

    def embed(self) -> dict[str, Any]:
        """Judge the models, embed all texts with one, write the result; plain values for a script.

        A task that cannot be judged is told of.
        """
        for line in (f"{self.name}: {len(self.texts)} texts", *self.notes):
            self.say(line)
        documents = self.texts.documents
        groups = [f"group {each.group}" if each.group else f"text {each.id}" for each in documents]
        places = sorted(self.folder.glob("tasks/[!.]*"))
        tasks = {place.name: partial(self._read_task, place) for place in places}
        make_models = partial(combine, self.dense, self.words)
        measures = judge_all(self.texts, groups, tasks, make_models, self._note)
        report = compare_models(measures, self.asked, self.say)
        self.say(f"chosen: {report['model']}; embedding all texts with it")
        report |= {"documents": len(self.documents), "out": str(self.out), "notes": self.notes}
        self._write(report)
        self.say(f"written to {self.out}: vectors.parquet, encoder, index.html, table.csv")
        return report

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.say(line)

    def _read_task(self, place: Path) -> Task:
        """A task with the texts that models are fitted to, so that none is fitted to a copy."""
        whole = check.read_task(place)
        words = np.mean([*map(count_words, whole.texts.values())])
        limit = int(np.clip(TASK_WORDS / words, 100, TEXTS))
        task = task_files.limit_texts(whole, limit, seed=42)
        if task is not whole:
            self._note(f"note: {place.name}: judged by {limit} of its {len(whole.texts)} texts")
        texts = {i: self.texts[self.places[content(text)]] for i, text in task.texts.items()}
        self.tasks[place.name] = replace(task, texts=texts)
        return self.tasks[place.name]

    def _write(self, report: dict[str, Any]) -> None:
        """Embed all texts with the chosen model, fitted to all, and write the folder whole."""
        name = report["model"]
        model = combine(self.dense, self.words, self.texts)[name]
        embed_pieces([model], self.texts)
        vectors = np.asarray(model.embed(self.texts))
        if name == CUT:
            vectors = scale_rows(vectors)
        dense = self.dense.get(BASE if name == BOTH else name)  # None for LSA
        encoder = Encoder(name, self.out)
        if name in (CHUNKS, BOTH):
            encoder = replace(encoder, mean=Centred(self.store, dense, self.texts).mean)
        if name in (LSA, BOTH):
            fitted, counted = self.words[LSA].fitted, self.words[LSA].counter.words
            kept = tuple(counted[column] for column in fitted.columns)
            lexical = replace(fitted, columns=np.arange(len(kept)))
            encoder = replace(encoder, lexical=lexical, words=kept)
        names = zip(self.documents, self.documents.contents, strict=True)
        rows = {each.id: self.places[name] for each, name in names if name}  # of texts not blank
        frame = pd.DataFrame({"id": [*rows], "vector": [*vectors[[*rows.values()]].astype("f4")]})
        card = {"title": f"Vectors of {self.name}: {name}", "documents": len(self.texts)}
        card |= {"verdict": report["line"], "scores": report["table"]}
        card["provenance"] = versions.commit() | versions.versions()

        def write(new: Path) -> None:
            frame.to_parquet(new / "vectors.parquet", index=False)
            (new / "index.html").write_text(self._make_page(vectors, card), encoding="utf-8")
            pd.DataFrame(report["table"]).to_csv(new / "table.csv", index=False)
            encoder.save(new / "encoder", card)
            if isinstance(dense, Teacher):
                shutil.copytree(find_model(dense.section.model), new / "encoder/dense")
            elif dense is not None:
                dense.load().export(new / "encoder/dense")

        with quiet_transformers():
            replace_folder(self.out, KIND, write)

    def _make_page(self, vectors: np.ndarray, facts: dict[str, Any]) -> str:
        """The page; its classes are labels of single texts, or else those of a clustering."""
        labels: dict[str, str] = {}
        for task in self.tasks.values():
            labels = task.clusters | labels
            for split, inputs in task.inputs.items():
                for ids, label in zip(inputs, task.labels[split], strict=True):
                    if len(ids) == 1:
                        labels[ids[0]] = task.classes[label]
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.texts))[: page.MOST])
        documents = [self.texts.documents[place] for place in chosen.tolist()]
        rows = [(each.title or each.id, each.text, labels.get(each.id)) for each in documents]
        texts = pd.DataFrame(rows, columns=["title", "text", "label"])
        return page.render_page(self.name, texts, vectors[chosen], facts)
