"""From your texts to vectors, table, encoder and page: what `python -m lib.embed` does."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet
from tqdm import tqdm

from lib.config import paths
from lib.config.loading import quiet_transformers
from lib.data import check, task_files
from lib.data.dataset_folder import Documents, content
from lib.data.task_files import Task
from lib.data.text_sources import find_dataset_folder
from lib.experiments.bench import Texts
from lib.statistics.measures import format_table
from lib.store import owned_folder, provenance
from lib.store.cache import Cache
from lib.store.files import check_room
from lib.texts import count_words
from lib.vectors import comparison, dense, judging, page
from lib.vectors.chunks import cut_text
from lib.vectors.comparison import Choice
from lib.vectors.dense import DenseModel
from lib.vectors.encoder import Encoder, check_saved, combine_parts, save_encoder
from lib.vectors.judging import HALVES, Collection, Halves, Judged
from lib.vectors.lexical import centre_rows, fit_lexical, mean_row
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, SIMPLEST_FIRST, STUDENT, TFIDF

KIND = "vectors"  # in the seal of the folder that is written
FITTED = 20_000  # at most so many documents to fit the saved lexical part on
# Bytes of the encoder, and for each text of its vectors, stored and written, and of the page.
ENCODER_SIZE, BYTES_OF_TEXT = 350_000_000, 4200
SPEED = {"bf16": 7500, "fp32": 3500}  # tokens per second on one core, approximately
_BLOCK = 2000  # documents that are written at once
_COMPARED = 5  # texts that the saved encoder embeds again as a check


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes
    ----------
    texts : Path
        A file or folder, see `text_sources`.
    out : Path, optional
        The folder to write.
    model : str, optional
        A model to use whatever its scores.
    student : Path, optional
        The folder of a trained student to judge as well.
    text, label : str, optional
        Columns of a table with the texts and their labels.
    """

    texts: Path
    out: Path | None = None
    model: str | None = None
    student: Path | None = None
    text: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Source:
    """Texts that are ready to be embedded, and the dense models; made by `read_source`.

    Attributes
    ----------
    request : Request
    name : str
    out : Path
        The folder to write.
    models : mapping
        The dense models by name.
    collection : Collection
    lengths : (texts,) float
        Approximate length of each of the collection's texts, in tokens.
    rate : float
        Approximate number of tokens per word.
    halves : Halves or None
        None if fewer than two documents have halves to compare.
    tasks : mapping
        The tasks that can be judged, by name.
    notes : list of str
        What the user should know.
    """

    request: Request
    name: str
    out: Path
    models: Mapping[str, DenseModel]
    collection: Collection
    lengths: np.ndarray
    rate: float
    halves: Halves | None
    tasks: Mapping[str, Task]
    notes: list[str]


def read_source(request: Request) -> Source:
    """Read and check everything that the user asks for, without embedding or writing anything yet.

    Raises
    ------
    ValueError, OSError
        In one line, if something is wrong.
    """
    models = _list_models(request)
    folder, name, notes = find_dataset_folder(request.texts, request.text, request.label)
    out = _check_out(request, name)
    if out.exists():
        notes = [*notes, f"note: {out} exists and will be replaced"]
    documents = Documents(folder)
    notes += [line for line in check.findings(folder, training=False) if _is_told(line)]
    collection = Collection.read(documents)
    if len(collection.rows) < 2:
        blank = int((documents.contents == 0).sum())
        told = f"got {len(collection.rows)} of {len(documents)}, {blank} blank"
        raise ValueError(f"{request.texts}: expected at least two different texts, {told}")
    rate = check.count_tokens_per_word(documents)
    texts = (collection.text(place) for place in range(len(collection.rows)))
    lengths = rate * np.array([count_words(text) for text in texts])
    size = ENCODER_SIZE + BYTES_OF_TEXT * len(documents)
    for place in (paths.artifacts(), out.parent):
        place.mkdir(parents=True, exist_ok=True)
        check_room(place, size)
    halves = judging.draw_halves(collection, rate)
    notes += _describe_halves(halves)
    enough = halves if len(halves.places) > 1 else None
    tasks, problems = _read_tasks(folder, float(lengths.mean()))
    notes += problems
    return Source(request, name, out, models, collection, lengths, rate, enough, tasks, notes)


