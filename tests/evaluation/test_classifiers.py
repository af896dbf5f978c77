"""Classification by similarity and by logistic regression: rules by hand, invariance to scale."""

import numpy as np
import pytest
from scipy import sparse

from lib.evaluation.classifiers import by_similarity, logistic_regression
from lib.evaluation.heads import Job

TRAIN, TEST = np.arange(4), np.arange(4, 6)


def test_a_text_goes_to_the_nearest_centroid():
    features = np.array([[1, 0], [2, 0.1], [0, 1], [0.1, 3], [5, 1], [1, 5]], np.float32)
    job = Job(features, np.arange(6)[:, None], np.array([0, 0, 1, 1, 0, 1]), TRAIN, TEST, 0)
    assert by_similarity(job).tolist() == [0, 1]


def test_a_pair_is_divided_by_the_threshold_that_training_pairs_ask_for():
    angles = np.radians([0, 10, 20, 70, 80, 30, 60])  # each beside the first text
    features = (
        np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32) * np.arange(1, 8)[:, None]
    )
    inputs = np.stack([np.zeros(6, int), np.arange(1, 7)], 1)
    job = Job(features, inputs, np.array([1, 1, 0, 0, 1, 0]), TRAIN, TEST, 0)
    assert by_similarity(job).tolist() == [1, 0]


@pytest.mark.parametrize("columns", [1, 2])
def test_scale_plays_no_role(columns):
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 5)).astype(np.float32)
    inputs, labels = random.integers(0, 40, (60, columns)), random.integers(0, 2, 60)
    job = Job(features, inputs, labels, np.arange(50), np.arange(50, 60), 0)
    longer = Job(
        features * random.uniform(0.1, 10, (40, 1)), inputs, labels, job.train, job.test, 0
    )
    np.testing.assert_array_equal(by_similarity(job), by_similarity(longer))


def test_logistic_regression_finds_the_word_that_decides():
    vectors = sparse.csr_array(
        np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]], float)
    )
    labels = np.array([1, 1, 0, 0, 1, 0])
    job = Job(vectors, np.arange(6)[:, None], labels, TRAIN, TEST, 0)
    assert logistic_regression(job).tolist() == [1, 0]


def test_logistic_regression_of_pairs_sees_common_words():
    random = np.random.default_rng(0)
    vectors = sparse.csr_array(np.eye(8)[random.integers(0, 8, 200)])  # one word each
    inputs = random.integers(0, 200, (600, 2))
    labels = (vectors[inputs[:, 0]].multiply(vectors[inputs[:, 1]]).sum(1) > 0).astype(int)
    predicted = logistic_regression(
        Job(vectors, inputs, labels, np.arange(400), np.arange(400, 600), 0)
    )
    assert (predicted == labels[400:]).all()
