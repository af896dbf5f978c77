"""docs/verdicts.md, and how the verdicts of a ledger are counted, listed and crossed."""

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lib.chapters.sensitivity import CONTROL
from lib.config import manifest, paths
from lib.ledger.claims import load_claims
from lib.ledger.robustness import AS_RUN, select_decided
from lib.pages.saved_tables import UNKNOWN, Tables, find_lead
from lib.published import figure_models
from lib.statistics.verdicts import (
    HOLDS,
    MARGIN,
    NOT_RUN,
    NOT_TESTABLE,
    OPEN,
    REVERSED,
    RULES,
    VERDICTS,
)
from lib.words import (
    MISSING,
    bullets,
    count,
    estimate,
    interval,
    list_names,
    other_effects,
    repetition,
    signed,
    survival,
)

CLAUSES = {  # verdict -> its words after a number of findings
    "holds": "hold",
    "reversed": "are reversed",
    "equivalent": "are ties",
    "smaller than published": "are smaller than published",
    "open": "are too close to call",
    "readouts disagree": "depend on the readout",
    "not testable here": "cannot be tested here",
    "number": "are plain numbers",
    "not run": "were not run",
}

HEADINGS = {"verdict": "repeats", "survives": "survives"}  # column of the ledger -> heading

# Finding -> a remark that its words leave out.
NOTES = {"abstract-citations": "In `mini`, passage pairs stand in for citations."}

RANKED = ("fig5_5", "fig5_6", "news")  # figures whose scores need no head: both questions are one

WRITTEN = "*Notebook 09 writes this page from the tables in `figures/{name}`. Do not edit it.*"

CHANGES = "What another run would change"  # headings of parts that results.md links to
UNTESTED = "Why some cannot be tested here"

COMMITTED = ("mini", "lab")  # profiles whose figures are committed

RATE = 0.05  # of false discoveries; lists give a q that reaches it

DISCOVERIES = f"""*q* is the share of false findings to expect if you accept a finding and all that
are at least as clear. The lists give it where it is {signed(RATE, 2)} or more. They answer both
questions about each finding."""

OTHER_RULES = f"""Our rules for verdicts have changed; the current version is {RULES}
([sizes.md](sizes.md) says what changed). If a column names another version, it was judged by that
version, and its verdicts may differ for that reason alone. A column without *repeats* or *survives*
asks only one question, with other heads, and cannot be compared with the rest."""


