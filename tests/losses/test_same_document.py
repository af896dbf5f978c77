"""same_document: by hand, example, reference, mask, invariances, gradients, errors."""

import doctest
import math

import pytest
import torch
from torch.testing import assert_close

from lib.losses import same_document as module
from lib.losses.same_document import same_document
from tests.losses.draw_rows import draw_rows

DOCUMENTS = torch.tensor([0, 1, 0, 1, 2])


def guide(documents):
    """A teacher that finds nothing alike but pieces of one document."""
    return torch.nn.functional.one_hot(documents).double()


def test_by_hand():
    student = torch.tensor([[1.0, 0, 0], [0, 1, 0], [2, 0, 0], [-1, 0, 0]]).double()
    documents = torch.tensor([0, 1, 0, 2])
    value = same_document(student, guide(documents), documents, temperature=0.5)
    # From the first row, cosines 1 to its like, 0 and -1 to others; the third has the same.
    expected = math.log(1 + math.exp(-1 / 0.5) + math.exp(-2 / 0.5))
    assert_close(value, torch.tensor([expected, 0, expected, 0], dtype=torch.float64))


def test_example_of_the_docstring():
    assert not doctest.testmod(module).failed


def test_reference():
    """With one positive for each row it is PyTorch's cross-entropy, without the row itself."""
    x, documents = draw_rows(0, 6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    logits = torch.nn.functional.cosine_similarity(x[:, None], x, dim=-1) / 0.05
    logits = logits.masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf)
    expected = torch.nn.functional.cross_entropy(
        logits, torch.tensor([3, 4, 5, 0, 1, 2]), reduction="none"
    )
    assert_close(same_document(x, guide(documents), documents), expected)


def test_what_the_teacher_finds_alike_is_no_negative():
    x, teacher = draw_rows(0, dim=3), guide(DOCUMENTS)
    teacher[4] = teacher[0]  # another document, about the same
    without = torch.tensor([0, 1, 2, 3])
    masked = same_document(x, teacher, DOCUMENTS)
    alone = same_document(x[without], teacher[without], DOCUMENTS[without])
    assert_close(masked[[0, 2]], alone[[0, 2]])
    assert (masked[[1, 3]] > alone[[1, 3]]).all()  # of the second document it is still one


def test_invariances():
    x, teacher = draw_rows(0, dim=3), guide(DOCUMENTS)
    value, order = same_document(x, teacher, DOCUMENTS), torch.tensor([3, 0, 4, 1, 2])
    rotation = torch.linalg.qr(draw_rows(2, 3, 3)).Q
    assert_close(same_document(5 * x @ rotation, teacher, DOCUMENTS), value)
    assert_close(same_document(x[order], teacher[order], DOCUMENTS[order]), value[order])
    assert_close(same_document(x, teacher, 7 - DOCUMENTS), value)


def test_gradient():
    rows = draw_rows(0).requires_grad_()
    teacher = draw_rows(1)

    def compute(student):
        return same_document(student, teacher, DOCUMENTS, temperature=0.5)

    assert torch.autograd.gradcheck(compute, rows)


@pytest.mark.parametrize("documents", [[0, 1, 2, 3, 4], [0, 0, 0, 0, 0]])
def test_nothing_to_tell_apart(documents):
    x = draw_rows(0).requires_grad_()
    value = same_document(x, draw_rows(1), torch.tensor(documents))
    value.sum().backward()
    assert (value == 0).all() and (x.grad == 0).all()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="documents must have the shape"):
        same_document(torch.ones(2, 4), torch.ones(2, 4), torch.tensor([0]))
    with pytest.raises(ValueError, match="same shape"):
        same_document(torch.ones(2, 4), torch.ones(3, 4), torch.tensor([0, 0]))
