"""The ledger as a table: every finding once, on one scale, and safe to put into a page."""

import re

import pytest

from lib.figures.ledger_table import draw_intervals, ledger_html
from tests.fake_ledger import make_ledger


@pytest.fixture(scope="module")
def ledger():
    return make_ledger()


def places(svg, side):
    """The three places of an interval: low, high, effect."""
    line = re.search(rf'class="{side}" d="M([\d.]+) \d+H([\d.]+)"', svg)
    dot = re.search(rf'class="{side}" cx="([\d.]+)"', svg)
    return float(line[1]), float(line[2]), float(dot[1])


def test_every_finding_is_a_row_with_both_questions(ledger):
    html = ledger_html(ledger)
    assert re.findall(r'<tr id="claim-([^"]+)"', html) == ledger["id"].tolist()
    columns = {"heads": "verdict", "survives": "survives", "published": "published_verdict"}
    for side, column in columns.items():
        assert re.findall(rf'<tr [^>]*data-{side}="([^"]*)"', html) == ledger[column].tolist()
    assert not re.search(r"\bnan\b", html)
    assert "http" not in html.replace("http://www.w3.org", "")  # nothing is loaded


def test_both_sides_share_one_scale_that_keeps_signs_and_order():
    row = {"verdict": "holds", "effect": 0.1, "low": 0.0, "high": 0.6}
    row |= {"published_effect": -0.1, "published_low": -5.0, "published_high": 0.1}
    svg = draw_intervals(row)
    low, high, effect = places(svg, "heads")
    other_low, other_high, other_effect = places(svg, "published")
    assert (low, high) == (75, 144) and other_low == 6  # zero, the edge, beyond the other edge
    assert effect == other_high and effect - 75 == pytest.approx(75 - other_effect)


def test_both_readouts_of_the_second_question_are_drawn_and_told(ledger):
    row = ledger.iloc[0].to_dict()
    assert places(draw_intervals(row), "compare") != places(draw_intervals(row), "none")
    html = ledger_html(ledger.iloc[[0]])
    assert "comparing: +.060" in html and "no head: +.070" in html


def test_what_the_text_says_is_quoted_and_what_it_does_not_say_is_marked(ledger):
    html = ledger_html(ledger)
    assert html.count("<dt>read off the figure; the text says</dt>") == ledger["read_off"].sum() > 0
    assert ledger.loc[0, "quote"].split("'")[0] in html


def test_a_vacuous_finding_says_so(ledger):
    words = "the untrained base passes, too"
    assert words not in ledger_html(ledger)
    assert ledger_html(ledger.iloc[[0]].assign(vacuous="yes")).count(words) == 1


def test_a_finding_without_numbers_and_one_with_markup_are_shown(ledger):
    row = ledger.iloc[[0]].assign(finding="a < b & <script>", effect=None, low=None, high=None)
    html = ledger_html(row.assign(note=None, checks=None))
    assert "a &lt; b &amp; &lt;script&gt;" in html
    assert 'class="heads"' not in html
