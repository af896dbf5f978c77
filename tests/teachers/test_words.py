"""TF-IDF and LSA are scikit-learn's, and plain arrays rebuild them."""

from dataclasses import asdict

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from lib.teachers.words import MANY, Lexical, find_directions, make_vectorizer

TEXTS = ["apple pear apple plum", "pear hammer", "hammer saw nail saw", "apple nail", "北京 apple"]
NEW = ["apple saw saw", "pear 北京", "unknown the", "hammer plum nail"]


def draw_texts(count, seed=0):
    random = np.random.default_rng(seed)
    odds = 1 / np.arange(1, 301)
    words = [f"word{number}" for number in range(300)]
    lengths = random.integers(5, 60, count)
    return [" ".join(random.choice(words, n, p=odds / odds.sum())) for n in lengths]


@pytest.mark.parametrize("documents", [TEXTS, draw_texts(150)])
def test_equals_a_pipeline_of_scikit_learn(documents, tmp_path):
    """Also after it was stored. Rows of texts without a known word are zero."""
    new = [*NEW, *draw_texts(20, seed=1)]
    vectorizer, svd = make_vectorizer(), TruncatedSVD(3, algorithm="arpack", random_state=0)
    expected = make_pipeline(vectorizer, svd).fit(documents).transform(new)
    np.savez(tmp_path / "kept.npz", **asdict(Lexical.fit(documents, dim=3)))
    lexical = Lexical(**np.load(tmp_path / "kept.npz"))
    weights = lexical.weigh(new)
    assert weights.dtype == lexical.directions.dtype == np.float32
    np.testing.assert_array_equal(weights.toarray(), vectorizer.transform(new).toarray())
    rows = weights @ lexical.directions
    np.testing.assert_allclose(abs(rows), abs(expected), atol=1e-6)  # signs are arbitrary
    assert not weights[[2]].nnz


@pytest.mark.parametrize("dim", [8, 48, 100])
@pytest.mark.parametrize("texts", [draw_texts(60), draw_texts(400), draw_texts(50) * 3])
def test_directions_are_exact_in_any_order_of_the_documents(texts, dim):
    weights = make_vectorizer().fit_transform(texts)
    values, exact = np.linalg.svd(weights.toarray().astype(float), full_matrices=False)[1:]
    count = min(dim, int((values > 1e-6).sum()))  # 50 texts, each three times, have 50 directions
    for order in (np.arange(len(texts)), np.random.default_rng(0).permutation(len(texts))):
        directions = find_directions(weights[order], dim)
        assert directions.shape == (weights.shape[1], count)
        assert abs(np.einsum("wd,dw->d", directions, exact[:count])).min() > 0.9999
    assert (find_directions(weights[order], dim) == directions).all(), "the same bits again"


def test_rare_words_are_left_out_where_documents_are_many():
    texts = [f"common word{number}" for number in range(MANY)]
    given = ((MANY - 1, False), (MANY, False), (MANY, True))
    sizes = [len(Lexical.fit(texts[:count], rare=rare).idf) for count, rare in given]
    assert sizes == [MANY, 1, MANY + 1]


def test_the_mean_is_that_of_scaled_rows():
    texts = draw_texts(80)
    lexical = Lexical.fit(texts, 16, rare=False)
    rows = lexical.weigh(texts) @ lexical.directions
    expected = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(lexical.mean, expected, atol=1e-6)
