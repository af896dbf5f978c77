"""The events of mini: each Lee background story is an event, its sentences are dealt to reports.

The reports are a dataset folder of their own next to those of `lib.data.builders.mini`, made from
the same files and written once.
"""

import importlib.metadata
import zlib
from pathlib import Path

import numpy as np

from lib.data.builders.mini import gensim_files
from lib.data.builders.writing import write_lines, write_once
from lib.store import hash_code, hash_value

NAME = "reports"
SENTENCES, MOST = 3, 4  # at least so many sentences per report; at most so many reports per story


def write_reports(seed: int, home: Path) -> Path:
    """The dataset folder `reports` below `home`, written first if it is missing."""
    code = hash_code(("news.reports", "data.builders.mini.gensim_files"))
    key = hash_value([seed, code, importlib.metadata.version("gensim")])
    return write_once(home / f"{NAME}-{key}" / NAME, lambda folder: _write(folder, seed))


def list_stories() -> dict[str, list[str]]:
    """Name -> sentences of the news stories, without duplicate stories."""
    texts = gensim_files.lines(gensim_files.NEWS)
    kept = enumerate(gensim_files.without_copies(texts))
    return {f"story {number:03d}": gensim_files.sentences(texts[index]) for number, index in kept}


def _write(folder: Path, seed: int) -> None:
    stories = list_stories()
    luck = np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(stories))
    luck_of = dict(zip(stories, luck, strict=True))
    by_length = sorted(stories, key=lambda name: (len(stories[name]), luck_of[name]))
    documents, labels = [], []
    for place, name in enumerate(by_length):  # in turn, so that sides get alike lengths
        sentences, side = stories[name], ("train", "public", "private")[place % 3]
        count = min(MOST, max(1, len(sentences) // SENTENCES))
        for part in range(count):
            text = " ".join(sentences[part::count])
            documents.append({"id": f"{name}/{part}", "text": text, "group": name})
            labels.append({"id": f"{name}/{part}", "label": f"{side}_{name}"})
    write_lines(folder / "documents.jsonl", documents)
    write_lines(folder / "tasks/events/clusters.jsonl", labels)
