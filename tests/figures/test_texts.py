"""Captions and takeaways: every figure and table has both, and what a takeaway says is so in the committed mini."""

from __future__ import annotations

import re

import pandas as pd

from lib.config import manifest, paths
from lib.figures import tables
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected
from tests import verdicts_page

TEXTS = tables.LOOK["texts"]
LABELS = [label for label, entry in manifest.load().items() if entry.kind != "page"]
# Names that have a digit.
NAMES = r"S2ORC|F1|CNN-1|Figure \d\.\d+|Chapter \d|VAL-500K|TRAIN-1M|Table \d|\[CLS\]"


def data(label: str) -> pd.DataFrame:
    return pd.read_csv(
        paths.ROOT / f"figures/mini/{label}.csv", keep_default_na=False, na_values=[""]
    )


def ranking(label: str) -> pd.Series:
    return data(label).groupby("model")["normalized"].mean().sort_values(ascending=False)


def verdict(name: str) -> str:
    return data("tab_claims").set_index("id").loc[name, "verdict"]


def students(label: str) -> pd.Series:
    scores = ranking(label)
    return scores[scores.index.str.contains(";S:")]


def test_every_figure_and_table_has_a_caption_and_a_takeaway():
    assert TEXTS.keys() == {*LABELS}
    for label, texts in TEXTS.items():
        assert texts.keys() == {"caption", "takeaway"}, label
        assert all(
            re.fullmatch(r"[A-Z†].*[.]", text) and len(text) < 300 for text in texts.values()
        ), label


def test_a_takeaway_holds_no_number_that_could_go_stale():
    assert {
        label: TEXTS[label]["takeaway"]
        for label in LABELS
        if re.search(r"\d", re.sub(NAMES, "", TEXTS[label]["takeaway"]))
    } == {}


def test_the_corpus_and_tasks_are_as_said():
    for label in ("tab4_1", "tab5_1"):
        corpus = data(label).set_index("split")
        assert (
            corpus["over_384_percent"].sub(corpus["over_384_percent (published)"]).abs().max() < 5
        )
    apart = data("tab5_4").assign(
        gap=lambda rows: rows["over_384_percent (published)"] - rows["over_384_percent"]
    )
    retrieval = data("tab5_5").set_index("task")
    assert {*apart.loc[apart["gap"] > 10, "task"]} == {"IMDB"}
    assert (
        retrieval.loc["GAMES", "over_384_percent"]
        < 50
        < retrieval.loc["GAMES", "over_384_percent (published)"]
    )
    mostly = (
        apart.dropna(subset="over_384_percent")
        .groupby("task")[["over_384_percent", "over_384_percent (published)"]]
        .min()
    )
    assert all({*mostly.index[mostly[column] > 50]} == {"ARXIV", "PAN"} for column in mostly)
    assert (
        retrieval["sources"].idxmin() == "WINES"
        and (data("tab4_2")["documents"] < 0.25 * data("tab4_2")["documents (published)"]).all()
    )


def test_structural_losses_are_as_said():
    simple, every, heads = (
        ranking("fig4_2"),
        ranking("fig4_3"),
        data("tab_heads").set_index("model"),
    )
    assert (
        verdict("cosine-over-mse") == verdicts.HOLDS
        and simple.drop("SBERT").max() < simple["SBERT"]
    )
    on_cosine = every[every.index.str.contains("cosine|contrastive")]
    assert on_cosine.max() - on_cosine.min() < 0.01
    assert {*every.index[-2:]} == {"MSE", "max-margin;MSE;γ=1.5"}
    best = "max-margin;MSE;γ=1.0"
    assert (
        heads["published"].idxmax() == best
        and heads.loc[best, "converged"] < heads.loc["cosine", "converged"]
    )
    distances = (
        data("fig4_4")
        .query("negatives == 'true' and to == 'positives'")
        .pivot(index="model", columns="distance", values="value")
    )
    assert distances.loc[best, "squared L2"] > 3 * distances.loc["Longformer", "squared L2"]
    assert distances.loc[best, "cosine"] < distances.loc["max-margin;MSE;γ=1.5", "cosine"] / 1.2


