"""The distillation corpus, drawn from dataset folders (thesis, Sections 4.1 and 5.1.1)."""

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lib.config.schema import Profile
from lib.data import sources, task_files
from lib.data.dataset_folder import Document, Documents, content

_BATCH = 1000  # documents whose tokens are counted at once: bounds memory
# As arrays that can be kept: "train" and "validation" (documents, 2), folder and row, and "left_out", JSON.
Selection = dict[str, np.ndarray]


@dataclass(frozen=True)
class Corpus:
    """Documents for training, documents for watching it, and how many of each folder were left out, by reason."""

    train: Sequence[Document]
    validation: Sequence[Document]
    left_out: Mapping[str, Mapping[str, int]]


def read(profile: Profile, selection: Selection | None = None) -> Corpus:
    """The corpus of a profile, its documents read from disk when they are asked for.

    selection: an earlier result of `select`, which takes long where `min_tokens` counts tokens.
    """
    selection = selection or select(profile)
    folders = [Documents(sources.root(profile), name) for name in profile.corpus.names]
    train, validation = (_Picked(folders, selection[split]) for split in ("train", "validation"))
    return Corpus(train, validation, json.loads(str(selection["left_out"])))


def select(
    profile: Profile, tokenizer: Callable[[], Callable[..., Any]] | None = None
) -> Selection:
    """Draws the documents of a corpus: of its folders in their shares, none twice.

    A document of a task's validation or test split is left out, one without text, and what another document repeats,
    also across folders; white space does not count. `order: listed` takes them as files list them, `shuffled` draws.
    Validation is drawn first. Every prefix of train keeps the shares until a folder runs out; then the others fill up.
    `tokenizer` makes the student's; it is called only where a folder has `min_tokens`.
    """
    section = profile.corpus
    folders = [Documents(sources.root(profile), name) for name in section.names]
    tasks = task_files.of_profile(profile).values()
    held_out = np.array(
        [content(task.texts[i]) for task in tasks for i in task.held_out()], dtype=np.uint64
    )
    seen = np.zeros(0, dtype=np.uint64)
    left_out: dict[str, dict[str, int]] = {}
    draws: list[Iterator[int]] = []
    for entry, documents in zip(section.folders, folders, strict=True):
        contents = documents.contents
        empty = contents == 0
        tested = ~empty & np.isin(contents, held_out)
        copied = ~empty & ~tested & (pd.Index(contents).duplicated() | np.isin(contents, seen))
        seen = np.union1d(seen, contents)
        chosen = {
            "without text": empty,
            "in a test": tested,
            "copies": copied,
            "too short": np.zeros(0),
        }
        counts = left_out[entry.folder] = {
            reason: int(rows.sum()) for reason, rows in chosen.items()
        }
        rows = np.flatnonzero(~empty & ~tested & ~copied)
        if section.order == "shuffled":
            rows = np.random.default_rng([section.seed, len(draws)]).permutation(rows)
        draws.append(_long_enough(documents, rows, entry.min_tokens, tokenizer, counts))
    shares = [entry.share for entry in section.folders]
    picks = [
        _interleaved(draws, shares, n)
        for n in (section.validation_documents, section.train_documents)
    ]
    usable, wanted = sum(map(len, picks)), section.validation_documents + section.train_documents
    if usable < wanted:
        reasons = ", ".join(
            f"{count} {reason}" for reason, count in pd.DataFrame(left_out).sum(axis=1).items()
        )
        raise ValueError(
            f"{usable} of {wanted} documents ({reasons} left out): lower corpus.train_documents"
        )
    return {"validation": picks[0], "train": picks[1], "left_out": np.array(json.dumps(left_out))}


def _long_enough(
    documents: Documents,
    rows: np.ndarray,
    wanted: int | None,
    tokenizer: Any,
    left_out: dict[str, int],
) -> Iterator[int]:
    """The rows whose text has at least `wanted` tokens, counted as far as they are asked for."""
    if not wanted:
        yield from rows
        return
    count = tokenizer()
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        ids = count([documents[row].text for row in batch], truncation=False, verbose=False)[
            "input_ids"
        ]
        for row, tokens in zip(batch, ids, strict=True):
            left_out["too short"] += len(tokens) < wanted
            if len(tokens) >= wanted:
                yield row


def _interleaved(draws: list[Iterator[int]], shares: list[float], wanted: int) -> np.ndarray:
    """`wanted` (folder, row), the next always from the folder furthest below its share (Webster's rule, first wins)."""
    taken = dict.fromkeys(range(len(draws)), 0)
    picks = array("q")
    while taken and len(picks) < 2 * wanted:
        folder = min(taken, key=lambda folder: (taken[folder] + 0.5) / shares[folder])
        row = next(draws[folder], None)
        if row is None:
            del taken[folder]
        else:
            taken[folder] += 1
            picks.extend((folder, row))
    return np.array(picks, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class _Picked(Sequence[Document]):
    """Documents of several folders, read when they are asked for."""

    folders: list[Documents]
    picks: np.ndarray

    def __len__(self) -> int:
        return len(self.picks)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return _Picked(self.folders, self.picks[index])
        folder, row = self.picks[index].tolist()
        return self.folders[folder][row]
