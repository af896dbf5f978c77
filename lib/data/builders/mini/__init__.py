"""mini: corpus and tasks from the Wikipedia dump, the news stories and the reviews inside gensim's wheel."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lib.data.builders import write_examples, write_lines, write_readme, write_relevant
from lib.data.builders.mini import gensim_files, mini_tasks, passage_pool

if TYPE_CHECKING:
    from lib.config.schema import Profile

_WIKIPEDIA = (
    "Source: the shortened dump of English Wikipedia that gensim ships with its tests (enwiki, 107 articles). "
    "Licence: CC BY-SA and GFDL, the articles' authors."
)
_PASSAGES = "Passages as in `passages`."
_LEE = (
    "Source: Lee, Pincombe and Welsh (2005), as gensim ships it with its tests. No licence is stated; the stories "
    "are of the Australian Broadcasting Corporation."
)


def key_files(profile: Profile) -> str:
    """The version of gensim, whose wheel carries all files."""
    return importlib.metadata.version("gensim")


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder. All tasks share one pool of passages, so that a student embeds each text once."""
    settings = profile.build
    texts = functools.cache(lambda: gensim_files.corpus_texts(settings.documents, settings.seed))
    tasks = functools.cache(lambda: mini_tasks.MiniTasks(settings))

    def wikipedia(folder: Path) -> None:
        write_lines(folder / "documents.jsonl", texts()[0])
        write_readme(folder, "Wikipedia passages", _WIKIPEDIA, "Paragraphs of an article that follow each other, from "
                     "sections that no task uses; `group` is the article. Every tenth of the file has the lengths of "
                     "the whole.")  # fmt: skip

    def news(folder: Path) -> None:
        write_lines(folder / "documents.jsonl", texts()[1])
        write_readme(folder, "News stories", _LEE, "The Lee background stories without copies, whole, in an order of "
                     "which every tenth has the lengths of the whole.")  # fmt: skip

    def passages(folder: Path) -> None:
        rows = ({"id": p.id, "text": p.text, "title": p.article, "group": p.article} for p in tasks().passages)
        write_lines(folder / "documents.jsonl", rows)
        for task in ("topics", "same_article", "shared_links"):
            write_examples(folder / "tasks" / task, getattr(tasks(), task)())
        write_relevant(folder / "tasks/same_article_related", tasks().same_article_related())
        write_readme(folder, "Passages of Wikipedia articles", _WIKIPEDIA, passage_pool.__doc__ or "")

    def citations(folder: Path) -> None:
        _with_texts(folder, "shared_links", *tasks().citations())
        write_readme(folder, "Sentences that link to a page, and passages that do or do not", _WIKIPEDIA, _PASSAGES)

    def copies(folder: Path) -> None:
        _with_texts(folder, "copied", *tasks().copies())
        write_readme(folder, "Passages, and documents that copy two of them, obfuscated", _WIKIPEDIA, _PASSAGES)

    def sentences(folder: Path) -> None:
        reviews = {f"review/{number:03d}": review for number, review in enumerate(gensim_files.reviews())}
        write_lines(folder / "documents.jsonl", ({"id": i, "text": text} for i, (_, text) in reviews.items()))
        write_examples(folder / "tasks/sentiment", {"train": [((i,), label) for i, (label, _) in reviews.items()]})
        write_readme(folder, "Review sentences", "Source: Pang and Lee (2005), 200 sentences as gensim ships them with "
                     "its tests. No licence is stated.")  # fmt: skip

    def stories(folder: Path) -> None:
        texts, relevant = mini_tasks.rated_stories()
        write_lines(folder / "documents.jsonl", ({"id": i, "text": text} for i, text in texts.items()))
        write_relevant(folder / "tasks/similar", relevant)
        write_readme(folder, "News stories and how similar people find them", _LEE,
                     f"Relevant are stories rated above {mini_tasks.RELATED} of 1; {len(texts) - len(relevant)} of "
                     f"{len(texts)} have none and are candidates only.")  # fmt: skip

    return {write.__name__: write for write in (wikipedia, news, passages, citations, copies, sentences, stories)}


def _with_texts(folder: Path, task: str, texts: dict[str, tuple[str, str]], examples: dict) -> None:
    """A folder of the texts that its one task uses; `texts` is {id: (text, group)}."""
    used = {text_id for rows in examples.values() for ids, _ in rows for text_id in ids}
    rows = ({"id": i, "text": text, "group": group} for i, (text, group) in texts.items() if i in used)
    write_lines(folder / "documents.jsonl", rows)
    write_examples(folder / "tasks" / task, examples)