def test_paragraph_vectors_are_as_said():
    scores = ranking("fig4_5")
    assert (
        scores.index[0].startswith("DBOW")
        and scores[scores.index.str.match("DBOW;")].min()
        > scores[scores.index.str.match("DM;[^+]*$")].max()
    )
    assert verdict("pv-large-dimensions") == verdicts.OPEN


def test_projections_are_as_said():
    alone, teachers = (
        ranking("fig4_7"),
        {"100d": "DM;100d", "1024d": "DBOW;1024d", "2048d": "PV;2048d"},
    )
    assert all(
        score > alone[teachers[name.split(";")[0]]] for name, score in students("fig4_7").items()
    )
    assert students("fig4_7").max() < alone["Longformer"]
    assert verdict("both-cosine-over-structural") == verdicts.NOT_TESTABLE
    assert {verdict("both-mm-mse-below-structural"), verdict("both-mm-mse-over-sbert")} == {
        verdicts.NOT_TESTABLE
    }
    drafts = data("figA_1").assign(score=chance_corrected).groupby("model")["score"].mean()
    assert (
        drafts.idxmin() == "cosine, [CLS]"
        and drafts.drop("cosine, [CLS]").max() - drafts.drop("cosine, [CLS]").min() < 0.02
    )
    history = data("figA_2").query("group == 'contextual loss alone'").groupby("model")["embedding"]
    assert (history.last() >= history.first()).sum() == 4, "falls for twelve of sixteen"


def test_weightings_are_as_said():
    claims = data("tab_claims").query("label in ['fig4_10', 'fig4_11', 'fig4_12']")
    assert not {verdicts.HOLDS, verdicts.REVERSED} & {*claims["verdict"]}
    weighted = ranking("fig4_11")
    masked = weighted[weighted.index.str.startswith("384;")]
    assert masked.median() > weighted[weighted.index.str.startswith("None;")].median()
    published = data("fig4_11").groupby("model")["published_normalized"].mean()
    assert published[masked.index].max() < published[published.index.str.startswith("None;")].min()
    table = data("tab4_10")
    ours = {name.removeprefix("ours: ") for name in table if name.startswith("ours")}
    assert ours != {*table.columns[1:5]} and len(ours) == 4
    factors = data("figA_3").dropna(subset="cosine")
    assert ((factors["cosine"] < factors["another_seed"]) == (factors["factor"] >= 4)).all()
    assert [name.split(";")[0] for name in weighted.index if "λ" in name][:2] == ["384", "384"]
    assert (
        claims.set_index("id").loc["weighting-masking-hurts-mm", "published_verdict"]
        == verdicts.HOLDS
    )
    lengths = data("figA_4").groupby(["model", "updates"])["accuracy"].mean()
    assert (
        lengths["MSE"].iloc[0] < lengths["base"].iloc[0] - 0.05
        and lengths["MSE"].iloc[1] > lengths["MSE"].iloc[0] + 0.04
    )


