"""The checks that the losses share, each rule once. That a loss calls them, one line in its own test shows."""

import pytest
import torch

from lib.losses import _checks

ROWS = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (_checks.pair, (ROWS, [[1.0, 1.0, 1.0]] * 2), "teacher must be a tensor.*list"),
        (_checks.pair, (torch.ones(3), torch.ones(3)), r"student must have shape \(batch, dim\).*\(3,\)"),
        (_checks.pair, (torch.ones(2, 0), torch.ones(2, 0)), "dim >= 1"),
        (_checks.pair, (ROWS.long(), ROWS), "student must be floating point.*int64"),
        (_checks.pair, (ROWS, torch.ones(2, 4)), r"same shape.*\(2, 3\) and \(2, 4\)"),
        (_checks.row_mask, (torch.ones(2), ROWS), r"mask must be bool.*\(2, 3\).*float32 \(2,\)"),
        (_checks.row_mask, (torch.ones(3, dtype=torch.bool), ROWS), r"mask must be bool.*\(3,\)"),
        (_checks.row_mask, ([True, False], ROWS), "mask must be bool.*list"),
        (_checks.non_negative, (-0.5, "gamma"), "gamma must be a finite number >= 0, got -0.5"),
        (_checks.non_negative, (float("nan"), "gamma"), "gamma.*nan"),
        (_checks.non_negative, ("1", "gamma"), "gamma.*'1'"),
    ],
)
def test_what_is_refused(check, arguments, message):
    with pytest.raises(ValueError, match=message):
        check(*arguments)
