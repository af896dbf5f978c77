"""Masked words: which are masked, who guesses them, and what training changes."""

import copy

import numpy as np
import pytest
import torch
from transformers import DataCollatorForLanguageModeling, LongformerForMaskedLM

from lib.student import masked_words
from lib.student.masked_words import guess_words, make_head, train_masked_words
from tests.student.tiny import WORDS, make_student

MASK, FIRST = WORDS.index("[MASK]"), WORDS.index("w0")


@pytest.fixture
def student(tmp_path, monkeypatch):
    monkeypatch.setattr(masked_words, "LEARNING_RATE", 3e-3)
    return make_student(tmp_path)


@pytest.fixture(scope="module")
def documents():
    """Each is about one of six subjects, which have ten words each; all words are as frequent."""
    generator = np.random.default_rng(0)
    drawn = [10 * (number % 6) + generator.integers(0, 10, 20) for number in range(60)]
    return [np.array([2, *(FIRST + row), 3], dtype=np.int32) for row in drawn]


def test_a_student_learns_to_guess_what_counting_cannot(student, documents, monkeypatch):
    """The other words of a document tell its subject, which leaves ten words to choose from."""
    torch.nn.init.normal_(student.embeddings.word_embeddings.weight, std=0.2)
    monkeypatch.setattr(masked_words, "LEARNING_RATE", 1e-2)
    history = train_masked_words(student, documents[:48], documents[48:], epochs=25)
    assert history.unigram == pytest.approx(np.log(60), abs=0.1)
    assert history.held_out < history.unigram - 0.4
    assert len(history.loss) == 25 * 6 and history.loss[-1] < history.loss[0] - 1
    assert not student.training


def test_frequencies_by_hand(student, monkeypatch):
    """Four, two and one of 64: each of the 60 words is counted once more, special tokens never."""
    monkeypatch.setattr(masked_words, "MASKED_SHARE", 1.0)
    texts = [[2, 5, 6, 5, 3], [2, 5, 3]]
    history = train_masked_words(student, texts, [[2, 6, 5, 7, 3]], epochs=1)
    assert history.unigram == pytest.approx(-np.log(np.array([2, 4, 1]) / 64).mean())


def test_which_words_are_guessed_and_what_is_read_instead(student, documents, monkeypatch):
    read, states = [], student.token_states
    spy = lambda packed: read.append(packed) or states(packed)  # noqa: E731
    monkeypatch.setattr(student, "token_states", spy)
    masking = DataCollatorForLanguageModeling(student.tokenizer, mlm_probability=0.15)
    torch.manual_seed(0)
    scores, words = guess_words(student, make_head(student), documents, masking)
    ids = torch.tensor(np.concatenate(documents))  # 1,200 words
    changed = ids[read[0].ids != ids]
    assert scores.shape == (len(words), len(WORDS)) and len(words) == pytest.approx(180, abs=40)
    assert (words >= FIRST).all() and (changed >= FIRST).all(), "special tokens are not guessed"
    assert len(changed) / len(words) == pytest.approx(0.9, abs=0.08)
    assert (read[0].ids == MASK).sum() / len(words) == pytest.approx(0.8, abs=0.1)


def test_the_head_is_that_of_a_stock_longformer(student):
    head, stock = make_head(student), LongformerForMaskedLM(student.config).eval().lm_head
    parts = {"dense": head[0], "layer_norm": head[2], "decoder": head[3]}
    for name, part in parts.items():
        getattr(stock, name).load_state_dict(part.state_dict())
    states = torch.randn(9, student.dim)
    torch.testing.assert_close(head(states), stock(states))
    assert head[3].weight is student.embeddings.word_embeddings.weight


def test_all_weights_are_trained_but_token_embeddings(student, documents):
    before = {name: value.clone() for name, value in student.state_dict().items()}
    train_masked_words(student, documents, documents, epochs=1)
    after = student.state_dict().items()
    assert [name for name, value in after if torch.equal(value, before[name])] == [
        "embeddings.word_embeddings.weight"
    ]


def test_a_batch_without_a_word_to_guess_makes_no_update(student, documents):
    """All its words are unknown, which is a special token."""
    unknown, before = [2, WORDS.index("[UNK]"), 3], student.encode(documents[:4])
    history = train_masked_words(student, [unknown] * 3, documents[48:], epochs=1)
    assert history.loss == [] and np.isfinite(history.held_out)
    np.testing.assert_array_equal(student.encode(documents[:4]), before)


def test_a_seed_gives_the_same_bits_and_another_one_others(student, documents, monkeypatch):
    untrained, trained = student, []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(number)  # what was drawn before does not matter
        student = copy.deepcopy(untrained)
        monkeypatch.setattr(masked_words, "SEED", seed)
        losses = train_masked_words(student, documents[:48], documents[48:], epochs=1)
        trained.append((student.encode(documents[:4]), losses))
    (first, losses), (again, same), (other, _) = trained
    assert np.array_equal(first, again) and losses == same
    assert not np.array_equal(first, other)


def test_a_loss_that_is_not_finite_ends_the_training(student, documents, monkeypatch):
    monkeypatch.setattr(masked_words, "LEARNING_RATE", 1e38)
    with pytest.raises(FloatingPointError, match="the loss of masked words is nan"):
        train_masked_words(student, documents, documents, epochs=1)
