"""The events of mini: each Lee background story is one, and its sentences are dealt to reports."""

import zlib
from pathlib import Path

import numpy as np

from lib.data.writing import write_lines
from lib.recipes import gensim_files

SENTENCES, MOST = 3, 4  # at least so many sentences per report; at most so many reports per story


def list_stories() -> dict[str, list[str]]:
    """Name -> sentences of the news stories, without duplicate stories."""
    texts = gensim_files.lines(gensim_files.NEWS)
    kept = enumerate(gensim_files.without_copies(texts))
    return {f"story {number:03d}": gensim_files.sentences(texts[index]) for number, index in kept}


def write_reports(folder: Path, seed: int) -> None:
    """Write the reports, whose groups are their stories, and the clusters `<side>_<story>`."""
    stories, reports, clusters = list_stories(), [], []
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
