"""The distillation corpus, drawn from dataset folders (thesis Sections 4.1 and 5.1.1)."""

import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.config.schema import CorpusSettings
from lib.data.dataset_folder import Documents

REASONS = ["without text", "in a test", "copies", "too short"]  # for leaving a document out


@dataclass(frozen=True)
class Corpus:
    """Documents for training, those held out to monitor it, and counts of those left out."""

    train: Documents
    validation: Documents
    # {dataset folder: {reason: number}}; "too short" are those met before the corpus was full.
    left_out: Mapping[str, Mapping[str, int]]


def find_reasons(documents: Documents, held_out: np.ndarray) -> np.ndarray:
    """Say why documents are left out, (documents,) str, empty for those that are not."""
    contents = documents.contents
    checks = [contents == 0, np.isin(contents, held_out), pd.Index(contents).duplicated()]
    return np.select(checks, REASONS[:3], "")


def draw(
    section: CorpusSettings, documents: Documents, held_out: np.ndarray, count_tokens: Callable
) -> dict[str, np.ndarray]:
    """Draw a corpus from the documents of all its folders, in the shares that `section` gives them.
    Left out are documents without text, those whose checksum is in `held_out`, (texts,) uint64,
    and copies of an earlier one, even of another folder. The first documents are for
    validation. Every prefix has the given shares, until a folder runs out. `count_tokens` maps a
    list of texts to their lengths in the student's tokens, for `min_tokens`. Returns "validation"
    and "train", (documents,) rows of `documents`, and "left_out" as JSON.
    """
    reasons, sources = find_reasons(documents, held_out), documents.table["source"].to_numpy()
    ranked = []
    for number, entry in enumerate(section.folders):
        rows = np.flatnonzero((reasons == "") & (sources == entry.folder))
        if section.order == "shuffled":
            rows = np.random.default_rng([section.seed, number]).permutation(rows)
        long: Iterable[int] = rows
        if entry.min_tokens:
            long = _find_long(rows, entry.min_tokens, documents, count_tokens, reasons)
        ranked.append(_rank(long, number, entry.share))
    wanted = section.validation_documents + section.train_documents
    drawn = itertools.islice(heapq.merge(*ranked), wanted)
    rows = np.array([row for *_, row in drawn], dtype=np.int64)
    counts = pd.crosstab(sources, reasons).reindex(columns=REASONS, fill_value=0)
    left_out = json.dumps(counts.to_dict("index"))
    if len(rows) < wanted:
        told = f"left out: {left_out}; lower corpus.train_documents"
        raise ValueError(f"{len(rows)} of {wanted} documents, {told}")
    validation, train = np.split(rows, [section.validation_documents])
    return {"validation": validation, "train": train, "left_out": np.array(left_out)}


def _find_long(
    rows: np.ndarray, least: int, documents: Documents, count_tokens: Callable, reasons: np.ndarray
) -> Iterator[int]:
    """Yield rows of documents with enough tokens; mark shorter ones, met before, in `reasons`."""
    for part in np.array_split(rows, range(1000, len(rows), 1000)):
        lengths = count_tokens([documents[row].text for row in part])
        for row, length in zip(part.tolist(), lengths, strict=True):
            if length >= least:
                yield row
            else:
                reasons[row] = "too short"


def _rank(rows: Iterable[int], number: int, share: float) -> Iterator[tuple[float, int, int]]:
    """Yield (rank, folder's number, row); the lowest rank is drawn next (Webster's method)."""
    for turn, row in enumerate(rows):
        yield (turn + 0.5) / share, number, row
