"""`python -m lib.data.check <root or dataset folder>`: describe and check dataset folders.

A `note` is something that readers of results should know. An `error` must be fixed first; only the
first one of each file is shown. `suggested` are the sizes that `lib.train --data` uses, with their
cost. The exit code is 2 if there is an error, or nothing to train on.
"""

import argparse
import itertools
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    import numpy as np
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from lib.config import profiles
    from lib.config.terminal import escape_unprintable
    from lib.data import corpus, task_files
    from lib.data.builders.mini import gensim_files
    from lib.data.dataset_folder import Documents, content, list_unread, read_fields
    from lib.data.sources import compose_name
    from lib.data.written_once import SEAL
    from lib.teachers.labels import LONGEST
    from lib.texts import count_words, cut_halves, list_terms, split_words
except ModuleNotFoundError as missing:
    told = "run ./run_all.sh --setup once, then . .venv/bin/activate"
    raise SystemExit(f"{missing}: {told}") from None

FILES = ["README.md", "tasks", "documents", "documents.jsonl", "documents.jsonl.gz"]
FILES += ["documents.jsonl.xz", SEAL]
FIELDS = ["id", "text", "title", "group"]
TASK_FILES = {  # by the kind of the task
    "classification": ["train.jsonl", "validation.jsonl", "test.jsonl"],
    "retrieval": ["relevant.json"],
    "clustering": ["clusters.jsonl"],
}
LEAST = 8  # smallest number of documents for training and validation together
TRAINED = 1_350_000  # largest number of training tokens, so that training takes minutes, not hours
TEXTS = 1000  # largest number of texts of a task
READ = 4096  # tokens that a student of `lab` reads
SAMPLE, START = 100, 5000  # documents, and characters of each, in which tokens are counted
REMEDY = (
    "give the task a small test.jsonl, or judge by others (`--task <names>`) "
    "or without labels (`--task` alone)"
)
ENGLISH = 0.15  # with a smaller share of function words (English: about .45) a text is not English
EMBEDDED, CHUNKS_EMBEDDED = 7500, 3000  # tokens per second and core: student, teacher on chunks


