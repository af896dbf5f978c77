"""TF-IDF of texts, and its reduction by latent semantic analysis (LSA), fitted to plain arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import normalize

from lib.teachers.rows import centre_rows, scale_rows
from lib.texts import TERMS

DIM = 256  # directions of LSA for a person's own texts
MANY = 100  # with so many documents, words of a single one link it to no other
WORDS = 100_000  # the most frequent words that are kept where rare ones are left out


def make_vectorizer(**options: Any) -> Any:
    """Make scikit-learn's TfidfVectorizer of all words except English stop words."""
    words = {"tokenizer": TERMS.findall, "token_pattern": None, "stop_words": "english"}
    return TfidfVectorizer(**words, sublinear_tf=True, **options)


@dataclass(frozen=True)
class WordCounts:
    """Words in documents, (documents, words) float32: 1 + log(count), or 0 for absent words."""

    counts: sparse.csr_array
    vectorizer: Any

    @classmethod
    def read(cls, texts: Iterable[str], words: Sequence[str] | None = None) -> WordCounts:
        """Count the words of documents, or some of them. `ValueError` if there are none."""
        options = {"use_idf": False, "norm": None, "dtype": np.float32, "vocabulary": words}
        vectorizer = make_vectorizer(**options)
        return cls(sparse.csr_array(vectorizer.fit_transform(texts)), vectorizer)

    @property
    def words(self) -> list[str]:
        """The words of the columns."""
        return self.vectorizer.get_feature_names_out().tolist()

    def count(self, texts: Iterable[str]) -> sparse.csr_array:
        """Count the same words in other texts, (texts, words)."""
        return sparse.csr_array(self.vectorizer.transform(texts))

    def fit(self, rows: np.ndarray | None = None, dim: int = 0, rare: bool = True) -> Lexical:
        """Fit TF-IDF, and LSA of `dim` directions (Deerwester et al. 1990), to documents.

        `rows` (fitted,) int are the documents to fit to, by default all; `ValueError` if none has a
        word. Few documents or words give fewer directions. Without `rare`, words of one in `MANY`
        documents are left out, and all but the frequent `WORDS`.
        """
        counts = self.counts if rows is None else self.counts[rows]
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        least = 1 if rare or counts.shape[0] < MANY else 2
        columns = np.flatnonzero(frequency >= min(least, max(1, frequency.max())))
        if not len(columns):
            raise ValueError(f"none of {counts.shape[0]} documents has a word to fit to")
        if not rare:
            columns = np.sort(columns[np.argsort(-frequency[columns], kind="stable")[:WORDS]])
        idf = TfidfTransformer().fit(counts[:, columns]).idf_.astype(np.float32)
        tfidf = Lexical(columns, idf, np.zeros((len(columns), 0), "f4"), np.zeros(0, "f4"))
        weights = tfidf.weigh(counts)
        dim = min(dim, *weights.shape)
        if not dim:
            return tfidf
        directions = np.ones((1, 1))  # of a single word
        if len(columns) > 1:
            directions = TruncatedSVD(dim, random_state=0).fit(weights).components_.T
        directions = np.ascontiguousarray(directions, np.float32)
        mean = scale_rows(weights @ directions).mean(axis=0)
        return Lexical(columns, idf, directions, mean)


@dataclass(frozen=True)
class Lexical:
    """Turns counts of words into TF-IDF and LSA; made by `WordCounts.fit`."""

    columns: np.ndarray  # (kept,) of the words that are used
    idf: np.ndarray  # (kept,) their weights
    directions: np.ndarray  # (kept, dim) of LSA; dim is 0 for TF-IDF alone
    mean: np.ndarray  # (dim,) of the LSA rows, each of norm 1, of the fitted documents

    def weigh(self, counts: sparse.csr_array) -> sparse.csr_array:
        """TF-IDF, (texts, kept) with rows of norm 1, or 0 without a known word."""
        weights = counts[:, self.columns]
        weights.data *= self.idf[weights.indices]
        return normalize(weights, copy=False)

    def project(self, counts: sparse.csr_array) -> np.ndarray:
        """LSA, (texts, dim) float32: TF-IDF projected onto the directions."""
        return self.weigh(counts) @ self.directions

    def embed(self, counts: sparse.csr_array) -> np.ndarray:
        """LSA, centred, (texts, dim) float32 with rows of norm 1, or 0 without a known word."""
        return centre_rows(self.project(counts), self.mean)
