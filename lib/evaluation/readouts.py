"""Classification on frozen embeddings: the examples, classifiers, and how many answers are right.

A classifier maps a `Job` to (test,) predicted classes. The thesis' head is in `heads`; those here
need little or no training, and no seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lib.config.schema import HeadSettings

# Readout -> its changes in a profile's section `heads`. "thesis" is the published protocol.
READOUTS: dict[str, dict[str, Any]] = {
    "thesis": {"classifier": "head"},
    "compare": {"classifier": "compare"},
    "none": {"classifier": "similarity"},
}
HEAD_SEEDS = 1000  # heads of one model and seed: seeds 1000 * seed, 1000 * seed + 1, ...
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of dense vectors next to TF-IDF, both of norm 1
TOLERANCE = 1e-6  # largest entry of the gradient at which logistic regression has converged
Part = tuple[np.ndarray, np.ndarray]  # the examples to train on and those to test on


@dataclass(frozen=True)
class Examples:
    """The examples of a classification, as rows of its texts.

    `inputs` are (examples, 1 or 2) rows of `texts`, each of which is there once, and `labels`
    (examples,) int. `groups`, (examples,) int, are equal where folds must not part examples; None
    if each is by itself.
    """

    task: str
    text_ids: list[str]
    texts: list[str]
    inputs: np.ndarray
    labels: np.ndarray
    classes: int
    parts: list[Part]
    groups: np.ndarray | None = None

    @property
    def tested(self) -> np.ndarray:
        """(tested,) the examples that are scored, ascending."""
        return np.sort(np.concatenate([test for _, test in self.parts]))

    @property
    def chance(self) -> float:
        """The share of the largest class among the examples that are scored."""
        tested = self.labels[self.tested]
        return float(np.bincount(tested).max() / len(tested))

    @property
    def folds(self) -> list[Examples]:
        """The same examples, with one fold each."""
        return [replace(self, parts=[part]) for part in self.parts]


@dataclass(frozen=True)
class Job:
    """One classifier to train and test.

    `features` are (n, dim), one row per text; jobs of one model should share one array. `inputs`
    are (m, 1) or (m, 2) rows of them, `labels` (m,) classes from 0 on, `train` and `test` indices
    of both. `groups`, (m,), number what folds must not part. `name` is for messages.
    """

    features: Any
    inputs: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray
    seed: int = 0
    name: str = ""
    groups: np.ndarray | None = None

    def fit(self, classifier: Any, x: Any) -> np.ndarray:
        """Fit a classifier to the training rows of x, (m, width), and predict those of the test."""
        return classifier.fit(x[self.train], self.labels[self.train]).predict(x[self.test])


def judge(
    vectors: Any,
    examples: Examples,
    classifier: str,
    settings: HeadSettings | None = None,
    seed: int = 0,
) -> np.ndarray:
    """(tested,) for each tested example, the share of right answers; see `judge_models`."""
    return judge_models([("", seed, vectors)], examples, classifier, settings)[0]["scores"]


def judge_folds(
    embed: Callable[[Examples], Any], examples: Examples, classifier: str
) -> np.ndarray:
    """`judge` with vectors of all texts that `embed` fits anew to none of a fold's tests."""
    each = np.full(len(examples.labels), np.nan)
    for fold in examples.folds:
        each[fold.tested] = judge(embed(fold), fold, classifier)
    return each[examples.tested]


def judge_models(
    models: Sequence[tuple[str, int, Any]],
    examples: Examples,
    classifier: str,
    settings: HeadSettings | None = None,
) -> list[dict[str, Any]]:
    """Judge how well each model's embeddings classify.

    `models` are (name, seed, vectors) with vectors (texts, dim), or for the classifier "joint" the
    pair of TF-IDF and dense vectors. `classifier` is "head", which needs the settings and trains
    heads of all models side by side, or one of `CLASSIFIERS`.

    Returns for each model `accuracy`, the mean share of right answers; `heads`, the share for each
    head and each of its folds; `scores`, (tested,) for each tested example the share of heads that
    are right. `ValueError` for vectors that are not finite.
    """
    heads = settings if classifier == "head" else None
    repeats, jobs = heads.repeats if heads else 1, []
    for name, seed, vectors in models:
        values, label = _read_vectors(vectors), f"{name}, seed {seed}, {examples.task}"
        for head in range(repeats):
            for part in examples.parts:
                job = (values, examples.inputs, examples.labels, *part, HEAD_SEEDS * seed + head)
                jobs.append(Job(*job, label, examples.groups))
    if heads:
        from lib.evaluation.heads import train_heads

        answers = train_heads(jobs, examples.classes, heads)
    else:
        answers = [CLASSIFIERS[classifier](job) for job in jobs]
    right = [answer == examples.labels[job.test] for answer, job in zip(answers, jobs, strict=True)]
    order = np.argsort(np.concatenate([test for _, test in examples.parts]))
    each, records = repeats * len(examples.parts), []
    for start in range(0, len(jobs), each):
        own = right[start : start + each]
        shares = np.array([np.mean(part) for part in own])
        scores = np.concatenate(own).reshape(repeats, -1).mean(0)[order]
        records.append({"accuracy": float(shares.mean()), "heads": shares, "scores": scores})
    return records


