"""Classifiers other than the thesis' head: a job to (test,) predicted classes, without its seed."""

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

from lib.evaluation.heads import Job

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of dense vectors next to TF-IDF, both of norm 1
TOLERANCE = 1e-6  # largest entry of the gradient at which logistic regression has converged


def by_comparing(job: Job) -> np.ndarray:
    """Classify by logistic regression on features that compare the texts of a pair.

        single text: u          pair of texts: |u - v| and u * v, element by element

    Embeddings are standardised over the texts of the training items, and features over the training
    items, so their scale does not matter. The penalty is that of normal weights with variance
    1 / width (scikit-learn's C), so that a logit has a standard deviation of about one for any
    width. The loss is convex and minimised to convergence: no seed or learning rate matters.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    embeddings = np.asarray(job.features, dtype=np.float64)
    seen = np.unique(job.inputs[job.train])
    embeddings = StandardScaler().fit(embeddings[seen]).transform(embeddings)
    x = u = embeddings[job.inputs[:, 0]]
    if job.inputs.shape[1] == 2:
        v = embeddings[job.inputs[:, 1]]
        x = np.hstack([abs(u - v), u * v])
    x = StandardScaler().fit(x[job.train]).transform(x)
    classifier = LogisticRegression(C=1 / x.shape[1], tol=TOLERANCE, max_iter=1000)
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])


def by_similarity(job: Job) -> np.ndarray:
    """Classify by similarity, with almost nothing to train.

    A single text gets the class of the nearest centroid of embeddings scaled to norm 1. A pair is
    classified by the threshold on its cosine that separates the training pairs best.
    """
    from sklearn.metrics.pairwise import paired_cosine_distances
    from sklearn.neighbors import NearestCentroid
    from sklearn.preprocessing import normalize
    from sklearn.tree import DecisionTreeClassifier

    sparse_rows = sparse.issparse(job.features)
    embeddings = job.features if sparse_rows else np.asarray(job.features, dtype=np.float64)
    first = embeddings[job.inputs[:, 0]]
    if job.inputs.shape[1] == 1:
        x, classifier = normalize(first), NearestCentroid()
    else:
        x = 1 - paired_cosine_distances(first, embeddings[job.inputs[:, 1]])[:, None]
        classifier = DecisionTreeClassifier(max_depth=1)  # one threshold
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])


def by_words(job: Job) -> np.ndarray:
    """Classify TF-IDF vectors in the usual way: texts by logistic regression, pairs by cosine.

    Weights of words would say little about pairs, because other words matter in each article.
    Features, (texts, words) sparse or dense with rows of norm 1, are not standardised: the scale of
    a word or of an LSA direction says how much it explains.
    """
    from sklearn.linear_model import LogisticRegression

    if job.inputs.shape[1] == 2:
        return by_similarity(job)
    x, classifier = job.features[job.inputs[:, 0]], LogisticRegression(C=10, max_iter=1000)
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])


def by_both(job: Job) -> np.ndarray:
    """Classify [TF-IDF; weight x dense vectors] as `by_words`; features are the pair of both.

    Rows have norm 1. The weight is that of `choose_weight`, and 1 for pairs of texts.
    """
    words, dense = job.features
    weight, rows = 1.0, job.inputs[job.train, 0]
    if job.inputs.shape[1] == 1:
        groups = None if job.groups is None else job.groups[job.train]
        weight = choose_weight(words[rows], dense[rows], job.labels[job.train], groups)
    return by_words(replace(job, features=join_words(words, dense, weight)))


def choose_weight(
    words: sparse.csr_array, dense: np.ndarray, labels: np.ndarray, groups: np.ndarray | None
) -> float:
    """The smallest of the `WEIGHTS` with the most right answers in three folds; 0.5 without folds.

    `groups` number what folds must not part; they are ignored if one holds a whole class.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and any(len({*groups[labels == each]}) == 1 for each in {*labels}):
        groups = None  # else a class of one group would be tested without having been learned
    splitter = StratifiedKFold(3) if groups is None else StratifiedGroupKFold(3)
    texts = np.arange(len(labels))[:, None]
    right = []
    try:
        with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
            folds = list(splitter.split(labels, labels, groups))
        for weight in WEIGHTS:
            x = join_words(words, dense, weight)
            answers = (by_words(Job(x, texts, labels, *fold)) == labels[fold[1]] for fold in folds)
            right.append(sum(int(each.sum()) for each in answers))
    except ValueError:  # a class of too few texts, or a fold without texts or other classes
        return 0.5
    return WEIGHTS[int(np.argmax(right))]


def join_words(words: sparse.csr_array, dense: np.ndarray, weight: float) -> sparse.csr_array:
    """[TF-IDF; weight x dense vectors], (texts, words + dim), for a linear classifier."""
    if not weight:
        return sparse.csr_array(words)
    return sparse.hstack([words, weight * dense], format="csr")


# Values of a profile's `heads.classifier` besides "head"; "words" and "joint" are for TF-IDF.
CLASSIFIERS: dict[str, Callable[[Job], np.ndarray]] = {
    "compare": by_comparing,
    "similarity": by_similarity,
    "words": by_words,
    "joint": by_both,
}
