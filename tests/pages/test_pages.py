"""The pages that notebook 09 writes: numbers come from the tables, whatever these say."""

from __future__ import annotations

import re
import shutil

import pandas as pd
import pytest

from lib import pages
from lib.chapters import final_students
from lib.config import paths, profiles
from lib.ledger import robustness
from lib.pages import answers, front_page, results, verdicts
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


def test_those_that_repeat_are_counted_by_whether_they_survive(tables):
    ledger = tables.ledger()
    thesis = ~ledger["label"].str.startswith("news")
    turned = ledger.index[thesis & ~ledger["label"].str.startswith(verdicts.RANKED)][:3]
    change(
        tables,
        "tab_claims",
        verdict=ledger["verdict"].mask(ledger.index == turned[0], "open").to_numpy(),
        survives=ledger["survives"].mask(ledger.index.isin(turned), "reversed").to_numpy(),
    )
    told = front_page.tell_findings(tables)
    holding = (ledger["verdict"][thesis] == "holds").sum()
    assert f"{thesis.sum()} findings, {holding - 1} repeat" in told
    assert "two are reversed" in told


def test_a_finding_that_may_be_one_of_many_has_its_q(tables):
    change(tables, "tab_claims", q=0.04, survives_q=0.04)
    clear = verdicts.verdicts_page(tables, {})
    change(tables, "tab_claims", q=0.06, survives_q=0.04)
    one = verdicts.verdicts_page(tables, {})
    change(tables, "tab_claims", q=0.06, survives_q=0.06)
    both = verdicts.verdicts_page(tables, {})
    assert clear.count("q .0") == 0 < one.count("q .06") < both.count("q .06")


def test_lists_have_both_answers_of_a_finding(tables):
    change(tables, "tab_claims", survives="reversed", compare_effect=-0.123, none_effect=-0.234)
    lines = verdicts.verdicts_page(tables, {}).splitlines()
    ledger = pages.thesis_findings(tables.ledger())
    with_heads = ledger[~ledger["label"].str.startswith(verdicts.RANKED)]
    with_heads = with_heads[with_heads["verdict"] == "holds"]  # the others are numbers
    for finding in with_heads["finding"]:
        listed = [line for line in lines if line.startswith(f"* {finding} (")]
        assert len(listed) == 2  # among those that repeat, and among those that are reversed
        assert all(".050 [.020, .080]" in line and "-.123" in line for line in listed)


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


def test_survivors_are_told_with_how_many_of_them_last(tables):
    judge_again(tables, cosine_over_mse="open")
    told = verdicts.tell_survivors(tables)
    kept, lasting = re.search(r"(\w+) hold\b.*?\((\w+) on", told).groups()
    assert int(kept) == int(lasting) + 1


def test_an_effect_too_small_to_matter_is_marked_in_the_list_where_it_is(tables):
    change(tables, "tab_claims", compare_effect=0.019)
    repeats, survives = verdicts.verdicts_page(tables, {}).split("These survive:")
    assert "too small to matter" in survives and "too small to matter" not in repeats


def test_findings_are_grouped_by_both_answers(tables):
    ledger = pages.thesis_findings(tables.ledger())
    first, second, third, *_ = ledger.index[ledger["verdict"] == "holds"]
    ledger.loc[first, "survives"] = "reversed"
    ledger.loc[second, ["verdict", "survives"]] = "open", "not testable here"
    groups = pages.group_findings(ledger).splitlines()
    (turned,) = [group for group in groups if ledger.at[first, "finding"] in group]
    (held,) = [group for group in groups if ledger.at[third, "finding"] in group]
    assert "holds" in turned and "reversed" in turned and "reversed" not in held
    assert not any(ledger.at[second, "finding"] in group for group in groups)


def test_stand_ins_for_citations_are_told_by_task(tables):
    figure = tables.read("fig5_3")
    student = figure["model"].str.startswith((*final_students.list_students(),))
    accuracy = figure["chance"].mask(student & (figure["task"] != "AAN"), 0.75)
    change(tables, "fig5_3", value=accuracy)
    half = figure["chance"].eq(0.5) & figure["task"].isin(pages.CITATIONS)
    assert half.sum() == figure["task"].isin(pages.CITATIONS).sum()
    some = pages.tell_citations(tables)
    assert all(
        f".{lead}00 on {task}" in some for task, lead in (("OC", 5), ("S2ORC", 5), ("AAN", 0))
    )
    change(tables, "fig5_3", value=figure["chance"].mask(student, 0.75))
    assert ".02" not in pages.tell_citations(tables)


