"""docs/results.md: three questions in short, then how the verdicts fall."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import published
from lib.chapters.sensitivity import CONTROL, THESIS_BATCHES
from lib.config import manifest, paths
from lib.ledger.claims import load_claims
from lib.pages.answers import (
    tell_about_student,
    tell_losses,
    tell_paragraph_vector,
    tell_start_and_teachers,
)
from lib.pages.saved_tables import Tables, find_lead
from lib.pages.verdicts import (
    CHANGES,
    UNTESTED,
    WRITTEN,
    asks_twice,
    counts_table,
    escape,
    find_open,
    find_robustness,
    find_rules,
    note_rules,
    other_ledgers,
    tell_survivors,
    thesis_findings,
    verdict_counts,
)
from lib.statistics.verdicts import HOLDS, NOT_RUN, NOT_TESTABLE, NUMBER, REVERSED
from lib.words import (
    answer,
    bullets,
    count,
    estimate,
    interval,
    list_names,
    other_effects,
    rounded,
    signed,
    survival,
)

EXECUTED = paths.ROOT / "docs" / "notebooks" / "lab.ipynb"

# Figure on the page of results -> its alternative text, and its caption.
PICTURES = {
    "fig5_3": (
        "Boxplots of seven models in three rounds, ours and published",
        "Compare cosine-masked, MSE-contextual and only-MSE with Longformer and SBERT, in the rows "
        "that end with all. Ours are read by the thesis' heads.",
    ),
    "figA_3": (
        "Two falling lines: the heavier the contextual loss, the less alike the students",
        "How heavy must Paragraph Vector's loss be before it shows? Below the dashed line it "
        "changes the student more than another seed does. ×1 is the plain sum of both losses.",
    ),
    "figA_5": (
        "Each loss by three readouts",
        "The same embeddings by three readouts. Compare the order of the models by one colour with "
        "their order by another: the rows are in the order of the thesis' heads.",
    ),
    "figB_1": (
        "Models in rows: scores with intervals, and milliseconds for a document",
        "Models on whole documents. Left: mean score by heads that compare, with 95% intervals. "
        "Right: the time that a document takes on one thread.",
    ),
    "fig_ledger": (
        "All findings, with intervals, on the published numbers and on ours",
        "Each row is a finding, under the figure that it is about; right of the line is where the "
        "thesis says it is. In the last column the upper mark is by heads that compare, the lower "
        "one without a head. The grey strip covers differences of up to .02.",
    ),
}

# Check that bars no finding -> what its failure means for findings.
LEARNING = {
    "base_below_students": "This student is not clearly above its base. So findings about it are "
    "about a student that has learned little that can be read without a head.",
    "students_converged": "Twice the updates change this student by more than that. So findings "
    "are about students that are still learning, and longer training may change them.",
    "students_differ": "The contextual teacher changes these students less than another seed does. "
    "So findings about them say little about that teacher.",
}

SCOPE = """The profile `mini` is a scale model of the thesis: every length is an eighth. It trains
the thesis' losses, projections and weightings on real text, so it shows how they behave. Only large
differences show, because students see few documents and tasks have few test examples. `mini` says
nothing about documents of thousands of words. Its tasks have the thesis' names but other texts: OC,
AAN and S2ORC are passage pairs that stand in for citations.

A student's *base* is the model before training. Tables and findings call it Longformer, as the
thesis does, but in `mini` it is a small model that was made like Longformer. The final students are
`cosine-masked` and `MSE-contextual`, which learn from both teachers, and `only-MSE`, which learns
from SBERT alone. Both MSE students have the max-margin loss.

A *head* is a small classifier that learns to read embeddings. A way to read them, with a head or
without, is a *readout*.

Accuracies are chance-corrected unless a sentence says otherwise: 0 is guessing, 1 is perfect.
Brackets hold 95% intervals over seeds and test texts."""

MEANINGS = """A finding *repeats* if it holds with the thesis' protocol: heads on raw embeddings,
side by side for pairs, trained for ten epochs. {steps}

