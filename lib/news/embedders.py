"""What embeds documents without being trained here: the teacher, words, averaged token vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lib.evaluation.baselines import make_vectorizer
from lib.texts import check_texts

ONE = "one cluster"
TFIDF = "TF-IDF"  # knows the words of what is clustered; news are full of new names
TFIDF_BEFORE = "TF-IDF, words of the texts distilled on"  # knows what students know
TEACHER = "teacher"
UNTUNED = "teacher, untuned"  # beside a tuned one
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
        What words and their frequencies are taken from; by default the texts of each use.
    """
    words = make_vectorizer()
    if known is None:
        return {use: words.fit_transform(check_texts(part)) for use, part in texts.items()}
    words.fit(check_texts(known))
    return {use: words.transform(check_texts(part)) for use, part in texts.items()}


def average_tokens(
    token_ids: Mapping[str, Sequence[Any]], table: np.ndarray
) -> dict[str, np.ndarray]:
    """(documents, dim) means of the teacher's token embeddings by use, and their `megabytes`."""
    vectors = {
        use: np.stack([table[row[1:-1]].mean(0) for row in rows])  # without special tokens
        for use, rows in token_ids.items()
    }
    return vectors | {"megabytes": np.array(4 * table.size / 2**20)}
