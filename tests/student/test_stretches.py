"""Stretches of texts: where they are cut, and what the student says of them."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from lib.student.packing import pack
from lib.student.positions import repeat_positions
from lib.student.stretches import embed_stretches, find_special_tokens, split_text
from tests.student.tiny import make_student

TEXT = " ".join(f"w{i}" for i in range(11))


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    return make_student(tmp_path_factory.mktemp("tiny"))


def test_stretches_fill_a_text(student):
    split = split_text(student.tokenizer, TEXT, size=4)
    assert split.ends.tolist() == [4, 8, 11]
    assert split.pieces == ["w0 w1 w2 w3", "w4 w5 w6 w7", "w8 w9 w10"]
    assert [2, *split.ids, 3] == student.tokenize([TEXT])[0]


def test_a_text_is_cut_where_reading_ends(student):
    split = split_text(student.tokenizer, TEXT, size=4, most=8)
    assert split.ends.tolist() == [4, 8] and len(split.ids) == 8 and split.pieces[-1][-2:] == "w7"


def test_a_text_without_tokens_is_refused(student):
    with pytest.raises(ValueError, match="no token"):
        split_text(student.tokenizer, " ")


def test_special_tokens(student):
    assert find_special_tokens(student.tokenizer) == ([2], [3])


def test_a_span_of_one_pass_is_what_the_student_says(student):
    ids = student.tokenize([TEXT, "w3 w4"])
    stretches, spans = embed_stretches(student, ids, [[4, 4, 3], [2]])
    assert_close(spans, student(ids))
    assert stretches.shape == (4, 32)
    whole = (stretches[:3] * torch.tensor([[4.0], [4.0], [3.0]])).sum(0)
    packed = pack(ids[:1], student.config.vocab_size, student.padding, student.max_positions)
    states = student.token_states(packed)
    assert_close(stretches[1], states[5:9].mean(0))  # one special token in front
    assert_close(whole, states[1:-1].sum(0))


def test_stretches_know_what_stands_around_them(student):
    before, after = (
        embed_stretches(student, student.tokenize([text]), [[2, 2]])[0]
        for text in ("w0 w1 w2 w3", "w0 w1 w2 w9")
    )
    assert not torch.allclose(before[0], after[0])


def test_gradients_reach_the_student(student):
    stretches, _ = embed_stretches(student, student.tokenize([TEXT]), [[4, 7]])
    stretches[0, 0].backward()  # a sum is the same whatever LayerNorm is given
    assert student.encoder["layer"][0].output.dense.weight.grad.abs().sum() > 0
    student.zero_grad()


@pytest.mark.parametrize("sizes", [[12], [4, 0], []])
def test_stretches_that_do_not_fit_are_refused(student, sizes):
    with pytest.raises(ValueError, match="do not fit"):
        embed_stretches(student, student.tokenize(["w1 w2 w3"]), [sizes])


def test_positions_repeat_without_the_first(student, tmp_path):
    other = make_student(tmp_path)
    table = other.embeddings.position_embeddings.weight
    before = table.detach().clone()
    repeat_positions(other, 4)
    first = other.padding + 1
    expected = [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    assert_close(table[first : first + 11].detach(), before[first:][expected])
    assert_close(table[:first].detach(), before[:first])
    # Texts within the period are read as before.
    short = student.tokenize(["w1 w2"])
    np.testing.assert_array_equal(other.encode(short), student.encode(short))
    long = student.tokenize([TEXT])
    assert not np.allclose(other.encode(long), student.encode(long))


@pytest.mark.parametrize("period", [1, 41])
def test_impossible_periods_are_refused(student, period):
    with pytest.raises(ValueError, match="2 to 40"):
        repeat_positions(student, period)