def verdicts_page(tables: Tables, others: Mapping[str, pd.DataFrame]) -> str:
    """The page docs/verdicts.md: findings by verdict, why some have none, and all in a table.

    `others` maps other profiles to their ledgers.
    """
    own = tables.ledger()
    thesis = thesis_findings(own)
    news = own.drop(thesis.index)
    ledgers = {tables.folder.name: own, **others}
    columns = _list_columns(ledgers)
    rows = ["| finding | where | published | " + " | ".join(columns) + " |"]
    rows.append("|---" * (3 + len(columns)) + "|")
    for name, row in own.iterrows():
        finding = escape(row["finding"])
        where = manifest.full_name(row["label"])
        told = [column.get(name, NOT_RUN) for column in columns.values()]
        rows.append(f"| {' | '.join([finding, where, row['published_verdict'], *told])} |")
    notes = tell_notes(tables)
    lists = f"""# The findings and their verdicts

{WRITTEN.format(name="*")}

[results.md](results.md) says what the words mean. {DISCOVERIES}

## The thesis

{_list_of(thesis, HOLDS, "These repeat:", notes=notes)}

{_list_of(thesis, REVERSED, "These are reversed with the thesis' protocol:", notes=notes)}

{_list_of(thesis, HOLDS, "These survive:", "survives")}

{_list_of(thesis, REVERSED, "These are reversed with both other readouts:", "survives")}

## The news paper

{_list_of(news, HOLDS, "These hold:")}

{_list_of(news, REVERSED, "These are reversed:")}"""
    together = note_rules(f"## Side by side\n\n{counts_table(ledgers)}", ledgers)
    changes = _tell_changes(find_robustness(tables))
    parts = [
        lists,
        changes,
        _tell_why_open(own),
        _tell_why_untested(own),
        together,
        "\n".join(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def find_robustness(tables: Tables) -> pd.DataFrame:
    """The decided answers under other conditions, each with the verdict of the original run.

    Returns
    -------
    The rows of `tab_robust` for the other conditions, with the original verdict in the column
    `as_run`. Empty if the table was not made, or if the ledger has other numbers by now.
    """
    rows = tables.read("tab_robust")
    if rows.empty:
        return rows
    answers = ["id", "question"]
    as_run = rows["variation"].eq(AS_RUN)
    judged = ["verdict", "effect", "low", "high"]
    first, now = (
        frame.set_index(answers)[judged].round(6)
        for frame in (rows[as_run], select_decided(tables.ledger().reset_index()))
    )
    if first.to_dict("index") != now.to_dict("index"):
        return pd.DataFrame()
    return rows[~as_run].join(first["verdict"].rename("as_run"), on=answers)


def _tell_changes(again: pd.DataFrame) -> str:
    """A table of the answers whose verdict changes under another condition."""
    if again.empty:
        return ""
    table = [
        f"| {escape(row.finding)} | {row.question} | {row.variation} | {row.as_run} "
        f"| {row.verdict} {interval(row.low, row.high)} |"
        for row in again[again["same"] == "no"].itertuples()
    ]
    return f"""## {CHANGES}

These answers have another verdict on another base (SBERT's layers as they are), with other seeds
or on other passages. All others keep theirs; `tab_robust` has them all.

| finding | question | what is different | as run | there |
|---|---|---|---|---|
""" + "\n".join(table)


def _tell_why_open(ledger: pd.DataFrame) -> str:
    """A table of the findings that may or may not repeat, with the reach of our intervals."""
    rows = find_open(ledger)
    if rows.empty:
        return ""
    table = [
        f"| {escape(row['finding'])} | {signed(row['published_effect'])} | {estimate(row)} "
        f"| {signed(row['reach'])} | {'yes' if row['within'] else 'no'} |"
        for _, row in rows.iterrows()
    ]
    return """## Why some are too close to call

These findings are open with the thesis' protocol. The *reach* is half the width of our interval.
A difference that is smaller cannot be distinguished from zero here. If the published difference is
within reach and the finding is still open, our difference has another size.

| finding | published | ours | reach | within reach |
|---|---|---|---|---|
""" + "\n".join(table)


def find_open(ledger: pd.DataFrame) -> pd.DataFrame:
    """Select the open findings that have a published effect, and add our reach.

    Returns
    -------
    Their rows of the ledger with `reach`, half the width of our interval, and `within`: whether the
    published effect is at least that large.
    """
    rows = ledger[ledger["verdict"] == OPEN].dropna(subset=["published_effect", "low", "high"])
    reach = (rows["high"] - rows["low"]) / 2
    return rows.assign(reach=reach, within=rows["published_effect"].abs() >= reach)


def _tell_why_untested(ledger: pd.DataFrame) -> str:
    """A list of the findings that cannot be tested, each with the checks that failed."""
    rows = ledger[ledger["verdict"] == NOT_TESTABLE]
    listed = [f"* {row['finding']} *{row['note']}.*" for _, row in rows.iterrows()]
    return "\n".join([f"## {UNTESTED}", "", *listed]) if listed else ""


def tell_notes(tables: Tables) -> dict[str, str]:
    """Finding -> a remark on what its verdict by the thesis' protocol leaves out."""
    heads, longer, final = tables.heads("thesis"), tables.heads(CONTROL), tables.scores()
    broken, base, plain = (
        signed(heads.get(name, UNKNOWN)) for name in ("max-margin;MSE;γ=1.5", "Longformer", "MSE")
    )
    lead = find_lead(final, "MSE-contextual;all", "only-MSE;all")
    told = {
        "contextual-minimal-projection": _tell_collapsed(tables),
        "sbert-over-longformer": "With heads trained for the thesis' number of steps, SBERT minus "
        f"the base is {signed(find_lead(longer, 'SBERT', 'Longformer'))}.",
        "mm-mse-collapses": f"With the thesis' heads it scores {broken}, its base "
        f"{base} and plain MSE {plain}.",
        "mse-contextual-second": "It was not tested against only-MSE; with all labels, its score "
        f"minus that of only-MSE is {signed(lead)}.",
    }
    return NOTES | {name: words for name, words in told.items() if MISSING not in words}


def _tell_collapsed(tables: Tables) -> str:
    """Say how many students have collapsed: of those with two contextual layers, and of others."""
    drawn = tables.read("fig4_7")
    known = list(figure_models.printed("fig4_7"))
    if drawn.empty or not {*known} <= {*drawn["model"]}:
        return MISSING
    collapsed = drawn.groupby("model")["collapsed"].any()
    claim = next(claim for claim in load_claims() if claim.id == "contextual-minimal-projection")
    few, two = claim.sides(known)
    number, others = (int(collapsed.reindex(side).sum()) for side in (two, few))
    if number <= 1:
        return MISSING
    return (
        f"{count(number).capitalize()} of the {count(len(two))} students with two layers have "
        f"collapsed, and {count(others)} of the {count(len(few))} others. That decides much of it."
    )


def _list_of(
    ledger: pd.DataFrame,
    verdict: str,
    title: str,
    column: str = "verdict",
    notes: Mapping[str, str] = NOTES,
) -> str:
    """List the findings with a verdict on one question, each with its answer to the other."""
    rows, listed = ledger[ledger[column] == verdict], []
    first = column == "verdict"
    passed = ["vacuous"] if first else ["compare_vacuous", "none_vacuous"]
    for name, row in rows.iterrows():
        ranked = row["label"].startswith(RANKED)
        found = estimate(row) if first or ranked else other_effects(row)
        if (q := row["q" if first else "survives_q"]) >= RATE:
            found += f"; q {signed(q, 2)}"
        if row[passed].eq("yes").all():
            found += "; the untrained base passes, too"
        effects = row[["effect"] if first or ranked else ["compare_effect", "none_effect"]]
        if effects.astype(float).abs().min() < MARGIN:
            found += f"; below {signed(MARGIN, 2)}, which is too small to matter"
        other = survival(row) if first else repetition(row)
        told = [] if ranked else [f"{other}."]
        if name in notes:
            told.append(notes[name])
        listed.append(" ".join([f"* {row['finding']} ({found})", *told]))
    none = title.replace("These", "None", 1).removesuffix(":")
    return "\n".join([title, "", *listed]) if listed else f"{none}."


def group_findings(ledger: pd.DataFrame) -> str:
    """List the findings that hold or are reversed on either question, grouped by both answers."""
    listed = []
    for repeats in VERDICTS:
        for survives in VERDICTS:
            rows = ledger[ledger["verdict"].eq(repeats) & ledger["survives"].eq(survives)]
            if rows.empty or not {HOLDS, REVERSED} & {repeats, survives}:
                continue
            told = " ".join(
                f"{finding} {NOTES.get(name, '')}" for name, finding in rows["finding"].items()
            )
            listed.append(
                f"*With the thesis' protocol: {repeats}. With the other readouts: {survives}.* "
                f"{told}"
            )
    return bullets(*listed)


def counts_table(ledgers: Mapping[str, pd.DataFrame]) -> str:
    """Count the thesis' findings by verdict: on the published numbers, and in each ledger."""
    thesis = {name: thesis_findings(ledger) for name, ledger in ledgers.items()}
    columns = {"published": next(iter(thesis.values()))["published_verdict"]}
    columns |= _list_columns(thesis)
    rows = [f"| verdict | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for verdict in VERDICTS:
        counts = [str(int((column == verdict).sum())) for column in columns.values()]
        rows.append(f"| {verdict} | {' | '.join(counts)} |")
    return "\n".join(rows)


def _list_columns(ledgers: Mapping[str, pd.DataFrame]) -> dict[str, pd.Series]:
    """Heading -> verdicts by id, a column for each question.

    A heading names the version of the rules if it is not the current one.
    """
    columns: dict[str, pd.Series] = {}
    for name, ledger in ledgers.items():
        rules = find_rules(ledger)
        marked = "" if rules == RULES else f" (rules {rules})"
        if asks_twice(ledger):
            headings = {column: f"{name} {word}" for column, word in HEADINGS.items()}
        else:
            headings = {"verdict": name}
        columns |= {f"{heading}{marked}": ledger[column] for column, heading in headings.items()}
    return columns


def note_rules(text: str, ledgers: Mapping[str, pd.DataFrame]) -> str:
    """Append a remark on columns judged by other rules, if a ledger has them."""
    differ = any(find_rules(ledger) != RULES for ledger in ledgers.values())
    return f"{text}\n\n{OTHER_RULES}" if differ else text


def find_rules(ledger: pd.DataFrame) -> int:
    """The version of the rules by which a ledger was judged; 0 if it is older than versions."""
    return int(ledger["rules"].iloc[0]) if "rules" in ledger else 0


def asks_twice(ledger: pd.DataFrame) -> bool:
    """Whether a ledger asks both questions. The first rules asked one, with other heads."""
    return "survives" in ledger


def thesis_findings(ledger: pd.DataFrame) -> pd.DataFrame:
    """The ledger without the findings of the news paper."""
    return ledger[~ledger["label"].str.startswith("news")]


def other_ledgers(folder: Path) -> dict[str, pd.DataFrame]:
    """Profile -> committed ledger, for all profiles except the one with figures in `folder`.

    Other profiles, such as `smoke`, may have figures in this checkout, too; nobody commits them.
    """
    others = [paths.ROOT / "figures" / name for name in COMMITTED]
    return {
        other.name: Tables(other).ledger()
        for other in others
        if other != folder and (other / "tab_claims.csv").is_file()
    }


def verdict_counts(ledger: pd.DataFrame, column: str = "verdict") -> str:
    """Count verdicts in words, such as `4 hold, 5 are reversed and 38 are too close to call`."""
    counts = ledger[column].value_counts()
    parts = [
        f"{number} {_singular(words) if number == 1 else words}"
        for verdict, words in CLAUSES.items()
        if (number := counts.get(verdict, 0))
    ]
    return list_names(parts or ["none was run"])


def tell_survivors(tables: Tables) -> str:
    """Say what becomes of the findings that repeat when both other readouts judge them."""
    thesis = thesis_findings(tables.ledger())
    repeat = thesis[thesis["verdict"] == HOLDS]
    read = repeat[~repeat["label"].str.startswith(RANKED)]  # a ranking is read in one way
    if read.empty:
        return ""
    kept, turned = (int((read["survives"] == word).sum()) for word in (HOLDS, REVERSED))
    told = (
        f"Of the {len(read)} that repeat and use heads, {count(kept)} {agree('hold', kept)} with "
        "the other readouts, too"
    )
    again = find_robustness(tables)
    if not again.empty:
        held = again[again["id"].isin(read.index[read["survives"] == HOLDS])]
        lasting = int(held["same"].eq("yes").groupby(held["id"]).all().sum())
        told += f" ({count(lasting)} on whatever base, seeds and passages we took)"
    return f"{told}, and {count(turned)} {agree('are reversed', turned)}."


def agree(words: str, number: int) -> str:
    """The words as they follow a number: for 1, `hold` becomes `holds`."""
    return _singular(words) if number == 1 else words


def _singular(words: str) -> str:
    known = {"hold": "holds", "are ties": "is a tie", "are plain numbers": "is a plain number"}
    known |= {"depend on the readout": "depends on the readout", "were not run": "was not run"}
    return known.get(words, words.replace("are ", "is ", 1))


def escape(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return re.sub(r"([|*])", r"\\\1", text)
