"""A lexical branch in closed form: a bag of word pieces, mapped to LSA by ridge regression.

It needs the student's tokenizer alone, costs next to nothing beside the student, and is an
`EmbeddingBag` in the terms of PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

Ids = Sequence[Sequence[int] | np.ndarray]


@dataclass(frozen=True)
class WordPieceBag:
    """A linear map of weighted counts of word pieces; made by `fit_bag`.

    Attributes
    ----------
    idf : (vocabulary,) float
    weights : (vocabulary, dim) float
    """

    idf: np.ndarray
    weights: np.ndarray

    def encode(self, ids: Ids) -> np.ndarray:
        """Embed token id lists, (texts, dim) float32; rows have norm 1, or 0 if none is known."""
        return normalize(weigh_pieces(ids, self.idf) @ self.weights).astype(np.float32)


def weigh_pieces(ids: Ids, idf: np.ndarray) -> sparse.csr_matrix:
    """(texts, vocabulary) with rows of norm 1: idf x log(1 + count)."""
    return normalize(_count_pieces(ids, len(idf)) @ sparse.diags(idf))


def fit_bag(ids: Ids, targets: np.ndarray, vocabulary: int, penalty: float = 0.1) -> WordPieceBag:
    """Fit the map from bags of word pieces to targets.

        W = argmin |X W - T|^2 + penalty |W|^2 = X' (X X' + penalty)^-1 T

    X are the weighted counts, T the targets. There are fewer texts than word pieces, so the smaller
    of the two systems of equations is solved.

    Parameters
    ----------
    ids : sequence of token id lists
        Of the documents.
    targets : (documents, dim)
        Such as their LSA.
    vocabulary : int
        Token ids lie below it.
    penalty : float

    Examples
    --------
    >>> import numpy as np
    >>> from lib.student.word_pieces import fit_bag
    >>> bag = fit_bag([[0, 0], [1]], np.eye(2), vocabulary=3)
    >>> bag.encode([[0], [1, 1, 1], [2]])
    array([[1., 0.],
           [0., 1.],
           [0., 0.]], dtype=float32)
    """
    if len(ids) != len(targets):
        raise ValueError(f"expected a target for each text, got {len(targets)} for {len(ids)}")
    counts = _count_pieces(ids, vocabulary)
    idf = TfidfTransformer().fit(counts).idf_ * (np.diff(counts.tocsc().indptr) > 0)
    x = weigh_pieces(ids, idf)
    kernel = (x @ x.T).toarray() + penalty * np.eye(len(ids))
    return WordPieceBag(idf, x.T @ np.linalg.solve(kernel, targets))


def _count_pieces(ids: Ids, vocabulary: int) -> sparse.csr_matrix:
    rows = np.repeat(np.arange(len(ids)), [len(each) for each in ids])
    columns = np.concatenate([np.asarray(each, dtype=np.int64) for each in ids])
    ones = np.ones(len(columns))
    counts = sparse.csr_matrix((ones, (rows, columns)), shape=(len(ids), vocabulary))
    counts.data = np.log1p(counts.data)  # equal places were summed when the matrix was made
    return counts
