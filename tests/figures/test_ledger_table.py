"""The ledger as a table: every finding once, on one scale, and safe to put into a page."""

import re

import pandas as pd
import pytest

from lib.config import paths
from lib.figures.ledger_table import draw_intervals, ledger_html

LEDGER = pd.read_csv(paths.ROOT / "figures/mini/tab_claims.csv", dtype={"seeds": str})


def places(svg, side):
    """The three places of an interval: low, high, effect."""
    line = re.search(rf'class="{side}" d="M([\d.]+) \d+H([\d.]+)"', svg)
    dot = re.search(rf'class="{side}" cx="([\d.]+)"', svg)
    return float(line[1]), float(line[2]), float(dot[1])


def test_every_finding_is_a_row_with_both_verdicts():
    html = ledger_html(LEDGER)
    assert re.findall(r'<tr id="claim-([^"]+)"', html) == LEDGER["id"].tolist()
    for side, column in (("ours", "verdict"), ("published", "published_verdict")):
        assert re.findall(rf'<tr [^>]*data-{side}="([^"]*)"', html) == LEDGER[column].tolist()
    assert "http" not in html.replace("http://www.w3.org", "")  # nothing is loaded


def test_both_sides_share_one_scale_that_keeps_signs_and_order():
    row = {"verdict": "holds", "effect": 0.1, "low": 0.0, "high": 0.6}
    row |= {"published_effect": -0.1, "published_low": -5.0, "published_high": 0.1}
    svg = draw_intervals(row)
    low, high, effect = places(svg, "ours")
    other_low, other_high, other_effect = places(svg, "published")
    assert (low, high) == (75, 144) and other_low == 6  # zero, the edge, beyond the other edge
    assert effect == other_high and effect - 75 == pytest.approx(75 - other_effect)


def test_a_finding_without_numbers_and_one_with_markup_are_shown():
    row = LEDGER.iloc[[0]].assign(finding="a < b & <script>", effect=None, low=None, high=None)
    html = ledger_html(row.assign(note=None, checks=None))
    assert "a &lt; b &amp; &lt;script&gt;" in html
    assert 'class="ours"' not in html