def test_the_control_with_as_many_steps_is_told_where_there_is_one(tables):
    rows = tables.read("tab_heads").set_index("model")
    columns = ["thesis", "thesis' steps"]
    rows.loc["cosine", columns] = 0.1
    rows.loc["max-margin;MSE;γ=1.0", columns] = 0.4, 0.2
    rows.reset_index().to_csv(tables.folder / "tab_heads.csv", index=False)
    assert ".300" in pages.tell_steps(tables) and ".100" in pages.tell_steps(tables)
    (tables.folder / "tab_heads.csv").unlink()
    assert "3,130" in pages.tell_steps(tables) and ".300" not in pages.tell_steps(tables)


def test_a_failed_check_that_no_finding_needs_is_told_and_no_other(tables):
    """One of a figure is needed by findings about that figure alone."""
    change(tables, "tab_checks", passed=False)
    told = pages.tell_unneeded_failures(tables)
    assert "Figure 4.12, cosine with the student" in told and "Figure 4.9, cosine with" not in told
    assert "Figure 4.8, cosine of different" in told and "Figure 4.12, cosine of dif" not in told
    assert "in round 1k" not in told, "findings of Figure 5.4 need the rounds of 5.3"
    assert "minus base, no head" in told and "DM;100d on all tasks" not in told


def test_what_the_untrained_base_passes_is_said_of_the_readout_that_is_told(tables):
    words = "the untrained base passes, too"
    findings = len(pages.thesis_findings(tables.ledger()))
    change(tables, "tab_claims", vacuous="yes", none_vacuous="yes")  # not by heads that compare
    repeats, survives = verdicts.verdicts_page(tables, {}).split("These survive:")
    assert repeats.count(words) >= findings - 2 and survives.split("## ")[0].count(words) == 0
    change(tables, "tab_claims", vacuous="", compare_vacuous="yes")
    repeats, survives = verdicts.verdicts_page(tables, {}).split("These survive:")
    assert repeats.count(words) == 0 and survives.count(words) >= findings - 2


def test_sentences_beside_a_verdict_follow_the_tables(tables):
    heads = tables.read("tab_heads").set_index("model")
    heads.loc["cosine", ["thesis", "compare", "none"]] = 0.5, 0.6, 0.7
    heads.loc["Longformer", ["thesis", "compare", "none"]] = 0.4, 0.7, 0.5
    heads.loc["SBERT", ["thesis", "compare", "none"]] = 0.6, 0.7, 0.8
    heads.loc["SBERT", "thesis' steps"] = 0.123 + heads.at["Longformer", "thesis' steps"]
    heads.loc["max-margin;MSE;γ=1.5", "thesis"] = 0.321
    heads.reset_index().to_csv(tables.folder / "tab_heads.csv", index=False)
    told = answers.tell_cosine_by_readout(tables)
    assert "base by the thesis' heads and no head " in told and "(.100, -.100, .200)" in told
    assert "SBERT by no readout (-.100, -.100, -.100)" in told
    figure = tables.read("fig5_3")
    change(tables, "fig5_3", chance=0.25, value=figure["model"].eq("only-MSE;all").mul(0.3) + 0.25)
    assert "guessing on 25.0%" in results.results_page(tables, tables.folder)
    page = verdicts.verdicts_page(tables, {})
    first, rest = page.split("These survive:")
    assert all(words in first and words not in rest for words in (".123.", ".321", "-.400."))


def test_a_lead_too_small_to_matter_is_no_first_place(tables):
    rows = tables.read("tab_heads").set_index("model")
    for lead, level in ((0.019, True), (0.03, False)):
        rows.loc["cosine", "thesis"] = 0.5
        rows.loc["max-margin;MSE;γ=1.0", "thesis"] = 0.5 + lead
        rows.reset_index().to_csv(tables.folder / "tab_heads.csv", index=False)
        told = next(line for line in answers.tell_losses(tables) if "as in the thesis, max" in line)
        assert ("level with cosine" in told) is level and f".0{lead * 1000:.0f}" in told


def test_students_of_context_are_counted_by_what_became_of_them(tables):
    watched, drawn = tables.read("figA_2"), tables.read("fig4_7")
    alone = watched["share"].eq(1)
    names = watched.loc[alone, "model"].unique()
    change(
        tables, "figA_2", chance=watched["embedding"].sub(1).mask(watched["model"] == names[0], 2)
    )
    change(tables, "fig4_7", collapsed=drawn["model"].isin(names[:5]))
    told = answers._students_of_context(tables)
    assert f"{len(names)} students, five have" in told and "One end" in told


