"""The closed-form lexical branch: by hand, reference, rotations, new texts."""

import doctest

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from lib.student import word_pieces
from lib.student.word_pieces import fit_bag, weigh_pieces

IDS = [[3, 4, 4], [4, 5], [6, 3, 3, 3], [5, 6, 7]]
TARGETS = np.random.default_rng(0).normal(size=(4, 3))


def test_example_of_the_docstring():
    assert not doctest.testmod(word_pieces).failed


def test_counts_by_hand():
    idf = np.array([0, 0, 0, 2.0, 1.0])
    raw = np.array([2 * np.log(2), np.log(3)])  # one 3, two 4
    expected = raw / np.linalg.norm(raw)
    np.testing.assert_allclose(weigh_pieces([[3, 4, 4]], idf).toarray()[0, 3:], expected)


def test_reference():
    """scikit-learn's ridge regression without an intercept."""
    bag = fit_bag(IDS, TARGETS, vocabulary=9, penalty=0.3)
    x = weigh_pieces(IDS, bag.idf).toarray()
    ridge = Ridge(alpha=0.3, fit_intercept=False).fit(x, TARGETS)
    np.testing.assert_allclose(bag.weights, ridge.coef_.T, atol=1e-10)


def test_little_penalty_gives_the_targets_back():
    bag = fit_bag(IDS, TARGETS, vocabulary=9, penalty=1e-9)
    unit = TARGETS / np.linalg.norm(TARGETS, axis=1, keepdims=True)
    np.testing.assert_allclose(bag.encode(IDS), unit, atol=1e-5)


def test_a_turn_of_the_targets_turns_the_vectors():
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    bags = [fit_bag(IDS, rows, vocabulary=9) for rows in (TARGETS, TARGETS @ rotation)]
    new = [[3, 7], [4, 4, 5]]
    np.testing.assert_allclose(bags[1].encode(new), bags[0].encode(new) @ rotation, atol=1e-6)


def test_pieces_that_no_document_has_say_nothing():
    bag = fit_bag(IDS, TARGETS, vocabulary=9)
    assert (bag.encode([[8, 8], []]) == 0).all()
    np.testing.assert_array_equal(bag.encode([[3, 8]]), bag.encode([[3]]))


def test_a_missing_target_is_refused():
    with pytest.raises(ValueError, match="3 for 4"):
        fit_bag(IDS, TARGETS[:3], vocabulary=9)
