"""The ledger as text."""

import pandas as pd
import pytest

from lib.ledger import pages

LEDGER = pd.DataFrame(
    {
        "id": ["a", "b", "news-c", "d"],
        "label": ["fig4_10", "fig5_3", "news_tab3", "fig4_2"],
        "finding": ["A | B.", "C *d*.", "E.", "F."],
        "published_verdict": ["open", "holds", "holds", "number"],
        "verdict": ["reversed", "open", "holds", "number"],
        "effect": [-0.0781, 0.0123, 1.5, 2.0],
        "low": [-0.2, -0.001, 1.25, None],
        "high": [-0.01, 0.03, 1.75, None],
    }
)


def test_verdicts_are_counted_and_numbers_are_not():
    counts = pages.count_verdicts(LEDGER)
    assert (counts["holds"], counts["reversed"], counts["open"], counts["not run"]) == (1, 1, 1, 0)
    assert sum(counts.values()) == 3
    assert pages.count_verdicts(pages.select_thesis(LEDGER), "published_verdict")["holds"] == 1
    assert pages.select_news(LEDGER)["id"].tolist() == ["news-c"]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("a", "-.078 [-.200, -.010]"),
        ("b", "+.012 [-.001, .030]"),
        ("news-c", "+1.500 [1.250, 1.750]"),
        ("d", "+2.000"),
    ],
)
def test_an_effect_with_its_interval(claim, text):
    assert pages.format_effect(LEDGER, claim) == text


def test_verdicts_of_several_runs_stand_side_by_side():
    """A run that lacks a finding did not run it; a bar in a finding does not end a cell."""
    lines = pages.write_verdicts({"mini": LEDGER, "lab": LEDGER.iloc[1:]}).splitlines()
    assert lines[0] == "| finding | where | published | mini | lab |" and len(lines) == 2 + 4
    assert lines[2] == r"| A \| B. | Figure 4.10 | open | reversed | not run |"
    assert lines[3] == r"| C \*d\*. | Figure 5.3 | holds | open | open |"
    assert lines[4].split(" | ")[1] == "news, Table 3"