def _list_models(request: Request) -> dict[str, DenseModel]:
    """The dense models; `ValueError` if the student is missing or the model unknown."""
    student = request.student and request.student.expanduser().resolve()
    if student and not (student / "model.safetensors").is_file():
        raise ValueError(f"{student}: no student here; name the --out of lib.train")
    known = [name for name in SIMPLEST_FIRST if student or name != STUDENT]
    if request.model not in (None, *known):
        names = ", ".join(map(repr, known))
        raise ValueError(f"unknown model {request.model!r}; expected one of {names}")
    return dense.list_models(student)


def _describe_halves(halves: Halves) -> list[str]:
    """A line on documents whose halves are not judged."""
    if len(halves.places) < 2:
        told = "fewer than two documents have halves of their own"
        return [f"note: {HALVES} are not judged: {told}"]
    told = "documents left out because they share a half with another"
    return [f"note: {HALVES}: {told}: {halves.shared}"] if halves.shared else []


def _is_told(line: str) -> bool:
    return ": note: " in line


def _check_out(request: Request, name: str) -> Path:
    source = request.texts.expanduser().resolve()
    out = (request.out or Path(f"{name}_vectors")).expanduser().resolve()
    if source.is_dir() and source in (out, *out.parents):
        raise ValueError(f"{out} is inside the folder of texts; choose another with --out")
    if paths.is_kept(out):
        raise ValueError(f"{out} is where the store and data are kept; choose another with --out")
    return owned_folder.check_target(out, KIND)


def _read_tasks(folder: Path, length: float) -> tuple[dict[str, Task], list[str]]:
    """The tasks that can be judged, and a line for each of the others.

    `length` is the mean number of tokens of a text.
    """
    limit = int(np.clip(judging.TASK_TOKENS / max(length, 1), 100, judging.TEXTS))
    tasks, problems = {}, []
    for place in sorted(folder.glob("tasks/[!.]*")):
        try:
            whole = check.read_task(place)
            task = task_files.limit_texts(whole, limit, seed=42)
            if task.folds:
                check.check_folds(place.name, task)
            if task.kind != "classification":
                judging.read_queries(task)
            tasks[place.name] = task
            if len(task.texts) < len(whole.texts):
                told = f"judged by {len(task.texts)} of its {len(whole.texts)} texts"
                problems.append(f"note: {place.name}: {told}")
        except (ValueError, OSError) as error:
            problems.append(f"note: {place.name} is not judged: {error}")
    return tasks, problems


def embed_texts(source: Source, say: Callable[[str], None]) -> dict[str, Any]:
    """Judge the models on the user's texts, embed all texts with one, and write the result.

    Parameters
    ----------
    source : Source
    say : callable
        Shows a line to the user.

    Returns
    -------
    Plain values for a script: verdict, model, score, base, difference, low, high, documents, out,
    notes, table, line.

    Raises
    ------
    ValueError, OSError
        In one line, if the disk is full, the store damaged, or the model was not judged.
    """
    notes: list[str] = []

    def note(lines: Sequence[str]) -> None:
        notes.extend(lines)
        for line in lines:
            say(line)

    cache = Cache(paths.artifacts() / "store")
    say(describe_source(source))
    note(source.notes)
    frames, problems = judge_models(source, cache)
    note(problems)
    table, choice = _compare(frames, source.request.model)
    if frames:
        say(format_table(table, BASE).to_string(index=False))
        note(comparison.describe_table(table))
    else:
        note([f"note: there is nothing to judge models by; {choice.model} is used all the same"])
    note(_describe_unread(source, choice))
    say(f"chosen: {choice.model}; embedding all {len(source.collection.rows)} texts with it")
    result = make_result(source, choice, cache)
    write_result(source, choice, table, result)
    say(f"written to {source.out}: vectors.parquet, encoder, index.html, table.csv")
    numbers = {name: None if np.isnan(value) else value for name, value in choice.numbers.items()}
    return {
        "verdict": choice.verdict,
        "model": choice.model,
        **numbers,
        "documents": len(source.collection.documents),
        "out": str(source.out),
        "notes": notes,
        "table": comparison.list_records(table),
        "line": choice.line,
    }