A finding *survives* if it holds with both of two other readouts.
The first is heads that compare: logistic regression on the differences and products of a pair's two
embeddings, or on the one embedding of a text, trained to convergence. The second is no head at all.
Rankings and F1 need no head, so there the two questions are one.

It *holds* if the interval of its effect lies above zero, and it is *reversed* if the interval lies
below. It is *equivalent*, a tie, if a difference of .02 can be excluded. It is *smaller than
published* if the interval spans zero and ends below the published effect. Otherwise it is *open*,
too close to call. The *readouts disagree* if the two other readouts give different verdicts. It is
*not testable here* if a check failed, for example because the contextual teacher hardly had a share
in the training. A plain *number* has no verdict.

Verdicts on the published numbers allow for the noise of a second run, measured on two pairs of runs
and six tasks, and for other test examples."""


def results_page(tables: Tables, folder: Path) -> str:
    """The page docs/results.md: answers to three questions, then how the verdicts fall.

    `folder` is where the page will be; its links are relative to it.
    """
    figures = _find_way(tables.folder, folder)
    ledger = tables.ledger()
    thesis = thesis_findings(ledger)
    news = ledger.drop(thesis.index)
    name = tables.folder.name
    ledgers = {name: ledger} | other_ledgers(tables.folder)

    return f"""# What came out

{WRITTEN.format(name=name)}

{SCOPE}

## Is the student better than its base and its teacher?

{_answer(tables.claim("cosine-over-baselines"))}

{bullets(*tell_about_student(tables))}

{show(tables, "fig5_3", folder)}

## Does Paragraph Vector help?

{_answer(tables.claim("both-cosine-over-structural"))}

{bullets(*tell_paragraph_vector(tables))}

{show(tables, "figA_3", folder)}

## Which loss is best?

{_answer(tables.claim("mm-mse-best"))}

{bullets(*tell_losses(tables))}

{show(tables, "figA_5", folder)}

## How the verdicts fall

*Do they repeat?* With the thesis' own protocol, of its {len(thesis)} findings
{verdict_counts(thesis)}.

{_tell_reach(thesis)}

*Do they survive?* With two readouts that need little training,
{verdict_counts(thesis, column="survives")}.
{tell_survivors(tables)}

{_link_changes(tell_robustness(tables))}

{show(tables, "fig_ledger", folder)}

{MEANINGS.format(steps=tell_steps(tables))}

{note_rules(counts_table(ledgers), ledgers)}

{_read_off(thesis)}
[verdicts.md](verdicts.md) lists them finding by finding, and
[tab_claims]({figures}/tab_claims.md) has the numbers. [tab_checks]({figures}/tab_checks.md)
lists the checks that come before a verdict. [tab_yardstick]({figures}/tab_yardstick.md) shows how
far apart two runs of the thesis may be.

{tell_unneeded_failures(tables)}
## The news paper (Trofimchuk, 2022)

Of its {len(news)} findings {verdict_counts(news)}.

## Real documents

