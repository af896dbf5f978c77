"""weighted and structural_mask: by hand, Listing 4.1, errors, gradient."""

import pytest
import torch
from torch.testing import assert_close

from lib.losses import structural_mask, weighted
from tests.losses.draw_rows import draw_rows

LENGTHS = torch.tensor([10, 384, 385, 2000])
S, C = draw_rows(0, 4, 1)[:, 0], draw_rows(1, 4, 1)[:, 0]


def test_by_hand():
    s, c = torch.tensor([1.0, 2.0, 0.0, 0.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
    for lam, limit, expected in (
        # .8 * 1 + .2 * 10 = 2.8 and .8 * 2 + .2 * 20 = 5.6. Rows of 385 and 2000 tokens are masked.
        (0.8, 384, [2.8, 5.6, 30.0, 40.0]),
        # No limit: every row is weighted, .2 * 30 = 6 and .2 * 40 = 8.
        (0.8, None, [2.8, 5.6, 6.0, 8.0]),
        # no-weighting is the plain sum.
        (None, None, [11.0, 22.0, 30.0, 40.0]),
    ):
        value = weighted(s, c, LENGTHS, lam=lam, max_structural_len=limit)
        assert_close(value, torch.tensor(expected))
    assert structural_mask(LENGTHS, 384).tolist() == [True, True, False, False]  # 384 is inside
    assert structural_mask(LENGTHS, None).tolist() == [True] * 4
    assert weighted(S[:0], C[:0], [], lam=0.5, max_structural_len=4).shape == (0,)


@pytest.mark.parametrize("limit", [None, 384, 10, 1999])
def test_reference(limit):
    """Listing 4.1, its steps one by one."""
    masks = [1 if limit is None or length <= limit else 0 for length in LENGTHS.tolist()]
    masks = torch.tensor(masks, dtype=torch.float64)
    for lam in (0.0, 0.2, 0.95, 1.0):
        lams = lam * masks
        expected = S * lams + C * (1 - lams)
        assert_close(weighted(S, C, LENGTHS, lam=lam, max_structural_len=limit), expected)
    assert_close(weighted(S, C, LENGTHS, lam=None, max_structural_len=limit), S * masks + C)
    # lam = .5 is half of no-weighting: the reason why the thesis' two variants nearly coincide.
    half = weighted(S, C, LENGTHS, lam=0.5, max_structural_len=None)
    assert_close(2 * half, weighted(S, C, LENGTHS, lam=None, max_structural_len=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contextual": torch.ones(3)}, r"\(2,\), \(3,\) and \(2,\)"),
        ({"structural": torch.ones(())}, r"\(\), \(2,\) and \(2,\)"),
        ({"lam": 1.5}, "lam must be from 0 to 1.*1.5"),
        ({"lam": -0.1}, "lam.*-0.1"),
    ],
)
def test_errors(changes, message):
    arguments = {"structural": torch.ones(2), "contextual": torch.ones(2), "lengths": [1, 2]}
    with pytest.raises(ValueError, match=message):
        weighted(**(arguments | {"lam": 0.5, "max_structural_len": 4} | changes))


@pytest.mark.parametrize("lam", [None, 0.2])
def test_gradient(lam):
    inputs = [values.clone().requires_grad_() for values in (S, C)]
    assert torch.autograd.gradcheck(
        lambda s, c: weighted(s, c, LENGTHS, lam=lam, max_structural_len=384), inputs
    )