def describe_source(source: Source) -> str:
    """Describe how many texts there are, how long they are, and how long judging will take."""
    judged = sum(len(task.texts) for task in source.tasks.values())
    judged += 2 * len(source.halves.places) if source.halves else 0
    mean = float(np.minimum(source.lengths, judging.READ).mean())
    tokens = mean * (len(source.lengths) + 3 * judged)
    minutes = max(1, round(tokens / SPEED[dense.find_precision()] / 60))
    by = ", ".join([*([HALVES] if source.halves else []), *source.tasks]) or "nothing"
    size = f"{source.lengths.mean():,.0f} tokens on average"
    told = f"{source.name}: {len(source.lengths)} texts, about {size}"
    return f"{told}, judged by {by}: about {minutes} min on one core"


def _find_dense(source: Source, choice: Choice) -> DenseModel | None:
    """The dense part of a model; None for LSA."""
    return source.models.get(BASE if choice.model == BOTH else choice.model)


def _describe_unread(source: Source, choice: Choice) -> list[str]:
    """A line on texts that are longer than the model reads."""
    model = _find_dense(source, choice)
    cut = int((source.lengths > model.longest).sum()) if model else 0
    if model is None or not cut:
        return []
    told = f"longer than about {model.longest:,} tokens, where {model.name!r} stops reading"
    return [f"note: {cut} of {len(source.lengths)} texts are {told}"]


# ---- judging ------------------------------------------------------------------------------------


def judge_models(source: Source, cache: Cache) -> tuple[list[pd.DataFrame], list[str]]:
    """A frame for each measure, and a line for each measure or model that could not be judged."""
    halves = source.halves
    texts = dict.fromkeys(halves.texts if halves else ())
    for task in source.tasks.values():
        texts |= dict.fromkeys(task.texts.values())
    if not texts:
        return [], []
    judged = Judged(source.collection, [*texts], _embed(source, [*texts], cache))
    judges: dict[str, Callable[[], pd.DataFrame]] = {}
    if halves:
        judges[HALVES] = lambda: judging.judge_halves(halves, judged)
    for name, task in source.tasks.items():
        judges[name] = lambda name=name, task=task: judging.judge_task(name, task, judged)
    frames, problems = [], []
    for name, judge in tqdm(judges.items(), desc="judging", leave=False, disable=None):
        try:
            frame = judge()
        except ValueError as error:  # only this measure is lost
            problems.append(f"note: {name} could not be judged: {' '.join(str(error).split())}")
            continue
        frames.append(frame)
        if LSA not in {*frame["model"]}:
            told = "no document outside a fold has words to fit them to"
            problems.append(f"note: {name}: {TFIDF}, {LSA} and {BOTH} are not judged: {told}")
    return frames, problems


def _embed(source: Source, texts: list[str], cache: Cache) -> dict[str, np.ndarray]:
    lengths = source.rate * np.array([count_words(text) for text in texts])
    models = source.models.values()
    total = sum(float(np.minimum(lengths, model.longest).sum()) for model in models)
    vectors = {}
    with show_tokens("embedding texts to judge", total) as advance:
        for model in models:
            read = np.minimum(lengths, model.longest)
            vectors[model.name] = dense.embed_texts(cache, model, texts, read, advance)[:]
    return vectors


