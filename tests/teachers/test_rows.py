"""The mean of a text's pieces, each of norm 1 and weighted by tokens; rows side by side."""

import numpy as np
import pytest
from transformers import AutoTokenizer

from lib.teachers import rows
from lib.teachers.rows import MOST, cut_text, mean_of_chunks, split_text
from tests.student.tiny import save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder)


def encode(texts):
    """How often w1 and w2 stand in a text. Short texts have long vectors, as in real encoders."""
    counts = np.array([[text.count("w1"), text.count("w2")] for text in texts], "f4")
    return counts * 100 / counts.sum(axis=1, keepdims=True) ** 2


@pytest.mark.parametrize("together", [1, 4, 100])
def test_means_by_hand(tokenizer, monkeypatch, together):
    monkeypatch.setattr(rows, "TOGETHER", together)
    vectors = mean_of_chunks(tokenizer, encode, ["w1 w1 w2 w2 w1", "w2"], size=2)
    assert vectors == pytest.approx(np.array([[3 / 5, 2 / 5], [0.0, 1.0]]))
    assert vectors.dtype == np.float32


def test_pieces_are_cut_between_tokens(tokenizer):
    assert split_text(tokenizer, "w1 w1 w2 w2 w1", 2) == [(0, 5, 2), (6, 11, 2), (12, 14, 1)]
    assert len(split_text(tokenizer, "w1 " * 2 * (MOST + 1), 2)) == MOST


@pytest.mark.parametrize("gap", [" ", "\0"])
def test_a_text_is_read_from_its_first_word_on(tokenizer, gap):
    assert cut_text("w1 w2 w3", 5) == "w1 w2" == cut_text(9 * gap + "w1 w2 w3", 5)
    text = gap * 10 + "w1 w1 w2"
    places = split_text(tokenizer, text, size=2)
    assert [text[start:end] for start, end, _ in places] == ["w1 w1", "w2"]


def test_rows_by_hand():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert rows.scale_rows(x) == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    assert rows.centre_rows(x, np.array([0.6, 0.0])) == pytest.approx(np.array([[0, 1], [0, 0]]))