{tell_real_documents(ledger, folder)}
"""


def show(tables: Tables, label: str, folder: Path) -> str:
    """A picture with its caption, for a page in `folder`; empty if it was not made."""
    file = tables.folder / f"{label}.svg"
    if not file.is_file():
        return ""
    seen, caption = PICTURES[label]
    return f"![{seen}]({_find_way(file, folder)})\n\n*{caption}*"


def _find_way(place: Path, folder: Path) -> str:
    return Path(os.path.relpath(place, folder)).as_posix()


def _answer(row: Mapping[str, Any]) -> str:
    """The sentences under a question: what the thesis says, what we tested, and the verdicts."""
    if row["verdict"] == NOT_RUN:
        return f"The finding: *{row['finding']}* It was not run."
    said = f'The thesis says: *"{row["quote"]}"*\n\nWe tested: {row["finding"]}'
    if row["verdict"] == NOT_TESTABLE:
        anchor = UNTESTED.lower().replace(" ", "-")
        return f"{said} {answer(row)}: [why](verdicts.md#{anchor})."
    return f"{said} Does that repeat? {answer(row)}. Does it survive? {survival(row)}."


def _link_changes(told: str) -> str:
    anchor = CHANGES.lower().replace(" ", "-")
    return f"{told} [Those that change](verdicts.md#{anchor})." if told else ""


def _tell_reach(thesis: pd.DataFrame) -> str:
    """Count the open findings that claim a difference too small for our tasks to show."""
    rows = find_open(thesis)
    small = int((~rows["within"]).sum())
    if not small:
        return ""
    return (
        f"Of those too close to call, {count(small)} claim a difference smaller than our tasks can "
        "show: [the list](verdicts.md#why-some-are-too-close-to-call)."
    )


def _read_off(thesis: pd.DataFrame) -> str:
    """Count the findings that no sentence of the thesis states."""
    number = int(thesis["read_off"].astype(str).eq("True").sum())
    return (
        f"We read {count(number)} of the findings off the thesis' figures. Each of the others has "
        "a sentence in its text."
    )


def tell_steps(tables: Tables) -> str:
    """Explain that the thesis' epochs of heads are fewer steps here, and what that changes."""
    settings = published.load("tab4_3").set_index("parameter")["value"]
    epochs = int(settings["Epochs"])
    told = (
        f"These are the thesis' {count(epochs)} epochs, not its {THESIS_BATCHES * epochs:,} steps: "
        f"where a task has fewer examples, {count(epochs)} epochs are fewer steps."
    )
    few, as_many = (find_lead(tables.heads(column)) for column in ("thesis", CONTROL))
    if np.isnan([few, as_many]).any():
        return told
    return (
        f"{told} In a control with the thesis' number of steps, max-margin MSE minus cosine is "
        f"{signed(as_many)} instead of {signed(few)}."
    )


def tell_robustness(tables: Tables) -> str:
    """Say how many decided answers keep their verdict under other conditions (`tab_robust`).

    Empty if that table was not made, or was made from a ledger with other numbers.
    """
    again = find_robustness(tables)
    if again.empty:
        return ""
    same = again["same"].eq("yes")
    kept = same.groupby([again["id"], again["variation"]], sort=False).all().unstack()
    told = list_names(f"{number} ({name})" for name, number in kept.sum().items())
    sides = again[["as_run", "verdict"]]
    turned = again.loc[sides.isin([HOLDS, REVERSED]).all(axis=1) & ~same, "id"].nunique()
    turns = f"{count(turned).capitalize()} turn" if turned else "None turns"
    return (
        f"*Do the verdicts depend on how we ran it?* We judged the {len(kept)} findings again that "
        "either question decides, each time with students that were trained under another "
        f"condition. Of these findings, {told} keep all their verdicts, and "
        f"{int(kept.all(axis=1).sum())} do so throughout. {turns} from *holds* to "
        "*reversed* or back. What was too close to call was not judged again. The other base is "
        "SBERT's layers as they are, before they learn to guess words."
    )


def tell_unneeded_failures(tables: Tables) -> str:
    """A paragraph on the failed checks that bar no finding, and what they mean for findings.

    Empty if there are none, or if nothing was checked.
    """
    checks = tables.read("tab_checks")
    if checks.empty:
        return ""
    needed = {
        (check, label)
        for claim in load_claims()
        for check in claim.needed
        for label in claim.subjects
    }
    told = []
    for row in checks[checks["passed"].eq(False)].fillna({"label": ""}).itertuples():
        if (row.check, row.label) in needed:
            continue
        ends = "" if pd.isna(row.low) else f" {interval(row.low, row.high)}"
        where = f"{manifest.full_name(row.label)}, " if row.label else ""
        entry = f"{where}{row.what} ({signed(row.value)}{ends}; needed: {row.needed})"
        told.append(f"{entry}. {LEARNING.get(row.check, '')}")
    if not told:
        return ""
    begin = "These checks failed. No verdict is withheld for them, but they limit what some mean:"
    return f"{begin}\n\n{bullets(*told)}\n"


