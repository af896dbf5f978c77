"""Masked words: which are masked, who guesses them, and what training changes."""

import copy

import numpy as np
import pytest
import torch
from transformers import LongformerForMaskedLM

from lib.student import masked_words
from lib.student.checkpoint import complete_weights
from lib.student.masked_words import WordHead, mask_words, train_masked_words
from tests.student.tiny import WORDS, make_student

MASK, FIRST = WORDS.index("[MASK]"), WORDS.index("w0")
SETTINGS = {"batch_size": 8, "learning_rate": 3e-3, "warmup_share": 0.1, "masked_share": 0.15}


@pytest.fixture
def student(tmp_path):
    return make_student(tmp_path)


@pytest.fixture(scope="module")
def documents():
    """Each is about one of six subjects, which have ten words each; all words are as frequent."""
    generator = np.random.default_rng(0)
    drawn = [10 * (number % 6) + generator.integers(0, 10, 20) for number in range(60)]
    return [np.array([2, *(FIRST + row), 3], dtype=np.int32) for row in drawn]


def train(student, documents, **changes):
    options = SETTINGS | {"epochs": 1, "seed": 0} | changes
    return train_masked_words(student, documents[:48], documents[48:], **options)


def test_a_student_learns_to_guess_what_counting_cannot(student, documents):
    """The other words of a document tell its subject, which leaves ten words to choose from."""
    torch.nn.init.normal_(student.embeddings.word_embeddings.weight, std=0.2)
    history = train(student, documents, epochs=25, learning_rate=1e-2)
    assert history.unigram == pytest.approx(np.log(60), abs=0.1)
    assert history.held_out < history.unigram - 0.4
    assert len(history.loss) == 25 * 6 and history.loss[-1] < history.loss[0] - 1
    assert not student.training


def test_words_are_counted_once_more_and_special_tokens_never(student):
    shares = masked_words.count_words(student, [[2, 5, 6, 5, 3], [2, 5, 3]])
    assert shares[5] == 4 / 69 and shares[6] == 2 / 69  # 4 words and one of each of 65 tokens
    assert shares[2] == shares[3] == 1 / 69


def test_fifteen_percent_are_guessed_of_which_eight_tenths_are_masked(student, documents):
    ids = torch.tensor(np.concatenate(documents[:50]), dtype=torch.long)  # 1,000 words
    read, places = mask_words(student, ids, 0.15, torch.Generator().manual_seed(0))
    assert len(places.unique()) == 150
    assert (ids[places] >= FIRST).all(), "special tokens are not guessed"
    changed = read != ids
    assert not changed[torch.isin(torch.arange(len(ids)), places, invert=True)].any()
    masked = read[places] == MASK
    # A tenth are drawn from all tokens, which may be the mask or the word itself.
    assert 120 <= masked.sum() <= 122
    assert 13 <= (changed[places] & ~masked).sum() <= 15
    assert 15 <= (~changed[places]).sum() <= 17


def test_scores_are_those_of_a_stock_longformer_with_the_same_head(student, documents):
    """`LongformerForMaskedLM`: dense, GELU, LayerNorm, token embeddings and bias."""
    tensors = complete_weights(student.state_dict(), student.unused)
    stock = LongformerForMaskedLM(student.config).eval()
    stock.longformer.load_state_dict(tensors, strict=False)
    head = WordHead(student)
    parts = {"dense": head.dense, "layer_norm": head.norm, "decoder": head.tokens}
    state = {f"{n}.{p}": w for n, part in parts.items() for p, w in part.named_parameters()}
    stock.lm_head.load_state_dict(state | {"decoder.bias": head.bias, "bias": head.bias})
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    ids = torch.tensor(documents[0], dtype=torch.long)
    read, places = mask_words(student, ids, 0.15, generators[0])
    with torch.no_grad():
        expected = stock(read[None]).logits[0, places]
        scores, words = masked_words.guess_words(student, head, documents[:1], 0.15, generators[1])
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)
    assert words.tolist() == ids[places].tolist()


def test_the_last_matrix_is_the_token_embeddings_and_stays(student, documents):
    head = WordHead(student)
    assert head.tokens.weight is student.embeddings.word_embeddings.weight
    before = {name: value.clone() for name, value in student.state_dict().items()}
    train(student, documents)
    changed = {
        name for name, value in student.state_dict().items() if not torch.equal(value, before[name])
    }
    assert {*before} - changed == {"embeddings.word_embeddings.weight"}


def test_a_batch_without_a_word_to_guess_makes_no_update(student, documents):
    """All its words are unknown, which is a special token."""
    unknown, options = [2, WORDS.index("[UNK]"), 3], SETTINGS | {"epochs": 1, "seed": 0}
    options["batch_size"] = 1
    before = student.encode(documents[:4])
    history = train_masked_words(student, [unknown] * 3, documents[48:], **options)
    assert history.loss == [] and np.isfinite(history.held_out)
    np.testing.assert_array_equal(student.encode(documents[:4]), before)
    history = train_masked_words(student, [unknown, *documents[:2]], documents[48:], **options)
    assert np.isfinite(history.loss).all() and len(history.loss) == 2


def test_a_seed_gives_the_same_bits_and_another_one_others(tmp_path, documents):
    untrained, trained = make_student(tmp_path), []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(number)  # what was drawn before does not matter
        student = copy.deepcopy(untrained)
        losses = train(student, documents, seed=seed)
        trained.append((student.encode(documents[:4]), losses))
    (first, losses), (again, same), (other, _) = trained
    assert np.array_equal(first, again) and losses == same
    assert not np.array_equal(first, other)


def test_what_cannot_be_learned_is_said(student, documents):
    empty = [np.array([2, 3], dtype=np.int32)] * 3
    with pytest.raises(ValueError, match="no held-out document has a word to guess"):
        train_masked_words(student, documents[:6], empty, **SETTINGS | {"epochs": 1, "seed": 0})
    with pytest.raises(FloatingPointError, match="at update 2 of 6: lower the learning rate"):
        train(student, documents, learning_rate=1e38, warmup_share=0.0)
    student.tokenizer = None
    with pytest.raises(ValueError, match="no mask token .* student.language_model=null"):
        train(student, documents)
