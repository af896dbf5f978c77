"""The distillation corpus, drawn from dataset folders (thesis, Sections 4.1 and 5.1.1)."""

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from lib.config.schema import CorpusSettings
from lib.data.dataset_folder import Document, Documents

_BATCH = 1000  # documents whose tokens are counted at once: bounds memory
# As arrays that can be kept: "train" and "validation" (documents, 2), folder and row, and
# "left_out", JSON.
Selection = dict[str, np.ndarray]


@dataclass(frozen=True)
class PickedDocuments(Sequence[Document]):
    """Documents of several folders, read from disk when they are asked for.

    Attributes
    ----------
    folders : list of Documents
    picks : (documents, 2) int64
        The folder and the row of each.
    """

    folders: list[Documents]
    picks: np.ndarray

    def __len__(self) -> int:
        return len(self.picks)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return PickedDocuments(self.folders, self.picks[index])
        folder, row = self.picks[index].tolist()
        return self.folders[folder][row]

    @property
    def contents(self) -> np.ndarray:
        """(documents,) uint64: checksums of their texts, by which a corpus is known."""
        contents = np.zeros(len(self.picks), dtype=np.uint64)
        for number, documents in enumerate(self.folders):
            chosen = self.picks[:, 0] == number
            contents[chosen] = documents.contents[self.picks[chosen, 1]]
        return contents


@dataclass(frozen=True)
class Corpus:
    """Documents to train on, documents to watch training by, and how many were left out.

    `left_out` is {dataset folder: {reason: documents}}.
    """

    train: PickedDocuments
    validation: PickedDocuments
    left_out: Mapping[str, Mapping[str, int]]

    @classmethod
    def read(cls, selection: Selection, folders: list[Documents]) -> Self:
        """The corpus that `draw` selected from these folders."""
        return cls(
            PickedDocuments(folders, selection["train"]),
            PickedDocuments(folders, selection["validation"]),
            json.loads(str(selection["left_out"])),
        )


def draw(
    section: CorpusSettings,
    folders: list[Documents],
    held_out: np.ndarray,
    count_tokens: Callable[[list[str]], Sequence[int]] | None = None,
) -> Selection:
    """Draw the documents of a corpus from its folders in their shares, none twice.

    Left out are documents without text, those whose text is held out, and those that repeat
    another, also across folders. `order: listed` takes documents as files list them, `shuffled`
    draws. Validation is drawn first. Every prefix of train keeps the shares until a folder runs
    out; then the others fill up.

    Parameters
    ----------
    section : CorpusSettings
    folders : list of Documents
        One for each of `section.folders`, in that order.
    held_out : (texts,) uint64
        Contents that the corpus must not have, see `task_files.held_out_contents`.
    count_tokens : callable, optional
        Texts -> their lengths in the student's tokens; needed where a folder has `min_tokens`.

    Returns
    -------
    {"train": (documents, 2), "validation": (documents, 2), "left_out": JSON}

    Raises
    ------
    ValueError
        The folders hold too few documents.
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
        counts = {"without text": empty, "in a test": tested, "copies": copied}
        left_out[entry.folder] = {reason: int(rows.sum()) for reason, rows in counts.items()}
        left_out[entry.folder]["too short"] = 0
        rows = np.flatnonzero(~empty & ~tested & ~copied)
        if section.order == "shuffled":
            rows = np.random.default_rng([section.seed, number]).permutation(rows)
        if entry.min_tokens:
            if count_tokens is None:
                raise ValueError(f"{entry.folder}: min_tokens needs a tokenizer to count with")
            draws.append(
                _skip_short(documents, rows, entry.min_tokens, count_tokens, left_out[entry.folder])
            )
        else:
            draws.append(iter(rows.tolist()))
    shares = [entry.share for entry in section.folders]
    validation = _interleave(draws, shares, section.validation_documents)
    train = _interleave(draws, shares, section.train_documents)
    wanted = section.validation_documents + section.train_documents
    usable = len(validation) + len(train)
    if usable < wanted:
        totals = pd.DataFrame(left_out).sum(axis=1).items()
        reasons = ", ".join(f"{count} {reason}" for reason, count in totals)
        told = f"({reasons} left out): lower corpus.train_documents"
        raise ValueError(f"{usable} of {wanted} documents {told}")
    return {"validation": validation, "train": train, "left_out": np.array(json.dumps(left_out))}


def _skip_short(
    documents: Documents,
    rows: np.ndarray,
    min_tokens: int,
    count_tokens: Callable[[list[str]], Sequence[int]],
    left_out: dict[str, int],
) -> Iterator[int]:
    """The rows whose text has at least `min_tokens`, counted as far as they are asked for."""
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH].tolist()
        lengths = count_tokens([documents[row].text for row in batch])
        for row, length in zip(batch, lengths, strict=True):
            if length >= min_tokens:
                yield row
            else:
                left_out["too short"] += 1


def _interleave(draws: list[Iterator[int]], shares: list[float], wanted: int) -> np.ndarray:
    """(wanted, 2): folder and row; the next is of the folder furthest below its share.

    This is Webster's rule; of equals the first wins. Fewer come back if the folders run out.
    """
    taken = dict.fromkeys(range(len(draws)), 0)
    picks = array("q")
    while taken and len(picks) < 2 * wanted:
        folder = min(taken, key=lambda number: (taken[number] + 0.5) / shares[number])
        row = next(draws[folder], None)
        if row is None:
            del taken[folder]
        else:
            taken[folder] += 1
            picks.extend((folder, row))
    return np.array(picks, dtype=np.int64).reshape(-1, 2)
