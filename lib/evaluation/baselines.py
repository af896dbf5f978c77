"""Baselines to try before training anything: words alone, and SBERT over pieces of a long text."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


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
    return sparse.csr_array(_make_vectorizer().fit(corpus).transform(texts))


def fit_lsa(corpus: Sequence[str], dim: int) -> Callable[[Sequence[str]], np.ndarray]:
    """Latent semantic analysis: TF-IDF, reduced to its largest singular directions in a corpus.

    Parameters
    ----------
    corpus : texts that give vocabulary, document frequencies and directions
    dim : number of directions; fewer if the corpus has fewer texts or words

    Returns
    -------
    What embeds texts, float32 (texts, dim).

    Source: Deerwester et al., "Indexing by latent semantic analysis", 1990.
    """
    from sklearn.decomposition import TruncatedSVD

    vectorizer = _make_vectorizer()
    words = vectorizer.fit_transform(corpus)
    svd = TruncatedSVD(min(dim, *words.shape), random_state=0).fit(words)
    return lambda texts: svd.transform(vectorizer.transform(texts)).astype(np.float32)


def _make_vectorizer() -> "TfidfVectorizer":
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)


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
