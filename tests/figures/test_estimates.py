"""Figures B.1 and B.2: marks at their values, lines as long as their intervals."""

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


def test_scores_stand_beside_what_a_document_costs():
    data = pd.DataFrame(
        {
            "model": ["base", "LSA", "student: SBERT"],
            "trained": [False, False, True],
            "score": [0.5, 0.4, 0.45],
            "low": [0.4, 0.35, 0.44],
            "high": [0.6, 0.5, 0.46],
            "milliseconds": [10.0, 0.5, 5.0],
        }
    )
    scores, times = figures.costs(data).axes
    marks = read_marks(scores)
    assert marks["student"] == [pytest.approx((0.45, 0.44, 0.46))]
    assert np.array(marks["needs no training"]) == pytest.approx(
        data.loc[:1, ["score", "low", "high"]].to_numpy()
    )
    assert [text.get_text() for text in scores.get_yticklabels()] == [*data["model"]]
    drawn = np.concatenate([line.get_xydata() for line in times.lines])
    assert drawn.tolist() == [[10.0, 0], [0.5, 1], [5.0, 2]] and times.get_xscale() == "log"


def test_a_step_has_a_mark_for_each_readout():
    data = pd.DataFrame(
        [(step, readout, 0.1, 0.0, 0.3) for readout in ("heads", "none") for step in "ab"],
        columns=["step", "readout", "difference", "low", "high"],
    )
    data.loc[3, ["low", "high"]] = np.nan  # the noise of some students may be unknown
    (axis,) = figures.differences(data).axes
    marks = read_marks(axis)
    assert marks["heads"] == [pytest.approx((0.1, 0.0, 0.3))] * 2
    assert marks["none"][0] == marks["heads"][0] and marks["none"][1][0] == 0.1
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b"]
