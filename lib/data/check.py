"""`python -m lib.data.check <root or dataset folder>`: what dataset folders hold, with what a reader of results should
know (`note`), what must be mended first (`error`, one of each file), and the sizes that `lib.train --data` takes with
what they cost (`suggested`). Exit code 2 if there is an error, or nothing to train on."""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

try:
    import numpy as np
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    from lib.config.profiles import nearest, unknown
    from lib.data import task_files
    from lib.data.dataset_folder import Documents, content, json_lines
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"{missing}: run ./run_all.sh --setup once, then . .venv/bin/activate"
    ) from None

FILES = "README.md tasks documents documents.jsonl documents.jsonl.gz documents.jsonl.xz".split()
TASK_FILES = "train.jsonl validation.jsonl test.jsonl relevant.json clusters.jsonl".split()
LEAST = 8  # documents to train on and to hold out, together
TRAINED, TEXTS = (
    1_000_000,
    1000,
)  # words to train on and texts of a task, at most: minutes, not hours
READ = 3000  # words that fill the 4,096 tokens of a student of `lab`, about
REMEDY = "give the task a small test.jsonl, or judge by others (`--task <names>`) or without labels (`--task` alone)"
ENGLISH = 0.15  # share of function words below which a text is hardly English, where it is some .45


def suggested(path: Path, tasks: Iterable[str] | None = None) -> tuple[dict[str, Any], str, int]:
    """Changes to the profile `lab` for what is there; what they come to, for a person; the bytes they write, at most.
    tasks: `<folder>/<task>`, None for all; of clusterings none. `ValueError` where no class of a task has an example
    for each fold, and with fewer than `LEAST` documents that no task is tested on."""
    folders, entries, tested, judged = _folders(path), {}, set[int](), 0
    places = {
        f"{folder.name}/{task.name}": task
        for folder in folders
        for task in sorted(folder.glob("tasks/[!.]*"))
    }
    for name in (names := [*(places if tasks is None else tasks)]):
        if name not in places:
            raise unknown("task", name, places)
        if task_files.kind(places[name]) == "clustering":
            continue
        task = task_files.fewer_texts(_read(places[name]), TEXTS, seed=42)
        if task.folds and max(sizes := np.bincount(task.labels["train"]).tolist()) < task.folds:
            told = f"the smallest class, {task.classes[np.argmin(sizes)]!r:.40}, has {_counted(min(sizes), 'example')}"
            raise ValueError(
                f"{name}: no class has {task.folds} examples, one for each fold, {told}: {REMEDY}"
            )
        entries[name] = {"folder": name, "folds": task.folds, "texts": TEXTS}
        tested |= {content(task.texts[text_id]) for text_id in task.held_out()}
        judged += len(task.texts)
    shares, lengths, contents = {}, list[int](), list[int]()
    for folder in folders:
        documents = Documents(folder.parent, folder.name)
        lengths += [len(document.text.split()) for document in documents]
        shares[folder.name] = len({*documents.contents.tolist()} - {0, *tested, *contents})
        contents += documents.contents.tolist()
    words = np.minimum(lengths, READ)
    usable, in_tests = sum(shares.values()), sum(each in tested for each in contents)
    held_out = max(2, min(usable // 5, 100))
    trained = max(6, min(usable - held_out, int(TRAINED / max(np.mean(words), 1))))
    counts = {
        "in tests": in_tests,
        "without text or repeating another": len(words) - usable - in_tests,
    }
    counts[f"beyond {TRAINED:,} words"] = usable - held_out - trained
    left_out = (
        ", ".join(f"{count} {reason}" for reason, count in counts.items() if count > 0) or "none"
    )
    if usable < LEAST:
        told = f"{usable} of {len(words)} documents can be trained on, expected {LEAST} (left out: {left_out})"
        raise ValueError(f"{path}: {told}" + f": {REMEDY}" * (in_tests > 0))
    corpus = [{"folder": name, "share": share} for name, share in shares.items() if share]
    changes = {
        "build": None,
        "data_root": str(folders[0].parent),
        "corpus.folders": corpus,
        "tasks.folders": entries,
    }
    changes |= {
        "corpus.train_documents": usable - held_out,
        "corpus.validation_documents": held_out,
    }
    changes |= {f"{part}.documents": trained for part in ("training", "final")}
    changes |= {"training.cca_batch_size": min(50, trained), "training.checkpoint_every": 5}
    # A core embeds 7,500 tokens a second in float32, 1.35 a word; training and table take six times that and a start.
    # The mean of the teacher's chunks goes on where the student stops reading, with 3,000 tokens a second.
    compared = min(held_out + len(tested), 300) + judged
    minutes = 0.5 + 6 * 1.35 * np.mean(words) * (trained + compared) / 7500 / 60
    minutes += 1.35 * (np.mean(lengths) - np.mean(words)) * compared / 3000 / 60
    size = (
        300_000_000 + 30 * int(words.sum()) + 4000 * (trained + judged)
    )  # weights, texts, token ids, embeddings
    told = f"train on {trained} documents, hold out {held_out} (left out: {left_out}), judge by "
    told += ", ".join(
        [
            _counted(len(entries), "task"),
            *(f"not the clustering {n}" for n in names if n not in entries),
        ]
    )
    return (
        changes,
        f"{told}: some {_counted(max(1, round(minutes)), 'minute')} of a core, {size / 1e9:.1f} GB",
        size,
    )


def _read(path: Path) -> task_files.Task:
    """With five folds where there is nothing but train to test on, as a profile may say."""
    folded = (path / "train.jsonl").is_file() and not (path / "test.jsonl").is_file()
    try:
        return task_files.read(path, 5 if folded else None)
    except ValueError as error:  # a class of one example, too, has no tenth to give
        more = ", or label a second example where a class has one" * (
            "add validation.jsonl" in str(error)
        )
        raise ValueError(f"{error}{more}") from error


def _folders(path: Path) -> list[Path]:
    """The dataset folders in `path`, or `path` if it is one."""
    marks = ("documents*", "*/documents*", "tasks", "*/tasks")
    folders = sorted({place.parent for mark in marks for place in path.glob(mark)})
    if not folders:
        told = "neither a dataset folder nor a folder of them: no documents.jsonl (see README)"
        raise ValueError(f"{path}: {told if path.exists() else 'no such folder'}")
    return [path] if path in folders else folders


def findings(path: Path, tasks: Iterable[str] | None = None) -> Iterator[str]:
    """Lines on every dataset folder in `path`, or on `path` if it is one, and on the tasks asked for (None: all)."""
    for folder in _folders(path):
        wrong = False
        for place in (folder, *sorted(folder.glob("tasks/[!.]*"))):
            name = folder.name if place == folder else f"{folder.name}/{place.name}"
            if place != folder and tasks is not None and name not in tasks:
                continue
            try:
                lines = [] if wrong else [*(_documents if place == folder else _task)(place)]
            except ValueError as error:
                lines, wrong = [f"error: {error}"], place == folder
            lines += _unread(
                "",
                [file.name for file in place.glob("[!.]*")],
                FILES if place == folder else TASK_FILES,
            )
            yield from (
                " ".join(f"{name}: {line}".split())[:500] for line in lines
            )  # an id or label is any text


def _unread(what: str, names: Iterable[str], read: Iterable[str]) -> list[str]:
    return [
        f"note: {what}{name!r} is not read; nearest: {nearest(name, read)}"
        for name in sorted({*names} - {*read})
    ]


def _documents(folder: Path) -> Iterator[str]:
    documents = Documents(folder.parent, folder.name)
    texts = ((document.text.lower().split(), bool(document.group)) for document in documents)
    rows = [
        (len(text), sum(word in ENGLISH_STOP_WORDS for word in text), group)
        for text, group in texts
    ]
    words, function_words, grouped = np.array(rows).T
    lengths = f"{min(words)} to {max(words)} words, half of them up to {np.median(words):.0f}"
    yield f"{_counted(len(words), 'document')} of {lengths}; {sum(grouped)} with a group"
    empty, firsts = documents.contents == 0, np.unique(documents.contents, return_index=True)[1]
    notes = {
        f"longer than some {READ} words, where a student of `lab` stops reading": words > READ,
        "with hardly a word like 'the'; `lab` knows English alone": (words > 20)
        & (function_words < ENGLISH * words),
        "without text, left out": empty,
        "with the text of an earlier one, taken once": ~empty & ~np.isin(range(len(words)), firsts),
    }
    for note, chosen in notes.items():
        if rows := np.flatnonzero(chosen).tolist():
            yield f"note: {_counted(len(rows), 'document')} {note}: {', '.join(documents[row].id for row in rows[:3])}"
    if documents.files[0].suffix != ".parquet":
        names = itertools.chain.from_iterable(row for _, row in json_lines(documents.files[0]))
        yield from _unread("field ", names, ("id", "text", "title", "group"))


def _task(folder: Path) -> Iterator[str]:
    task = _read(folder)
    told = f", {_counted(len(task.relevant), 'source')}" * bool(task.relevant)
    told += ": no test.jsonl, so five folds of train serve" * bool(task.folds)
    yield f"{task.kind} of {_counted(len(task.texts), 'document')}{told}"
    for split, labels in task.labels.items():
        sizes = Counter(task.classes[label] for label in labels).most_common()
        told = ", ".join(f"{name} {size}" for name, size in sizes[:3])
        yield f"{split}: {_counted(len(labels), 'example')}, {_counted(len(sizes), 'class')}: {told}"
        if few := [name for name, size in sizes if size < (task.folds or 0)]:
            yield f"note: {_counted(len(few), 'class')} with fewer examples than folds: {', '.join(few[:3])}"
        others = [label for other in task.labels if other != split for label in task.labels[other]]
        if alone := [task.classes[label] for label in np.setdiff1d(labels, others) if others]:
            yield f"note: {_counted(len(alone), 'class')} in {split} alone: {', '.join(alone[:3])}"
    yield from (f"note: {note}" for note in task.notes)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("es" if noun.endswith("s") else "s") * (count != 1)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; 2 if one of them is an error, or nothing can be trained on."""
    parser = argparse.ArgumentParser(
        prog="python -m lib.data.check", description="Check dataset folders."
    )
    parser.add_argument("path", type=Path, help="a dataset folder, or a folder of them")
    path, errors, failed = parser.parse_args(arguments).path.resolve(), 0, "error:"
    try:
        for line in findings(path):
            errors += ": error: " in line
            print(line)
        failed = "suggested: nothing,"
        print(f"suggested: {'first mend the errors' if errors else suggested(path)[1]}")
    except (ValueError, OSError) as error:
        print(failed, error, file=sys.stderr)
        errors += 1
    return 2 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