def test_final_students_are_as_said():
    scores = data("tab5_7").query("task == 'mean'").set_index(["round", "model"])["value"]
    close = scores["all"][["Longformer", "SBERT", "cosine-masked", "MSE-contextual", "only-MSE"]]
    assert (
        close.max() - close.min() < 0.03 and scores["all"][["DM", "PV"]].max() < close.min() - 0.1
    )
    students = ["cosine-masked", "MSE-contextual", "only-MSE"]
    between = scores["all"][students].mean() - scores["1k"][students].mean()
    assert between > 2 * max(
        scores[name][students].max() - scores[name][students].min() for name in ("all", "10k", "1k")
    )
    labels = data("fig5_4").pivot_table(index="task", columns="round", values="value")
    assert (labels["10k"] < labels["all"]).all()
    retrieval = data("fig5_5").dropna(subset="published")
    means, theirs = (
        retrieval.groupby(["metric", "model"])[name].mean() for name in ("value", "published")
    )
    for metric in ("MAP", "MRR"):
        assert means[metric].idxmax() == "SBERT" and theirs[metric].idxmax() in students
        assert (
            metric == "MRR"
            or (
                retrieval[retrieval["metric"] == metric]
                .groupby("task")[["model", "value"]]
                .apply(lambda part: part.set_index("model")["value"].idxmax())
                == "SBERT"
            ).all()
        )


def test_the_news_paper_is_as_said():
    ours = data("news_fig1").query("source == 'ours'").set_index("model")["f1"]
    theirs = data("news_tab1")
    one = ours["one cluster"]
    three = theirs["model"].str.contains("complex")
    assert (
        three.sum() == 3
        and (theirs.loc[three, "f1_public (published)"] < 63).all()
        and (theirs.loc[three, "f1_public"] > one).all()
    )
    annotated = ours[ours.index.str.contains("annotated|complex")]
    assert annotated.max() < one + 12
    widths = data("news_tab3").eval("high_public - low_public")
    assert 8 < widths.median() < 15
    recurrent = [
        ours[
            ours.index.str.match(f"(Bi)?{name}")
            & ~ours.index.str.contains("annotated|complex|triplet|random|64d|teacher")
        ].mean()
        for name in ("GRU", "LSTM")
    ]
    assert (
        abs(recurrent[0] - recurrent[1]) < 2
        and verdict("news-recurrent-over-transformers") == verdicts.HOLDS
    )
    distilled = (
        data("news_tab6")
        .set_index("model")["f1_public"]
        .drop(["teacher", "one cluster", "teacher tokens, averaged"])
    )
    assert distilled.idxmin() == "CNN-1;MSE"
    last = data("news_tab7")
    last = last[last["model"].str.endswith("plateau")].set_index("model")
    assert last["f1_public (published)"].max() - last["f1_public (published)"].min() < 1
    assert verdict("news-half-width-costs") == verdicts.HOLDS
    ledger = data("tab_claims").set_index("id")["effect"]
    assert (
        18 < ledger["news-twenty-times-smaller"] < 22
        and ledger["news-five-times-faster"] > 3
        and ledger["news-one-percent"] > 0.05
    )


def test_the_ledger_is_as_said():
    ledger = data("tab_claims")
    for column in ("verdict", "published_verdict"):
        assert ledger[column].value_counts().idxmax() == verdicts.OPEN
    turned = {*ledger.loc[ledger["verdict"] == verdicts.REVERSED, "id"]}
    assert turned == {
        *("pv-over-sbert", "arxiv-pv-best", "contextual-below-own-teacher"),
        *("retrieval-mrr-cosine-masked", "retrieval-students-over-context", "news-cls-below-mean"),
    }
    failed = data("tab_checks").query("passed == False").groupby("check")["label"].agg(set)
    assert failed["treatment_given"] == {"fig4_8", "weighting-unmasked-heavy-structural"}, (
        "but beside cosine"
    )
    assert failed["students_differ"] == {"fig4_8", "fig4_9", "fig4_12"}
    assert failed["not_collapsed"] == {"fig4_7"}, "one student, just"
    assert {*failed.index} == {"treatment_given", "students_differ", "not_collapsed"}


def test_the_page_of_verdicts_is_that_of_the_committed_ledgers():
    assert verdicts_page.PAGE.read_text(encoding="utf-8") == verdicts_page.page()
    row = next(
        line for line in verdicts_page.page().splitlines() if line.startswith("| Of the two simple")
    )
    assert row.endswith("| Figure 4.2 | holds | holds | holds | open |")
