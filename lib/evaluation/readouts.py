"""Classification on frozen embeddings: the examples, classifiers, and how many answers are right.

A readout maps a `Trial` to (test,) predicted classes. That of the thesis is in `heads`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

from lib.config.schema import HeadSettings

READOUTS = ("thesis", "compare", "none")  # the published heads, heads that compare, no head
HEAD_SEEDS = 1000  # heads of one model and seed: seeds 1000 * seed, 1000 * seed + 1, ...
TOLERANCE = 1e-6  # largest entry of the gradient at which logistic regression has converged
DIGITS = 12  # of similarities, so that equal ones tie whatever rounding did to them
Part = tuple[np.ndarray, np.ndarray]  # the examples to train on and those to test on


@dataclass(frozen=True)
class Examples:
    """The examples of a classification, as rows of its texts."""

    task: str
    text_ids: list[str]
    texts: list[str]  # each once
    inputs: np.ndarray  # (examples, 1 or 2) rows of `texts`
    labels: np.ndarray  # (examples,) int
    classes: int
    parts: list[Part]

    @property
    def tested(self) -> np.ndarray:
        """(tested,) the examples that are scored, ascending."""
        return np.sort(np.concatenate([test for _, test in self.parts]))

    @property
    def chance(self) -> float:
        """The share of the largest class among the examples that are scored."""
        tested = self.labels[self.tested]
        return float(np.bincount(tested).max() / len(tested))


@dataclass(frozen=True)
class Trial:
    """One classifier to train and test.

    `features` are (n, dim), one row per text; jobs of one model share one array. `inputs` are
    (m, 1) or (m, 2) rows of them, `labels` (m,) classes from 0 on, `train` and `test` items.
    """

    features: Any
    inputs: np.ndarray
    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray
    seed: int = 0
    name: str = ""  # for messages

    def fit(self, classifier: Any, x: Any) -> np.ndarray:
        """Fit a classifier to the training rows of x, (m, width), and predict those of the test."""
        return classifier.fit(x[self.train], self.labels[self.train]).predict(x[self.test])


def read_vectors(vectors: Any) -> Any:
    """Vectors as an array, or as the sparse one that they are."""
    return vectors if sparse.issparse(vectors) else np.asarray(vectors)


def judge(
    vectors: Any, examples: Examples, readout: str, settings: HeadSettings | None = None
) -> np.ndarray:
    """(tested,) for each tested example, the share of right answers; see `judge_models`."""
    return judge_models([("", 0, vectors)], examples, readout, settings)[0]["scores"]


def make_perfect_vectors(examples: Examples, dim: int = 384) -> np.ndarray:
    """(texts, dim) float32 vectors that say all there is to know: texts of one class share a random
    vector, or in a task of pairs those that positive pairs link. Entries are standard normal. Norms
    are then 20, of which heads of few steps read more than of 1.
    """
    kinds = np.zeros(len(examples.texts), int)
    if examples.inputs.shape[1] == 1:
        kinds[examples.inputs[:, 0]] = examples.labels
    else:
        ends = tuple(examples.inputs[examples.labels == 1].T)
        links = sparse.csr_array((np.ones(len(ends[0])), ends), shape=(len(kinds),) * 2)
        _, kinds = sparse.csgraph.connected_components(links, directed=False)
    random = np.random.default_rng(0).normal(size=(kinds.max() + 1, dim))
    return random.astype(np.float32)[kinds]


def judge_folds(embed: Callable[..., Any], examples: Examples, readout: str) -> np.ndarray:
    """`judge` with vectors of all texts that `embed` fits anew to none of a fold's tests."""
    scores = np.full(len(examples.labels), np.nan)
    for part in examples.parts:
        fold = replace(examples, parts=[part])
        scores[fold.tested] = judge(embed(fold), fold, readout)
    return scores[examples.tested]


