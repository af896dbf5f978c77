"""Baselines to try before training anything: TF-IDF, and SBERT over the pieces of a long text."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse


def tfidf(corpus: Sequence[str], texts: Sequence[str]) -> sparse.csr_array:
    """Embed texts by TF-IDF of all words except English stop words.

    Parameters
    ----------
    corpus : texts that give vocabulary and document frequencies
    texts : texts to embed

    Returns
    -------
    (texts, words) float32; rows have norm 1, or 0 for a text without any of the words
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)
    vectorizer.fit(corpus)
    return sparse.csr_array(vectorizer.transform(texts))


def mean_of_chunks(teacher, texts: Sequence[str]) -> np.ndarray:
    """Cut each text into pieces that the teacher reads whole, and average their embeddings.

    Parameters
    ----------
    teacher : a structural teacher (`lib.teachers.sbert`)
    texts : cut between tokens, into pieces as long as the teacher reads

    Returns
    -------
    (texts, dim) float32
    """
    options = {
        "max_length": teacher.max_tokens - teacher.tokenizer.num_special_tokens_to_add(),
        "truncation": True,
        "add_special_tokens": False,
        "return_overflowing_tokens": True,
        "return_offsets_mapping": True,
        "verbose": False,
    }
    cut = teacher.tokenizer(list(texts), **options)
    text_of_piece = cut["overflow_to_sample_mapping"]
    pieces = []
    for text, offsets in zip(text_of_piece, cut["offset_mapping"], strict=True):
        start, stop = offsets[0][0], offsets[-1][1]
        pieces.append(texts[text][start:stop])
    embeddings = teacher.encode(pieces)
    total = np.zeros((len(texts), embeddings.shape[1]), dtype=np.float32)
    np.add.at(total, text_of_piece, embeddings)
    counts = np.bincount(text_of_piece, minlength=len(texts))
    return total / counts[:, None].astype(np.float32)
