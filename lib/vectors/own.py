"""From your texts to vectors, table, encoder and page: what `python -m lib.embed` does."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
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
from lib.vectors import BASE, BOTH, CUT, LSA, STUDENT, page
from lib.vectors.encoder import Encoder, save_encoder
from lib.vectors.judging import Measure, Note, compare_models, judge_all
from lib.vectors.models import combine, embed_pieces, fit_words, list_dense

KIND = "vectors"  # of the folder that is written
TEXTS, TASK_WORDS = 1000, 1_100_000  # at most so many texts and words of a task
FITTED = 10_000  # at most so many documents that words are fitted to


class OwnTexts:
    """Texts that are ready to be embedded, and the models for it.

    `given` are the arguments of `lib.embed`, and `say` prints a line. Raises `ValueError` or
    `OSError` if the arguments do not fit.
    """

    def __init__(self, given: argparse.Namespace, say: Note):
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
        picks = np.column_stack([np.zeros_like(rows), rows])
        self.texts = Texts(PickedDocuments([self.documents], picks))
        self.places = {name: place for place, name in enumerate(self.texts.documents.contents)}
        fitted = np.sort(np.random.default_rng(0).permutation(len(rows))[:FITTED])
        self.words = fit_words(self.store, [self.texts[place] for place in fitted.tolist()])

    def embed(self) -> dict[str, Any]:
        """Judge the models on the texts, embed all texts with one, and write the result.

        Returns plain values for a script. Raises `ValueError` if the model was not judged.
        """
        for line in (f"{self.name}: {len(self.texts)} texts", *self.notes):
            self.say(line)
        measures = self._judge()
        if not measures:
            self._note("note: there is nothing to judge models by")
        report = compare_models(measures, self.asked, self.say)
        self.say(f"chosen: {report['model']}; embedding all texts with it")
        report |= {"documents": len(self.documents), "out": str(self.out), "notes": self.notes}
        self._write(report)
        self.say(f"written to {self.out}: vectors.parquet, encoder, index.html, table.csv")
        return report

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.say(line)

    def _judge(self) -> list[Measure]:
        documents = self.texts.documents
        groups = [f"group {each.group}" if each.group else f"text {each.id}" for each in documents]
        places = sorted(self.folder.glob("tasks/[!.]*"))
        tasks = {place.name: partial(self._read_task, place) for place in places}
        make_models = partial(combine, self.dense, self.words)
        return judge_all(self.texts, groups, tasks, make_models, self._note)

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

    def _write(self, report: Mapping[str, Any]) -> None:
        """Embed all texts with the chosen model, fitted to all, and write the folder whole."""
        name = report["model"]
        dense = self.dense.get(BASE if name == BOTH else name)  # None for LSA
        encoder = Encoder(name, self.out, np.zeros(0, np.float32))
        if dense is not None:
            embed_pieces([dense], self.texts)
            encoder = replace(encoder, mean=Centred(self.store, dense, self.texts).mean)
        vectors = np.asarray(combine(self.dense, self.words, self.texts)[name].embed(self.texts))
        if name == CUT:
            vectors = scale_rows(vectors)
        if name in (LSA, BOTH):
            counted, fitted = self.words[LSA].counter.words, self.words[LSA].fitted
            kept = tuple(counted[column] for column in fitted.columns)
            lexical = replace(fitted, columns=np.arange(len(kept)))
            encoder = replace(encoder, lexical=lexical, words=kept)
        facts = {"documents": len(self.texts), "verdict": report["line"], "scores": report["table"]}
        card = {"title": f"Vectors of {self.name}: {name}", **facts}
        card["provenance"] = versions.commit() | versions.versions()
        # A row for each document that is not blank; equal texts have equal vectors.
        names = {
            each.id: name for each, name in zip(self.documents, self.documents.contents) if name
        }
        frame = pd.DataFrame({"id": [*names]})
        frame["vector"] = [*vectors[[self.places[name] for name in names.values()]].astype("f4")]

        def write_dense(folder: Path) -> None:
            """Write the dense part as a stock SentenceTransformer."""
            if isinstance(dense, Teacher):
                shutil.copytree(find_model(dense.section.model), folder)
            else:
                dense.load().export(folder)

        def write(new: Path) -> None:
            frame.to_parquet(new / "vectors.parquet", index=False)
            (new / "index.html").write_text(self._make_page(vectors, facts), encoding="utf-8")
            pd.DataFrame(report["table"]).to_csv(new / "table.csv", index=False)
            save_encoder(replace(encoder, folder=new / "encoder"), write_dense, card)

        with quiet_transformers():
            replace_folder(self.out, KIND, write)

    def _make_page(self, vectors: np.ndarray, facts: Mapping[str, Any]) -> str:
        """The page; its classes are labels of single texts, or else those of a clustering."""
        labels: dict[str, str] = {}
        for task in self.tasks.values():
            labels = task.clusters | labels
            for split, inputs in task.inputs.items():
                names = (task.classes[label] for label in task.labels[split])
                pairs = zip(inputs, names, strict=True)
                labels |= {ids[0]: name for ids, name in pairs if len(ids) == 1}
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.texts))[: page.MOST])
        documents = [self.texts.documents[place] for place in chosen.tolist()]
        entries = [page.Entry(d.title or d.id, d.text, labels.get(d.id, "")) for d in documents]
        return page.render_page(self.name, entries, vectors[chosen], facts)
