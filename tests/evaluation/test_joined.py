"""Dense vectors and vectors of words side by side."""

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity

from lib.evaluation.joined import join_rows


def test_the_cosine_of_joined_rows_is_the_mean_of_both_cosines():
    rng = np.random.default_rng(0)
    dense, lexical = 5 * rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    joined = join_rows(dense, lexical)
    assert joined.shape == (6, 7) and joined.dtype == np.float32
    both = (cosine_similarity(dense) + cosine_similarity(lexical)) / 2
    np.testing.assert_allclose(joined @ joined.T, both, atol=1e-6)


def test_a_text_without_a_known_word_keeps_its_dense_vector():
    row = join_rows(np.array([[3.0, 4.0]]), np.zeros((1, 2)))
    np.testing.assert_allclose(row, [[0.6 * 0.5**0.5, 0.8 * 0.5**0.5, 0, 0]], atol=1e-7)
