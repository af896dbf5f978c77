"""Distillation corpora, half Wikipedia and half news (thesis, Sections 4.1 and 5.1.1), and their token statistics.

`gensim_corpus` (mini), `folder_corpus` (lab) and `hub_corpus` (thesis) return a `Corpus`: documents in an order of
which every prefix is an even mix, so that training on the first n documents is training on a smaller corpus of the same
kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from lib.data import arrow, dataset_folder
from lib.data.build.mini import gensim_files

SOURCES = ("wikipedia", "news")


@dataclass(frozen=True)
class Document:
    """A text of a corpus; `source` is "wikipedia" or "news"."""

    id: str
    text: str
    source: str
    title: str = ""


@dataclass(frozen=True)
class Corpus:
    """Documents for training, and documents for watching it."""

    train: Sequence[Document]
    validation: Sequence[Document]


class Tokenizer(Protocol):
    """A Hugging Face tokenizer, as far as it is needed here."""

    def __call__(self, text: list[str], **settings: Any) -> Mapping[str, list[list[int]]]: ...


def gensim_corpus(train_documents: int, validation_documents: int, seed: int = 42) -> Corpus:
    """Passages of Wikipedia articles and whole Lee news stories, from the files inside gensim.

    Of the 300 stories 289 are left after copies are removed; where more than that are asked for, Wikipedia fills up (of
    600 documents 311 are Wikipedia). Every prefix of `train` is half and half until the news runs out, with the length
    distribution of the whole. No passage, review or story of the mini tasks is in it (`gensim_files`).

    Args:
        train_documents, validation_documents: how many.
        seed: of the passages' lengths and of the order.

    Raises:
        ValueError: more documents than the files hold, or fewer than one.
    """
    total = _checked_total(train_documents, validation_documents)
    rng = np.random.default_rng(seed)
    stories = gensim_files.news()
    news = [Document(f"news/{index:03d}", text, "news") for index, text in enumerate(stories)]
    wanted_news = [validation_documents // 2, train_documents // 2]
    wanted_news[1] = max(0, min(wanted_news[1], len(news) - wanted_news[0]))
    if wanted_news[0] > len(news):
        raise ValueError(
            f"validation_documents={validation_documents}: gensim holds {len(news)} news stories; ask for fewer"
        )
    passages = gensim_files.corpus_passages(total - sum(wanted_news), rng)
    wikipedia = [
        Document(f"wikipedia/{title}/{number:03d}", text, "wikipedia", title)
        for number, (title, text) in enumerate(passages)
    ]
    halves = [_representative(half, rng) for half in (wikipedia, news)]
    validation = _alternate(halves[0][: validation_documents - wanted_news[0]], halves[1][: wanted_news[0]])
    train = _alternate(
        halves[0][validation_documents - wanted_news[0] :], halves[1][wanted_news[0] :][: wanted_news[1]]
    )
    return Corpus(train, validation)


def folder_corpus(
    root: str | Path,
    *,
    datasets: Mapping[str, Sequence[str]],
    train_documents: int,
    validation_documents: int,
    seed: int = 42,
    min_news_tokens: int = 0,
    tokenizer: Tokenizer | None = None,
) -> Corpus:
    """Documents of dataset folders, an even mix of the given sources, drawn without replacement.

    Args:
        root: the folder of dataset folders.
        datasets: {"wikipedia": names, "news": names}; one of the two alone makes a corpus of that source only.
        train_documents, validation_documents: how many, the sources together.
        seed: of the draw.
        min_news_tokens: news below this many tokens of `tokenizer` is left out; 0 keeps all.
        tokenizer: the student's; needed with `min_news_tokens` only.

    Raises:
        ValueError: bad files (`lib.data.dataset_folder`), an unknown source, an too few documents.
    """
    _checked_total(train_documents, validation_documents)
    unknown = set(datasets) - set(SOURCES)
    if unknown or not datasets:
        raise ValueError(f"datasets: expected the sources {' and '.join(SOURCES)}, got {sorted(datasets)}")
    if min_news_tokens and tokenizer is None:
        raise ValueError(f"min_news_tokens={min_news_tokens} counts tokens and needs the student's tokenizer")
    rng = np.random.default_rng(seed)
    shares = {
        source: _share(index, len(datasets), train_documents, validation_documents)
        for index, source in enumerate(datasets)
    }
    parts = []
    for source, (n_train, n_validation) in shares.items():
        found = [
            Document(f"{name}/{entry.id}", entry.text, source, entry.title)
            for name in datasets[source]
            for entry in dataset_folder.documents(Path(root), name)
        ]
        if source == "news" and min_news_tokens:
            lengths = _token_counts([document.text for document in found], tokenizer, special=True)
            found = [document for document, length in zip(found, lengths, strict=True) if length >= min_news_tokens]
        if len(found) < n_train + n_validation:
            raise ValueError(
                f"{source}: {', '.join(datasets[source])} hold {len(found)} usable documents, "
                f"{n_train + n_validation} are wanted; lower train_documents or validation_documents"
            )
        drawn = [found[index] for index in rng.permutation(len(found))[: n_train + n_validation]]
        parts.append((drawn[n_validation:], drawn[:n_validation]))
    return Corpus(_alternate(*(train for train, _ in parts)), _alternate(*(validation for _, validation in parts)))


def hub_corpus(
    *,
    datasets: Mapping[str, Sequence[str]],
    train_documents: int,
    validation_documents: int,
    seed: int = 42,
    min_news_tokens: int = 1200,
    tokenizer: Tokenizer | None = None,
) -> Corpus:
    """The thesis' corpora: equal draws of Wikipedia and of long news, with replacement, seed 42 (author's code).

    Files are turned into Arrow tables on disk by the library `datasets` and mapped into memory; no text is held.
    Training and validation never share a document.

    Args:
        datasets: {"wikipedia": files, "news": files}. A file is a pattern of Parquet or JSON Lines files, on disk or
            `hf://datasets/<id>@<revision>/<files>`, or Grover's realnews.tar.gz. Every row has a "text" and maybe a
            "title".
        train_documents, validation_documents: how many, the sources together.
        seed: of the draws.
        min_news_tokens: news below this many tokens of `tokenizer` is left out.
        tokenizer: the student's.

    Raises:
        ValueError: another set of sources, a file in no known format, rows without text, no document left.
    """
    _checked_total(train_documents, validation_documents)
    if set(datasets) != set(SOURCES):
        raise ValueError(f"datasets: expected the sources {' and '.join(SOURCES)}, got {sorted(datasets)}")
    if min_news_tokens and tokenizer is None:
        raise ValueError(f"min_news_tokens={min_news_tokens} counts tokens and needs the student's tokenizer")
    rng = np.random.default_rng(seed)
    tables, drawn = {}, []
    for index, source in enumerate(SOURCES):
        table = arrow.read(datasets[source])
        if source == "news" and min_news_tokens:
            table = arrow.at_least(table, min_news_tokens, lambda texts: _token_counts(texts, tokenizer, special=True))
        n_train, n_validation = _share(index, len(SOURCES), train_documents, validation_documents)
        if len(table) < 2:
            raise ValueError(
                f"{source}: {len(table)} usable documents in {', '.join(datasets[source])}; 2 are needed at least"
            )
        tables[source] = table
        validation = rng.integers(len(table), size=n_validation)
        rest = np.setdiff1d(np.arange(len(table)), validation)
        if not len(rest):
            raise ValueError(
                f"{source}: validation takes all of the {len(table)} usable documents; lower validation_documents"
            )
        train = rest[rng.integers(len(rest), size=n_train)]
        drawn.append(([(source, int(row)) for row in train], [(source, int(row)) for row in validation]))
    parts = [ArrowDocuments(tables, _alternate(*(half[split] for half in drawn))) for split in range(2)]
    return Corpus(*parts)


class ArrowDocuments(Sequence):
    """Documents read from Arrow tables when they are asked for. A document drawn twice has one id."""

    def __init__(self, tables: Mapping[str, Any], rows: list[tuple[str, int]]):
        self._tables, self._rows = tables, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ArrowDocuments(self._tables, self._rows[index])
        source, row = self._rows[index]
        fields = self._tables[source][row]
        return Document(f"{source}/{row}", fields["text"], source, fields["title"])


def token_statistics(corpus: Corpus, longformer_tokenizer: Tokenizer, sbert_tokenizer: Tokenizer) -> pd.DataFrame:
    """Lengths of all documents, before any truncation.

    Returns:
        One row per document: id, source, split, longformer_tokens (with special tokens, as the student reads it),
        sbert_tokens (without, as the masking rule counts).
    """
    rows = []
    for split in ("train", "validation"):
        documents = getattr(corpus, split)
        for start in range(0, len(documents), 1000):  # bounds memory for corpora on disk
            batch = [documents[index] for index in range(start, min(start + 1000, len(documents)))]
            texts = [document.text for document in batch]
            longformer = _token_counts(texts, longformer_tokenizer, special=True)
            sbert = _token_counts(texts, sbert_tokenizer, special=False)
            rows += [(d.id, d.source, split, a, b) for d, a, b in zip(batch, longformer, sbert, strict=True)]
    return pd.DataFrame(rows, columns=["id", "source", "split", "longformer_tokens", "sbert_tokens"])


def _checked_total(train_documents: int, validation_documents: int) -> int:
    for name, value in (("train_documents", train_documents), ("validation_documents", validation_documents)):
        if value < 2:
            raise ValueError(f"{name}: expected at least 2, one of each source, got {value}")
    return train_documents + validation_documents


def _share(index: int, sources: int, *totals: int) -> tuple[int, ...]:
    """Each total's even share for one of the sources; the first ones take the remainder."""
    return tuple(total // sources + (index < total % sources) for total in totals)


def _token_counts(texts: list[str], tokenizer: Tokenizer, *, special: bool) -> list[int]:
    ids = tokenizer(texts, add_special_tokens=special, truncation=False, verbose=False)["input_ids"]
    return [len(document) for document in ids]


def _representative(documents: list[Document], rng: np.random.Generator, rounds: int = 10) -> list[Document]:
    """A shuffle of which every tenth has the lengths of the whole: each ten next in length are dealt to ten rounds."""
    ranked = sorted(documents, key=lambda document: (len(document.text), document.id))
    dealt: list[list[Document]] = [[] for _ in range(rounds)]
    for start in range(0, len(ranked), rounds):
        group = ranked[start : start + rounds]
        for document, place in zip(group, rng.permutation(rounds), strict=False):
            dealt[place].append(document)
    return [part[index] for part in dealt for index in rng.permutation(len(part))]


def _alternate(*parts: Sequence[Any]) -> list[Any]:
    """One of each part in turn; what is left of the longer ones follows."""
    longest = max(map(len, parts))
    return [part[index] for index in range(longest) for part in parts if index < len(part)]
