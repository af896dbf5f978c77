"""weighted and structural_mask: by hand, Listing 4.1, shapes, errors, invariances, gradient."""

import pytest
import torch
from torch.testing import assert_close

from lib.losses import max_margin, mse, structural_mask, weighted

LENGTHS = torch.tensor([10, 384, 385, 2000])


def values(seed, batch=4):
    return torch.randn(batch, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    s, c = torch.tensor([1.0, 2.0, 0.0, 0.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
    # .8 * 1 + .2 * 10 = 2.8 and .8 * 2 + .2 * 20 = 5.6. Rows of 385 and 2000 tokens are masked.
    assert_close(
        weighted(s, c, LENGTHS, lam=0.8, max_structural_len=384),
        torch.tensor([2.8, 5.6, 30.0, 40.0]),
    )
    # No limit: every row is weighted, .2*30 = 6 and .2*40 = 8.
    assert_close(
        weighted(s, c, LENGTHS, lam=0.8, max_structural_len=None),
        torch.tensor([2.8, 5.6, 6.0, 8.0]),
    )
    # no-weighting is the plain sum.
    assert_close(
        weighted(s, c, LENGTHS, lam=None, max_structural_len=None),
        torch.tensor([11.0, 22.0, 30.0, 40.0]),
    )
    assert structural_mask(LENGTHS, 384).tolist() == [True, True] + [False] * 2  # 384 is inside
    assert structural_mask(LENGTHS, None).tolist() == [True] * 4


def test_reference():
    """Listing 4.1, its steps one by one."""
    s, c = values(0), values(1)
    for limit in (None, 384, 10, 1999):
        for lam in (0.0, 0.2, 0.95, 1.0):
            lams = []
            for length in LENGTHS.tolist():
                length_mask = 1 if limit is None or length <= limit else 0
                lams.append(lam * length_mask)
            lams = torch.tensor(lams, dtype=torch.float64)
            expected = s * lams + c * (1 - lams)
            assert_close(weighted(s, c, LENGTHS, lam=lam, max_structural_len=limit), expected)
        dropped = torch.tensor(
            [limit is not None and length > limit for length in LENGTHS.tolist()]
        )
        expected = torch.where(dropped, c, s + c)
        assert_close(weighted(s, c, LENGTHS, lam=None, max_structural_len=limit), expected)


def test_shapes():
    assert weighted(values(0, 1), values(1, 1), [5], lam=0.5, max_structural_len=4).shape == (1,)
    assert weighted(values(0, 0), values(1, 0), [], lam=0.5, max_structural_len=4).shape == (0,)
    assert structural_mask([1, 2, 3], 2).tolist() == [True, True, False]


ONES = torch.ones(2)
GOOD = {
    "structural": ONES,
    "contextual": ONES,
    "lengths": [1, 2],
    "lam": 0.5,
    "max_structural_len": 4,
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contextual": torch.ones(3)}, r"\(2,\), \(3,\) and \(2,\)"),
        ({"structural": torch.ones(())}, r"\(\), \(2,\) and \(2,\)"),
        ({"lam": 1.5}, "lam must be from 0 to 1.*1.5"),
        ({"lam": -0.1}, "lam.*-0.1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        weighted(**(GOOD | arguments))


def test_invariances():
    s, c = values(0), values(1)
    assert_close(weighted(s, c, LENGTHS, lam=1.0, max_structural_len=None), s)
    assert_close(weighted(s, c, LENGTHS, lam=0.0, max_structural_len=None), c)
    # lam = .5 is half of no-weighting: the reason why the thesis' two variants nearly coincide.
    half = weighted(s, c, LENGTHS, lam=0.5, max_structural_len=None)
    assert_close(2 * half, weighted(s, c, LENGTHS, lam=None, max_structural_len=None))


def test_gradient():
    inputs = (values(0).requires_grad_(), values(1).requires_grad_())
    for lam in (None, 0.2):
        assert torch.autograd.gradcheck(
            lambda s, c, lam=lam: weighted(s, c, LENGTHS, lam=lam, max_structural_len=384), inputs
        )


def test_masked_rows_send_nothing_to_the_structural_loss():
    generator = torch.Generator().manual_seed(0)
    student = torch.randn(4, 3, generator=generator).requires_grad_()
    teacher, other = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
    mask = structural_mask(LENGTHS, 384)
    s, c = max_margin(student, teacher, mask=mask), mse(student, other)
    weighted(s, c, LENGTHS, lam=0.8, max_structural_len=384)[2:].sum().backward()
    masked_only = student.grad
    student.grad = None
    mse(student, other)[2:].sum().backward()
    # Rows 2 and 3 get the contextual gradient alone, unweighted.
    assert_close(masked_only, student.grad)
