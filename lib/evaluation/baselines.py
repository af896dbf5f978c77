"""What a practitioner would try before training anything: TF-IDF, and SBERT over all of a long text in pieces."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse


def tfidf(corpus: Sequence[str], texts: Sequence[str]) -> sparse.csr_array:
    """(texts, words) float32 TF-IDF vectors; vocabulary and document frequencies come from `corpus` alone.

    All words count, English stop words aside. Rows have norm 1, or 0 for a text without any of them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)
    vectorizer.fit(corpus)
    return sparse.csr_array(vectorizer.transform(texts))


def mean_of_chunks(teacher, texts: Sequence[str]) -> np.ndarray:
    """(texts, dim) float32: each text cut into pieces that the teacher reads whole, their embeddings averaged.

    teacher: a structural teacher (`lib.teachers.sbert`). Pieces are cut between tokens and as long as it reads.
    """
    size = teacher.max_tokens - teacher.tokenizer.num_special_tokens_to_add()
    options = {
        "add_special_tokens": False,
        "truncation": True,
        "max_length": size,
        "verbose": False,
    }
    rows = teacher.tokenizer(
        list(texts), return_overflowing_tokens=True, return_offsets_mapping=True, **options
    )
    owner = rows["overflow_to_sample_mapping"]
    pieces = [
        texts[row][at[0][0] : at[-1][1]]
        for row, at in zip(owner, rows["offset_mapping"], strict=True)
    ]
    embeddings = teacher.encode(pieces)
    total = np.zeros((len(texts), embeddings.shape[1]), dtype=np.float32)
    np.add.at(total, owner, embeddings)
    return total / np.bincount(owner, minlength=len(texts))[:, None].astype(np.float32)
