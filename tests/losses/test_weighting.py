"""weighted and structural_mask: by hand, Listing 4.1, errors."""

import pytest
import torch
from torch.testing import assert_close

from lib.losses import structural_mask, weighted
from tests.losses.draw_rows import draw_rows

LENGTHS = torch.tensor([10, 384, 385, 2000])
MASK = structural_mask(LENGTHS, 384)
EVERY = torch.ones(4, dtype=torch.bool)
S, C = draw_rows(0, 4, 1)[:, 0], draw_rows(1, 4, 1)[:, 0]


def test_by_hand():
    s, c = torch.tensor([1.0, 2.0, 0.0, 0.0]), torch.tensor([10.0, 20.0, 30.0, 40.0])
    for lam, mask, expected in (
        # .8 * 1 + .2 * 10 = 2.8 and .8 * 2 + .2 * 20 = 5.6. Rows of 385 and 2000 tokens are masked.
        (0.8, MASK, [2.8, 5.6, 30.0, 40.0]),
        # No mask: every row is weighted, .2 * 30 = 6 and .2 * 40 = 8.
        (0.8, EVERY, [2.8, 5.6, 6.0, 8.0]),
        # no-weighting is the plain sum.
        (None, MASK, [11.0, 22.0, 30.0, 40.0]),
        (None, EVERY, [11.0, 22.0, 30.0, 40.0]),
    ):
        assert_close(weighted(s, c, mask, lam=lam), torch.tensor(expected))
    assert MASK.tolist() == [True, True, False, False]  # 384 is inside
    assert structural_mask(LENGTHS, float("inf")).all()
    assert weighted(S[:0], C[:0], EVERY[:0], lam=0.5).shape == (0,)


@pytest.mark.parametrize("limit", [float("inf"), 384, 10, 1999])
def test_reference(limit):
    """Listing 4.1, its steps one by one."""
    mask = structural_mask(LENGTHS, limit)
    masks = [1 if length <= limit else 0 for length in LENGTHS.tolist()]
    masks = torch.tensor(masks, dtype=torch.float64)
    for lam in (0.0, 0.2, 0.95, 1.0):
        lams = lam * masks
        expected = S * lams + C * (1 - lams)
        assert_close(weighted(S, C, mask, lam=lam), expected)
    assert_close(weighted(S, C, mask, lam=None), S * masks + C)
    # lam = .5 is half of no-weighting: the reason why the thesis' two variants nearly coincide.
    assert_close(2 * weighted(S, C, EVERY, lam=0.5), weighted(S, C, EVERY, lam=None))


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
    arguments = {"structural": torch.ones(2), "contextual": torch.ones(2), "mask": EVERY[:2]}
    with pytest.raises(ValueError, match=message):
        weighted(**(arguments | {"lam": 0.5} | changes))
