"""Classifiers other than the thesis' head: comparing features, similarity, and TF-IDF."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from lib.evaluation.heads import Job

TOLERANCE = 1e-6  # largest entry of the gradient at which logistic regression has converged


def by_comparing(job: Job) -> np.ndarray:
    """Classify by logistic regression on features that compare the texts of a pair.

        single text: u          pair of texts: |u - v| and u * v, element by element

    The scale of an embedding does not matter: embeddings are standardised over the texts of the
    training items, and features over the training items. The penalty corresponds to independent
    normal weights with variance 1 / width (scikit-learn's C = 1 / width). Under this prior, a logit
    has a standard deviation of about one, whatever the width of the embeddings. The loss is convex
    and minimised to convergence, so the result depends on neither a seed nor a learning rate.

    Parameters
    ----------
    job : features, items and labels; its seed is not used

    Returns
    -------
    (test,) predicted classes
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

    The scale of embeddings does not matter. A single text gets the class of the nearest centroid
    of embeddings scaled to norm 1. A pair is classified by whether the cosine of its embeddings is
    above the threshold that separates the training pairs best.

    Parameters
    ----------
    job : features, items and labels; its seed is not used

    Returns
    -------
    (test,) predicted classes
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

    Weights of single words would say little about pairs, because different words matter in each
    article. The cosine measures how much the two texts have in common.

    Parameters
    ----------
    job : its features are a sparse array (texts, words)

    Returns
    -------
    (test,) predicted classes
    """
    from sklearn.linear_model import LogisticRegression

    if job.inputs.shape[1] == 2:
        return by_similarity(job)
    x, classifier = job.features[job.inputs[:, 0]], LogisticRegression(C=10, max_iter=1000)
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])


# Values of a profile's `heads.classifier` besides "head"; "words" is the classifier for TF-IDF.
CLASSIFIERS: dict[str, Callable[[Job], np.ndarray]] = {
    "compare": by_comparing,
    "similarity": by_similarity,
    "words": by_words,
}