def _read_vectors(vectors: Any) -> Any:
    if isinstance(vectors, tuple):
        return tuple(map(_read_vectors, vectors))
    return vectors if sparse.issparse(vectors) else np.asarray(vectors)


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
    return job.fit(LogisticRegression(C=1 / x.shape[1], tol=TOLERANCE, max_iter=1000), x)


def by_similarity(job: Job) -> np.ndarray:
    """Classify by similarity, with almost nothing to train.

    A single text gets the class of the nearest centroid of embeddings scaled to norm 1. A pair is
    classified by the threshold on its cosine that separates the training pairs best.
    """
    from sklearn.metrics.pairwise import paired_cosine_distances
    from sklearn.neighbors import NearestCentroid
    from sklearn.preprocessing import normalize
    from sklearn.tree import DecisionTreeClassifier

    kept = sparse.issparse(job.features)
    embeddings = job.features if kept else np.asarray(job.features, dtype=np.float64)
    first = embeddings[job.inputs[:, 0]]
    if job.inputs.shape[1] == 1:
        return job.fit(NearestCentroid(), normalize(first))
    x = 1 - paired_cosine_distances(first, embeddings[job.inputs[:, 1]])[:, None]
    return job.fit(DecisionTreeClassifier(max_depth=1), x)  # one threshold


def by_words(job: Job) -> np.ndarray:
    """Classify TF-IDF vectors in the usual way: texts by logistic regression, pairs by cosine.

    Weights of words would say little about pairs, because other words matter in each article.
    Features, (texts, words) sparse or dense with rows of norm 1, are not standardised: the scale of
    a word or of an LSA direction says how much it explains.
    """
    from sklearn.linear_model import LogisticRegression

    if job.inputs.shape[1] == 2:
        return by_similarity(job)
    return job.fit(LogisticRegression(C=10, max_iter=1000), job.features[job.inputs[:, 0]])


def by_both(job: Job) -> np.ndarray:
    """Classify [TF-IDF; weight x dense vectors] as `by_words`; features are the pair of both.

    Rows have norm 1. For single texts the weight is the smallest of the `WEIGHTS` with the most
    right answers in three folds of the training items, 0.5 if these cannot be made; for pairs 1.
    Folds part no groups, unless one holds a whole class.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    words, dense = job.features
    if job.inputs.shape[1] == 2:
        return by_words(replace(job, features=sparse.hstack([words, dense], format="csr")))
    labels, groups = job.labels[job.train], None
    if job.groups is not None:
        groups = job.groups[job.train]
        if any(len({*groups[labels == each]}) == 1 for each in {*labels}):
            groups = None  # else a class of one group would be tested without having been learned

    def classify(weight: float, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        x = sparse.hstack([words, weight * dense], format="csr") if weight else words
        return by_words(replace(job, features=x, train=train, test=test))

    splitter = StratifiedKFold(3) if groups is None else StratifiedGroupKFold(3)
    right, best = np.zeros(len(WEIGHTS)), 0.5
    try:
        with warnings.catch_warnings(action="ignore"):  # small classes are reported elsewhere
            folds = [*splitter.split(labels, labels, groups)]
        for place, weight in enumerate(WEIGHTS):
            for train, test in folds:
                answers = classify(weight, job.train[train], job.train[test])
                right[place] += (answers == labels[test]).sum()
        best = WEIGHTS[int(right.argmax())]
    except ValueError:  # a class of too few texts, or a fold without texts or other classes
        pass
    return classify(best, job.train, job.test)


# Values of a profile's `heads.classifier` besides "head"; "words" and "joint" are for TF-IDF.
CLASSIFIERS: dict[str, Callable[[Job], np.ndarray]] = {
    "compare": by_comparing,
    "similarity": by_similarity,
    "words": by_words,
    "joint": by_both,
}
