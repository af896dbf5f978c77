"""Classification without the thesis' head: by similarity, and by logistic regression on TF-IDF."""

import numpy as np
from scipy import sparse

from lib.evaluation.heads import Job


def by_similarity(job: Job) -> np.ndarray:
    """Classify by cosines alone; nothing is trained, so the scale of embeddings plays no role.

    A single text gets the class whose centroid, of embeddings of unit norm, is nearest. A pair is
    classified by the cosine of its embeddings: above or below the threshold that divides the
    training pairs best.

    Returns
    -------
    (test,) predicted classes
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


def logistic_regression(job: Job) -> np.ndarray:
    """Classify by logistic regression, the usual model on TF-IDF.

    A pair is described by the products of its texts' weights, which only common words have, and by
    the absolute differences.

    Parameters
    ----------
    job : its features are a sparse array (texts, words)

    Returns
    -------
    (test,) predicted classes
    """
    from sklearn.linear_model import LogisticRegression

    x = job.features[job.inputs[:, 0]]
    if job.inputs.shape[1] == 2:
        other = job.features[job.inputs[:, 1]]
        x = sparse.hstack([x.multiply(other), abs(x - other)], format="csr")
    classifier = LogisticRegression(C=10, max_iter=1000)
    return classifier.fit(x[job.train], job.labels[job.train]).predict(x[job.test])
