"""The tables that notebook 09 shows of a ledger, and those that `docs/publish.py` puts on pages."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from docs import publish
from lib.config import paths
from lib.ledger import claims

VERDICTS = {
    "published_verdict": ["holds", "open", "holds", "not run", "holds"],
    "verdict": ["holds", "reversed", "open", "holds", "holds"],
    "survives": ["holds", "holds", "readouts disagree", "reversed", "holds"],
}
LEDGER = pd.DataFrame({"label": ["fig4_2", "fig4_2", "fig4_3", "fig5_3", "news_tab1"]} | VERDICTS)
MINI = claims.read_table(paths.ROOT / "figures" / "mini", "tab_claims")


def test_findings_are_counted_by_what_becomes_of_them():
    told = {"findings": 4, "repeat": 2, "reversed": 1, "open": 1, "survive": 2}
    assert publish.count_findings(LEDGER) == told | {"repeat and survive": 1}, "of the thesis"
    counts = claims.count_verdicts({"a": LEDGER, "b": LEDGER.iloc[:1]}).set_index("verdict")
    asked = ["published", "a repeats", "a survives", "b repeats", "b survives"]
    assert counts.loc["holds", asked].tolist() == [2, 2, 2, 1, 1]
    assert counts[asked].sum().tolist() == [4, 4, 4, 1, 1]


def test_the_readme_has_the_numbers_of_the_committed_ledger():
    text = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    numbers = pd.DataFrame([publish.count_findings(MINI)])
    assert publish.fill_blocks(text, numbers=numbers) == text


def test_the_results_have_every_finding_with_its_verdicts():
    text = (paths.ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    lab = claims.read_table(paths.ROOT / "figures" / "lab", "tab_claims")
    blocks = {"findings": claims.shorten_ledger(MINI)}
    blocks["counts"] = claims.count_verdicts({"mini": MINI, "lab": lab})
    assert publish.fill_blocks(text, **blocks) == text
    row = MINI.set_index("id").loc["cosine-over-mse"]
    table = text.split("<!-- findings -->")[1]
    (line,) = (line for line in table.splitlines() if row["finding"] in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    interval = f"[{row['low']:.3f}, {row['high']:.3f}]"
    numbers = [f"{row['published_effect']:.3f}", f"{row['effect']:.3f}", interval]
    assert cells[1:] == [*numbers, row["verdict"], row["survives"]]


def test_only_what_is_between_the_marks_is_replaced_and_a_place_is_needed():
    text = "a\n<!-- t -->\nold\n<!-- /t -->\nb"
    filled = publish.fill_blocks(text, t=pd.DataFrame({"c": [1]}))
    assert filled == "a\n<!-- t -->\n| c |\n| ---: |\n| 1 |\n<!-- /t -->\nb"
    with pytest.raises(ValueError, match="unpack"):
        publish.fill_blocks("a", t=LEDGER)


def test_every_saved_figure_is_in_the_gallery_and_its_links_lead_to_files():
    page = (paths.ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert page == publish.make_gallery()
    targets = re.findall(r'(?<=\]\()[^)]+|(?<=src=")[^"]+', page)
    assert targets and all((paths.ROOT / "docs" / target).is_file() for target in targets)
    drawn = {file.stem for file in paths.ROOT.glob("figures/mini/*.svg")}
    assert drawn <= {*re.findall(r"`\./run_all\.sh mini (\w+)`", page)}
