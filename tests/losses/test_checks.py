"""The checks that the losses share, each rule once. That a loss calls them, one line in its own test shows."""

import pytest
import torch

from lib.losses import _checks

ROWS = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (
            _checks.pair,
            (torch.ones(3), torch.ones(3)),
            r"same shape \(batch, dim\).*\(3,\) and \(3,\)",
        ),
        (_checks.pair, (ROWS, torch.ones(2, 4)), r"same shape.*\(2, 3\) and \(2, 4\)"),
        (_checks.row_mask, (torch.ones(2), ROWS), r"mask must be bool.*\(2, 3\).*float32 \(2,\)"),
        (_checks.row_mask, (torch.ones(3, dtype=torch.bool), ROWS), r"mask must be bool.*\(3,\)"),
    ],
)
def test_what_is_refused(check, arguments, message):
    with pytest.raises(ValueError, match=message):
        check(*arguments)
