"""Differences with intervals: losses, and the ledger in one picture."""

import numpy as np
import pandas as pd

from lib import figures

LEDGER = pd.DataFrame(
    {
        "id": ["a-over-b", "mm-mse-best", "a-number"],
        "label": ["fig4_3", "fig4_2", "fig4_3"],
        "published_effect": [0.1, np.nan, 3.0],
        "published_low": [0.05, np.nan, np.nan],
        "published_high": [0.15, np.nan, np.nan],
        "published_verdict": ["holds", "open", "number"],
        "effect": [-0.1, 0.02, 2.0],
        "low": [-0.2, -0.01, np.nan],
        "high": [-0.05, 0.05, np.nan],
        "verdict": ["reversed", "open", "number"],
        "compare_effect": [0.2, 0.1, np.nan],
        "compare_low": [0.1, 0.0, np.nan],
        "compare_high": [0.3, 0.2, np.nan],
        "none_effect": [0.1, np.nan, np.nan],
        "none_low": [0.05, np.nan, np.nan],
        "none_high": [0.2, np.nan, np.nan],
        "survives": ["holds", "not run", "number"],
    }
)


def dots_of(axis) -> dict[float, float]:
    """Row -> effect, of single marks."""
    return {
        float(line.get_ydata()[0]): float(line.get_xdata()[0])
        for line in axis.get_lines()
        if len(line.get_xdata()) == 1
    }


def test_a_finding_has_a_row_under_its_figure_and_a_mark_for_each_judgement():
    theirs, repeats, survives = figures.ledger(LEDGER).axes
    names = [text.get_text() for text in theirs.get_yticklabels()]
    assert names == ["Figure 4.2", "max-margin MSE best", "Figure 4.3", "a over b"]
    assert dots_of(theirs) == {3: 0.1}
    assert dots_of(repeats) == {3: -0.1, 1: 0.02}
    assert sorted(dots_of(survives).values()) == [0.1, 0.2], "what was not judged is not drawn"
    assert theirs.get_xlim() == repeats.get_xlim() == survives.get_xlim()
