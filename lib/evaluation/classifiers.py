"""Classification without the thesis' head: by comparing, by similarity, and of words."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from lib.evaluation.heads import Job

TOLERANCE = 1e-6  # of the gradient, where the comparing classifier has converged


def by_comparing(job: Job) -> np.ndarray:
    """Classify by logistic regression, trained to convergence, on features that compare.

        single text: u          pair of texts: |u - v| and u * v, element by element

    Embeddings are standardised over the texts of the training items, features over the training
    items, so the scale of an embedding plays no role. The penalty is that of independent normal
    weights with variance 1 / width: before training, a logit has a standard deviation of about one,
    whatever the width of the embeddings (scikit-learn's C = 1 / width). The loss is convex, so
    there is one solution, and neither a seed nor a learning rate has a part in it.

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
    """Classify by cosines alone; nothing is trained, so the scale of embeddings plays no role.

    A single text gets the class whose centroid, of embeddings of unit norm, is nearest. A pair is
    classified by the cosine of its embeddings: above or below the threshold that divides the
    training pairs best.

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
    """Classify TF-IDF vectors as people do: a text by logistic regression, a pair by its cosine.

    Weights of single words would say little about a pair, because the words that decide it are
    other ones in each article. How much two texts have in common is one number.

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


# What a profile's `heads.classifier` may say besides "head", and what TF-IDF is judged by.
CLASSIFIERS: dict[str, Callable[[Job], np.ndarray]] = {
    "compare": by_comparing,
    "similarity": by_similarity,
    "words": by_words,
}
