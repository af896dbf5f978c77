"""The models of the table that need no training, on the tasks of a profile.

`judging` fits words and means separately for each fold of a user's documents. A profile's corpus
contains no text that a task is judged on, so here they are fitted once, to the corpus.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lib.evaluation import classifiers
from lib.evaluation.heads import Job
from lib.evaluation.joined import join_rows
from lib.experiments.judging import Examples
from lib.vectors.judging import classify_jointly, join_words
from lib.vectors.lexical import (
    Lexical,
    WordCounts,
    centre_rows,
    fit_lexical,
    mean_row,
)
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, TFIDF

ROUNDS = 3  # of timing; the shortest time counts


@dataclass(frozen=True)
class Words:
    """TF-IDF and LSA of a corpus; made by `fit_words`."""

    counter: WordCounts
    tfidf: Lexical
    lsa: Lexical

    def weigh(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """TF-IDF of texts, (texts, words) with rows of norm 1."""
        return self.tfidf.weigh_words(self.counter.count(texts))

    def embed(self, texts: Iterable[str]) -> np.ndarray:
        """LSA of texts, (texts, dim) with rows of norm 1."""
        return self.lsa.embed(self.counter.count(texts))


def fit_words(corpus: Iterable[str]) -> Words:
    """Fit TF-IDF and LSA to the texts of a corpus; `ValueError` if none of them has a word."""
    counter = WordCounts.read(corpus)
    tfidf = fit_lexical(counter.counts, dim=0, least=1)
    return Words(counter, tfidf, fit_lexical(counter.counts))


def combine_models(
    texts: Sequence[str],
    dense: Mapping[str, np.ndarray],
    held_out: Mapping[str, np.ndarray],
    words: Words,
) -> dict[str, Any]:
    """Vectors of texts from all models of the table except students.

    Parameters
    ----------
    texts : sequence of str
    dense : mapping
        Name -> (texts, dim), for `BASE`, `CUT` and `CHUNKS`.
    held_out : mapping
        Name -> (documents, dim), for documents that are not judged. Their mean is subtracted.
    words : Words

    Returns
    -------
    dict
        Name -> (texts, dim), sparse for `TFIDF`; for `CLASSIFIER` the pair of TF-IDF and the base.
    """
    centred = {
        name: centre_rows(rows, mean_row(held_out[name]))
        for name, rows in dense.items()
        if name != CUT
    }
    tfidf, lsa = words.weigh(texts), words.embed(texts)
    return {
        BASE: dense[BASE],
        CUT: dense[CUT],
        CHUNKS: centred[CHUNKS],
        TFIDF: tfidf,
        LSA: lsa,
        BOTH: join_rows(centred[BASE], lsa),
        CLASSIFIER: (tfidf, centred[BASE]),
    }


def judge_model(name: str, vectors: Any, examples: Examples) -> dict[str, Any]:
    """How well one model's vectors, from `combine_models`, classify a task's examples.

    Models are judged like students, by `classifiers.by_comparing`, except those with sparse words:
    `TFIDF` by `classifiers.by_words`, `CLASSIFIER` by `classify_jointly`. For a pair of texts,
    `CLASSIFIER` sees the mean of the cosines of its two parts.

    Returns
    -------
    dict
        accuracy, heads and scores, as `lib.experiments.judging.judge_models` returns them; a head
        is a fold.
    """
    predict = classifiers.by_words if name == TFIDF else classifiers.by_comparing
    if name == CLASSIFIER:
        words, vectors = vectors
        predict = functools.partial(classify_jointly, words)
        if examples.inputs.shape[1] == 2:
            predict, vectors = classifiers.by_words, join_words(words, vectors, 1.0)
    jobs = [
        Job(vectors, examples.inputs, examples.labels, train, test, 0, f"{name}, {examples.task}")
        for train, test in examples.parts
    ]
    right = [predict(job) == examples.labels[job.test] for job in jobs]
    order = np.argsort(np.concatenate([job.test for job in jobs]))
    folds = [float(part.mean()) for part in right]
    scores = np.concatenate(right)[order].astype(float)
    return {"accuracy": float(np.mean(folds)), "heads": folds, "scores": scores.tolist()}


def measure_milliseconds(
    encoders: Mapping[str, Callable[[list[str]], Any]], texts: Sequence[str]
) -> dict[str, float]:
    """CPU milliseconds per text on one thread, from text to vector.

    All encoders are measured in turn, on all texts in one call. The shortest of several rounds
    counts, because other programs can only make a round longer.

    Parameters
    ----------
    encoders : mapping
        Name -> function that embeds texts.
    texts : sequence of str
    """
    import torch

    def measure(encode: Callable[[list[str]], Any]) -> float:
        started = time.process_time()
        encode([*texts])
        return 1000 * (time.process_time() - started) / len(texts)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rounds = [
            {name: measure(encode) for name, encode in encoders.items()} for _ in range(ROUNDS)
        ]
    finally:
        torch.set_num_threads(threads)
    return {name: min(each[name] for each in rounds) for name in encoders}