def test_what_was_not_drawn_is_not_told(tables):
    for file in tables.folder.glob("*.csv"):
        if file.stem != "tab_claims":
            file.unlink()
    told = front_page.tell_findings(tables) + results.results_page(tables, tables.folder)
    told += verdicts.verdicts_page(tables, {})
    assert "nan" not in told and MISSING not in told


def test_collapsed_students_are_told_where_all_students_were_drawn(tables):
    drawn = tables.read("fig4_7")
    change(tables, "fig4_7", collapsed=drawn["model"].str.startswith("100d"))
    page = verdicts.verdicts_page(tables, {})
    assert "Two of the six students with two layers" in page and "two of the ten others" in page
    drawn[~drawn["model"].str.startswith("1024d")].to_csv(tables.folder / "fig4_7.csv", index=False)
    assert "students with two layers have" not in verdicts.verdicts_page(tables, {})


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


def test_told_counts_add_up(tables):
    ledger = tables.ledger()
    thesis = pages.thesis_findings(ledger)
    for part in (thesis, ledger.drop(thesis.index)):
        assert sum(map(int, re.findall(r"\d+", pages.verdict_counts(part)))) == len(part)


def test_an_open_finding_is_told_with_what_could_be_seen(tables):
    change(tables, "tab_claims", verdict="open", published_effect=0.02, low=-0.05, high=0.03)
    rows = verdicts.find_open(tables.ledger())
    assert rows["reach"].eq(0.04).all() and not rows["within"].any()
    change(tables, "tab_claims", published_effect=-0.05)
    assert verdicts.find_open(tables.ledger())["within"].all()
    page = verdicts.verdicts_page(tables, {})
    assert all(page.count(verdicts.escape(name)) >= 2 for name in rows["finding"])


def test_every_finding_is_on_the_page_of_verdicts(tables):
    page = verdicts.verdicts_page(tables, {})
    rows = [line for line in page.splitlines() if line.count("|") == 6]
    assert len(rows) >= len(tables.ledger())


def test_only_what_stands_between_markers_is_replaced():
    text = "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\nafter\n"
    told = "before\n<!-- a -->\nnew\n<!-- /a -->\nbetween\n<!-- b -->\n1\n<!-- /b -->\nafter\n"
    assert front_page.replace_blocks(text, {"a": "new", "b": "1"}) == told
    with pytest.raises(ValueError, match="once each"):
        front_page.replace_blocks("no markers", {"a": "new"})


def test_the_front_page_follows_the_tables(tables):
    heads = pd.read_csv(tables.folder / "tab_heads.csv", keep_default_na=False, na_values=[""])
    best = heads["model"].eq("max-margin;MSE;γ=1.0")
    change(tables, "tab_heads", thesis=heads["thesis"].mask(best, 0.5 + heads["thesis"]))
    (tables.folder / "tab_search.csv").write_text(
        "reader,sentence\nteacher,0.123\nstudent after,0.456\nTF-IDF,0.789\n"
    )
    told = front_page.tell_findings(tables)
    assert {"12%", "46%", "79%"} <= {*re.findall(r"\d+%", told)}
    assert told.count("\n* ") == 5


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


def test_real_documents_stand_beside_the_small_scale(tables, monkeypatch):
    """A finding is told only where both tested it, with both answers of each."""
    lab = pages.Tables(tables.folder.parent / "figures" / "lab")
    shutil.copytree(tables.folder, lab.folder)
    tested = tables.ledger().query("verdict == 'holds'").index[:3]
    change(lab, "tab_claims", profile="lab", verdict="not run", survives="not run")
    rows = pd.read_csv(lab.folder / "tab_claims.csv", keep_default_na=False, na_values=[""])
    chosen = rows["id"].isin(tested)
    rows.loc[chosen, ["verdict", "survives", "effect"]] = ["reversed", "open", -0.123]
    rows.to_csv(lab.folder / "tab_claims.csv", index=False)
    monkeypatch.setattr(paths, "ROOT", lab.folder.parents[1])
    told = results.tell_real_documents(tables.ledger(), lab.folder)
    lines = [line for line in told.splitlines() if line.startswith("| ")]
    assert lines[0].count("mini") == lines[0].count("lab") == 2
    assert len(lines) == 1 + len(tested)
    assert all("| reversed (-.123" in line and "| open (" in line for line in lines[1:])
