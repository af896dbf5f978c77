"""Baselines to try before training anything: words alone, and SBERT over pieces of a long text."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

from lib.texts import check_texts, has_token, list_terms, list_texts


def tfidf(corpus: Iterable[str], texts: Iterable[str]) -> sparse.csr_array:
    """Embed texts with TF-IDF of all words except English stop words.

    A word has at least two characters. In a script without spaces, every character is a word.

    Parameters
    ----------
    corpus : texts that give vocabulary and document frequencies
    texts : texts to embed

    Returns
    -------
    (texts, words) float32; rows have norm 1, or 0 for a text without any of the words

    Raises
    ------
    ValueError
        If the corpus has no words except stop words, and for something that is not a text.
    """
    vectorizer = make_vectorizer(dtype=np.float32).fit(check_texts(corpus))
    return sparse.csr_array(vectorizer.transform(check_texts(texts)))


def fit_lsa(corpus: Iterable[str], dim: int) -> Callable[[Iterable[str]], np.ndarray]:
    """Fit latent semantic analysis: TF-IDF projected onto the largest singular vectors of a corpus.

    Parameters
    ----------
    corpus : texts that give vocabulary, document frequencies and singular vectors
    dim : number of singular vectors; fewer if the corpus has fewer texts or words

    Returns
    -------
    A function from texts to their embeddings, float32 (texts, dim).

    References
    ----------
    Deerwester et al. 1990, Indexing by latent semantic analysis
    """
    from sklearn.decomposition import TruncatedSVD

    vectorizer = make_vectorizer(dtype=np.float32)
    words = vectorizer.fit_transform(check_texts(corpus))
    svd = TruncatedSVD(min(dim, *words.shape), random_state=0).fit(words)
    return lambda texts: svd.transform(vectorizer.transform(check_texts(texts))).astype(np.float32)


def make_vectorizer(**options: Any) -> Any:
    """Make scikit-learn's TfidfVectorizer for the words that `tfidf` counts.

    options: further arguments of TfidfVectorizer.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = {"tokenizer": list_terms, "token_pattern": None, "stop_words": "english"}
    return TfidfVectorizer(**words, sublinear_tf=True, **options)


def mean_of_chunks(teacher, texts: Iterable[str]) -> np.ndarray:
    """Cut each text into pieces that the teacher reads whole, and average their embeddings.

    Parameters
    ----------
    teacher : a structural teacher (`lib.teachers.sbert`)
    texts : texts to embed; they are cut between tokens, into pieces of `teacher.max_tokens`

    Returns
    -------
    (texts, dim) float32
    """
    texts = list_texts(texts)
    size = teacher.max_tokens - teacher.tokenizer.num_special_tokens_to_add()
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    pieces, rows = [], []
    for row, text in enumerate(texts):
        offsets = teacher.tokenizer(text, truncation=False, **options)["offset_mapping"]
        for start in range(0, len(offsets), size):
            part = offsets[start : start + size]
            piece = text[part[0][0] : part[-1][1]]
            if has_token(piece):  # not only control characters, which some tokenizers keep
                pieces.append(piece)
                rows.append(row)
    embeddings = teacher.encode(pieces)
    total = np.zeros((len(texts), embeddings.shape[1]), dtype=np.float32)
    np.add.at(total, rows, embeddings)
    counts = np.bincount(rows, minlength=len(texts))
    return total / counts[:, None].astype(np.float32)
