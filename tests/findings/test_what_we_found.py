"""What the chapters 4 to 9 say they found is what the committed figures of mini say: every number, and every verdict.

A sentence whose number moves fails here, and so does a number that no line below accounts for.
"""

from __future__ import annotations

import functools
import json
import re

import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.findings import claims
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected

OPEN, HOLDS, REVERSED, EQUIVALENT = verdicts.OPEN, verdicts.HOLDS, verdicts.REVERSED, verdicts.EQUIVALENT
# Names, not findings: models and labels in code, figures, tables, dimensions of teachers, settings of the thesis.
NAMES = (
    r"`[^`]*`|\$[^$]*\$|(Figures?|Tables?|notebook|Chapter) [\dA]+(\.\d+)?( and \d+\.\d+)?|\((A|4)\.\d+\)|"
    r"\b(100|1024|2048)\b|S2ORC|\bF1\b"
)


@functools.cache
def data(label: str, folder: str = "mini") -> pd.DataFrame:
    return pd.read_csv(paths.ROOT / "figures" / folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def section(name: str) -> str:
    cells = json.loads((paths.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    (text,) = ("".join(cell["source"]) for cell in cells if "".join(cell["source"]).startswith("## What we found"))
    return text.split("## You should now know")[0]


def short(value: float, digits: int = 3) -> str:
    """As the prose has it: .045, -.30, 1.2."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value + 0.0:.{digits}f}")


def claim(name: str, verdict: str, digits: int = 3, *, margin: bool = False) -> list[str]:
    """Effect and interval of a claim of the ledger, whose verdict must be this one. margin: of what the margin is
    the limit, so that the gain is what is left of it."""
    row = data("tab_claims").set_index("id").loc[name]
    assert row["verdict"] == verdict, (name, row["verdict"])
    effect, low, high = row[["effect", "low", "high"]]
    if margin:
        effect, low, high = (verdicts.MARGIN - end for end in (effect, high, low))
    return [short(effect, digits), f"[{short(low, digits)}, {short(high, digits)}]"]


def verdict(name: str, expected: str) -> list[str]:
    assert data("tab_claims").set_index("id").loc[name, "verdict"] == expected, name
    return []


def checked(check: str, label: str) -> pd.Series:
    rows = data("tab_checks")
    return rows[(rows["check"] == check) & (rows["label"] == label)].iloc[0]


def means(label: str) -> pd.Series:
    return data(label).groupby("model")["normalized"].mean().sort_values(ascending=False)


def pv_grid() -> list[str]:
    scores = means("fig4_5")
    single = scores[~scores.index.str.contains("+", regex=False)]
    dbow, dm = (single[single.index.str.startswith(start)] for start in ("DBOW;", "DM;"))
    assert dbow.min() > dm.max()
    pairs = scores[scores.index.str.contains("+", regex=False)]
    assert all(score < scores[name.split("+")[1]] for name, score in pairs.items())
    weak = data("fig4_5").query("model == 'DM;100;lowercase;2'")
    assert (weak["value"] - weak["chance"] < 0.0255).sum() == 3 and len(weak) == 6
    facts = [*claim("pv-large-dimensions", HOLDS), *claim("pv-preprocessing", HOLDS), ".025"]
    facts += claim("pv-compounds-better", OPEN) + claim("pv-low-min-count", OPEN)
    verdict("pv-dbow-first-and-last", HOLDS), verdict("pv-compounds-alike", HOLDS), verdict("pv-dbow-varies-more", OPEN)
    return facts


def projections() -> list[str]:
    alone = means("fig4_7")
    students = alone[alone.index.str.contains(";S:")]
    assert len(students) == 16 and students.max() < alone["Longformer"]
    teachers = {"100d": "DM;100d", "1024d": "DBOW;1024d", "2048d": "PV;2048d"}
    assert all(score > alone[teachers[name.split(";")[0]]] for name, score in students.items())
    collapsed = data("fig4_7").query("collapsed == True")["model"].unique()
    assert [*collapsed] == [students.index[1]]
    strong = means("fig4_9")
    first = strong[strong.index.str.contains(";S:")].index[:2]
    assert all(name.startswith("100d") for name in first) and strong[first].min() > strong["Longformer"] - 0.001
    history = data("figA_2").groupby(["group", "model"], sort=False)["embedding"]
    falls = (history.last() < history.first()).groupby("group").agg(["sum", "count"])
    assert falls.loc["with max-margin MSE"].tolist() == [14, 14] and data("figA_2")["update"].max() == 40
    drafts = data("figA_1").assign(score=chance_corrected).groupby("model")["score"].mean()
    share = checked("treatment_given", "fig4_9")
    assert checked("students_differ", "fig4_8")["low"] > 0.999 and 0.12 < share["value"] < 0.13
    assert round(checked("treatment_given", "fig4_8")["value"], 2) == 0.01
    for name in ("contextual-small-over-large-teacher", "contextual-1024-over-2048", "both-mm-mse-below-structural"):
        verdict(name, OPEN)
    verdict("contextual-below-own-teacher", REVERSED), verdict("both-cosine-over-structural", verdicts.NOT_TESTABLE)
    return [
        *claim("pv-over-sbert", REVERSED, 2),
        *claim("contextual-small-over-largest-teacher", HOLDS),
        "{} of {}".format(*falls.loc["contextual loss alone"]),
        f"all {falls.loc['with max-margin MSE', 'count']}",
        f"({short(share['low'], 2)} to {short(share['high'], 2)})",
        f"({short(drafts['cosine, [CLS]'] - drafts['cosine, mean of tokens'])})",
        f"({short(drafts['cosine + 2048d, CCA'] - drafts['cosine + 2048d, SoftCCA'])})",
        f"mean cosine {short(checked('not_collapsed', 'fig4_7')['value'], 2)}",
        "above .999",
    ]


def weighting() -> list[str]:
    scores = means("fig4_10")
    weighted = scores[scores.index.str.contains("λ=") | (scores.index == "no-weighting")]
    factors = data("figA_3").dropna(subset="cosine").set_index(["loss", "factor"])
    assert (factors.loc["cosine", "cosine"] > factors.loc["cosine", "another_seed"]).all()
    long, medium = (
        data("figA_4", folder).groupby(["model", "updates"])["accuracy"].mean() for folder in ("mini", "mini_medium")
    )
    best, base = "max-margin MSE, γ=1", long["base", 0]
    pairs = {label: claims.neighbours(label)["within_noise"] for label in ("fig4_10", "fig4_11")}
    for name in ("weighting-masked-over-plain-sum", "weighting-masking-helps-cosine", "weighting-masking-hurts-mm"):
        verdict(name, OPEN)
    for name in ("summary-students-over-sbert", "summary-mm-over-cosine", "weighting-mm-below-structural"):
        verdict(name, OPEN)
    verdict("weighting-halved-gradients-cosine", EQUIVALENT), verdict("weighting-halved-gradients-mm", EQUIVALENT)
    verdict("weighting-masked-over-structural", verdicts.NOT_TESTABLE)
    assert not data("fig4_11")["collapsed"].any()
    return [
        f"down to {short(checked('students_differ', 'fig4_10')['low'], 2)}",
        f"within {short(weighted.max() - weighted.min())}",
        f"{factors.index.get_level_values('factor').max():.0f} times heavier",
        "(mean cosine {} and {})".format(*map(short, factors.loc[("mm-MSE", 4), ["cosine", "another_seed"]])),
        f"falls {short(base - long['MSE', 40])} below the base in its first 40 updates",
        f"by {short(long['MSE', 160] - long['MSE', 40])} until 160",
        f"is {short(long['cosine', 40] - long[best, 40])} behind cosine at 40 updates",
        f"and {short(long['cosine', 160] - long[best, 160])} at 160",
        f"from {short(medium['cosine', 80] - medium[best, 80])} behind at 80 updates",
        f"to {short(medium[best, 320] - medium['cosine', 320])} ahead at 320",
        "a ranking after 40 updates",
        "the thesis' 2,500 updates",
        f"{pairs['fig4_10'].sum()} of {len(pairs['fig4_10'])} neighbours",
        f"{pairs['fig4_11'].sum()} of {len(pairs['fig4_11'])} in",
    ]


def final_students() -> list[str]:
    rounds = profiles.load("mini").final.rounds
    scores = data("tab5_7").set_index(["round", "task", "model"])["value"]
    assert scores["all", "ARXIV"].idxmax() == "SBERT, mean of chunks"
    by_map = scores["retrieval", "mean"]
    students = ["cosine-masked", "MSE-contextual", "only-MSE"]
    assert abs(by_map["TF-IDF"] - by_map[students].max()) < 0.01
    chance = data("fig5_4").query("model == 'TF-IDF' and round == 'all' and task in ['OC', 'AAN', 'S2ORC', 'PAN']")
    assert ((chance["value"] - chance["chance"]).abs() < 0.03).all()
    for _, part in data("fig5_5").groupby("metric"):
        models = part[part["published"].notna()].groupby("model")["value"].mean()
        assert models.idxmax() == "SBERT"
    failed = data("tab_checks").query("check == 'round_not_at_chance' and passed == False")["what"]
    assert {name.split(" on ")[1].split()[0] for name in failed if "1k" in name} == {"OC", "AAN", "S2ORC", "PAN"}
    verdict("few-shot-over-baselines", verdicts.NOT_TESTABLE), verdict("all-data-sbert-best", OPEN)
    verdict("all-data-students-over-context", OPEN)
    widths = data("tab_claims").set_index("id").loc[["all-data-sbert-best", "all-data-students-over-context"]]
    assert (widths["high"] - widths["low"] > 0.115).all()
    return [
        f"with {rounds['10k']} training examples",
        f"With {rounds['1k']} examples",
        f"by {short(-data('tab_claims').set_index('id').loc['arxiv-pv-best', 'effect'], 2)}",
        *verdict("arxiv-pv-best", REVERSED),
        *claim("long-context-matters-little", OPEN, margin=True),
        f"a gain of {short(verdicts.MARGIN, 2)}",
        *claim("retrieval-mrr-cosine-masked", REVERSED, 2),
        *claim("retrieval-map-only-mse", OPEN, 2),
    ]


def news() -> list[str]:
    ours = data("news_fig1").query("source == 'ours'").set_index("model")
    theirs = data("news_fig1").query("source == 'published'").set_index("model")
    ledger = data("tab_claims").set_index("id")
    chosen = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
    wide = chosen.replace("64d;", "")
    assert ours.drop(["teacher", "TF-IDF", "TF-IDF, words of the texts distilled on"])["f1"].idxmax() == (
        "Transformer(2x4);attentive;cosine"
    )
    last = theirs.loc[theirs.index.str.endswith("plateau"), ["f1_public", "f1_private"]]
    spread = last.max() - last.min()
    sides = ["f1_public", "f1_private"]
    all_pairs = pd.concat([data(f"news_tab{number}") for number in range(1, 9)])["f1_all_public"].max()
    for name in ("news-recurrent-over-transformers", "news-below-teacher", "news-half-width-costs", "news-more-texts"):
        verdict(name, HOLDS)
    for name in ("both-directions", "cosine-over-mse", "attentive-lstm", "linear-layer", "teacher-tokens"):
        verdict(f"news-{name}", OPEN)
    verdict("news-distillation-needed", HOLDS)
    students = ours.loc[[f"Bi{cell}(2)+1 linear;attentive;cosine" for cell in ("GRU", "LSTM")], sides]
    assert (students.max() < ours.loc["TF-IDF, words of the texts distilled on", sides]).all(), "missed on both sides"
    return [
        *(
            "{:.1f} / {:.1f}".format(*ours.loc[model, sides])
            for model in (
                "one cluster",
                "teacher",
                "TF-IDF",
                "TF-IDF, words of the texts distilled on",
                "BiGRU(2)+1 linear;attentive;cosine",
                "BiLSTM(2)+1 linear;attentive;cosine",
                "Transformer(2x4);attentive;cosine",
                "bag;cosine",
                "BiGRU(2)+1 linear;attentive;random tokens;cosine",
            )
        ),
        f"is {ledger.loc['news-twenty-times-smaller', 'effect']:.1f} times smaller",
        f"(published {theirs.loc['teacher', 'size_mb'] / theirs.loc[chosen, 'size_mb']:.1f})",
        f"loses {100 * ledger.loc['news-one-percent', 'effect']:.1f} points",
        f"costs {100 * ledger.loc['news-half-width-costs', 'effect']:.1f} points",
        f"published, {short((theirs.loc[wide, sides] - theirs.loc[chosen, sides]).mean(), 1)},",
        f"by {100 * ledger.loc['news-distillation-needed', 'low']:.1f} points or more",
        f"by {100 * ledger.loc['news-more-texts', 'effect']:.0f} points",
        f"by {100 * ledger.loc['news-recurrent-over-transformers', 'effect']:.1f} points on average",
        f"span {short(spread['f1_public'], 1)} and {short(spread['f1_private'], 1)} points",
        f"differ by {short(100 * claims.rerun_noise(reruns=claims.TWINS).least_difference, 2)} to be told apart",
        f"(published {theirs.loc['teacher', 'ms_per_document'] / theirs.loc[chosen, 'ms_per_document']:.1f})",
        f"at most {all_pairs:.0f} on the public side",
        "46 % positives",
        '"1 % worse"',
        '"20 times smaller"',
    ]


def report() -> list[str]:
    ledger = data("tab_claims").query("not label.str.startswith('news')").set_index("id")
    medium = data("tab_claims", "mini_medium").set_index("id").reindex(ledger.index)
    counts = ledger["verdict"].value_counts()
    same = ledger["verdict"] == medium["verdict"]
    assert not {(HOLDS, REVERSED), (REVERSED, HOLDS)} & {*zip(ledger["verdict"], medium["verdict"], strict=True)}
    told = {
        HOLDS: "cosine-over-mse pv-large-dimensions pv-preprocessing pv-dbow-first-and-last pv-compounds-alike "
        "contextual-small-over-largest-teacher",
        REVERSED: "contextual-below-own-teacher pv-over-sbert arxiv-pv-best retrieval-mrr-cosine-masked",
        EQUIVALENT: "contrastive-behind-cosine cosine-hurt-by-negatives weighting-halved-gradients-cosine "
        "weighting-halved-gradients-mm",
    }
    for expected, names in told.items():
        assert {*ledger.index[ledger["verdict"] == expected]} == {*names.split()}
    both = ["cosine-over-mse", "pv-large-dimensions", "pv-compounds-alike", "pv-over-sbert", "arxiv-pv-best"]
    assert same[[*both, *told[EQUIVALENT].split()]].all()
    sure = ledger.index[(ledger["q"] < 0.05) & ledger["verdict"].isin([HOLDS, REVERSED])]
    assert {*sure} == {"pv-over-sbert", "arxiv-pv-best", "pv-large-dimensions"}
    assert counts[verdicts.NUMBER] == 1
    return [
        f"Of the thesis' {len(ledger)} findings",
        f"{counts[HOLDS]} *hold*",
        f"{counts[REVERSED]} are *reversed*",
        f"{counts[EQUIVALENT]} *equivalent*",
        f"{counts[OPEN]} *open*",
        f"{counts[verdicts.NOT_TESTABLE]} *not testable here*",
        f"{same.sum()} of the {len(same)} verdicts",
        "q below .05",
    ]


FACTS = {
    "04_pv_grid": pv_grid,
    "05_projections": projections,
    "06_weighting": weighting,
    "07_final_evaluation": final_students,
    "08_news_clustering": news,
    "09_report": report,
}


@pytest.mark.parametrize("name", FACTS)
def test_every_number_is_that_of_the_committed_figures(name):
    text = section(name)
    facts = FACTS[name]()
    assert [fact for fact in facts if fact not in text] == []
    left = re.sub(NAMES, "", text)
    for fact in sorted(facts, key=len, reverse=True):
        left = left.replace(fact, "")
    assert re.findall(r".{0,30}\d+.{0,20}", left) == []
