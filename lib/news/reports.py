"""The events of mini: each Lee background story is an event, its sentences are dealt to reports."""

import zlib

import numpy as np

from lib.data.task_files import Task
from lib.recipes import gensim_files

NAME = "reports/events"
SENTENCES, MOST = 3, 4  # at least so many sentences per report; at most so many reports per story


def list_stories() -> dict[str, list[str]]:
    """Name -> sentences of the news stories, without duplicate stories."""
    texts = gensim_files.lines(gensim_files.NEWS)
    kept = enumerate(gensim_files.without_copies(texts))
    return {f"story {number:03d}": gensim_files.sentences(texts[index]) for number, index in kept}


def deal_reports(seed: int) -> Task:
    """A task of clusters, `<side>_<story>`; a report's group is its story."""
    stories, task = list_stories(), Task("clustering", {})
    luck = np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(stories))
    luck_of = dict(zip(stories, luck, strict=True))
    by_length = sorted(stories, key=lambda name: (len(stories[name]), luck_of[name]))
    for place, name in enumerate(by_length):  # in turn, so that sides get alike lengths
        sentences, side = stories[name], ("train", "public", "private")[place % 3]
        count = min(MOST, max(1, len(sentences) // SENTENCES))
        for part in range(count):
            report = f"{name}/{part}"
            task.texts[report] = " ".join(sentences[part::count])
            task.groups[report], task.clusters[report] = name, f"{side}_{name}"
    return task
