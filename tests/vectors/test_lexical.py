"""The lexical part is TF-IDF and LSA as scikit-learn has them, as plain arrays."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics.pairwise import cosine_similarity

from lib.evaluation.baselines import make_vectorizer
from lib.vectors.lexical import (
    WordCounts,
    centre_rows,
    fit_lexical,
    reduce_exactly,
    scale_rows,
)

TEXTS = ["apple pear apple plum", "pear hammer", "hammer saw nail saw", "apple nail", "北京 apple"]


def test_it_weighs_words_as_scikit_learn_does():
    counts = WordCounts.read(TEXTS)
    weights = fit_lexical(counts.counts, dim=0).weigh_words(counts.count(["apple saw", "unknown"]))
    expected = make_vectorizer(dtype=np.float32).fit(TEXTS).transform(["apple saw", "unknown"])
    assert weights.toarray() == pytest.approx(expected.toarray(), abs=1e-6)


def test_a_fit_of_some_rows_is_one_of_their_texts_alone():
    counts, some = WordCounts.read(TEXTS), WordCounts.read(TEXTS[:3])
    part, alone = fit_lexical(counts.counts[:3], dim=2, least=1), fit_lexical(some.counts, dim=2)
    new = ["pear saw 北京", "apple"]
    kept = [counts.words[column] for column in part.columns if part.idf is not None]
    assert {*kept} == {*counts.words} - {"北", "京"} or {*some.words} <= {*kept}
    assert part.embed(counts.count(new)) == pytest.approx(alone.embed(some.count(new)), abs=1e-5)


def test_lsa_is_the_truncated_svd_centred():
    counts = WordCounts.read(TEXTS)
    lexical = fit_lexical(counts.counts, dim=3)
    weights = make_vectorizer(dtype=np.float32).fit_transform(TEXTS)
    svd = scale_rows(TruncatedSVD(3, random_state=0).fit_transform(weights))
    expected = svd - svd.mean(axis=0)
    assert cosine_similarity(lexical.embed(counts.counts)) == pytest.approx(
        cosine_similarity(expected), abs=1e-5
    )


def test_a_text_without_a_known_word_is_zero_in_both():
    counts = WordCounts.read(TEXTS)
    unknown = counts.count(["zebra"])
    lexical = fit_lexical(counts.counts)
    assert not lexical.embed(unknown).any() and not lexical.weigh_words(unknown).nnz


def test_a_word_of_one_document_counts_only_where_documents_are_few():
    texts = [f"common word{number}" for number in range(100)]
    counts = WordCounts.read(texts)
    assert len(fit_lexical(counts.counts[:99]).columns) == 100
    assert [counts.words[c] for c in fit_lexical(counts.counts).columns] == ["common"]


def test_centring_by_hand():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    centred = centre_rows(x, np.array([0.6, 0.0]))
    assert centred == pytest.approx(np.array([[0.0, 1.0], [0.0, 0.0]]))


def test_reduced_rows_have_the_same_cosines():
    counts = WordCounts.read(TEXTS)
    weights = fit_lexical(counts.counts, dim=0).weigh_words(counts.counts)
    reduced = reduce_exactly(weights)
    assert reduced @ reduced.T == pytest.approx((weights @ weights.T).toarray(), abs=1e-6)
