"""Classification without the thesis' head: by similarity alone, and by logistic regression on TF-IDF."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lib.evaluation.heads import Job


def by_similarity(job: Job) -> np.ndarray:
    """(test,) predicted classes from cosines alone: nothing is trained, so the scale of embeddings plays no role.

    A single text goes to the class whose centroid, of embeddings of unit norm, is nearest; a pair is classified by the
    cosine of its embeddings, above or below the threshold that divides the training pairs best.
    """
    from sklearn.neighbors import NearestCentroid
    from sklearn.preprocessing import normalize
    from sklearn.tree import DecisionTreeClassifier

    unit = normalize(np.asarray(job.features, dtype=np.float64))
    if job.inputs.shape[1] == 1:
        x, classifier = unit[job.inputs[:, 0]], NearestCentroid()
    else:
        x = (unit[job.inputs[:, 0]] * unit[job.inputs[:, 1]]).sum(axis=1, keepdims=True)
        classifier = DecisionTreeClassifier(max_depth=1)  # one threshold
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])


def logistic_regression(
    vectors: sparse.csr_array, inputs: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """(test,) predicted classes, as a practitioner would take them from TF-IDF.

    vectors: (texts, words). inputs, labels, train, test: as in `lib.evaluation.heads.Job`; a pair is the products of
    its two vectors' entries beside the absolute differences, so that common words count.
    """
    from sklearn.linear_model import LogisticRegression

    x = vectors[inputs[:, 0]]
    if inputs.shape[1] == 2:
        other = vectors[inputs[:, 1]]
        x = sparse.hstack([x.multiply(other), abs(x - other)], format="csr")
    classifier = LogisticRegression(C=10, max_iter=1000)
    return classifier.fit(x[train], labels[train]).predict(x[test])
