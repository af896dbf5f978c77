"""What needs no training: its vectors, its judge, and the time that a text takes."""

import numpy as np
import pytest
import torch

from lib.evaluation.joined import join_rows
from lib.experiments.judging import Examples
from lib.vectors import untrained
from lib.vectors.lexical import centre_rows, mean_row
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, TFIDF
from tests.vectors.conftest import make_text

SUBJECTS = ("river", "court")
TEXTS = [make_text(SUBJECTS[number % 2], number) for number in range(24)]
CORPUS = [make_text(SUBJECTS[number % 2], number) for number in range(100, 140)]
LABELS = np.arange(24) % 2
THIRD = np.arange(24) % 3 == 0
# Two folds; what the first tests is not in a row.
PARTS = [
    (np.flatnonzero(~THIRD), np.flatnonzero(THIRD)),
    (np.flatnonzero(THIRD), np.flatnonzero(~THIRD)),
]


def make_examples(inputs, labels):
    return Examples("task", [*map(str, range(24))], TEXTS, inputs, labels, 2, PARTS)


SINGLE = make_examples(np.arange(24)[:, None], LABELS)
# Each text with the next or the next but one: of another subject, or of the same.
STEPS = 1 + np.arange(24) // 2 % 2
PAIRS = make_examples(
    np.stack([np.arange(24), (np.arange(24) + STEPS) % 24], axis=1), (STEPS == 2).astype(int)
)


@pytest.fixture(scope="module")
def words():
    return untrained.fit_words(CORPUS)


@pytest.fixture(scope="module")
def models(words):
    generator = np.random.default_rng(0)
    dense = {
        name: generator.normal(size=(24, 8)).astype("f4") + 4 * LABELS[:, None]
        for name in (BASE, CUT, CHUNKS)
    }
    held_out = {name: rows[:6] + 1 for name, rows in dense.items()}
    return untrained.combine_models(TEXTS, dense, held_out, words), dense, held_out


def test_models_are_made_of_three_dense_ones_and_words(models, words):
    made, dense, held_out = models
    assert [*made] == [BASE, CUT, CHUNKS, TFIDF, LSA, BOTH, CLASSIFIER]
    assert made[BASE] is dense[BASE] and made[CUT] is dense[CUT]
    chunks = centre_rows(dense[CHUNKS], mean_row(held_out[CHUNKS]))
    assert made[CHUNKS] == pytest.approx(chunks)
    base = centre_rows(dense[BASE], mean_row(held_out[BASE]))
    assert made[BOTH] == pytest.approx(join_rows(base, words.embed(TEXTS)))
    tfidf, beside = made[CLASSIFIER]
    assert tfidf is made[TFIDF] and beside == pytest.approx(base)
    assert made[LSA].shape[0] == 24 and made[LSA].shape[1] <= len(CORPUS)


@pytest.mark.parametrize("examples", [SINGLE, PAIRS], ids=["texts", "pairs"])
def test_scores_are_those_of_examples_in_their_order(models, examples):
    for name, vectors in models[0].items():
        record = untrained.judge_model(name, vectors, examples)
        assert len(record["heads"]) == 2 and len(record["scores"]) == 24
        assert record["accuracy"] == pytest.approx(np.mean(record["heads"]))
        means = [np.mean(np.array(record["scores"])[np.sort(test)]) for _, test in PARTS]
        assert means == pytest.approx(record["heads"])


def test_a_text_on_the_wrong_side_is_the_one_that_is_wrong():
    vectors = np.where(LABELS, 1.0, -1.0)[:, None] + np.zeros((24, 2))
    vectors[7] *= -1
    record = untrained.judge_model(CUT, vectors, SINGLE)
    assert np.flatnonzero(np.array(record["scores"]) == 0).tolist() == [7]


def test_words_tell_subjects_and_pairs_of_one_subject(models):
    for name in (TFIDF, CLASSIFIER):
        for examples in (SINGLE, PAIRS):
            assert untrained.judge_model(name, models[0][name], examples)["accuracy"] > 0.9


def test_times_are_those_of_all_texts_on_one_thread():
    threads, seen = torch.get_num_threads(), []

    def encode(texts):
        seen.append((texts, torch.get_num_threads()))

    times = untrained.measure_milliseconds({"a": encode, "b": encode}, ("x", "y"))
    assert seen == [(["x", "y"], 1)] * 2 * untrained.ROUNDS
    assert [*times] == ["a", "b"] and min(times.values()) >= 0
    assert torch.get_num_threads() == threads
