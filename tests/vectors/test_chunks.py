"""The mean of a text's stretches: normalised, weighted by length."""

import numpy as np
import pytest

from lib.vectors import chunks
from tests.student.tiny import save_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder)


def encode(texts):
    """Of each text: how often w1 stands in it, how often w2, times ten: norms should not count."""
    return np.array([[10 * text.count("w1"), 10 * text.count("w2")] for text in texts], "f4")


def test_stretches_are_cut_between_tokens(tokenizer):
    places = chunks.split_text(tokenizer, "w1 w1 w2 w2 w1", size=2)
    assert places == [(0, 5, 2), (6, 11, 2), (12, 14, 1)]


def test_the_mean_is_weighted_by_tokens_and_of_norm_one_each(tokenizer, monkeypatch):
    monkeypatch.setattr(chunks.split_text, "__defaults__", (2,))
    vectors = chunks.average_chunks(tokenizer, encode, ["w1 w1 w2 w2 w1", "w2"])
    assert vectors == pytest.approx(np.array([[3 / 5, 2 / 5], [0.0, 1.0]]))


@pytest.mark.parametrize("gap", [" ", "\0"])
def test_a_text_is_read_from_its_first_word_on(tokenizer, gap):
    assert chunks.cut_text("w1 w2 w3", 5) == "w1 w2" == chunks.cut_text(9 * gap + "w1 w2 w3", 5)
    text = gap * 100 * 2 * chunks.MOST + "w1 w1 w2"
    places = chunks.split_text(tokenizer, text, size=2)
    assert [text[start:end] for start, end, _ in places] == ["w1 w1", "w2"]


def test_a_document_of_ten_megabytes_is_not_read_whole(tokenizer, monkeypatch):
    monkeypatch.setattr(chunks, "MOST", 20)
    text = "w1 w2 " * 1_700_000
    places = chunks.split_text(tokenizer, text)
    assert len(places) == chunks.MOST and places[-1][2] == chunks.SIZE
