"""mini's events: each Lee background story is one, its sentences are dealt in turn to reports of it. They are a dataset
folder of their own beside those of `lib.data.builders.mini`, from the same files, written once."""

import importlib.metadata
import zlib
from pathlib import Path

import numpy as np

from lib.data import builders
from lib.data.builders import write_folder, write_lines
from lib.data.builders.mini import gensim_files
from lib.data.written_once import written
from lib.store.files import fingerprint
from lib.store.source_keys import source_key

NAME = "reports"
SENTENCES, MOST = 3, 4  # of a story for each of its reports; reports of a story
_SOURCE = (
    "Source: Lee, Pincombe and Welsh (2005), as gensim ships it with its tests. No licence is stated; the stories "
    "are of the Australian Broadcasting Corporation."
)


def root(seed: int) -> Path:
    """The folder that holds the dataset folder `reports`, written first where it is missing."""
    code = source_key("lib.news.reports", stop=("lib.store", "lib.config", "lib.data.written_once"))
    key = fingerprint([seed, code, importlib.metadata.version("gensim")])
    return written(builders.home() / f"{NAME}-{key}", {NAME: lambda folder: _write(folder, seed)})


def stories() -> dict[str, list[str]]:
    """Name -> sentences of the news stories, none filed twice."""
    texts = gensim_files.lines(gensim_files.NEWS)
    kept = enumerate(gensim_files.without_copies(texts))
    return {f"story {number:03d}": gensim_files.sentences(texts[index]) for number, index in kept}


def rows(seed: int) -> list[dict[str, str]]:
    """Rows of id, text, `group`, the story, and `label`, `<side>_<story>`; sides get stories of the same lengths."""
    held = stories()
    luck = dict(
        zip(
            held,
            np.random.default_rng([seed, zlib.crc32(b"reports")]).random(len(held)),
            strict=True,
        )
    )
    reports = []
    for place, name in enumerate(sorted(held, key=lambda name: (len(held[name]), luck[name]))):
        count = min(MOST, max(1, len(held[name]) // SENTENCES))
        label = f"{('train', 'public', 'private')[place % 3]}_{name}"
        for part in range(count):
            text = " ".join(held[name][part::count])
            reports.append({"id": f"{name}/{part}", "text": text, "group": name, "label": label})
    return reports


def _write(folder: Path, seed: int) -> None:
    reports = rows(seed)
    documents = [{key: row[key] for key in ("id", "text", "group")} for row in reports]
    write_folder(
        folder,
        documents,
        "Reports of events",
        _SOURCE,
        "Each story's sentences, dealt to its reports.",
    )
    events = [{"id": row["id"], "label": row["label"]} for row in reports]
    write_lines(folder / "tasks/events/clusters.jsonl", events)
