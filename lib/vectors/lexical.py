"""The lexical part: TF-IDF of texts, and their reduction by latent semantic analysis (LSA).

A lexical part consists of plain arrays, so it can be saved without code. Fitting it to other
documents takes a moment, because words are counted only once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lib.evaluation.baselines import make_vectorizer

DIM = 256  # directions of LSA
MANY = 100  # with so many documents, words of a single one are left out: they link it to no other
WORDS = 100_000  # a lexical part has at most so many words, the most frequent ones


def scale_rows(x: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1; a zero row stays zero."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def mean_row(vectors: np.ndarray) -> np.ndarray:
    """(dim,) the mean of rows scaled to norm 1."""
    return scale_rows(vectors).mean(axis=0) if len(vectors) else np.zeros(vectors.shape[1], "f4")


def centre_rows(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1, minus a mean of such rows, scaled to norm 1 again.

    All texts share the mean, so cosines distinguish texts better without it. A zero row, from a
    text without a known word, stays zero.
    """
    scaled = scale_rows(x)
    return scale_rows(np.where(scaled.any(axis=1, keepdims=True), scaled - mean, 0))


@dataclass(frozen=True)
class WordCounts:
    """How often words occur in texts: (texts, words) with 1 + log(count), or 0 for absent words."""

    words: list[str]
    counts: sparse.csr_matrix
    vectorizer: Any

    @classmethod
    def read(cls, texts: Iterable[str], words: Sequence[str] | None = None) -> "WordCounts":
        """Count the words of texts, which are read once.

        `words` are those to count; by default all except English stop words.

        Raises
        ------
        ValueError
            If no text has a word.
        """
        options = {"use_idf": False, "norm": None, "dtype": np.float32, "vocabulary": words}
        vectorizer = make_vectorizer(**options)
        counts = vectorizer.fit_transform(texts)
        return cls(vectorizer.get_feature_names_out().tolist(), counts, vectorizer)

    def count(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """Count the same words in other texts, (texts, words)."""
        return self.vectorizer.transform(texts)


@dataclass(frozen=True)
class Lexical:
    """Turns counts of words into TF-IDF and LSA; made by `fit_lexical`.

    Attributes
    ----------
    columns : (kept,) int64
        Columns of the words that are used.
    idf : (kept,) float32
    directions : (kept, dim) float32
        Directions of LSA; dim is 0 for TF-IDF alone.
    mean : (dim,) float32
        Mean of the LSA rows, each of norm 1, of the documents that it was fitted on.
    """

    columns: np.ndarray
    idf: np.ndarray
    directions: np.ndarray
    mean: np.ndarray

    def weigh_words(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """TF-IDF, (texts, kept) with rows of norm 1, or 0 without a known word."""
        from sklearn.preprocessing import normalize

        return normalize(counts[:, self.columns] @ sparse.diags(self.idf))

    def embed(self, counts: sparse.csr_matrix) -> np.ndarray:
        """LSA, centred, (texts, dim) float32 with rows of norm 1, or 0 without a known word."""
        return centre_rows(self._project(self.weigh_words(counts)), self.mean)

    def _project(self, weights: sparse.csr_matrix) -> np.ndarray:
        return np.asarray(weights @ self.directions, dtype=np.float32)


def fit_lexical(counts: sparse.csr_matrix, dim: int = DIM, least: int | None = None) -> Lexical:
    """Fit TF-IDF and LSA to documents.

    Parameters
    ----------
    counts : (documents, words)
        From `WordCounts`.
    dim : int
        Number of LSA directions, at most the number of documents or words; 0 for TF-IDF alone.
    least : int, optional
        In how many documents a word must occur: by default in two if there are `MANY`, else in one.

    Source: Deerwester et al., "Indexing by latent semantic analysis", 1990.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    frequency = np.diff(counts.tocsc().indptr)
    least = least or (2 if counts.shape[0] >= MANY else 1)
    columns = np.flatnonzero(frequency >= min(least, frequency.max(initial=1)))
    columns = np.sort(columns[np.argsort(-frequency[columns], kind="stable")[:WORDS]])
    idf = TfidfTransformer().fit(counts[:, columns]).idf_.astype(np.float32)
    empty = Lexical(columns, idf, np.zeros((len(columns), 0), np.float32), np.zeros(0, np.float32))
    weights = empty.weigh_words(counts)
    dim = min(dim, *weights.shape)
    if not dim:
        return empty
    directions = np.ones((1, 1))  # of a single word
    if weights.shape[1] > 1:
        directions = TruncatedSVD(dim, random_state=0).fit(weights).components_.T
    fitted = Lexical(columns, idf, np.ascontiguousarray(directions, np.float32), empty.mean)
    mean = scale_rows(fitted._project(weights)).mean(axis=0)
    return Lexical(columns, idf, fitted.directions, mean)


def reduce_exactly(weights: sparse.csr_matrix) -> np.ndarray:
    """(texts, texts) dense rows with the same dot products as sparse rows."""
    values, vectors = np.linalg.eigh((weights @ weights.T).toarray().astype(np.float64))
    return vectors * np.sqrt(np.maximum(values, 0))
