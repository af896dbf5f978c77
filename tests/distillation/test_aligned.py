"""Aligned distillation: spans, targets, the loss by hand, and a training that keeps the best."""

import doctest
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from lib.distillation import aligned
from lib.distillation.aligned import (
    AlignedScheme,
    Span,
    StretchedDocument,
    aligned_loss,
    average_stretches,
    draw_spans,
    train_aligned,
)

DIM, VOCABULARY, SIZE = 6, 40, 5
SCHEME = AlignedScheme(updates=30, tokens=200, learning_rate=0.3, check_every=10)


class Bag(nn.Module):
    """Vectors of stretches that know nothing but their own tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(VOCABULARY, DIM)
        self.seen = []

    def embed(self, spans, sizes):
        self.seen.append((spans, sizes))
        stretches = [
            self.table(part).mean(0)
            for span, each in zip(spans, sizes, strict=True)
            for part in torch.from_numpy(span)[1:-1].split([int(size) for size in each])
        ]
        whole = [self.table(torch.from_numpy(span)).mean(0) for span in spans]
        return torch.stack(stretches), torch.stack(whole)


def make_documents(count, seed=0, shift=0.0):
    """Documents whose teacher is a bag of other token vectors."""
    generator = np.random.default_rng(seed)
    table = np.random.default_rng(99).normal(size=(VOCABULARY, DIM)) + shift
    documents = []
    for length in generator.integers(3, 50, count):
        ids = generator.integers(4, VOCABULARY, length)
        ends = np.append(np.arange(SIZE, length, SIZE), length)
        parts = np.split(ids, ends[:-1])
        vectors = np.stack([table[part].mean(0) for part in parts]).astype(np.float32)
        documents.append(StretchedDocument(ids, ends, vectors))
    return documents


def train(documents, held_out, scheme=SCHEME, seed=0):
    student = Bag()
    history = train_aligned(
        student, student.embed, documents, held_out, ([2], [3]), scheme, seed=seed
    )
    return student, history


def test_examples_of_the_docstrings():
    result = doctest.testmod(aligned)
    assert result.attempted >= 4 and not result.failed


def test_loss_by_hand():
    stretches, targets = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[1.0, 0.0]] * 2)
    spans, wholes = torch.tensor([[1.0, 1.0]]), torch.tensor([[-1.0, -1.0]])
    # Distances 0, 1 and 2; the two stretches have cosine 0 instead of 1.
    assert aligned_loss(stretches, spans, targets, wholes, weight=0) == pytest.approx(1)
    assert aligned_loss(stretches, spans, targets, wholes, weight=20) == pytest.approx(1 + 20)


def test_gradient_of_the_loss():
    draws = [torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 2, 4, 2)]
    assert torch.autograd.gradcheck(aligned_loss, draws)


def test_the_loss_does_not_know_lengths_and_turns():
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    value = aligned_loss(x[:3], x[3:], y[:3], y[3:])
    assert_close(aligned_loss(4 * x[:3], x[3:], y[:3], 9 * y[3:]), value)
    x, y = x @ rotation, y @ rotation
    assert_close(aligned_loss(x[:3], x[3:], y[:3], y[3:]), value)


def test_spans_lie_in_documents_and_have_every_kind():
    documents = make_documents(20)
    spans = draw_spans(documents, replace(SCHEME, tokens=400), np.random.default_rng(0))
    lengths = [last - first for _, first, last in spans]
    for (row, first, last), length in zip(spans, lengths, strict=True):
        assert 0 <= first < last <= len(documents[row].ends) and length <= 10
    sizes = [documents[row].sizes[first:last].sum() for row, first, last in spans]
    assert 400 <= sum(sizes) < 400 + 3 * 50  # each kind may go over its share by one span
    assert 1 in lengths and {*lengths} & {4, 5, 6, 7, 8}
    assert any(
        length == len(documents[row].ends) for (row, *_), length in zip(spans, lengths, strict=True)
    )


def test_spans_follow_their_generator():
    documents = make_documents(20)
    draws = [draw_spans(documents, SCHEME, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_a_contrast_draws_two_of_each_document():
    scheme = replace(SCHEME, crops=0.1, shares=(0.5, 0.5, 0.0))
    spans = draw_spans(make_documents(20), scheme, np.random.default_rng(0))
    assert [span.document for span in spans[::2]] == [span.document for span in spans[1::2]]


def test_the_student_is_given_what_the_teacher_read(monkeypatch):
    """Tokens of each stretch, and targets: of a whole document its own, of a span the mean."""
    documents = make_documents(3)
    own = np.full(DIM, 7.0, dtype=np.float32)
    documents[1] = replace(documents[1], whole=own)
    first = documents[0]
    spans = [Span(0, 1, 3), Span(1, 0, len(documents[1].ends)), Span(1, 0, 1)]
    monkeypatch.setattr(aligned, "draw_spans", lambda *_: spans)
    seen = []

    def look(stretches, wholes, *targets, weight):
        seen.append(targets)
        return aligned_loss(stretches, wholes, *targets, weight=weight)

    monkeypatch.setattr(aligned, "aligned_loss", look)
    student, _ = train(documents, documents, replace(SCHEME, updates=1))
    ids, sizes = student.seen[0]
    assert ids[0].tolist() == [2, *first.ids[SIZE : first.ends[2]], 3]
    assert sizes[0].tolist() == [SIZE, first.ends[2] - 2 * SIZE]
    stretch_targets, span_targets = seen[0]
    assert_close(stretch_targets[:2], torch.from_numpy(first.stretches[1:3]))
    assert_close(
        span_targets[0].numpy(), average_stretches(sizes[0], first.stretches[1:3]).astype("f4")
    )
    assert_close(span_targets[1].numpy(), own)
    assert_close(span_targets[2].numpy(), documents[1].stretches[0])


def test_training_learns_and_repeats():
    documents, held_out = make_documents(30), make_documents(10, seed=1)
    student, history = train(documents, held_out)
    again, repeated = train(documents, held_out)
    assert history.loss == repeated.loss and history.held_out == repeated.held_out
    assert_close(student.table.weight, again.table.weight, rtol=0, atol=0)
    assert train(documents, held_out, seed=1)[1].loss != history.loss
    losses = [loss for _, loss in history.held_out]
    assert [update for update, _ in history.held_out] == [0, 10, 20, 30]
    assert losses[-1] < 0.5 * losses[0] and not student.training


def test_a_training_that_was_stopped_goes_on_with_the_same_numbers(tmp_path):
    documents, held_out = make_documents(30), make_documents(10, seed=1)
    whole, history = train(documents, held_out)
    options = {"seed": 0, "checkpoint": tmp_path / "training.pt"}
    given = (documents, held_out, ([2], [3]), SCHEME)

    def stop(update, loss):
        if update == 17:
            raise KeyboardInterrupt

    first = Bag()
    with pytest.raises(KeyboardInterrupt):
        train_aligned(first, first.embed, *given, **options, advance=stop)
    student, seen = Bag(), []
    again = train_aligned(
        student, student.embed, *given, **options, advance=lambda *update: seen.append(update)
    )
    assert seen == [*enumerate(history.loss, 1)][10:]  # a checkpoint was written after update 10
    assert again.loss == history.loss and again.held_out == history.held_out
    assert_close(student.table.weight, whole.table.weight, rtol=0, atol=0)


def test_the_best_weights_are_kept():
    """Held-out documents that want the opposite: training harms, so the start is kept."""
    documents = make_documents(30)
    opposite = [replace(each, stretches=-each.stretches) for each in documents]
    student, history = train(documents, opposite, replace(SCHEME, similarity=0.0))
    assert history.best == 0 and history.held_out[-1][1] > history.held_out[0][1]
    assert_close(student.table.weight, Bag().table.weight, rtol=0, atol=0)


def test_a_contrast_changes_what_is_learned():
    documents, held_out = make_documents(30), make_documents(10, seed=1)
    scheme = replace(SCHEME, updates=3, shares=(0.5, 0.5, 0.0))
    history = train(documents, held_out, replace(scheme, crops=0.1))[1]
    assert np.isfinite(history.loss).all()
    assert history.held_out[0][1] > train(documents, held_out, scheme)[1].held_out[0][1]


def test_a_loss_that_is_not_finite_ends_training():
    documents = make_documents(5)
    documents = [replace(each, stretches=each.stretches * np.nan) for each in documents]
    with pytest.raises(FloatingPointError, match="update 1 of 30"):
        train(documents, make_documents(5))


def test_documents_that_do_not_fit_are_refused():
    ids, vectors = np.arange(5), np.ones((2, DIM), np.float32)
    with pytest.raises(ValueError, match="1 stretches but 2 vectors"):
        StretchedDocument(ids, np.array([5]), vectors)
    for ends in ([2, 4], [5, 5]):
        with pytest.raises(ValueError, match="fill its 5 tokens"):
            StretchedDocument(ids, np.array(ends), vectors)
    with pytest.raises(ValueError, match="held-out"):
        train(make_documents(3), [])