@dataclass
class _Judges:
    """Tasks to judge by: their settings, the texts they test, and the tasks that are left out."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    tested: set[int] = field(default_factory=set)  # checksums of tested texts
    halved: set[int] = field(default_factory=set)  # checksums of those with at least two words
    texts: int = 0
    clusterings: list[str] = field(default_factory=list)


@dataclass
class _TrainingDocuments:
    """Training documents: how many each folder adds, and estimated lengths of all, in tokens."""

    shares: dict[str, int] = field(default_factory=dict)
    lengths: list[float] = field(default_factory=list)
    in_tests: int = 0

    @property
    def usable(self) -> int:
        return sum(self.shares.values())


def suggested(path: Path, tasks: Iterable[str] | None = None) -> tuple[dict[str, Any], str, int]:
    """Suggest sizes for the profile `lab` that fit the data.

    Parameters
    ----------
    path : Path
        A dataset folder, or a folder of dataset folders.
    tasks : iterable of `<folder>/<task>`, optional
        Tasks to judge by; None takes all. Clusterings are left out.

    Returns
    -------
    Changes to the profile, {dotted key: value}; a description of them for people; and the largest
    number of bytes that a run will write.

    Raises
    ------
    ValueError
        If no class of a task has an example for each fold, if tasks leave fewer than `LEAST`
        documents for training, or if there is nothing to judge by.
    """
    folders = _find_folders(path)
    judges = _choose_tasks(folders, tasks)
    documents = _count_documents(folders, judges.tested)
    read = np.minimum(documents.lengths, READ)
    held_out = max(2, min(documents.usable // 5, 100))
    left = documents.usable - held_out
    trained = max(6, min(left, int(TRAINED / max(np.mean(read), 1))))
    repeated = len(read) - documents.usable - documents.in_tests
    counts = {
        "in tests": documents.in_tests,
        "without text or repeating another": repeated,
        f"beyond some {TRAINED:,} tokens": left - trained,
    }
    reasons = [f"{count} {reason}" for reason, count in counts.items() if count > 0]
    left_out = ", ".join(reasons) or "none"
    if documents.usable < LEAST:
        told = f"{documents.usable} of {len(read)} documents can be trained on, expected {LEAST}"
        remedy = f": {REMEDY}" if documents.in_tests else ""
        raise ValueError(f"{path}: {told} (left out: {left_out}){remedy}")
    shares = [{"folder": name, "share": share} for name, share in documents.shares.items() if share]
    changes = {
        "build": None,
        "data_roots": [str(folders[0].parent)],
        "corpus.folders": shares,
        "tasks.folders": judges.entries,
        "corpus.train_documents": left,
        "corpus.validation_documents": held_out,
        "training.documents": trained,
        "final.documents": trained,
        "student.language_model": None,  # own documents are few, and minutes count
        "training.learning_rate": 3e-4,  # chosen for a base that is a slice of the teacher
        "training.cca_batch_size": min(50, trained),
        "training.checkpoint_every": 5,
    }
    halved = len(judges.halved) + _count_halved(changes, folders, judges.tested)
    if not halved and not judges.entries:
        told = "no held-out document has two words, so no halves, and there is no task to judge by"
        raise ValueError(f"{path}: {told}")
    compared = min(held_out + len(judges.tested), 300) + judges.texts
    minutes = _estimate_minutes(documents.lengths, read, trained, compared)
    # Bytes of weights, texts, token ids and embeddings.
    size = 300_000_000 + 22 * int(read.sum()) + 4000 * (trained + judges.texts)
    by = [_count(len(judges.entries), "task")]
    by += [f"not the clustering {name}" for name in judges.clusterings]
    by += [] if halved else ["not halves of documents: no held-out one has two words"]
    told = f"train on {trained} documents, hold out {held_out} (left out: {left_out})"
    cost = f"some {_count(minutes, 'minute')} of a core, {size / 1e9:.1f} GB"
    return changes, f"{told}, judge by {', '.join(by)}: {cost}", size


def _choose_tasks(folders: list[Path], names: Iterable[str] | None) -> _Judges:
    places = {}
    for folder in folders:
        for place in sorted(folder.glob("tasks/[!.]*")):
            places[f"{folder.name}/{place.name}"] = place
    judges, spelled = _Judges(), {compose_name(name): name for name in places}
    for given in places if names is None else names:
        name = given if given in places else spelled.get(compose_name(given))
        if name is None:
            raise profiles.make_unknown_error("task", given, places)
        if task_files.kind(places[name]) == "clustering":
            judges.clusterings.append(name)
            continue
        task = task_files.limit_texts(read_task(places[name]), TEXTS, seed=42)
        if task.folds:
            try:
                check_folds(name, task)
            except ValueError as error:
                raise ValueError(f"{error}: {REMEDY}") from error
        judges.entries[name] = {"folder": name, "folds": task.folds, "texts": TEXTS}
        tested = {content(task.texts[text_id]): task.texts[text_id] for text_id in task.held_out()}
        judges.tested |= {*tested}
        judges.halved |= {name for name, text in tested.items() if cut_halves(text, READ)}
        judges.texts += len(task.texts)
    return judges


def check_folds(name: str, task: task_files.Task) -> None:
    """Raise ValueError, in one line, unless folds of a task can be made."""
    sizes = np.bincount(task.labels["train"]).tolist()
    if max(sizes) < task.folds:
        smallest = task.classes[np.argmin(sizes)]
        told = f"the smallest class, {smallest!r:.40}, has {_count(min(sizes), 'example')}"
        wrong = f"no class has {task.folds} examples, one for each fold"
        raise ValueError(f"{name}: {wrong}, {told}")
    try:
        with warnings.catch_warnings(action="ignore"):  # there is a note on small classes
            task_files.make_folds(task.labels["train"], task.folds, task.example_groups("train"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _count_documents(folders: list[Path], tested: set[int]) -> _TrainingDocuments:
    counted, seen = _TrainingDocuments(), set[int]()
    for folder in folders:
        documents = Documents(folder)
        contents = documents.contents.tolist()
        rate = count_tokens_per_word(documents)
        counted.lengths += [rate * count_words(document.text) for document in documents]
        counted.shares[folder.name] = len({*contents} - {0} - tested - seen)
        counted.in_tests += sum(each in tested for each in contents)
        seen.update(contents)
    return counted


def _count_halved(changes: dict[str, Any], folders: list[Path], tested: set[int]) -> int:
    """Count the held-out documents of `lab` whose halves can be compared."""
    section = profiles.load("lab", overrides=changes).corpus
    by_name = {folder.name: Documents(folder) for folder in folders}
    documents = [by_name[name] for name in section.names]
    selection = corpus.draw(section, documents, np.array(sorted(tested), dtype=np.uint64))
    held_out = corpus.Corpus.read(selection, documents).validation
    return sum(cut_halves(each.text, READ) is not None for each in held_out)


def count_tokens_per_word(documents: Documents) -> float:
    """Estimate the tokens per word, for the base of `lab`, from a sample of the documents.

    The result is about 1.35 in English, 1 in Chinese and 9 in Korean.
    """
    tokenizer = gensim_files.tokenizer()  # that of the base of `lab`
    rows = np.unique(np.linspace(0, len(documents) - 1, SAMPLE).astype(int)).tolist()
    texts = [documents[row].text[:START] for row in rows]
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    return max(tokens, 1) / max(sum(map(count_words, texts)), 1)


def _estimate_minutes(lengths: list[float], read: np.ndarray, trained: int, compared: int) -> int:
    """Estimate the time on one core in whole minutes, at least one.

    Training and judging take six times as long as embedding the texts once, plus a constant. The
    mean of the teacher's chunks also reads the text beyond the student's limit. All judged models
    embed the `compared` texts.
    """
    embedded = np.mean(read) * (trained + compared)
    unread = (np.mean(lengths) - np.mean(read)) * compared
    seconds = 30 + 6 * embedded / EMBEDDED + unread / CHUNKS_EMBEDDED
    return max(1, round(seconds / 60))


def read_task(folder: Path) -> task_files.Task:
    """Read a task, with five folds of train if there is no test split, as a profile may ask for."""
    folded = (folder / "train.jsonl").is_file() and not (folder / "test.jsonl").is_file()
    try:
        return task_files.read_task(folder, folds=5 if folded else None, seed=42)
    except ValueError as error:
        if "add validation.jsonl" in str(error):  # a class of one example may be the reason
            more = "or label a second example where a class has one"
            raise ValueError(f"{error}, {more}") from error
        raise


def _find_folders(path: Path) -> list[Path]:
    """Return the dataset folders in `path`, or `path` itself if it is one."""
    names = ("documents", "documents.*", "tasks")
    marks = itertools.chain(names, (f"[!.]*/{name}" for name in names))
    folders = sorted({place.parent for mark in marks for place in path.glob(mark)})
    if not folders:
        told = (
            "neither a dataset folder nor a folder of them: no documents.jsonl "
            "(see docs/own_documents.md)"
        )
        raise ValueError(f"{path}: {told if path.exists() else 'no such folder'}")
    return [path] if path in folders else folders


def findings(
    path: Path, tasks: Iterable[str] | None = None, *, training: bool = True
) -> Iterator[str]:
    """Yield lines on every dataset folder in `path`, and on the requested tasks (None: all).

    training: whether a student will be trained on the documents; otherwise they are only embedded.
    """
    folders, wanted = _find_folders(path), None if tasks is None else {*map(compose_name, tasks)}
    if path not in folders:
        beside = list_unread(path, ["README.md", SEAL], folders)
        yield from (_one_line(path.name, line) for line in _list_places(beside, "no documents"))
    for folder in folders:
        readable = True
        lines = []
        try:
            lines += _describe_documents(folder, training)
        except ValueError as error:
            lines, readable = [f"error: {error}"], False
        lines += _name_unread("", list_unread(folder, FILES), FILES)
        yield from (_one_line(folder.name, line) for line in lines)
        for place in sorted(folder.glob("tasks/[!.]*")):
            name = f"{folder.name}/{place.name}"
            if wanted is None or compose_name(name) in wanted:
                lines = _describe_task(place) if readable else []
                yield from (_one_line(name, line) for line in lines + _name_unread_files(place))


def _one_line(name: str, line: str) -> str:
    return " ".join(f"{name}: {line}".split())[:500]  # ids and labels may contain anything


def _name_unread(what: str, unread: Iterable[str], read: Iterable[str]) -> list[str]:
    return [
        f"note: {what}{name!r} is not read; nearest: {profiles.find_nearest(name, read)}"
        for name in unread
    ]


def _list_places(unread: list[str], why: str) -> list[str]:
    """Make one note on all places that are not read; none if there are none."""
    names = ", ".join(map(repr, unread[:3]))
    return [f"note: {_count(len(unread), 'place')} not read ({why}): {names}"] if unread else []


def _describe_documents(folder: Path, training: bool) -> list[str]:
    documents = Documents(folder)
    rows = []
    for document in documents:
        function_words = sum(
            word in ENGLISH_STOP_WORDS for word in split_words(document.text.lower())
        )
        marked = "\0" in document.text
        rows.append((count_words(document.text), function_words, bool(document.group), marked))
    words, function_words, grouped, marked = np.array(rows).T
    lengths = f"{min(words)} to {max(words)} words, half of them up to {np.median(words):.0f}"
    lines = [f"{_count(len(words), 'document')} of {lengths}; {sum(grouped)} with a group"]
    empty = documents.contents == 0
    firsts = np.unique(documents.contents, return_index=True)[1]
    repeated = ~empty & ~np.isin(range(len(words)), firsts)
    most = round(READ / count_tokens_per_word(documents))
    knower = "`lab`" if training else "the encoder"
    foreign = (words > 20) & (function_words < ENGLISH * words)
    notes = {
        f"longer than some {most} words, where a student of `lab` stops reading": training
        & (words > most),
        f"longer than {LONGEST:,} words, where a Paragraph Vector stops": training
        & (words > LONGEST),
        f"with hardly a word like 'the'; {knower} knows English alone": foreign,
        "with NUL bytes, which are not read": marked > 0,
        "of one word, so without halves to judge by": (words == 1) & ~empty,
        "without text, left out": empty,
        "with the text of an earlier one, taken once": repeated,
    }
    for note, chosen in notes.items():
        numbers = np.flatnonzero(chosen).tolist()
        if numbers:
            ids = ", ".join(documents[number].id for number in numbers[:3])
            lines.append(f"note: {_count(len(numbers), 'document')} {note}: {ids}")
    if not any(list_terms(document.text) for document in documents):
        lines.append("note: no word of two characters, so TF-IDF is not judged")
    fields = set[str]().union(*map(read_fields, documents.files))
    lines += _name_unread("field ", sorted(fields - {*FIELDS}), FIELDS)
    parts = list_unread(folder / "documents", [], documents.files)
    return lines + _list_places(parts, "in documents, where files are .parquet")


def _describe_task(folder: Path) -> list[str]:
    """Describe the sizes of a task and its notes, or its first error."""
    try:
        task = read_task(folder)
    except ValueError as error:
        return [f"error: {error}"]
    parts = [f"{task.kind} of {_count(len(task.texts), 'document')}"]
    if task.relevant:
        parts.append(f", {_count(len(task.relevant), 'source')}")
    if task.folds:
        parts.append(": no test.jsonl, so five folds of train serve")
    lines = ["".join(parts)]
    for split, labels in task.labels.items():
        sizes = Counter(task.classes[label] for label in labels).most_common()
        largest = ", ".join(f"{name} {size}" for name, size in sizes[:3])
        counts = f"{_count(len(labels), 'example')}, {_count(len(sizes), 'class')}"
        lines.append(f"{split}: {counts}: {largest}")
        few = [name for name, size in sizes if size < (task.folds or 0)]
        if few:
            told = f"{_count(len(few), 'class')} with fewer examples than folds"
            lines.append(f"note: {told}: {', '.join(few[:3])}")
        others = set[int]().union(*(task.labels[name] for name in task.labels if name != split))
        alone = [task.classes[label] for label in sorted({*labels} - others) if others]
        if alone:
            told = f"{_count(len(alone), 'class')} in {split} alone"
            lines.append(f"note: {told}: {', '.join(alone[:3])}")
    pairs = any(len(ids) == 2 for ids in task.inputs.get("train", ()))
    read = ["a", "b", "label"] if pairs else ["id", "label"]
    for file in (folder / name for name in TASK_FILES[task.kind]):
        if file.suffix == ".jsonl" and file.is_file():
            unread = sorted({*read_fields(file)} - {*read})
            lines += _name_unread(f"field of {file.name} ", unread, read)
    return lines + [f"note: {note}" for note in task.notes]


def _name_unread_files(task: Path) -> list[str]:
    """Note files in a task's folder that are not read, with the nearest name that would be."""
    try:
        read = TASK_FILES[task_files.kind(task)]
    except ValueError:
        read = [*itertools.chain(*TASK_FILES.values())]
    return _name_unread("", list_unread(task, read), read)


def _count(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 2 if one of them is an error, or nothing can be trained on."""
    parser = argparse.ArgumentParser(
        prog="python -m lib.data.check", description="Check dataset folders."
    )
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    escape_unprintable()
    path = parser.parse_args(arguments).path.resolve()
    errors = 0
    try:
        for line in findings(path):
            errors += ": error: " in line
            print(line)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if errors:
        print("suggested: first fix the errors")
        return 2
    try:
        print(f"suggested: {suggested(path)[1]}")
    except (ValueError, OSError) as error:
        print(f"suggested: nothing, {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
