"""Models that embed documents without training: the teacher, TF-IDF, averaged token embeddings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lib.evaluation.baselines import make_vectorizer
from lib.texts import check_texts

ONE = "one cluster"
TFIDF = "TF-IDF"  # fitted to the texts that are clustered: news is full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # fitted to what students learn from
TEACHER = "teacher"
UNTUNED = "teacher, untuned"  # only if `TEACHER` is a tuned one
TOKENS = "teacher tokens, averaged"
NOT_TRAINED = (ONE, TFIDF, TFIDF_BEFORE, TEACHER, UNTUNED, TOKENS)


def embed_words(
    texts: Mapping[str, Iterable[str]], known: Iterable[str] | None = None
) -> dict[str, csr_array]:
    """TF-IDF rows of texts by use.

    Parameters
    ----------
    texts : dict
        {use: texts}.
    known : iterable of str, optional
        The texts that TF-IDF is fitted to; by default those of each use.
    """
    words = make_vectorizer()
    if known is None:
        return {use: words.fit_transform(check_texts(part)) for use, part in texts.items()}
    words.fit(check_texts(known))
    return {use: words.transform(check_texts(part)) for use, part in texts.items()}


def average_tokens(
    token_ids: Mapping[str, Sequence[Any]], table: np.ndarray
) -> dict[str, np.ndarray]:
    """{use: (documents, dim)} means of the teacher's token embeddings, and the table's `megabytes`.

    `token_ids` include a special token at each end, which is left out.
    """
    vectors = {
        use: np.stack([table[row[1:-1]].mean(0) for row in rows]) for use, rows in token_ids.items()
    }
    return vectors | {"megabytes": np.array(4 * table.size / 2**20)}
