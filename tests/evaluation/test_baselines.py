"""Baselines of words."""

import numpy as np

from lib.evaluation import baselines

CORPUS = ["car engine wheel", "auto engine wheel", "car auto road", "flower leaf garden"] * 3


def test_lsa_relates_words_that_keep_the_same_company():
    """ "car" and "auto" are no common word, yet both stand beside engines; flowers do not."""
    car, auto, flower = baselines.fit_lsa(CORPUS, 2)(["car", "auto", "flower"])
    assert car.dtype == np.float32 and car.shape == (2,)
    assert car @ auto > 0.9 * np.linalg.norm(car) * np.linalg.norm(auto)
    assert abs(car @ flower) < 1e-6
    plain = baselines.tfidf(CORPUS, ["car", "auto"]).toarray()
    assert plain[0] @ plain[1] == 0


def test_lsa_has_no_more_dimensions_than_texts_or_words():
    assert baselines.fit_lsa(CORPUS[:3], 100)(["car"]).shape == (1, 3)
