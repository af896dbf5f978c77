"""Differences: marks at their values, lines as long as their intervals."""

import numpy as np
import pandas as pd
import pytest

from lib import figures


def read_marks(axis):
    """Label -> (x, ends of the line) of each mark of an axis."""
    return {
        container.get_label(): [
            (mark, *np.reshape(segment, (-1, 2))[:, 0])
            for mark, segment in zip(
                container.lines[0].get_xdata(),
                container.lines[2][0].get_segments(),
                strict=True,
            )
        ]
        for container in axis.containers
        if hasattr(container, "lines")
    }


def test_a_step_has_a_mark_for_each_readout():
    data = pd.DataFrame(
        [(step, readout, 0.1, 0.0, 0.3) for readout in ("none", "compare") for step in "ab"],
        columns=["step", "readout", "difference", "low", "high"],
    )
    data.loc[1, ["low", "high"]] = np.nan  # the noise of some students may be unknown
    (axis,) = figures.differences(data).axes
    marks = read_marks(axis)
    assert [*marks] == ["heads that compare", "no head"]
    assert marks["heads that compare"] == [pytest.approx((0.1, 0.0, 0.3))] * 2
    assert marks["no head"][0] == marks["heads that compare"][0] and marks["no head"][1][0] == 0.1
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b"]
