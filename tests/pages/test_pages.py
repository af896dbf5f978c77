"""The pages that notebook 09 writes: numbers come from the tables, whatever these say."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from lib import pages
from lib.config import paths, profiles
from lib.ledger import robustness
from lib.pages import front_page, results, verdicts
from lib.statistics.verdicts import RULES
from lib.words import MISSING
from tests.fake_ledger import make_ledger


@pytest.fixture
def tables(tmp_path):
    """The committed tables of mini with a ledger in which every finding holds, to be changed."""
    shutil.copytree(paths.ROOT / "figures" / "mini", tmp_path / "mini")
    make_ledger().to_csv(tmp_path / "mini" / "tab_claims.csv", index=False)
    return pages.Tables(tmp_path / "mini")


def change(tables, label, **columns):
    file = tables.folder / f"{label}.csv"
    frame = pd.read_csv(file, keep_default_na=False, na_values=[""])
    frame.assign(**columns).to_csv(file, index=False)


def test_a_turned_verdict_and_a_moved_number_turn_the_sentences(tables):
    assert "cosine is ahead of MSE by" in results.results_page(tables, tables.folder)
    change(tables, "tab_claims", verdict="reversed", effect=-0.1, low=-0.2, high=-0.05)
    page = results.results_page(tables, tables.folder)
    assert "cosine is behind MSE by .100 [.050, .200]" in page
    assert f"{len(pages.thesis_findings(tables.ledger()))} are reversed" in page


def test_the_two_questions_are_counted_and_listed_apart(tables):
    change(tables, "tab_claims", survives="readouts disagree", none_verdict="open")
    page = verdicts.verdicts_page(tables, {})
    thesis = pages.thesis_findings(tables.ledger())
    assert "These survive:" not in page and "These repeat:" in page
    told = results.results_page(tables, tables.folder)
    assert f"{len(thesis)} depend on the readout" in told
    assert ".060 (holds)" in page and ".070 (open)" in page


def judge_again(tables, **changed):
    """Write `tab_robust`: every answer of the ledger as run, and with the base ones changed."""
    as_run = robustness.select_decided(tables.ledger().reset_index()).drop(columns="prefix")
    again = as_run.assign(variation="other base", same="yes")
    for name, verdict in changed.items():
        named = again["id"] == name.replace("_", "-")
        assert named.any()
        again.loc[named, ["verdict", "same"]] = verdict, "no"
    both = pd.concat([as_run.assign(variation=robustness.AS_RUN, same="yes"), again])
    both.to_csv(tables.folder / "tab_robust.csv", index=False)
    return as_run["id"].nunique()


def test_answers_that_another_run_would_change_are_counted_and_listed(tables):
    number = judge_again(tables, cosine_over_mse="open")
    told = pages.tell_robustness(tables)
    assert f"the {number} findings" in told and f"{number - 1} (other base)" in told
    assert "None turns" in told
    page = verdicts.verdicts_page(tables, {})
    listed = page.split("another run would change")[1].split("##")[0]
    finding = tables.claim("cosine-over-mse")["finding"]
    assert listed.count("| holds | open") == listed.count(finding) == 3  # once for each readout
    judge_again(tables, cosine_over_mse="reversed")
    assert "One turn" in pages.tell_robustness(tables)


def test_answers_judged_again_are_not_told_beside_a_ledger_that_has_changed(tables):
    judge_again(tables, cosine_over_mse="open")
    change(tables, "tab_claims", effect=0.051)  # with the verdicts that it had
    assert pages.tell_robustness(tables) == ""
    assert "another run would change" not in verdicts.verdicts_page(tables, {})


def test_a_failed_check_that_no_finding_needs_is_told_and_no_other(tables):
    """One of a figure is needed by findings about that figure alone."""
    change(tables, "tab_checks", passed=False)
    told = pages.tell_unneeded_failures(tables)
    assert "Figure 4.12, cosine with the student" in told and "Figure 4.9, cosine with" not in told
    assert "Figure 4.8, cosine of different" in told and "Figure 4.12, cosine of dif" not in told
    assert "in round 1k" not in told, "findings of Figure 5.4 need the rounds of 5.3"
    assert "minus base, no head" in told and "DM;100d on all tasks" not in told


def test_what_was_not_drawn_is_not_told(tables):
    for file in tables.folder.glob("*.csv"):
        if file.stem != "tab_claims":
            file.unlink()
    told = front_page.tell_findings(tables) + results.results_page(tables, tables.folder)
    told += verdicts.verdicts_page(tables, {})
    assert "nan" not in told and MISSING not in told


def test_counts_agree_with_the_ledger(tables):
    ledger = pages.thesis_findings(tables.ledger())
    head, _, *lines = verdicts.counts_table({"mini": tables.ledger()}).splitlines()
    for place, column in ((3, "verdict"), (4, "survives")):
        for verdict, number in ledger[column].value_counts().items():
            row = next(line for line in lines if line.startswith(f"| {verdict} |"))
            assert row.split("|")[place].strip() == str(number)
    assert [name.strip() for name in head.split("|")[3:5]] == ["mini repeats", "mini survives"]


def test_a_ledger_of_other_rules_is_marked_where_it_is_crossed(tables):
    older = tables.ledger().drop(columns=["rules", "survives"])
    page = verdicts.verdicts_page(tables, {"lab": older})
    assert "| lab (rules 0) |" in page and verdicts.OTHER_RULES in page
    second = tables.ledger().assign(rules=RULES - 1)
    page = verdicts.verdicts_page(tables, {"lab": second})
    assert f"| lab repeats (rules {RULES - 1}) | lab survives (rules {RULES - 1}) |" in page
    same = verdicts.verdicts_page(tables, {"lab": tables.ledger()})
    assert "| lab repeats | lab survives |" in same and verdicts.OTHER_RULES not in same
    assert pages.find_rules(tables.ledger()) == RULES


def test_only_what_stands_between_markers_is_replaced():
    text = "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n"
    told = "before\n<!-- a -->\nnew\n<!-- /a -->\nbetween\n<!-- b -->\n1\n<!-- /b -->\nafter\n"
    assert front_page.replace_blocks(text, {"a": "new", "b": "1"}) == told
    with pytest.raises(ValueError, match="once each"):
        front_page.replace_blocks("no markers", {"a": "new"})


def test_a_changed_profile_writes_under_the_artifact_root(tables, tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    profile = profiles.load("mini", seeds=[1])
    shutil.copytree(tables.folder, paths.figures(profile))
    committed = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    written = pages.write_pages(profile)
    assert all(tmp_path in file.parents and file.is_file() for file in written)
    assert (paths.ROOT / "README.md").read_text(encoding="utf-8") == committed


def test_pages_about_a_scale_model_are_written_for_mini_alone(tables, tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    profile = profiles.load("lab", seeds=[1])
    shutil.copytree(tables.folder, paths.figures(profile))
    assert {file.name for file in pages.write_pages(profile)} == {"verdicts.md", "figures.md"}


def test_a_run_that_nobody_commits_is_no_column(tables, monkeypatch):
    root = tables.folder.parent
    for name in ("mini", "lab", "smoke"):
        shutil.copytree(tables.folder, root / "figures" / name)
    monkeypatch.setattr(paths, "ROOT", root)
    assert {*pages.other_ledgers(root / "figures" / "mini")} == {"lab"}
