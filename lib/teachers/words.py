"""TF-IDF of texts, and its reduction by latent semantic analysis (LSA), as plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator, eigsh
from sklearn.feature_extraction.text import TfidfVectorizer

from lib.teachers.rows import scale_rows
from lib.texts import TERMS, check_several, normalize_text

DIM = 256  # directions of LSA for a person's own texts
MANY = 100  # from so many documents on, words that only one of them has count as rare
NULL = 1e-3  # of the largest singular value: below it the direction is a rounding error
WORDS = 100_000  # at most so many are kept, the most frequent, where rare words are left out


def make_vectorizer(**options: Any) -> TfidfVectorizer:
    """Make scikit-learn's TfidfVectorizer of all words except English stop words, in float32."""
    options |= {"preprocessor": lambda text: normalize_text(text).lower()}
    options |= {"tokenizer": TERMS.findall, "token_pattern": None}
    return TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32, **options)


def find_directions(weights: sparse.csr_array, dim: int) -> np.ndarray:
    """The first `dim` right singular vectors of (documents, words), as (words, dim) of norm 1.

    Signs are arbitrary. Fewer if documents or words are few, or repeat each other.
    """
    # scikit-learn's default gets most of the later directions wrong, and its "arpack" draws vectors
    # without a seed where documents repeat each other.
    if dim < weights.shape[0]:
        matrix = aslinearoperator(weights)
        left = eigsh(matrix @ matrix.H, dim, rng=0)[1]
    else:
        left = np.linalg.eigh((weights @ weights.T).toarray())[1]
    rows = weights.T @ left[:, ::-1]
    values = np.linalg.norm(rows, axis=0)
    found = values > NULL * values[0]
    return rows[:, found] / values[found]


@dataclass(frozen=True)
class Lexical:
    """TF-IDF of the words of some documents, and LSA (Deerwester et al. 1990), as plain arrays."""

    words: Any  # a string with one on each line, sorted
    idf: np.ndarray  # (words,) their weights
    directions: np.ndarray  # (words, dim): LSA is `weigh(texts) @ directions`; dim may be 0
    mean: np.ndarray  # (dim,) of the documents' LSA rows, each scaled to norm 1

    @classmethod
    def fit(cls, texts: Sequence[str], dim: int = 0, rare: bool = True) -> Self:
        """Fit to documents; few of them, or few words, give fewer directions than `dim`.

        Without `rare`, the `WORDS` most frequent words are kept, except those that only one of
        `MANY` or more documents has. `ValueError` if no word is left.
        """
        least = 1 if rare or len(texts) < MANY else 2
        vectorizer = make_vectorizer(min_df=least, max_features=None if rare else WORDS)
        weights = vectorizer.fit_transform(texts)
        directions = np.zeros((weights.shape[1], 0), np.float32)
        if dim:
            directions = find_directions(weights, dim)
        mean = scale_rows(weights @ directions).mean(axis=0)
        words = "\n".join(vectorizer.get_feature_names_out())
        return cls(words, vectorizer.idf_, directions, mean)

    @cached_property
    def vectorizer(self) -> TfidfVectorizer:
        vectorizer = make_vectorizer(vocabulary=str(self.words).split("\n"))
        vectorizer.idf_ = self.idf
        return vectorizer

    def weigh(self, texts: Sequence[str]) -> sparse.csr_array:
        """TF-IDF, (texts, words) with rows of norm 1, or 0 without a known word."""
        return sparse.csr_array(self.vectorizer.transform(check_several(texts)))
