"""From your texts to vectors, table, encoder and page: what `python -m lib.embed` does."""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MinMaxScaler

from lib.config import environment, profiles
from lib.config.schema import Profile
from lib.data import check, task_files
from lib.data.dataset_folder import Documents
from lib.data.text_sources import find_dataset_folder
from lib.experiments.bench import Texts
from lib.experiments.models import Centred, Joined, Model, Teacher, Words, find_model, has_bfloat16
from lib.experiments.students import Base
from lib.messages import quiet_transformers
from lib.store import Store, check_target, replace_folder
from lib.student import Student
from lib.student.folders import normalize_tokenizer, render_card
from lib.teachers.rows import SIZE, scale_rows
from lib.teachers.words import DIM
from lib.texts import count_words, shorten_text
from lib.vectors import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT, TFIDF, encoder, judging

KIND = "vectors"  # of the folder that is written
TASK_WORDS = 1_100_000  # at most so many words of a task, and `check.TEXTS` texts
FITTED = 10_000  # at most so many documents that words are fitted to
SHOWN, CHARACTERS = 3000, 2000  # at most so many texts on the page, and characters of each
NEIGHBOURS, COLOURS = 10, 8  # of a text; of classes, which get none if there are more


def list_models(
    store: Store, documents: Sequence[str], profile: Profile, student: Path | None = None
) -> dict[str, Model]:
    """The models by name: a profile's encoder, a trained student's folder, words of documents."""
    precision = "bf16" if has_bfloat16() else "fp32"
    teacher = Teacher(store, profile.structural_teacher, precision=precision)
    section = profile.student.model_copy(update={"layers": None, "language_model": None})
    base = Base(store, section, precision, [], [], teacher)
    models = {BASE: base, CUT: teacher, CHUNKS: replace(teacher, chunk=SIZE + 2)}
    if student is not None:
        own = Student.load(student)
        facts = {"base": "longformer", "model": str(student), "revision": None}
        facts |= {"max_positions": own.max_positions, "window": own.config.attention_window[0]}
        models[STUDENT] = replace(base, section=section.model_copy(update=facts))
    models[TFIDF] = Words(store, documents)
    models[LSA] = Words(store, documents, DIM, centred=True)
    return models


def combine(models: Mapping[str, Model], texts: Sequence[str]) -> dict[str, Model]:
    """All models of the table by name; the mean vector of `texts` is subtracted."""
    store = models[BASE].store
    base, pieces = (Centred(store, models[name], texts) for name in (BASE, CHUNKS))
    return {**models, CHUNKS: pieces, BOTH: Joined(store, (base, models[LSA]), scaled=True)}