def judge_models(
    models: Sequence[tuple[str, int, Any]],
    examples: Examples,
    readout: str,
    settings: HeadSettings | None = None,
) -> list[dict[str, Any]]:
    """Judge how well each model's embeddings classify.

    `models` are (name, seed, vectors) with vectors (texts, dim), dense or sparse. `readout` is
    "thesis", which needs the settings and trains heads of all models side by side, or one of
    `CLASSIFIERS`. Returns for each model `accuracy`, the mean over heads and folds, and `scores`,
    (tested,) for each tested example the share of heads that are right. `ValueError` for vectors
    that are not finite.
    """
    heads = settings if readout == "thesis" else None
    repeats, trials = heads.repeats if heads else 1, []
    for name, seed, vectors in models:
        data = (read_vectors(vectors), examples.inputs, examples.labels)
        if (count := data[0].shape[0]) != len(examples.texts):
            raise ValueError(f"{name}: {count} vectors of {len(examples.texts)} texts")
        for head, part in itertools.product(range(repeats), examples.parts):
            trials.append(Trial(*data, *part, HEAD_SEEDS * seed + head, name))
    if heads:
        from lib.evaluation.heads import train_heads

        answers = train_heads(trials, examples.classes, heads)
    else:
        answers = [CLASSIFIERS[readout](trial) for trial in trials]
    right = np.zeros((len(models), len(examples.labels)))  # the share of heads, by example
    for place, (trial, answer) in enumerate(zip(trials, answers, strict=True)):
        model = place // (repeats * len(examples.parts))  # its trials follow each other
        right[model, trial.test] += answer == examples.labels[trial.test]
    right /= repeats
    tests = [test for _, test in examples.parts]
    order, sizes = np.concatenate(tests), np.array([*map(len, tests)])
    weights = np.repeat(1 / (len(tests) * sizes), sizes)  # each fold counts the same
    return [{"accuracy": each[order] @ weights, "scores": each[examples.tested]} for each in right]


def by_comparing(trial: Trial) -> np.ndarray:
    """Classify by logistic regression on features that compare the texts of a pair.

        single text: u          pair of texts: |u - v| and u * v, element by element

    Embeddings are standardised over the texts of the training items, and features over the training
    items, so their scale does not matter. The penalty is that of normal weights with variance
    1 / width (scikit-learn's C): a logit has a standard deviation of about one for any width. The
    loss is convex and minimised to convergence, so no seed or learning rate matters.
    """
    embeddings = trial.features.astype(np.float64)
    seen = np.unique(trial.inputs[trial.train])
    embeddings = StandardScaler().fit(embeddings[seen]).transform(embeddings)
    u, v = (embeddings[trial.inputs[:, side]] for side in (0, -1))
    x = u if trial.inputs.shape[1] == 1 else np.hstack([abs(u - v), u * v])
    x = StandardScaler().fit(x[trial.train]).transform(x)
    return trial.fit(LogisticRegression(C=1 / x.shape[1], tol=TOLERANCE, max_iter=1000), x)


def by_similarity(trial: Trial) -> np.ndarray:
    """Classify by similarity, with almost nothing to train.

    A pair is positive, of class 1, if its cosine is above the cut of `choose_cut`; with a zero
    vector the cosine is 0. A single text gets the class of the nearest centroid of embeddings
    scaled to norm 1, and of equally near ones the class with most training examples.
    """
    embeddings, train, test = trial.features.astype(np.float64), trial.train, trial.test
    u, v = (normalize(embeddings[trial.inputs[:, side]]) for side in (0, -1))
    if trial.inputs.shape[1] == 2:
        products = u.multiply(v) if sparse.issparse(u) else u * v
        cosines = np.asarray(products.sum(axis=1)).ravel().round(DIGITS)
        return (cosines[test] > choose_cut(cosines[train], trial.labels[train])).astype(int)
    labels, counts = np.unique(trial.labels[train], return_counts=True)
    labels = labels[np.argsort(-counts, kind="stable")]  # argmax takes the first of equals
    centroids = np.stack([u[train][trial.labels[train] == label].mean(axis=0) for label in labels])
    nearness = u[test] @ centroids.T - (centroids**2).sum(axis=1) / 2  # falls with the distance
    return labels[nearness.round(DIGITS).argmax(axis=1)]


def choose_cut(cosines: np.ndarray, labels: np.ndarray) -> float:
    """The cut of (n,) cosines with most right answers if those above it, and only those, have
    label 1: halfway between its neighbours, the lowest of equally good ones. Below the lowest
    cosine it is -inf, above the highest inf. Right answers count because we report accuracy.
    """
    values = np.unique(cosines)
    ranked = (np.sort(cosines[labels == label]) for label in (0, 1))
    zeros, ones = (np.searchsorted(each, values, "right") for each in ranked)  # up to each value
    best = np.argmax(np.r_[0, zeros - ones])  # right answers, minus those of a cut below all
    return float(np.r_[-np.inf, values, np.inf][best : best + 2].mean())


def by_words(trial: Trial) -> np.ndarray:
    """Classify TF-IDF vectors in the usual way: texts by logistic regression, pairs by cosine.

    In each article other words matter, so weights of words would say little about pairs. Features,
    sparse or dense with rows of norm 1, are not standardised: the scale of a word or of an LSA
    direction says how much it explains.
    """
    if trial.inputs.shape[1] == 2:
        return by_similarity(trial)
    return trial.fit(LogisticRegression(C=10, max_iter=1000), trial.features[trial.inputs[:, 0]])


# Readouts besides that of the thesis; "words" is for TF-IDF.
CLASSIFIERS = {"compare": by_comparing, "none": by_similarity, "words": by_words}
