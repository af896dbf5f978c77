"""The distillation corpus, drawn from dataset folders (thesis Sections 4.1 and 5.1.1)."""

import heapq
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from lib.config.schema import CorpusSettings
from lib.data.dataset_folder import Documents

REASONS = ["without text", "in a test", "copies", "too short"]  # to leave a document out


@dataclass(frozen=True)
class Corpus:
    """Documents for training, those held out to monitor it, and counts of those left out."""

    train: Documents
    validation: Documents
    left_out: Mapping[str, Mapping[str, int]]  # {dataset folder: {reason: number of documents}}

    @classmethod
    def read(cls, selection: Mapping[str, np.ndarray], documents: Documents) -> Self:
        """Make the corpus that `draw` selected from these documents."""
        parts = (documents[selection[part]] for part in ("train", "validation"))
        return cls(*parts, json.loads(str(selection["left_out"])))


def find_reasons(documents: Documents, held_out: np.ndarray) -> np.ndarray:
    """Say why documents are left out, (documents,) str, empty for those that are not."""
    contents = documents.contents
    checks = [contents == 0, np.isin(contents, held_out), pd.Index(contents).duplicated()]
    return np.select(checks, REASONS[:3], "")


def draw(
    section: CorpusSettings, documents: Documents, held_out: np.ndarray, count_tokens: Callable
) -> dict[str, np.ndarray]:
    """Draw a corpus from the documents of all its folders, in the shares that `section` gives them.
    Documents without text are left out, and those whose text is among the checksums `held_out`,
    (texts,) uint64, or repeats an earlier one, even of another folder. The first documents are for
    validation. Every prefix has the given shares, until a folder runs out. `count_tokens` maps a
    list of texts to their lengths in the student's tokens, for `min_tokens`. Returns "validation"
    and "train", (documents,) rows of `documents`, and "left_out" as JSON."""
    reasons, sources = find_reasons(documents, held_out), documents.table["source"].to_numpy()
    counts = pd.crosstab(sources, reasons).reindex(columns=REASONS, fill_value=0)
    left_out = counts.to_dict("index")

    def rank(number: int) -> Iterator[tuple[float, int, int]]:
        entry, turns = section.folders[number], itertools.count()
        rows = np.flatnonzero((reasons == "") & (sources == entry.folder))
        if section.order == "shuffled":
            rows = np.random.default_rng([section.seed, number]).permutation(rows)
        for start in range(0, len(rows), 1000):
            batch = rows[start : start + 1000].tolist()
            lengths = [0] * len(batch)  # not counted: nothing is too short
            if entry.min_tokens:
                lengths = count_tokens([documents[row].text for row in batch])
            for row, length in zip(batch, lengths, strict=True):
                if length >= entry.min_tokens:
                    yield (next(turns) + 0.5) / entry.share, number, row
                else:
                    left_out[entry.folder]["too short"] += 1

    # Webster's method: the next document is of the folder that is furthest below its share.
    ranked = heapq.merge(*map(rank, range(len(section.folders))))
    wanted = section.validation_documents + section.train_documents
    rows = np.array([row for *_, row in itertools.islice(ranked, wanted)], dtype=np.int64)
    if len(rows) < wanted:
        told = f"left out: {json.dumps(left_out)}; lower corpus.train_documents"
        raise ValueError(f"{len(rows)} of {wanted} documents, {told}")
    validation, train = np.split(rows, [section.validation_documents])
    return {"validation": validation, "train": train, "left_out": np.array(json.dumps(left_out))}
