"""The GRU that training uses is PyTorch's: the same states and the same gradients."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from lib.news import designs, recurrence
from lib.news.students import Sizes, Student, padded

SMALL = Sizes(vocabulary=50, token=16, hidden=8, output=12, teacher_token=10, feed_forward=16)


def both(cells, lengths, dtype):
    """States and gradients of PyTorch's GRU, each document read to its end, and ours."""
    lengths, cells = torch.tensor(lengths), cells.to(dtype)
    inside = torch.arange(int(lengths.max())) < lengths[:, None]
    vectors = torch.randn(*inside.shape, 5, dtype=dtype, requires_grad=True)
    weights = torch.randn(*inside.shape, 7 * (1 + cells.bidirectional), dtype=dtype)
    packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    for states in (
        pad_packed_sequence(cells(packed)[0], batch_first=True)[0],
        recurrence.gru(cells, vectors, lengths),
    ):
        gradients = torch.autograd.grad(
            (states * weights)[inside].sum(), [vectors, *cells.parameters()]
        )
        yield states[inside], gradients


@pytest.mark.parametrize("lengths", [[6, 6, 6], [2, 6, 1, 4], [1]])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_states_and_gradients_are_those_of_pytorch(layers, bidirectional, lengths):
    torch.manual_seed(0)
    cells = nn.GRU(5, 7, layers, bidirectional=bidirectional, batch_first=True)
    for dtype, most in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        theirs, ours = both(cells, lengths, dtype)
        assert_close(ours, theirs, atol=most, rtol=most)


def test_what_stands_behind_a_document_has_no_part():
    cells, lengths = nn.GRU(5, 7, 2, bidirectional=True, batch_first=True), torch.tensor([2, 4])
    vectors = torch.randn(2, 4, 5, requires_grad=True)
    states = recurrence.gru(cells, vectors, lengths)
    other = torch.where(torch.arange(4)[:, None] < lengths[:, None, None], vectors, 9.0)
    assert_close(recurrence.gru(cells, other, lengths)[0, :2], states[0, :2])
    states[0, :2].sum().backward()
    assert not vectors.grad[0, 2:].any() and vectors.grad[0, :2].all()


def test_students_train_with_it_and_embed_with_pytorchs(monkeypatch):
    calls, gru = [], recurrence.gru
    monkeypatch.setattr(recurrence, "gru", lambda *given: calls.append(given) or gru(*given))
    for identity, times in (
        ("BiGRU(2)+1 linear;attentive;cosine", 1),
        ("BiLSTM;cosine", 0),
        ("BiRNN+1 linear;cosine", 0),
    ):
        student, documents = (
            Student(designs.parse(identity), SMALL),
            padded([[3, 4], [5, 6, 7, 8, 9]]),
        )
        wanted = student.eval()(*documents)
        assert not calls
        assert_close(student.train()(*documents), wanted)
        assert len(calls) == times
        calls.clear()