@contextmanager
def show_tokens(what: str, total: float) -> Iterator[Callable[[float, bool], None]]:
    """A bar with tokens per second and the time left; stored tokens do not count for the speed."""
    options = {"unit": "token", "unit_scale": True, "mininterval": 1, "leave": False}
    # Without smoothing, the speed is that of all tokens except `initial`.
    with tqdm(desc=what, total=int(total), smoothing=0, **options) as bar:

        def advance(tokens: float, new: bool) -> None:
            if not new:
                bar.initial += int(tokens)
            bar.update(int(tokens))

        yield advance


def _compare(frames: Sequence[pd.DataFrame], asked: str | None) -> tuple[pd.DataFrame, Choice]:
    if not frames:
        unknown = [float("nan")] * 5
        return pd.DataFrame(), Choice(asked or BASE, *unknown)
    return comparison.make_table(frames), comparison.choose_model(frames, asked)


# ---- what is written ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What is written.

    `vectors` are those of the collection's texts, (texts, dim), and `dense` those of the dense
    part, if there is one. `labels` maps ids of labelled texts to their labels.
    """

    encoder: Encoder
    vectors: np.ndarray
    dense: np.ndarray | None
    labels: Mapping[str, str]


def make_result(source: Source, choice: Choice, cache: Cache) -> Result:
    """Embed all texts with the chosen model, fitted to all of them."""
    collection, model = source.collection, choice.model
    texts = Texts(collection.documents)
    chosen = _find_dense(source, choice)
    rows = None
    if chosen is not None:
        lengths = np.minimum(source.lengths, chosen.longest)
        with show_tokens("embedding all texts", float(lengths.sum())) as advance:
            picked = Picked(texts, collection.rows)
            rows = dense.embed_texts(cache, chosen, picked, lengths, advance)[:]
    mean = np.zeros(0, "f4") if rows is None else mean_row(rows)
    task = _find_labels(source.tasks)
    lexical = counts = None
    if collection.words is not None and (task or model in (LSA, BOTH)):
        counts = collection.words.counts
        some = np.random.default_rng(0).permutation(counts.shape[0])[:FITTED]
        lexical = fit_lexical(counts[np.sort(some)])
    vectors = combine_parts(model, rows, mean, lexical, counts)
    words = [] if lexical is None else [collection.words.words[c] for c in lexical.columns]
    encoder = Encoder(model, source.out / "encoder", mean, lexical, words)
    if task is not None and lexical is not None:
        weight = _choose_weight(source, task, lexical, counts, rows, mean)
        encoder = replace(encoder, weight=weight)
    return Result(encoder, vectors, rows, _list_labels(source.tasks))


class Picked(Texts):
    """The texts of some rows of documents, read from disk when needed."""

    def __init__(self, texts: Texts, rows: np.ndarray):
        self.texts, self.rows = texts, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Picked(self.texts, self.rows[place])
        return self.texts[int(self.rows[place])]


def _find_labels(tasks: Mapping[str, Task]) -> Task | None:
    """The first classification of single texts; None if there is none."""
    for task in tasks.values():
        if task.kind == "classification" and len(task.inputs["train"][0]) == 1:
            return task
    return None


def _list_labels(tasks: Mapping[str, Task]) -> dict[str, str]:
    """{id: class} from the first classification of single texts, or from the first clustering."""
    task = _find_labels(tasks)
    if task is not None:
        examples = itertools.chain(*task.inputs.values())
        labels = np.concatenate([*task.labels.values()])
        pairs = zip(examples, labels.tolist(), strict=True)
        return {text_id: task.classes[label] for (text_id,), label in pairs}
    return next((dict(task.clusters) for task in tasks.values() if task.clusters), {})


def _choose_weight(
    source: Source,
    task: Task,
    lexical: Any,
    counts: Any,
    rows: np.ndarray | None,
    mean: np.ndarray,
) -> float:
    """The weight of the dense part for a linear classifier, by the labels of one task."""
    if rows is None:
        return 0.0
    collection = source.collection
    ids = [text_id for (text_id,) in task.inputs["train"]]
    places = {int(each): place for place, each in enumerate(collection.contents)}
    taken = np.array([places[content(task.texts[text_id])] for text_id in ids])
    groups = np.array([judging.name_group(task.groups.get(i, ""), i) for i in ids])
    words = lexical.weigh_words(counts[taken])
    dense_part = centre_rows(rows[taken], mean)
    shared = groups if task.groups else None
    return judging.choose_weight(words, dense_part, task.labels["train"], shared)


def write_result(source: Source, choice: Choice, table: pd.DataFrame, result: Result) -> None:
    """Write the folder, whole or not at all. The saved encoder is loaded and checked first."""
    cells = format_table(table, BASE).to_dict("records") if len(table) else []
    facts = {"documents": len(source.collection.rows), "verdict": choice.line, "scores": cells}

    def write(new: Path) -> None:
        _write_vectors(new / "vectors.parquet", source.collection, result.vectors)
        (new / "index.html").write_text(_make_page(source, result, facts), encoding="utf-8")
        table.to_csv(new / "table.csv", index=False)
        made = provenance.commit() | provenance.versions()
        model = _find_dense(source, choice)
        card = facts | {"title": f"Vectors of {source.name}: {choice.model}", "provenance": made}
        card |= {"longest": model.longest if model else None}
        save_encoder(
            new / "encoder",
            result.encoder,
            lambda place: _write_dense(place, choice, source.request.student),
            card,
        )
        _check_encoder(new / "encoder", source.collection, source.lengths, result)

    with quiet_transformers():
        owned_folder.replace_folder(source.out, write, KIND)


def _check_encoder(
    folder: Path, collection: Collection, lengths: np.ndarray, result: Result
) -> None:
    """Raise `ValueError` if the saved encoder gives the shortest texts different vectors."""
    places = np.argsort(lengths, kind="stable")[:_COMPARED]
    texts = [collection.text(place) for place in places]
    vectors = None if result.dense is None else result.dense[places]
    counts = None if collection.words is None else collection.words.counts[places]
    check_saved(folder, result.encoder, texts, vectors, counts)


def _write_vectors(path: Path, collection: Collection, vectors: np.ndarray) -> None:
    """Write a row for each non-blank document; equal texts have equal vectors."""
    places = {int(each): place for place, each in enumerate(collection.contents)}
    form = pyarrow.list_(pyarrow.float32())
    schema = pyarrow.schema([("id", pyarrow.string()), ("vector", form)])
    rows = (
        (document.id, places[int(each)])
        for document, each in zip(collection.documents, collection.documents.contents, strict=True)
        if each
    )
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(itertools.islice(rows, _BLOCK)):
            ids, taken = zip(*batch, strict=True)
            block = np.ascontiguousarray(vectors[list(taken)], dtype=np.float32)
            ends = np.arange(0, block.size + 1, block.shape[1], dtype=np.int32)
            lists = pyarrow.ListArray.from_arrays(ends, pyarrow.array(block.ravel()))
            columns = [pyarrow.array(ids, pyarrow.string()), lists.cast(form)]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def _make_page(source: Source, result: Result, facts: Mapping[str, Any]) -> str:
    chosen = page.choose_entries(len(source.collection.rows))
    entries, each = [], 2 * page.count_characters(len(chosen))
    for place in chosen.tolist():
        document = source.collection.documents[int(source.collection.rows[place])]
        title, label = document.title or document.id, result.labels.get(document.id, "")
        entries.append(page.Entry(title, cut_text(document.text, each), label))
    return page.render_page(source.name, entries, result.vectors[chosen], facts)


def _write_dense(folder: Path, choice: Choice, student: Path | None) -> None:
    """Write the dense part of a model as a stock SentenceTransformer."""
    from lib.student import Student

    if choice.model in (CUT, CHUNKS):
        shutil.copytree(dense.find_teacher(), folder)
    elif choice.model == STUDENT and student is not None:
        Student.load(student).export(folder)
    else:
        dense.load_base().export(folder)
