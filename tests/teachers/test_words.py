"""TF-IDF and LSA are scikit-learn's, as plain arrays, and those of a part of the documents."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from lib.teachers.rows import centre_rows, join_rows, mean_row, scale_rows
from lib.teachers.words import DIM, MANY, Lexical, WordCounts, make_vectorizer

TEXTS = ["apple pear apple plum", "pear hammer", "hammer saw nail saw", "apple nail", "北京 apple"]
NEW = ["apple saw saw", "pear 北京", "unknown the", "hammer plum nail"]


def draw_texts(count, seed=0):
    random = np.random.default_rng(seed)
    odds = 1 / np.arange(1, 301)
    words = [f"word{number}" for number in range(300)]
    lengths = random.integers(5, 60, count)
    return [" ".join(random.choice(words, n, p=odds / odds.sum())) for n in lengths]


@pytest.mark.parametrize("documents", [TEXTS, draw_texts(150)])
def test_equals_a_pipeline_of_scikit_learn_bit_for_bit(documents):
    new = [*NEW, *draw_texts(20, seed=1)]
    counter, dim = WordCounts.read(documents), 3
    counts = counter.count(new)
    expected = make_vectorizer(dtype=np.float32).fit(documents).transform(new)
    np.testing.assert_array_equal(counter.fit().weigh(counts).toarray(), expected.toarray())
    svd = TruncatedSVD(dim, random_state=0)
    pipeline = make_pipeline(make_vectorizer(dtype=np.float32), svd).fit(documents)
    found = counter.fit(dim=dim).project(counts)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, pipeline.transform(new))


@pytest.mark.parametrize("rare", [True, False])
def test_a_fit_to_some_rows_is_one_to_their_texts_alone(rare):
    texts = draw_texts(MANY + 60)
    counter, some = WordCounts.read(texts), WordCounts.read(texts[:MANY])
    part, alone = counter.fit(np.arange(MANY), 8, rare), some.fit(None, 8, rare)
    assert [counter.words[c] for c in part.columns] == [some.words[c] for c in alone.columns]
    new = draw_texts(10, seed=1)
    ours, theirs = part.embed(counter.count(new)), alone.embed(some.count(new))
    np.testing.assert_allclose(np.abs(np.sum(ours * theirs, axis=1)), 1, atol=1e-4)


def test_lsa_relates_words_that_keep_the_same_company():
    """ "car" and "auto" are in no text together, yet both stand beside engines."""
    corpus = ["car engine wheel", "auto engine wheel", "car auto road", "flower leaf garden"] * 3
    counter = WordCounts.read(corpus)
    counts = counter.count(["car", "auto", "flower"])
    car, auto, flower = counter.fit(dim=2).project(counts)
    assert car @ auto > 0.9 * np.linalg.norm(car) * np.linalg.norm(auto)
    assert abs(car @ flower) < 1e-6
    plain = counter.fit().weigh(counts).toarray()
    assert plain[0] @ plain[1] == 0
    assert counter.fit(np.arange(3), 100).project(counts).shape == (3, 3), "no more than texts"


def test_rare_words_are_left_out_where_documents_are_many():
    counter = WordCounts.read([f"common word{number}" for number in range(MANY)])
    few, many = counter.fit(np.arange(MANY - 1), rare=False), counter.fit(rare=False)
    assert len(few.columns) == MANY and [counter.words[c] for c in many.columns] == ["common"]
    assert len(counter.fit().columns) == MANY + 1


def test_own_texts_are_centred_and_of_norm_one_and_unknown_ones_zero():
    counter = WordCounts.read(draw_texts(80))
    lexical = counter.fit(dim=DIM, rare=False)
    rows = lexical.embed(counter.counts)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    projected = lexical.project(counter.counts)
    np.testing.assert_allclose(rows, centre_rows(projected, mean_row(projected)), atol=1e-5)
    unknown = counter.count(["zebra", "the of"])
    assert not lexical.embed(unknown).any() and not lexical.weigh(unknown).nnz


def test_plain_arrays_and_words_are_all_that_has_to_be_saved():
    counter = WordCounts.read(draw_texts(80))
    lexical, new = counter.fit(np.arange(50), 8, rare=False), draw_texts(5, seed=1)
    words = [counter.words[column] for column in lexical.columns]
    read = Lexical(np.arange(len(words)), lexical.idf, lexical.directions, lexical.mean)
    again = read.embed(WordCounts.read([""], words).count(new))
    np.testing.assert_allclose(again, lexical.embed(counter.count(new)), atol=1e-6)


def test_documents_without_words_are_refused():
    counter = WordCounts.read(["sea boat", "it is what it was"])
    with pytest.raises(ValueError, match="none of 1 documents has a word"):
        counter.fit(np.array([1]))


def test_rows_by_hand():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert scale_rows(x) == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    assert mean_row(x) == pytest.approx([0.3, 0.4]) and not mean_row(x[:0]).any()
    assert centre_rows(x, np.array([0.6, 0.0])) == pytest.approx(np.array([[0, 1], [0, 0]]))
    random = np.random.default_rng(0)
    dense, lexical = random.normal(size=(5, 3)), random.normal(size=(5, 4))
    joined = join_rows(dense, lexical)
    cosines = [scale_rows(part) @ scale_rows(part).T for part in (dense, lexical)]
    assert joined.dtype == np.float32
    assert joined @ joined.T == pytest.approx(np.mean(cosines, axis=0), abs=1e-6)