def tell_real_documents(own: pd.DataFrame, folder: Path) -> str:
    """What the profile `lab` says about the same questions, from its committed figures.

    `own` is the ledger of the rest of the page, which will be in `folder`.
    """
    tables = Tables(paths.ROOT / "figures" / "lab")
    ledger = tables.ledger() if (tables.folder / "tab_claims.csv").is_file() else pd.DataFrame()
    if ledger.empty:
        return "The profile `lab`, of whole documents, was not run."
    thesis = thesis_findings(ledger)
    run = thesis[thesis["verdict"] != NOT_RUN]
    rules, own_rules = find_rules(ledger), find_rules(own)
    older = (
        f" They were judged by version {rules} of our rules, those above by version {own_rules}, "
        "so their verdicts cannot be compared."
        if rules != own_rules
        else ""
    )
    return "\n\n".join(
        [
            "The profile `lab` tests the main findings on whole documents of up to 4,096 tokens. "
            f"Of its {len(run)} findings {verdict_counts(run)}, with the thesis' heads. With the "
            f"other readouts, {verdict_counts(run, column='survives')}.{older}{_tell_harm(ledger)}",
            bullets(*tell_start_and_teachers(tables), tell_cheapest(tables)),
            show(tables, "figB_1", folder),
            f"[The executed notebook]({_find_way(EXECUTED, folder)}) has each comparison with its "
            "interval. Here are all findings that both profiles test:",
            set_side_by_side(thesis_findings(own), thesis),
            "With a few hundred documents the advice is the same as for "
            "[your own](own_documents.md): begin with models that need no training.",
        ]
    )


def _tell_harm(ledger: pd.DataFrame) -> str:
    """Say so if a final student of `lab` is behind its base or a Paragraph Vector."""
    if ledger.get("survives", pd.Series()).get("all-data-students-over-context") != REVERSED:
        return ""
    return (
        " By heads that compare and without a head, at least one final student is behind its base "
        "or a Paragraph Vector. The learning rate is that of `mini`: no other was tried at these "
        "lengths, so another one might change that."
    )


def set_side_by_side(own: pd.DataFrame, other: pd.DataFrame) -> str:
    """A table of the findings that two ledgers test, with both answers of each.

    Empty if there are none, or if a ledger asks only one question.
    """
    if not (asks_twice(own) and asks_twice(other)):
        return ""
    tested = [
        ledger[~ledger["verdict"].isin([NOT_RUN, NOT_TESTABLE, NUMBER])] for ledger in (own, other)
    ]
    both = tested[0].index.intersection(tested[1].index, sort=False)
    if both.empty:
        return ""
    names = [ledger["profile"].iloc[0] for ledger in tested]
    rows = [
        f"| finding | repeats: {' | '.join(names)} | survives: {' | '.join(names)} |",
        "|---" * 5 + "|",
    ]
    for name in both:
        pair = [ledger.loc[name] for ledger in tested]
        told = [f"{row['verdict']} ({estimate(row)})" for row in pair]
        told += [f"{row['survives']} ({other_effects(row)})" for row in pair]
        rows.append(f"| {' | '.join([escape(pair[0]['finding']), *told])} |")
    return "\n".join(rows)


def tell_cheapest(tables: Tables) -> str:
    """Compare the best student of Figure B.1 with the best of its models without training."""
    rows = tables.read("figB_1")
    if rows.empty:
        return ""
    best = {trained: part.loc[part["score"].idxmax()] for trained, part in rows.groupby("trained")}
    if len(best) < 2:
        return ""
    told = [
        f"`{row['model']}` ({signed(row['score'])}, {rounded(row['milliseconds'])} ms a document)"
        for row in (best[False], best[True])
    ]
    return (
        f"By heads that compare, the best model without training is {told[0]}, and the better of "
        f"two students of Chapter 4 is {told[1]}."
    )
