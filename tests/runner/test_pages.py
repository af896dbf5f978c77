"""The pages that notebook 09 writes: numbers come from the tables, whatever these say."""

from __future__ import annotations

import re
import shutil

import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.runner import pages
from lib.words import MISSING


@pytest.fixture
def tables(tmp_path):
    """The committed tables of mini, to be changed."""
    shutil.copytree(paths.ROOT / "figures" / "mini", tmp_path / "mini")
    return pages.Tables(tmp_path / "mini")


def change(tables, label, **columns):
    file = tables.folder / f"{label}.csv"
    frame = pd.read_csv(file, keep_default_na=False, na_values=[""])
    frame.assign(**columns).to_csv(file, index=False)


def test_a_turned_verdict_and_a_moved_number_turn_the_sentences(tables):
    before = pages.readme_numbers(tables)
    assert "Cosine is ahead of MSE by" in before
    change(tables, "tab_claims", verdict="reversed", effect=-0.1, low=-0.2, high=-0.05)
    assert "Cosine is behind MSE by .100 [.050, .200]" in pages.readme_numbers(tables)
    assert "59 are reversed" in pages.results_page(tables, tables.folder)


def test_what_was_not_drawn_is_not_told(tables):
    for file in tables.folder.glob("*.csv"):
        if file.stem != "tab_claims":
            file.unlink()
    told = pages.readme_numbers(tables) + pages.results_page(tables, tables.folder)
    assert "nan" not in told and MISSING not in told


def test_counts_agree_with_the_ledger(tables):
    ledger = pages.thesis_findings(tables.ledger())
    table = pages.counts_table({"mini": tables.ledger()})
    for verdict, number in ledger["verdict"].value_counts().items():
        row = next(line for line in table.splitlines() if line.startswith(f"| {verdict} |"))
        assert row.split("|")[3].strip() == str(number)


def test_told_counts_add_up(tables):
    ledger = tables.ledger()
    thesis = pages.thesis_findings(ledger)
    for part in (thesis, ledger.drop(thesis.index)):
        assert sum(map(int, re.findall(r"\d+", pages.verdict_counts(part)))) == len(part)


def test_every_finding_is_on_the_page_of_verdicts(tables):
    page = pages.verdicts_page(tables, {}, tables.folder)
    rows = [line for line in page.splitlines() if line.count("|") == 5]
    assert len(rows) >= len(tables.ledger())


def test_only_the_block_between_the_markers_is_replaced():
    start, end = pages.MARKERS
    text = f"before\n{start}\nold\n{end}\nafter\n"
    assert pages.between_markers(text, "new") == f"before\n{start}\nnew\n{end}\nafter\n"
    with pytest.raises(ValueError, match="once each"):
        pages.between_markers("no markers", "new")


def test_a_changed_profile_writes_under_the_artifact_root(tables, tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    profile = profiles.load("mini", seeds=[1])
    shutil.copytree(tables.folder, paths.figures(profile))
    committed = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    written = pages.write_pages(profile)
    assert all(tmp_path in file.parents and file.is_file() for file in written)
    assert (paths.ROOT / "README.md").read_text(encoding="utf-8") == committed
