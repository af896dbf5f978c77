"""The judge: vectors that know the answer, know nothing, or are all equal, by every classifier."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from lib.evaluation.readouts import Examples, judge, judge_folds, judge_models
from tests.evaluation.test_heads import change

SETTINGS = change(epochs=40, learning_rate=0.01, repeats=2)
CLASSIFIERS = ["head", "compare", "similarity", "words", "joint"]


def make_examples(columns, seed=0, count=300):
    """Texts of two topics: a text's class is its topic, a pair's whether both have the same."""
    random = np.random.default_rng(seed)
    topics = random.permutation(np.arange(80) % 2)
    inputs = random.integers(0, 80, (count, columns))
    labels = (topics[inputs[:, 0]] == topics[inputs[:, -1]]).astype(int)
    if columns == 1:
        inputs = np.arange(80)[:, None]
        labels = topics
    folds = np.empty(len(labels), int)
    for each in (0, 1):  # both classes are dealt to three folds
        folds[labels == each] = np.arange(np.sum(labels == each)) % 3
    parts = [(np.flatnonzero(folds != n), np.flatnonzero(folds == n)) for n in range(3)]
    names = [f"{row}" for row in range(80)]
    return Examples("OC", names, names, inputs, labels, 2, parts), topics


def give(classifier, dense):
    """Vectors as the classifier takes them."""
    return (sparse.csr_array(dense), dense) if classifier == "joint" else dense


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_perfect_constant_and_random_vectors(classifier, columns):
    examples, topics = make_examples(columns)
    if (classifier, columns) != ("head", 2):  # a head would have to learn exclusive or
        perfect = np.eye(2, dtype=np.float32)[topics]
        right = judge(give(classifier, perfect), examples, classifier, SETTINGS)
        assert right.shape == examples.tested.shape and (right == 1).all()
    constant = np.ones((80, 4), np.float32)
    if (classifier, columns) != ("similarity", 1):  # scikit-learn refuses equal centroids
        share = judge(give(classifier, constant), examples, classifier, SETTINGS).mean()
        assert share == pytest.approx(examples.chance, abs=0.1)
    shares = []
    for seed in range(5):
        random = np.random.default_rng(seed).normal(size=(80, 4)).astype(np.float32)
        shares.append(judge(give(classifier, random), examples, classifier, SETTINGS).mean())
    assert np.mean(shares) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_the_order_of_texts_plays_no_role(classifier, columns):
    examples, topics = make_examples(columns)
    noise = np.random.default_rng(1).normal(0, 0.8, (80, 2))
    vectors = (np.eye(2)[topics] + noise).astype(np.float32)
    order = np.random.default_rng(2).permutation(80)
    moved = replace(examples, inputs=np.argsort(order)[examples.inputs])
    np.testing.assert_array_equal(
        judge(give(classifier, vectors), examples, classifier, SETTINGS),
        judge(give(classifier, vectors[order]), moved, classifier, SETTINGS),
    )


def test_scores_are_in_the_order_of_tested_examples():
    examples, _ = make_examples(1)
    shuffled = [(train, test[::-1]) for train, test in examples.parts[::-1]]
    vectors = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    for classifier in CLASSIFIERS[1:]:
        np.testing.assert_array_equal(
            judge(give(classifier, vectors), examples, classifier),
            judge(give(classifier, vectors), replace(examples, parts=shuffled), classifier),
        )


def test_heads_of_several_models_are_trained_side_by_side_and_alone_alike():
    examples, topics = make_examples(1)
    random = np.random.default_rng(0)
    wide = random.normal(size=(80, 6)).astype(np.float32)
    models = [("good", 0, np.eye(2, dtype=np.float32)[topics]), ("bad", 3, wide), ("bad", 4, wide)]
    records = judge_models(models, examples, "head", SETTINGS)
    for (name, seed, vectors), record in zip(models, records, strict=True):
        alone = judge(vectors, examples, "head", SETTINGS, seed, name)
        np.testing.assert_array_equal(record["scores"], alone)
        assert record["heads"].shape == (2 * 3,)  # heads times folds
        assert record["accuracy"] == record["heads"].mean()
        assert {*record["scores"]} <= {0.0, 0.5, 1.0}
    assert records[0]["accuracy"] == 1 and records[1]["accuracy"] != records[2]["accuracy"]


def test_vectors_may_be_fitted_anew_for_each_fold():
    examples, topics = make_examples(1)
    vectors, asked = np.eye(2)[topics] + np.random.default_rng(0).normal(0, 0.8, (80, 2)), []

    def embed(fold):
        asked.append(fold.tested.tolist())
        return vectors

    right = judge_folds(embed, examples, "compare")
    np.testing.assert_array_equal(right, judge(vectors, examples, "compare"))
    assert asked == [test.tolist() for _, test in examples.parts]


def test_chance_is_the_share_of_the_largest_class_that_is_tested():
    examples, _ = make_examples(1)
    labels = np.zeros(80, int)
    labels[:20] = 1
    assert replace(examples, labels=labels).chance == 0.75


def test_nan_is_never_an_answer():
    examples, _ = make_examples(1)
    vectors = np.ones((80, 2), np.float32)
    vectors[5, 1] = np.nan
    for classifier in CLASSIFIERS:
        with pytest.raises(ValueError, match="NaN"):
            judge(give(classifier, vectors), examples, classifier, SETTINGS)
