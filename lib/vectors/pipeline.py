"""From your texts to vectors, table, encoder and page: what `python -m lib.embed` does."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet
from tqdm import tqdm

from lib.config import paths, versions
from lib.config.console import quiet_transformers
from lib.data import check, task_files
from lib.data.corpus import PickedDocuments
from lib.data.dataset_folder import Documents, content
from lib.data.examples import group_examples, read_queries
from lib.data.task_files import Task
from lib.data.text_sources import find_dataset_folder
from lib.evaluation.readouts import choose_weight
from lib.experiments.bench import Texts
from lib.experiments.embedders import Centred, Teacher
from lib.experiments.model import find_model
from lib.store import Store, check_target, replace_folder
from lib.teachers.chunks import cut_text
from lib.teachers.rows import centre_rows, scale_rows
from lib.texts import count_words
from lib.vectors import comparison, measures, page
from lib.vectors.encoder import Encoder, save_encoder
from lib.vectors.measures import HALVES
from lib.vectors.models import Dense, combine, fit_words, list_dense
from lib.vectors.names import BASE, BOTH, CUT, LSA, SIMPLEST_FIRST, STUDENT, TFIDF

KIND = "vectors"  # of the folder that is written
TEXTS, TASK_TOKENS = 1000, 1_500_000  # at most so many texts and tokens of a task
FITTED, SAVED = 5000, 20_000  # at most so many documents to fit words to: of a fold, of the encoder
PIECE = 25_000  # tokens that are embedded before the bar moves: a few seconds of a core


@dataclass(frozen=True)
class Source:
    """Texts that are ready to be embedded, and the models for it; made by `read_source`."""

    name: str
    out: Path  # the folder to write
    asked: str | None  # the model to embed with, whatever its scores
    dense: Mapping[str, Dense]
    documents: Documents  # all of them
    texts: Texts  # those that are neither blank nor repeated, read from disk when needed
    lengths: np.ndarray  # (texts,) in tokens, approximately
    rate: float  # tokens per word, approximately
    tasks: dict[str, Task]  # that can be judged
    notes: list[str]  # what the user should know

    @property
    def store(self) -> Store:
        return self.dense[BASE].model.store

    def find_dense(self, name: str) -> Dense | None:
        """The dense part of a model; None for LSA."""
        return self.dense.get(BASE if name == BOTH else name)

    @property
    def labelled(self) -> Task | None:
        """The first classification of single texts; None if there is none."""
        tasks = [task for task in self.tasks.values() if task.kind == "classification"]
        return next((task for task in tasks if len(task.inputs["train"][0]) == 1), None)


def read_source(
    path: Path,
    *,
    out: Path | None = None,
    model: str | None = None,
    student: Path | None = None,
    text: str | None = None,
    label: str | None = None,
) -> Source:
    """Read and check what the arguments of `lib.embed` ask for; raises `ValueError`, `OSError`."""
    known = [name for name in SIMPLEST_FIRST if student or name != STUDENT]
    if model not in (None, *known):
        raise ValueError(f"unknown model {model!r}; expected one of {known}")
    student = student and student.expanduser().resolve()
    dense = list_dense(Store(paths.store()), student=student)
    folder, name, notes = find_dataset_folder(path, text, label)
    out = check_target(out or Path(f"{name}_vectors"), KIND)
    documents = Documents(folder)
    notes += [line for line in check.findings(folder, training=False) if ": note: " in line]
    contents = documents.contents
    _, first = np.unique(contents, return_index=True)
    rows = np.sort(first[contents[first] != 0])
    if len(rows) < 2:
        raise ValueError(
            f"{path}: expected at least two different texts, "
            f"got {len(rows)} of {len(documents)}, {(contents == 0).sum()} blank"
        )
    texts = Texts(PickedDocuments([documents], np.column_stack([np.zeros_like(rows), rows])))
    rate = check.count_tokens_per_word(documents)
    lengths = rate * np.array([count_words(text) for text in texts])
    limit = int(np.clip(TASK_TOKENS / max(lengths.mean(), 1), 100, TEXTS))
    tasks = {}
    for place in sorted(folder.glob("tasks/[!.]*")):
        try:
            tasks[place.name], note = _read_task(place, texts, limit)
        except (ValueError, OSError) as error:
            note = f" is not judged: {error}"
        notes += [f"note: {place.name}{note}"] if note else []
    return Source(name, out, model, dense, documents, texts, lengths, rate, tasks, notes)


def _read_task(place: Path, documents: Texts, limit: int) -> tuple[Task, str]:
    """A task that can be judged, and what is said of it."""
    # Texts of equal content become one, so that no model is fitted to the copy of a tested one.
    whole = check.read_task(place)
    task = task_files.limit_texts(whole, limit, seed=42)
    note = f": judged by {limit} of its {len(whole.texts)} texts" * (task is not whole)
    rows = pd.Index(documents.documents.contents).get_indexer(map(content, task.texts.values()))
    texts = {each: documents[row] for each, row in zip(task.texts, rows.tolist(), strict=True)}
    if task.kind == "clustering":  # a copy would be found by its text alone
        first = {text: text_id for text_id, text in reversed(texts.items())}
        texts = {text_id: text for text_id, text in texts.items() if first[text] == text_id}
    clusters = {text_id: name for text_id, name in task.clusters.items() if text_id in texts}
    task = replace(task, texts=texts, clusters=clusters)
    if task.folds:
        check.check_folds(place.name, task)
    if task.kind != "classification" and len(read_queries(task).relevant) < 2:
        raise ValueError("only one source has a text to find; expected two, in two folds")
    return task, note


def embed_texts(source: Source, say: Callable[[str], None]) -> dict[str, Any]:
    """Judge the models on the user's texts, embed all texts with one, and write the result.

    Returns plain values for a script. Raises `ValueError` if the model was not judged.
    """
    notes: list[str] = []

    def note(*lines: str) -> None:
        for line in lines:
            notes.append(line)
            say(line)

    count, size = len(source.texts), f"about {source.lengths.mean():,.0f} tokens on average"
    say(f"{source.name}: {count} texts, {size}, judged by {', '.join([HALVES, *source.tasks])}")
    note(*source.notes)
    frames = judge_models(source, note)
    table, choice = pd.DataFrame(), comparison.Choice(source.asked or BASE, *[np.nan] * 5)
    if frames:
        table, choice = comparison.make_table(frames), comparison.choose_model(frames, source.asked)
        say(comparison.format_table(table).to_string(index=False))
        note(*comparison.describe_table(table))
    else:
        note(f"note: there is nothing to judge models by; {choice.model} is used all the same")
    dense = source.find_dense(choice.model)
    if dense and (cut := int((source.lengths > dense.longest).sum())):
        told = f"longer than about {dense.longest:,} tokens, where {dense.name!r} stops reading"
        note(f"note: {cut} of {count} texts are {told}")
    say(f"chosen: {choice.model}; embedding all {count} texts with it")
    write_result(source, choice, table)
    say(f"written to {source.out}: vectors.parquet, encoder, index.html, table.csv")
    return {
        "verdict": choice.verdict,
        **{name: None if pd.isna(value) else value for name, value in vars(choice).items()},
        "documents": len(source.documents),
        "out": str(source.out),
        "notes": notes,
        "table": table.astype(object).where(table.notna(), None).to_dict("records"),
        "line": choice.line,
    }


def judge_models(source: Source, note: Callable[[str], None]) -> list[pd.DataFrame]:
    """A frame for each measure; `note` is told of measures and models that are left out."""
    halves = measures.draw_halves(source.texts, source.rate)
    needed = {HALVES: [*itertools.chain(*halves.values())]}
    needed |= {name: [*dict.fromkeys(task.texts.values())] for name, task in source.tasks.items()}
    texts = [*dict.fromkeys(itertools.chain(*needed.values()))]
    lengths = source.rate * np.array([count_words(text) for text in texts])
    embed_pieces(source.dense.values(), texts, lengths)
    words = fit_words(source.store, pick_texts(source.texts, FITTED))
    frames = []
    for name, judged in tqdm(needed.items(), desc="judging", leave=False, disable=None):
        models = combine(source.dense, words, judged)
        try:
            if name == HALVES:
                documents = source.texts.documents
                groups = [f"group {d.group}" if d.group else f"text {d.id}" for d in documents]
                frame = measures.judge_halves(halves, source.texts, groups, models)
            else:
                frame = measures.judge_task(name, source.tasks[name], models)
        except ValueError as error:  # only this measure is lost
            note(f"note: {name} could not be judged: {' '.join(str(error).split())}")
            continue
        frames.append(frame)
        if LSA not in {*frame["model"]}:
            told = "no document outside a fold has words to fit them to"
            note(f"note: {name}: {TFIDF}, {LSA} and {BOTH} are not judged: {told}")
    return frames


def pick_texts(texts: Sequence[str], most: int) -> list[str]:
    """All texts, or so many drawn at random, in their order."""
    picked = np.random.default_rng(0).permutation(len(texts))[:most]
    return [texts[place] for place in np.sort(picked).tolist()]


def embed_pieces(dense: Iterable[Dense], texts: Sequence[str], lengths: np.ndarray) -> None:
    """Embed texts of about `lengths` tokens, (texts,), and keep the vectors in the store."""
    reads = [(each.model, pd.Series(np.minimum(lengths, each.longest))) for each in dense]
    total, options = int(sum(read.sum() for _, read in reads)), {"unit": "token", "leave": False}
    with tqdm(desc="embedding", total=total, unit_scale=True, mininterval=1, **options) as bar:
        for model, read in reads:
            for _, piece in read.groupby(read.cumsum() // PIECE):
                model.embed(texts[piece.index[0] : piece.index[-1] + 1])
                bar.update(int(piece.sum()))


def write_result(source: Source, choice: comparison.Choice, table: pd.DataFrame) -> None:
    """Embed all texts with the chosen model, fitted to all, and write the folder whole."""
    vectors, encoder = make_encoder(source, choice.model)
    cells = comparison.format_table(table).to_dict("records") if len(table) else []
    facts = {"documents": len(source.texts), "verdict": choice.line, "scores": cells}
    dense, provenance = source.find_dense(choice.model), versions.commit() | versions.versions()
    card = {"title": f"Vectors of {source.name}: {choice.model}", "provenance": provenance}
    card |= {"longest": dense and dense.longest, **facts}

    def write(new: Path) -> None:
        _write_vectors(new / "vectors.parquet", source, vectors)
        (new / "index.html").write_text(_make_page(source, vectors, facts), encoding="utf-8")
        table.to_csv(new / "table.csv", index=False)
        placed = replace(encoder, folder=new / "encoder")
        save_encoder(placed, lambda folder: _write_dense(folder, dense), card)

    with quiet_transformers():
        replace_folder(source.out, KIND, write)


def make_encoder(source: Source, name: str) -> tuple[np.ndarray, Encoder]:
    """Vectors of all texts, (texts, dim), and the encoder that gives them."""
    dense, task = source.find_dense(name), source.labelled
    words = fit_words(source.store, pick_texts(source.texts, SAVED))
    mean = np.zeros(0, np.float32)
    if dense is not None:
        embed_pieces([dense], source.texts, source.lengths)
        mean = Centred(source.store, dense.model, source.texts).mean
    vectors = np.asarray(combine(source.dense, words, source.texts)[name].embed(source.texts))
    if name == CUT:
        vectors = scale_rows(vectors)
    encoder = Encoder(name, source.out, mean, None, [])
    if task is None and name not in (LSA, BOTH):
        return vectors, encoder
    try:
        counter, fitted = words[LSA].counter, words[LSA].fitted
    except ValueError:  # no text has a word, so there are no features
        return vectors, encoder
    kept = [counter.words[column] for column in fitted.columns]
    lexical, weight = replace(fitted, columns=np.arange(len(kept))), None
    if task is not None:
        texts, weight = [task.texts[each] for (each,) in task.inputs["train"]], 0.0
        if dense is not None:
            rows = centre_rows(np.asarray(dense.model.embed(texts)), mean)
            tfidf, groups = fitted.weigh(counter.count(texts)), group_examples(task, "train")
            weight = choose_weight(tfidf, rows, task.labels["train"], groups)
    return vectors, replace(encoder, lexical=lexical, words=kept, weight=weight)


def _write_vectors(path: Path, source: Source, vectors: np.ndarray) -> None:
    """Write a row for each document that is not blank; equal texts have equal vectors."""
    contents = source.documents.contents
    places = pd.Index(source.texts.documents.contents).get_indexer(contents[contents != 0])
    ids = [each.id for each, name in zip(source.documents, contents, strict=True) if name]
    rows = pyarrow.array([*vectors[places].astype(np.float32)], pyarrow.list_(pyarrow.float32()))
    parquet.write_table(pyarrow.table({"id": ids, "vector": rows}), path)


def _make_page(source: Source, vectors: np.ndarray, facts: Mapping[str, Any]) -> str:
    """The page; its classes are labels of single texts, or else those of a clustering."""
    task, clusters = source.labelled, [task.clusters for task in source.tasks.values()]
    labels = next(filter(None, clusters), {})
    if task is not None:
        labels = {
            text_id: task.classes[label]
            for split, inputs in task.inputs.items()
            for (text_id,), label in zip(inputs, task.labels[split], strict=True)
        }
    chosen = page.draw_rows(len(source.texts))
    entries, most = [], 2 * page.count_characters(len(chosen))
    for place in chosen.tolist():
        each = source.texts.documents[place]
        text = cut_text(each.text, most)
        entries.append(page.Entry(each.title or each.id, text, labels.get(each.id, "")))
    return page.render_page(source.name, entries, vectors[chosen], facts)


def _write_dense(folder: Path, dense: Dense) -> None:
    """Write a dense model as a stock SentenceTransformer."""
    model: Any = dense.model
    if isinstance(model, Teacher):
        shutil.copytree(find_model(model.section.model), folder)
    else:
        model.load().export(folder)
