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

from lib.config import environment, paths
from lib.config.environment import quiet_transformers
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
from lib.vectors import page
from lib.vectors.choice import choose_model, describe_choice, make_table
from lib.vectors.encoder import Encoder, save_encoder
from lib.vectors.judging import Measure, Note, judge_all
from lib.vectors.models import combine, embed_pieces, fit_words, list_dense
from lib.vectors.names import BASE, BOTH, CUT, LSA, STUDENT

KIND = "vectors"  # of the folder that is written
TEXTS, TASK_WORDS = 1000, 1_100_000  # at most so many texts and words of a task
FITTED = 10_000  # at most so many documents that words are fitted to


class OwnTexts:
    """Texts that are ready to be embedded, and the models for it.

    `given` are the arguments of `lib.embed`; raises `ValueError` or `OSError` if they do not fit.
    """

    def __init__(self, given: argparse.Namespace):
        if given.model == STUDENT and given.student is None:
            raise ValueError("--model student needs --student, the folder of a trained one")
        student = given.student and given.student.expanduser().resolve()
        self.asked, self.store, self.tasks = given.model, Store(paths.store()), dict[str, Task]()
        self.dense = list_dense(self.store, student=student)
        source = find_dataset_folder(given.texts, given.text, given.label)
        self.folder, self.name, self.notes = source
        self.out = check_target(given.out or Path(f"{self.name}_vectors"), KIND)
        findings = check.findings(self.folder)
        self.notes += [line for line in findings if ": note: " in line]
        self.documents = Documents(self.folder)
        contents, first = np.unique(self.documents.contents, return_index=True)
        rows = np.sort(first[contents != 0])  # neither blank nor repeated
        if len(rows) < 2:
            raise ValueError(f"{given.texts}: expected two different texts, got {len(rows)}")
        picks = np.column_stack([np.zeros_like(rows), rows])
        self.texts = Texts(PickedDocuments([self.documents], picks))
        fitted = np.sort(np.random.default_rng(0).permutation(len(rows))[:FITTED])
        self.words = fit_words(self.store, [self.texts[place] for place in fitted.tolist()])

    def embed(self, say: Note) -> dict[str, Any]:
        """Judge the models on the texts, embed all texts with one, and write the result.

        Returns plain values for a script. Raises `ValueError` if the model was not judged.
        """

        def note(line: str) -> None:
            self.notes.append(line)
            say(line)

        for line in (f"{self.name}: {len(self.texts)} texts", *self.notes):
            say(line)
        table, choice = pd.DataFrame(), describe_choice(self.asked or BASE)
        if measures := self._judge(note):
            table, choice = make_table(measures), choose_model(measures, self.asked)
            say(table.to_string(index=False, na_rep="", float_format="{:.3f}".format))
        else:
            note(f"note: nothing to judge models by; {choice['model']} is used all the same")
        say(f"chosen: {choice['model']}; embedding all texts with it")
        report = {name: None if pd.isna(value) else value for name, value in choice.items()}
        report |= {"documents": len(self.documents), "out": str(self.out), "notes": self.notes}
        report["table"] = table.astype(object).where(table.notna(), None).to_dict("records")
        self._write(report, table)
        say(f"written to {self.out}: vectors.parquet, encoder, index.html, table.csv")
        return report

    def _judge(self, note: Note) -> list[Measure]:
        documents = self.texts.documents
        groups = [f"group {each.group}" if each.group else f"text {each.id}" for each in documents]
        places = sorted(self.folder.glob("tasks/[!.]*"))
        tasks = {place.name: partial(self._read_task, place, note) for place in places}
        return judge_all(self.texts, groups, tasks, partial(combine, self.dense, self.words), note)

    def _read_task(self, place: Path, note: Note) -> Task:
        """A task whose texts of equal content are equal: no model is fitted to a tested one's copy.

        In a clustering, a copy would be found by its text alone, so it is left out.
        """
        whole = check.read_task(place)
        words = np.mean([*map(count_words, whole.texts.values())])
        limit = int(np.clip(TASK_WORDS / words, 100, TEXTS))
        task = task_files.limit_texts(whole, limit, seed=42)
        if task is not whole:
            note(f"note: {place.name}: judged by {limit} of its {len(whole.texts)} texts")
        contents = self.texts.documents.contents
        rows = pd.Index(contents).get_indexer([*map(content, task.texts.values())]).tolist()
        texts = {each: self.texts[row] for each, row in zip(task.texts, rows, strict=True)}
        if task.kind == "clustering":
            first = {text: text_id for text_id, text in reversed(texts.items())}
            texts = {text_id: text for text_id, text in texts.items() if first[text] == text_id}
        self.tasks[place.name] = replace(task, texts=texts)
        return self.tasks[place.name]

    def _write(self, report: Mapping[str, Any], table: pd.DataFrame) -> None:
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
        card["provenance"] = environment.commit() | environment.versions()

        def write_dense(folder: Path) -> None:
            """Write the dense part as a stock SentenceTransformer."""
            if isinstance(dense, Teacher):
                shutil.copytree(find_model(dense.section.model), folder)
            else:
                dense.load().export(folder)

        def write(new: Path) -> None:
            self._write_vectors(new / "vectors.parquet", vectors)
            (new / "index.html").write_text(self._make_page(vectors, facts), encoding="utf-8")
            table.to_csv(new / "table.csv", index=False)
            save_encoder(replace(encoder, folder=new / "encoder"), write_dense, card)

        with quiet_transformers():
            replace_folder(self.out, KIND, write)

    def _write_vectors(self, path: Path, vectors: np.ndarray) -> None:
        """Write a row for each document that is not blank; equal texts have equal vectors."""
        contents = self.documents.contents
        places = pd.Index(self.texts.documents.contents).get_indexer(contents[contents != 0])
        ids = [each.id for each, name in zip(self.documents, contents, strict=True) if name]
        rows = [*vectors[places].astype(np.float32)]
        pd.DataFrame({"id": ids, "vector": rows}).to_parquet(path, index=False)

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
        entries = []
        for place in chosen.tolist():
            each = self.texts.documents[place]
            entries.append(page.Entry(each.title or each.id, each.text, labels.get(each.id, "")))
        return page.render_page(self.name, entries, vectors[chosen], facts)