class OwnTexts:
    """Texts that are ready to be embedded; `ValueError` if arguments of `lib.embed` do not fit."""

    def __init__(self, given: argparse.Namespace):
        if given.model == STUDENT and given.student is None:
            raise ValueError("--model student needs --student, the folder of a trained one")
        student = given.student and given.student.expanduser().resolve()
        self.asked = given.model
        self.folder, self.name, notes = find_dataset_folder(given.texts, given.text, given.label)
        self.out = check_target(given.out or Path(f"{self.name}_vectors"), KIND)
        self.notes = [*notes, *(line for line in check.findings(self.folder) if ": note: " in line)]
        self.notes += ["note: a student scores too high on texts it was trained on"] * bool(student)
        self.documents = Documents(self.folder)
        documents = self.documents[np.flatnonzero(self.documents.contents)]
        self.every = Texts(documents)  # that is not blank
        groups = documents.table["group"].to_numpy()[documents.rows]
        self.pool = judging.Pool(self.every, documents.contents, groups)
        self.texts = self.pool.texts  # each once
        if len(self.texts) < 2:
            raise ValueError(f"{given.texts}: expected two different texts, got {len(self.texts)}")
        read = self.texts[np.argsort(self.texts.text_hashes)[:FITTED]]
        if len(read) < len(self.texts):
            self.notes.append(f"note: words are fitted to {FITTED} of {len(self.texts)} texts")
        models = list_models(Store(), read, profiles.load("lab"), student)
        self.combine = partial(combine, models)

    def embed(self) -> dict[str, Any]:
        """Judge the models, embed all texts with one, write all; plain values for a script."""
        print(f"{self.name}: {len(self.texts)} texts", *self.notes, sep="\n")
        tasks, labels = self._read_tasks()
        measures = judging.judge_all(self.pool, tasks, self.combine)
        report = judging.compare_models(measures, self.asked)
        print(f"chosen: {report['model']}; embedding all texts with it", flush=True)
        self._write(report, labels)
        print(f"written to {self.out}: vectors.parquet, encoder, index.html, table.csv")
        return report | {"documents": len(self.documents), "out": str(self.out)}

    def _read_tasks(self) -> tuple[dict[str, task_files.Task], dict[int, str]]:
        """Tasks by name, and labels of the first that has some, by content of the text; copies that
        differ have none. Tasks that cannot be read are printed and left out.
        """
        tasks, labels = {}, dict[int, str]()
        for place in sorted(self.folder.glob("tasks/[!.]*")):
            try:
                whole = check.read_task(place)
                tested = replace(whole, examples=whole.examples.query("split != 'validation'"))
                tested = task_files.keep_texts(tested, {*whole.texts})
                length = np.mean([*map(count_words, tested.texts.values())])
                limit = int(np.clip(TASK_WORDS / length, 100, check.TEXTS))
                tasks[place.name] = task = task_files.limit_texts(tested, limit, seed=42)
                if task is not tested:
                    print(f"note: {place.name}: cut to {limit} of its {len(tested.texts)} texts")
                single = whole.examples[whole.examples["ids"].map(len) == 1]
                named = single.groupby(single["ids"].str[0].map(whole.contents))["label"].agg(set)
                labels = labels or {key: min(own) for key, own in named.items() if len(own) == 1}
            except (ValueError, OSError) as error:
                print(f"note: {place.name} is not judged: {error}")
        return tasks, labels

    def _write(self, report: dict[str, Any], labels: Mapping[int, str]) -> None:
        """Embed all texts with the chosen model, fitted to all; write the folder whole."""
        name = report["model"]
        model = self.combine(self.texts)[name]
        vectors = np.asarray(model.embed(self.every), dtype=np.float32)
        if name == CUT:  # what is saved ends in Normalize, which our teacher leaves out
            vectors = scale_rows(vectors)
        arrays, counted, dense = dict[str, Any](), list[str](), None
        for part in getattr(model, "models", (model,)):
            if isinstance(part, Words):
                arrays |= asdict(part.fitted)
                counted = arrays.pop("words").split("\n")
            elif isinstance(part, Centred):
                arrays["dense_mean"], dense = part.mean, part.model
            else:
                dense = part
        ids = [each.id for each in self.every.documents]
        frame = pd.DataFrame({"id": ids, "vector": [*vectors]})
        if empty := frame["id"][~vectors.any(axis=1)].tolist():
            print(f"note: zeros for {len(empty)} texts without known words, such as {empty[:3]}")
        facts = {"documents": len(self.texts), "verdict": report["line"], "scores": report["table"]}
        facts["words"] = min(FITTED, len(self.texts))  # of so many documents
        made = environment.commit() | environment.versions()
        card = facts | {"title": f"Vectors of {self.name}: {name}", "provenance": made}
        shown = np.sort(np.random.default_rng(0).permutation(len(self.texts))[:SHOWN])
        documents = self.texts.documents[shown]
        names = map(labels.get, documents.contents.tolist())
        texts = [(d.title or d.id, d.text, name) for d, name in zip(documents, names, strict=True)]
        html = render_page(self.name, texts, vectors[self.pool.rows[shown]], facts)

        def write(new: Path) -> None:
            # A dictionary of numbers that hardly repeat would take half as much space again.
            frame.to_parquet(new / "vectors.parquet", index=False, use_dictionary=["id"])
            (new / "index.html").write_text(html, encoding="utf-8")
            pd.DataFrame(report["table"]).to_csv(new / "table.csv", index=False)
            encoder.save(new / "encoder", name, arrays, counted, card)
            if isinstance(dense, Teacher):
                shutil.copytree(find_model(dense.section.model), new / "encoder/dense")
                normalize_tokenizer(new / "encoder/dense", dense.sbert.max_tokens)
            elif dense is not None:
                dense.load().export(new / "encoder/dense")

        with quiet_transformers():
            replace_folder(self.out, KIND, write)


def render_page(name: str, rows: Sequence[tuple], vectors: np.ndarray, facts: Mapping) -> str:
    """The page `index.html`: search by words, the nearest texts of each, and a map, offline.

    `rows` are title, text, and class or None of at least two texts, and `vectors` (texts, dim).
    `facts` are `documents`, how many there are, `verdict`, and `scores`, rows of the table.
    """
    titles, texts, labels = zip(*rows, strict=True)
    unit, others = scale_rows(np.asarray(vectors, dtype=np.float32)), len(vectors) - 1
    count = min(NEIGHBOURS, others)
    neighbours = NearestNeighbors(n_neighbors=count, metric="cosine").fit(unit)
    tsne = TSNE(perplexity=min(30, others / 3), init="random", random_state=0)
    places = MinMaxScaler((0, 1000)).fit_transform(tsne.fit_transform(unit))
    numbers, classes = pd.factorize(np.array(labels, dtype=object), sort=True)
    if len(classes) > COLOURS:
        numbers, classes = np.full(len(texts), -1), classes[:0]
    data = {
        "titles": [shorten_text(title, 120) for title in titles],
        "texts": [shorten_text(text[: 2 * CHARACTERS], CHARACTERS) for text in texts],
        "near": neighbours.kneighbors(return_distance=False).tolist(),
        "map": np.rint(places).astype(int).tolist(),
        "classes": classes.tolist(),
        "class": numbers.tolist(),
    }
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    facts = {"name": name, "data": content, "shown": len(texts), "each": CHARACTERS, **facts}
    return render_card(Path(__file__).with_name("page.html.j2"), **facts)
