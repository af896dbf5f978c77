"""Classification by comparing, by similarity and of words: rules by hand, what must not matter."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from lib.evaluation.readouts import by_both, by_comparing, by_similarity, by_words, choose_weight
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
def test_the_length_of_an_embedding_plays_no_role_for_cosines(columns):
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 5)).astype(np.float32)
    job = make_job(random, features, columns)
    longer = replace(job, features=features * random.uniform(0.1, 10, (40, 1)))
    np.testing.assert_array_equal(by_similarity(job), by_similarity(longer))


def make_job(random, features, columns, labels=None):
    """Sixty items of random texts, fifty of them to train on."""
    inputs = random.integers(0, len(features), (60, columns))
    labels = random.integers(0, 2, 60) if labels is None else labels
    return Job(features, inputs, labels, np.arange(50), np.arange(50, 60), 0)


@pytest.mark.parametrize("columns", [1, 2])
def test_scale_and_shift_of_a_feature_play_no_role_when_comparing(columns):
    random = np.random.default_rng(0)
    features = random.standard_normal((40, 5))
    job = make_job(random, features, columns)
    moved = replace(job, features=features * random.uniform(0.1, 10, 5) + random.normal(size=5))
    np.testing.assert_array_equal(by_comparing(job), by_comparing(moved))


def test_a_pair_is_the_same_either_way_round_when_comparing():
    random = np.random.default_rng(0)
    job = make_job(random, random.standard_normal((40, 5)), 2)
    turned = replace(job, inputs=job.inputs[:, ::-1])
    np.testing.assert_array_equal(by_comparing(job), by_comparing(turned))


def test_comparing_sees_a_match_that_no_text_shows_alone():
    """Each text has one of two topics, and a pair matches if both have the same one."""
    random = np.random.default_rng(0)
    topics = random.integers(0, 2, 200)
    features = random.normal(0, 0.3, (200, 4)) + (2 * topics - 1)[:, None]
    inputs = random.integers(0, 200, (300, 2))
    labels = (topics[inputs[:, 0]] == topics[inputs[:, 1]]).astype(int)
    job = Job(features, inputs, labels, np.arange(200), np.arange(200, 300), 0)
    assert (by_comparing(job) == labels[200:]).mean() > 0.95


def test_comparing_has_the_penalty_of_weights_with_variance_one_over_width():
    """The solution is where the gradient of the penalised loss is zero, by hand."""
    random = np.random.default_rng(0)
    features = random.standard_normal((2000, 3))
    labels = (features[:, 0] + random.standard_normal(2000) > 0.5).astype(int)
    job = Job(features, np.arange(2000)[:, None], labels, np.arange(50), np.arange(50, 2000), 0)
    x = (features - features[:50].mean(0)) / features[:50].std(0)
    weights, bias = np.zeros(3), 0.0
    for _ in range(5000):
        error = 1 / (1 + np.exp(-(x[:50] @ weights + bias))) - labels[:50]
        weights -= 0.01 * (error @ x[:50] + 3 * weights)
        bias -= 0.01 * error.sum()
    assert by_comparing(job).tolist() == (x[50:] @ weights + bias > 0).astype(int).tolist()


def test_a_texts_words_decide_its_class():
    vectors = sparse.csr_array(
        np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]], float)
    )
    labels = np.array([1, 1, 0, 0, 1, 0])
    job = Job(vectors, np.arange(6)[:, None], labels, TRAIN, TEST, 0)
    assert by_words(job).tolist() == [1, 0]


def test_a_pairs_common_words_decide_though_each_article_has_words_of_its_own():
    """No word of the tested pairs occurs in a training pair."""
    articles = np.repeat(range(8), 25)
    vectors = sparse.csr_array(np.eye(8)[articles])
    random = np.random.default_rng(0)
    train, test = random.integers(0, 100, (200, 2)), random.integers(100, 200, (100, 2))
    inputs = np.concatenate([train, test])
    labels = (articles[inputs[:, 0]] == articles[inputs[:, 1]]).astype(int)
    job = Job(vectors, inputs, labels, np.arange(200), np.arange(200, 300), 0)
    assert (by_words(job) == labels[200:]).all()


def test_dense_vectors_that_know_nothing_get_no_weight_and_others_do():
    labels = np.arange(60) % 2
    noise = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    telling, blank = sparse.csr_array(np.eye(2)[labels]), sparse.csr_array(np.ones((60, 1)))
    assert choose_weight(telling, noise, labels, None) == 0
    told = np.eye(2, dtype=np.float32)[labels]
    assert choose_weight(blank, told, labels, None) > 0
    assert choose_weight(blank[:3], told[:3], np.array([0, 1, 2]), None) == 0.5


def test_a_weight_is_not_chosen_by_texts_that_are_known_already():
    """Each text stands there three times, and the dense vectors tell texts apart, not classes."""
    random = np.random.default_rng(0)
    texts, coins = np.repeat(range(30), 3), random.integers(0, 2, 30)
    names = np.eye(30, dtype=np.float32)[texts]
    words = sparse.csr_array(np.ones((90, 1)))
    assert choose_weight(words, names, coins[texts], None) > 0
    assert choose_weight(words, names, coins[texts], texts) == 0


@pytest.mark.parametrize("columns", [1, 2])
def test_words_and_dense_vectors_decide_together(columns):
    """The class is told by words for one half of the texts, and by dense vectors for the other."""
    random = np.random.default_rng(0)
    topics = random.integers(0, 2, 200)
    told = np.arange(200) < 100 if columns == 1 else np.ones(200, bool)
    words = sparse.csr_array(np.eye(3)[np.where(told, topics, 2)])
    dense = np.where(told[:, None] & (columns == 1), 0, np.eye(2)[topics]).astype(np.float32)
    inputs = random.integers(0, 200, (400, columns))
    labels = (
        topics[inputs[:, 0]] if columns == 1 else topics[inputs[:, 0]] == topics[inputs[:, 1]]
    ).astype(int)
    job = Job((words, dense), inputs, labels, np.arange(300), np.arange(300, 400))
    assert (by_both(job) == labels[300:]).all()
    if columns == 1:
        assert (by_words(replace(job, features=words)) == labels[300:]).mean() < 0.9
