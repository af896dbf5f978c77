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


def list_reports(seed: int) -> list[dict[str, str]]:
    """Rows of id, text, `group` (story), `label` (`<side>_<story>`); sides get alike lengths."""
    stories = list_stories()
    luck = np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(stories))
    luck_of = dict(zip(stories, luck, strict=True))
    by_length = sorted(stories, key=lambda name: (len(stories[name]), luck_of[name]))
    reports = []
    for place, name in enumerate(by_length):
        sentences, side = stories[name], ("train", "public", "private")[place % 3]
        count = min(MOST, max(1, len(sentences) // SENTENCES))
        for part in range(count):
            row = {"id": f"{name}/{part}", "text": " ".join(sentences[part::count])}
            reports.append(row | {"group": name, "label": f"{side}_{name}"})
    return reports


def _write(folder: Path, seed: int) -> None:
    reports = list_reports(seed)
    files = {"documents": ("id", "text", "group"), "tasks/events/clusters": ("id", "label")}
    for name, keys in files.items():
        rows = [{key: row[key] for key in keys} for row in reports]
        write_lines(folder / f"{name}.jsonl", rows)
