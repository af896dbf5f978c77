"""The mean of a text's pieces: each of norm 1, weighted by tokens."""

import numpy as np
import pytest
from lib.teachers.chunks import MOST, SIZE, cut_text, mean_of_chunks, split_text

from tests.student.tiny import save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder)


def encode(texts):
    """How often w1 and w2 stand in a text. Short texts have long vectors, as in real encoders."""
    counts = np.array([[text.count("w1"), text.count("w2")] for text in texts], "f4")
    return counts * 100 / counts.sum(axis=1, keepdims=True) ** 2


def test_by_hand(tokenizer):
    vectors = mean_of_chunks(tokenizer, encode, ["w1 w1 w2 w2 w1", "w2"], size=2)
    assert vectors == pytest.approx(np.array([[3 / 5, 2 / 5], [0.0, 1.0]]))
    assert vectors.dtype == np.float32


def test_one_token_more_hardly_moves_a_text_of_one_whole_piece(tokenizer):
    piece = " ".join(["w1"] * SIZE)
    alone, longer = mean_of_chunks(tokenizer, encode, [piece, f"{piece} w2"])
    whole = encode([piece])[0]
    np.testing.assert_allclose(alone, whole / np.linalg.norm(whole), rtol=1e-6)
    assert longer @ alone / np.linalg.norm(longer) > 0.98


def test_the_order_of_texts_and_what_else_is_read_play_no_role(tokenizer):
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["w1", "w2"], length)) for length in range(1, 40, 3)]
    vectors = mean_of_chunks(tokenizer, encode, texts, size=5)
    turned = mean_of_chunks(tokenizer, encode, texts[::-1], size=5)
    np.testing.assert_array_equal(turned[::-1], vectors)
    np.testing.assert_array_equal(mean_of_chunks(tokenizer, encode, texts[3:4], 5), vectors[3:4])


def test_pieces_are_cut_between_tokens(tokenizer):
    text = "w1 w1 w2 w2 w1"
    assert split_text(tokenizer, text, 2) == [(0, 5, 2), (6, 11, 2), (12, 14, 1)]
    assert split_text(tokenizer, text, 2, most=1) == [(0, 5, 2)]
    long = "w1 " * 2 * (MOST + 1)
    assert len(split_text(tokenizer, long, 2)) == MOST
    assert len(split_text(tokenizer, long, 2, most=None)) == MOST + 1


@pytest.mark.parametrize("gap", [" ", "\0"])
def test_a_text_is_read_from_its_first_word_on(tokenizer, gap):
    assert cut_text("w1 w2 w3", 5) == "w1 w2" == cut_text(9 * gap + "w1 w2 w3", 5)
    text = gap * 10 + "w1 w1 w2"
    places = split_text(tokenizer, text, size=2)
    assert [text[start:end] for start, end, _ in places] == ["w1 w1", "w2"]
