"""The distillation corpus, drawn from dataset folders (thesis Sections 4.1 and 5.1.1)."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from lib.config.schema import CorpusSettings
from lib.data.dataset_folder import Document, Documents

# "train" and "validation", (documents, 2) with folder and row, and "left_out" as JSON.
Selection = dict[str, np.ndarray]


@dataclass(frozen=True)
class PickedDocuments(Sequence[Document]):
    """Chosen documents of several folders, read from disk when they are indexed."""

    folders: list[Documents]
    picks: np.ndarray  # (documents, 2) int64: number of the folder, and row in it

    def __len__(self) -> int:
        return len(self.picks)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return PickedDocuments(self.folders, self.picks[index])
        folder, row = self.picks[index].tolist()
        return self.folders[folder][row]

    @property
    def contents(self) -> np.ndarray:
        """Checksums of the texts, (documents,) uint64, which identify the corpus."""
        picks = self.picks.tolist()
        return np.array([self.folders[folder].contents[row] for folder, row in picks], np.uint64)


@dataclass(frozen=True)
class Corpus:
    """Documents for training, those held out to monitor it, and counts of those left out."""

    train: PickedDocuments
    validation: PickedDocuments
    left_out: Mapping[str, Mapping[str, int]]  # {dataset folder: {reason: number of documents}}

    @classmethod
    def read(cls, selection: Selection, folders: list[Documents]) -> Self:
        """Make the corpus that `draw` selected from these folders."""
        parts = (PickedDocuments(folders, selection[part]) for part in ("train", "validation"))
        return cls(*parts, json.loads(str(selection["left_out"])))


def draw(
    section: CorpusSettings,
    folders: list[Documents],
    held_out: np.ndarray,
    count_tokens: Callable[[list[str]], Sequence[int]],
) -> Selection:
    """Draw the documents of a corpus from its folders, those of `section`, in their shares.

    Documents without text are left out, and those whose text is among the checksums `held_out`,
    (texts,) uint64, or repeats an earlier one, even of another folder. Validation documents are
    drawn first. Every prefix of the training documents has the given shares, until a folder runs
    out. `count_tokens` maps texts to their lengths in the student's tokens, for `min_tokens`.
    """
    seen = np.zeros(0, dtype=np.uint64)
    left_out: dict[str, dict[str, int]] = {}
    draws: list[Iterator[int]] = []
    for number, (entry, documents) in enumerate(zip(section.folders, folders, strict=True)):
        contents = documents.contents
        empty = contents == 0
        tested = ~empty & np.isin(contents, held_out)
        repeated = pd.Index(contents).duplicated() | np.isin(contents, seen)
        copied = ~empty & ~tested & repeated
        seen = np.union1d(seen, contents)
        reasons = {"without text": empty, "in a test": tested, "copies": copied}
        counts = {reason: int(rows.sum()) for reason, rows in reasons.items()}
        left_out[entry.folder] = counts | {"too short": 0}  # counted while they are drawn
        rows = np.flatnonzero(~empty & ~tested & ~copied)
        if section.order == "shuffled":
            rows = np.random.default_rng([section.seed, number]).permutation(rows)
        counted = (entry.min_tokens, count_tokens, left_out[entry.folder])
        draws.append(_skip_short(documents, rows, *counted))
    shares = [entry.share for entry in section.folders]
    selection = {}
    sizes = {"validation": section.validation_documents, "train": section.train_documents}
    for part, wanted in sizes.items():
        picks = [*itertools.islice(_interleave(draws, shares), wanted)]
        if len(picks) < wanted:
            told = f"left out: {json.dumps(left_out)}; lower corpus.train_documents"
            raise ValueError(f"{len(picks)} of {wanted} {part} documents, {told}")
        selection[part] = np.array(picks, dtype=np.int64)
    return selection | {"left_out": np.array(json.dumps(left_out))}


def _skip_short(
    documents: Documents,
    rows: np.ndarray,
    min_tokens: int,
    count_tokens: Callable[[list[str]], Sequence[int]],
    left_out: dict[str, int],
) -> Iterator[int]:
    """Yield the rows whose text has at least `min_tokens`, counting only as many as are used."""
    if not min_tokens:
        yield from rows.tolist()
        return
    for start in range(0, len(rows), 1000):
        batch = rows[start : start + 1000].tolist()
        lengths = count_tokens([documents[row].text for row in batch])
        for row, length in zip(batch, lengths, strict=True):
            if length >= min_tokens:
                yield row
            else:
                left_out["too short"] += 1


def _interleave(draws: list[Iterator[int]], shares: list[float]) -> Iterator[tuple[int, int]]:
    """Yield folder and row, always of the folder furthest below its share (Webster's method).

    The first folder wins a tie. It ends when all folders run out.
    """
    taken = dict.fromkeys(range(len(draws)), 0)
    while taken:
        folder = min(taken, key=lambda number: (taken[number] + 0.5) / shares[number])
        row = next(draws[folder], None)
        if row is None:
            del taken[folder]
        else:
            taken[folder] += 1
            yield folder, row
