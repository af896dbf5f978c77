"""The pages that notebook 09 writes: docs/results.md, docs/verdicts.md, docs/figures.md and the
numbers in README.

Every number and every verdict comes from the tables that notebooks have saved. The pages of `mini`
replace the committed ones; those of another or a changed profile go under the artifact root.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import published
from lib.chapters.final_students import list_students
from lib.chapters.sensitivity import CONTROL, THESIS_BATCHES
from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.distillation.variants import MM_MSE
from lib.runner.gallery import gallery_page
from lib.statistics.effects import chance_corrected
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
from lib.store.files import write_atomically
from lib.words import (
    answer,
    answer_twice,
    bullets,
    comparison,
    count,
    estimate,
    interval,
    list_names,
    ordinal,
    other_effects,
    percent,
    repetition,
    signed,
    survival,
)

CLAUSES = {  # what a sentence makes of a number of them
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
BASELINES = {
    "Longformer": "The untrained base, called Longformer, is right on {}",
    "SBERT": "SBERT is right on {}",
    "TF-IDF": "TF-IDF is right on {}",
}
CITATIONS = ("OC", "AAN", "S2ORC")  # tasks
# Finding -> what its words leave out.
NOTES = {"abstract-citations": "In `mini`, passage pairs stand in for citations."}
RANKED = ("fig5_5", "fig5_6", "news")  # figures whose scores need no head: both questions are one
# Check -> what its failing means for findings, which it does not bar.
LEARNING = {
    "base_below_students": "This student is not clearly above its base. So findings about it are "
    "about a student that has learned little that can be read without a head.",
    "students_converged": "Twice the updates change this student by more than that. So findings "
    "about students are about students that are still learning, and longer training may turn them.",
}
WRITTEN = "*Notebook 09 writes this page from the tables in `figures/{name}`. Do not edit it.*"
UNKNOWN = float("nan")
# Figure on the page of results -> what is to be seen, and how to read it.
PICTURES = {
    "fig5_3": (
        "Boxplots of seven models in three rounds, ours and published",
        "Compare cosine-masked, MSE-contextual and only-MSE with Longformer and SBERT, in the rows "
        "that end with all. Ours are read by the thesis' heads.",
    ),
    "figA_3": (
        "Two falling lines: the heavier the contextual loss, the less alike the students",
        "How heavy must Paragraph Vector's loss be before it shows? Below the dashed line it "
        "changes the student more than another seed does. ×1 is the weight in the thesis.",
    ),
    "figA_5": (
        "Each loss by three readouts",
        "The same embeddings by three readouts. Compare the order of the models by one colour with "
        "their order by another: the rows are in the order of the thesis' heads.",
    ),
    "fig_ledger": (
        "All findings, with intervals, on the published numbers and on ours",
        "Each row is a finding, under the figure that it is about; right of the line is where the "
        "thesis says it is. In the last column the upper mark is by heads that compare, the lower "
        "one without a head. The grey strip is a difference of .02.",
    ),
}
# What README fills in; a page of its own in a changed profile.
EMPTY = "<!-- findings -->\n<!-- /findings -->\n\n<!-- scale -->\n<!-- /scale -->\n"
TRAIN_1M = 1_000_000  # documents; the profile thesis has fewer until its corpus is made larger
# Rows of README's table of sizes that have no ratio.
OTHER_MATERIAL = [
    "| base: the student before training | Longformer | three layers of MiniLM that learned to "
    "guess masked words | another model |",
    "| SBERT | all-mpnet-base-v2, 384 tokens | all-MiniLM-L6-v2, 48 tokens | another model |",
    "| tasks | arXiv papers, film reviews, citations, plagiarism | the same kinds of questions "
    "about Wikipedia passages and review sentences; passage pairs stand in for citations | "
    "stand-ins |",
]
RATE = 0.05  # of false discoveries, from which q is told


class Tables:
    """The tables that a profile's notebooks have saved, read when a page asks for one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, label: str) -> pd.DataFrame:
        """The numbers behind a figure or table; an empty frame where it was not drawn."""
        file = self.folder / f"{label}.csv"
        if not file.is_file():
            return pd.DataFrame()
        return pd.read_csv(file, keep_default_na=False, na_values=[""])

    def ledger(self) -> pd.DataFrame:
        """The claims ledger, a row for each finding, by its id."""
        return self.read("tab_claims").set_index("id")

    def claim(self, name: str) -> Mapping[str, Any]:
        """A finding's row of the ledger."""
        return self.ledger().loc[name]

    def check(self, name: str, label: str) -> float:
        """What a check of the ledger has measured; NaN where it was not made."""
        rows = self.read("tab_checks")
        if not rows.empty:
            rows = rows[(rows["check"] == name) & (rows["label"] == label)]
        return UNKNOWN if rows.empty else rows["value"].iloc[0]

    def heads(self, column: str) -> pd.Series:
        """Model -> mean score as one way to judge students has it."""
        rows = self.read("tab_heads")
        if rows.empty or column not in rows:
            return pd.Series(dtype=float)
        return rows.set_index("model")[column].dropna()

    def accuracy(self, name: str) -> pd.Series:
        """Model -> mean accuracy over tasks in one round of Chapter 5, not chance-corrected."""
        rows = self.read("tab5_7")
        if rows.empty:
            return pd.Series(dtype=float)
        rows = rows[(rows["task"] == "mean") & (rows["round"] == name)]
        return rows.set_index("model")["value"].dropna()

    def leads(self, name: str, rival: str) -> list[float]:
        """By how much each final student is ahead of a rival in one round, chance-corrected."""
        rows = self.read("fig5_3")
        if rows.empty:
            return [UNKNOWN]
        scores = rows.assign(score=chance_corrected(rows)).groupby("model")["score"].mean()
        own = [scores.get(f"{student};{name}", UNKNOWN) for student in list_students()]
        return sorted(np.subtract(own, scores.get(f"{rival};{name}", UNKNOWN)))

    def leads_by_task(self, rival: str) -> pd.Series:
        """Task -> by how much final students are ahead of a rival, chance-corrected.

        The mean over students and rounds.
        """
        rows = self.read("fig5_3")
        if rows.empty:
            return pd.Series(dtype=float)
        name, scores = rows["model"].str.partition(";")[0], chance_corrected(rows)
        means = scores.groupby([rows["task"], name]).mean().unstack()
        return (means.reindex(columns=[*list_students()]).mean(axis=1) - means[rival]).dropna()

    def retrieval(self) -> pd.Series:
        """Model -> MAP, the mean of both retrieval tasks."""
        rows = self.read("fig5_5")
        if rows.empty:
            return pd.Series(dtype=float)
        return rows[rows["metric"] == "MAP"].groupby("model")["value"].mean()

    def lengths(self) -> pd.DataFrame:
        """Accuracy without a head, by updates (rows) and model (columns) of Figure A.4."""
        rows = self.read("figA_4")
        if "no head" not in rows:
            return pd.DataFrame({"MSE": [UNKNOWN], "cosine": [UNKNOWN]})
        scores = rows.pivot_table("no head", "updates", "model")
        named = scores.columns.drop("base", errors="ignore").union(["MSE", "cosine"])
        return scores.reindex(columns=named).dropna()


def write_pages(profile: Profile) -> list[Path]:
    """Write the pages of a profile whose ledger is saved.

    Returns
    -------
    The files written: the committed pages for `mini` as it stands, else files in `pages/` of the
    run's folder.
    """
    tables, folder = Tables(paths.figures(profile)), paths.run_folder(profile) / "pages"
    readme, text = folder / "front_page.md", EMPTY
    if profile.name == "mini" and not profile.departures:
        folder, readme = paths.ROOT / "docs", paths.ROOT / "README.md"
        text = readme.read_text(encoding="utf-8")
    blocks = {"findings": tell_findings(tables), "scale": tabulate_scale(profile)}
    pages = {
        folder / "results.md": results_page(tables, folder),
        folder / "verdicts.md": verdicts_page(tables, other_ledgers(tables.folder)),
        folder / "figures.md": gallery_page(profile, folder),
        readme: replace_blocks(text, blocks),
    }
    for file, text in pages.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    return [*pages]


def replace_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """The text with what stands between `<!-- name -->` and `<!-- /name -->` replaced.

    blocks: name -> what comes there. `ValueError` if a name has no such place, or several.
    """
    for name, block in blocks.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"expected {start} and {end} once each, around what to replace")
        before, rest = text.split(start)
        text = f"{before}{start}\n{block}\n{end}{rest.split(end)[1]}"
    return text


def other_ledgers(folder: Path) -> dict[str, pd.DataFrame]:
    """Profile -> committed ledger, of all profiles but the one with this folder of figures."""
    files = sorted((paths.ROOT / "figures").glob("*/tab_claims.csv"))
    return {
        file.parent.name: Tables(file.parent).ledger() for file in files if file.parent != folder
    }


def tell_findings(tables: Tables) -> str:
    """README's first screen: how the verdicts fall, and the five things worth a visit."""
    told = (
        _scrambled_negatives(),
        _solved_accuracies(),
        _best_loss(tables),
        _sentences_found(tables),
        _speed(),
    )
    return f"{_verdicts_in_short(thesis_findings(tables.ledger()))}\n\n{bullets(*told)}"


def tabulate_scale(profile: Profile) -> str:
    """README's table of what is the thesis' and what is not: sizes of both, with their ratio."""
    theirs = profiles.load("thesis")
    sizes = {
        "tokens that a student reads": (theirs.student, profile.student, "max_positions"),
        "documents of a student in Chapter 4": (theirs.training, profile.training, "documents"),
        "documents of Paragraph Vector": (theirs.corpus, profile.corpus, "train_documents"),
    }
    compared = {what: (getattr(a, key), getattr(b, key)) for what, (a, b, key) in sizes.items()}
    compared["documents of a final student"] = (TRAIN_1M, profile.final.documents)
    rows = ["| | the thesis | `mini`, the default here | |", "|---|---|---|---|"]
    for what, (large, small) in compared.items():
        rows.append(f"| {what} | {large:,} | {small:,} | 1:{large / small:.0f} |")
    return "\n".join(rows + OTHER_MATERIAL)


def results_page(tables: Tables, folder: Path) -> str:
    """docs/results.md: three questions in short, then how the verdicts fall."""
    figures = Path(os.path.relpath(tables.folder, folder)).as_posix()
    ledger = tables.ledger()
    thesis = thesis_findings(ledger)
    news = ledger.drop(thesis.index)
    name = tables.folder.name
    ledgers = {name: ledger} | other_ledgers(tables.folder)

    def show(label: str) -> str:
        if not (tables.folder / f"{label}.svg").is_file():
            return ""
        seen, caption = PICTURES[label]
        return f"![{seen}]({figures}/{label}.svg)\n\n*{caption}*"

    return f"""# What came out

{WRITTEN.format(name=name)}

{SCOPE}

## Is the student better than its base and its teacher?

{_answer(tables.claim("cosine-over-baselines"))}

{bullets(*_start_and_teachers(tables), _citations(tables))}

{show("fig5_3")}

## Does Paragraph Vector help?

{_answer(tables.claim("both-cosine-over-structural"))}

{bullets(*_paragraph_vector(tables))}

{show("figA_3")}

## Which loss is best?

{_answer(tables.claim("mm-mse-best"))}

{bullets(*_losses(tables))}

{show("figA_5")}

## How the verdicts fall

*Do they repeat?* By the thesis' own protocol, of its {len(thesis)} findings
{verdict_counts(thesis)}.

{_tell_reach(thesis)}

*Do they survive?* By two readouts that need little training,
{verdict_counts(thesis, column="survives")}.

{show("fig_ledger")}

{MEANINGS.format(steps=tell_steps(tables))}

{_note_rules(counts_table(ledgers), ledgers)}

{_read_off(thesis)}
[verdicts.md](verdicts.md) tells them finding by finding, and
[tab_claims]({figures}/tab_claims.md) has the numbers. [tab_checks]({figures}/tab_checks.md)
lists the checks that come before a verdict. [tab_yardstick]({figures}/tab_yardstick.md) shows how
far apart two runs of the thesis may be.

{tell_unneeded_failures(tables)}
## The news paper

Of its {len(news)} findings {verdict_counts(news)}.

## Real documents

{_real_documents(find_rules(ledger))}
"""


SCOPE = """The profile `mini` is a scale model of the thesis: every length is an eighth. It trains
the thesis' losses, projections and weightings on real text, so it shows how they behave. Only large
differences show, because students see few documents and tasks have few test examples. `mini` says
nothing about documents of thousands of words. Its tasks have the thesis' names and other texts: OC,
AAN and S2ORC are passage pairs that stand in for citations.

A student's *base* is what it is before training. Tables and findings call it Longformer, as in the
thesis; in `mini` it is a small model that was made like Longformer. The final students are
`cosine-masked` and `MSE-contextual`, which learn from both teachers, and `only-MSE`, which learns
from SBERT alone. Both MSE students have the max-margin loss.

A *head* is a small classifier that learns to read embeddings. A way to read them, with a head or
without, is a *readout*.

Accuracies are chance-corrected unless a sentence says otherwise: 0 is guessing, 1 is perfect.
Brackets hold 95% intervals over seeds and test texts."""

MEANINGS = """A finding *repeats* if it holds by the thesis' protocol: heads on raw embeddings, side
by side for pairs, trained for ten epochs. {steps}

A finding *survives* if it holds by both of two other readouts.
The first is heads that compare: logistic regression on the differences and products of a pair's two
embeddings, or on the one embedding of a text, trained to convergence. The second is no head at all.
Rankings and F1 need no head, so there the two questions are one.

It *holds* if the interval of its effect lies above zero, and it is *reversed* if the interval lies
below. It is *equivalent*, a tie, if a difference of .02 can be excluded. It is *smaller than
published* if the interval spans zero and ends below the published effect. Otherwise it is *open*,
too close to call. The *readouts disagree* if the two other readouts give different verdicts. It is
*not testable here* if a check failed: for example, the contextual teacher hardly had a share in
the training. A plain *number* is told without a verdict.

Verdicts on the published numbers allow for the noise of a second run, measured on two pairs of runs
and six tasks, and for other test examples."""


def verdicts_page(tables: Tables, others: Mapping[str, pd.DataFrame]) -> str:
    """docs/verdicts.md: the findings by their verdicts, why some have none, and all in a table."""
    own = tables.ledger()
    thesis = thesis_findings(own)
    news = own.drop(thesis.index)
    ledgers = {tables.folder.name: own, **others}
    columns = _list_columns(ledgers)
    rows = ["| finding | where | published | " + " | ".join(columns) + " |"]
    rows.append("|---" * (3 + len(columns)) + "|")
    for name, row in own.iterrows():
        finding = _escape(row["finding"])
        where = manifest.full_name(row["label"])
        told = [column.get(name, NOT_RUN) for column in columns.values()]
        rows.append(f"| {' | '.join([finding, where, row['published_verdict'], *told])} |")
    lists = f"""# The findings and their verdicts

{WRITTEN.format(name="*")}

[results.md](results.md) says what the words mean. {DISCOVERIES}

## The thesis

{_list_of(thesis, HOLDS, "These repeat:")}

{_list_of(thesis, REVERSED, "These are reversed by the thesis' protocol:")}

{_list_of(thesis, HOLDS, "These survive:", "survives")}

{_list_of(thesis, REVERSED, "These are reversed by both other readouts:", "survives")}

## The news paper

{_list_of(news, HOLDS, "These hold:")}

{_list_of(news, REVERSED, "These are reversed:")}"""
    together = _note_rules(f"## Side by side\n\n{counts_table(ledgers)}", ledgers)
    parts = [lists, _tell_why_open(own), _tell_why_untested(own), together, "\n".join(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tell_why_open(ledger: pd.DataFrame) -> str:
    """A table of the findings that are open by the first question, with what ours could show."""
    rows = find_open(ledger)
    if rows.empty:
        return ""
    table = [
        f"| {_escape(row['finding'])} | {signed(row['published_effect'])} | {estimate(row)} "
        f"| {signed(row['reach'])} | {'yes' if row['within'] else 'no'} |"
        for _, row in rows.iterrows()
    ]
    return """## Why some are too close to call

By the thesis' protocol. The *reach* is half the width of our interval: a smaller difference cannot
be told from none here. Where the published difference is within reach and the finding is open all
the same, ours is of another size.

| finding | published | ours | reach | within |
|---|---|---|---|---|
""" + "\n".join(table)


def find_open(ledger: pd.DataFrame) -> pd.DataFrame:
    """The open findings with a published effect, with the reach of ours.

    Returns
    -------
    Their rows of the ledger with `reach`, half of the interval's width, and `within`: whether the
    published effect is at least that.
    """
    rows = ledger[ledger["verdict"] == OPEN].dropna(subset=["published_effect", "low", "high"])
    reach = (rows["high"] - rows["low"]) / 2
    return rows.assign(reach=reach, within=rows["published_effect"].abs() >= reach)


def _tell_why_untested(ledger: pd.DataFrame) -> str:
    """A list of the findings that cannot be tested, each with the checks that failed."""
    rows = ledger[ledger["verdict"] == NOT_TESTABLE]
    listed = [f"* {row['finding']} *{row['note']}.*" for _, row in rows.iterrows()]
    return "\n".join(["## Why some cannot be tested here", "", *listed]) if listed else ""


def _tell_reach(thesis: pd.DataFrame) -> str:
    """How many open findings claim a difference that is too small for our tasks."""
    rows = find_open(thesis)
    small = int((~rows["within"]).sum())
    if not small:
        return ""
    return (
        f"Of those too close to call, {count(small)} claim a difference smaller than our tasks can "
        "show: [the list](verdicts.md#why-some-are-too-close-to-call)."
    )


def _escape(text: str) -> str:
    """The text as a cell of a Markdown table."""
    return re.sub(r"([|*])", r"\\\1", text)


OTHER_RULES = f"""Our rules for verdicts have changed; the current version is {RULES}
([sizes.md](sizes.md) says what changed). A column that names another version was judged by it, so
its verdicts may differ from the others for that reason alone. A column without *repeats* or
*survives* asks one question only, with other heads, and cannot be compared with the rest."""


def _note_rules(text: str, ledgers: Mapping[str, pd.DataFrame]) -> str:
    """The text, and below it what a column of other rules means, if there is one."""
    differ = any(find_rules(ledger) != RULES for ledger in ledgers.values())
    return f"{text}\n\n{OTHER_RULES}" if differ else text


def find_rules(ledger: pd.DataFrame) -> int:
    """The version of the rules by which a ledger was judged; 0 before they were counted."""
    return int(ledger["rules"].iloc[0]) if "rules" in ledger else 0


def asks_twice(ledger: pd.DataFrame) -> bool:
    """Whether a ledger asks both questions; one of the first rules asked one, with other heads."""
    return "survives" in ledger


def _list_columns(ledgers: Mapping[str, pd.DataFrame]) -> dict[str, pd.Series]:
    """Heading -> verdicts by id, a column for each question; other rules are named."""
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


def counts_table(ledgers: Mapping[str, pd.DataFrame]) -> str:
    """How many of the thesis' findings have which verdict: published, and in each ledger."""
    thesis = {name: thesis_findings(ledger) for name, ledger in ledgers.items()}
    columns = {"published": next(iter(thesis.values()))["published_verdict"]}
    columns |= _list_columns(thesis)
    rows = [f"| verdict | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for verdict in VERDICTS:
        counts = [str(int((column == verdict).sum())) for column in columns.values()]
        rows.append(f"| {verdict} | {' | '.join(counts)} |")
    return "\n".join(rows)


DISCOVERIES = f"""*q* is the share of false findings to expect if a finding and all that are at
least as clear are taken as real. The lists give it where it is {signed(RATE, 2)} or more. They
answer both questions of each finding."""


def thesis_findings(ledger: pd.DataFrame) -> pd.DataFrame:
    """The ledger without the findings of the news paper."""
    return ledger[~ledger["label"].str.startswith("news")]


def verdict_counts(ledger: pd.DataFrame, column: str = "verdict") -> str:
    """How the verdicts of a ledger fall: `4 hold, 5 are reversed and 38 are too close to call`."""
    counts = ledger[column].value_counts()
    parts = [
        f"{number} {_singular(words) if number == 1 else words}"
        for verdict, words in CLAUSES.items()
        if (number := counts.get(verdict, 0))
    ]
    return list_names(parts or ["none was run"])


def _verdicts_in_short(thesis: pd.DataFrame) -> str:
    """How many findings repeat, and what becomes of these by the other readouts."""
    repeat = thesis[thesis["verdict"] == HOLDS]
    told = f"**Of the thesis' {len(thesis)} findings, {len(repeat)} repeat by its own protocol.**"
    if repeat.empty:
        return told
    read = repeat[~repeat["label"].str.startswith(RANKED)]  # a ranking is read in one way
    kept, turned = (int((read["survives"] == word).sum()) for word in (HOLDS, REVERSED))
    return (
        f"{told} Read in two other ways, {count(kept)} of these {_singular_or('hold', kept)} and "
        f"{count(turned)} {_singular_or('are reversed', turned)}. [All of them](docs/results.md)."
    )


def _singular_or(words: str, number: int) -> str:
    return _singular(words) if number == 1 else words


def _scrambled_negatives() -> str:
    """What the missing axis of Figure 4.4 did, in the published distances."""
    drawn = published.load("fig4_4")
    negatives = drawn[(drawn["distance"] == "cosine") & (drawn["to"] == "negatives")]
    return (
        "**One missing `axis` scrambled a published figure.** All "
        f"{count(negatives['model'].nunique())} models, the untrained one too, have a cosine "
        f"distance of {negatives['mean'].mean():.2f} to their negatives there, as if these were "
        "random. [Notebook 03](docs/notebooks/03_composite_analysis.ipynb) shows how."
    )


def _solved_accuracies() -> str:
    """How many accuracies the thesis drew and did not print."""
    drawn = pd.concat(published.load(label) for label in published.CHAPTER_4)
    number = len(drawn.drop_duplicates(["identity", "task"]))
    return (
        f"**The thesis prints no accuracy of its Chapter 4.** We solved all {number} from the "
        "boxes of its vector figures: [they are here](params/published/README.md)."
    )


def _best_loss(tables: Tables) -> str:
    """The thesis' best loss by its own readout, and without a head."""
    leads = {name: _lead(tables.heads(name)) for name in ("thesis", CONTROL, "none")}
    steps = "" if np.isnan(leads[CONTROL]) else f" ({signed(leads[CONTROL])} if trained for longer)"
    return (
        "**The best loss depends on who reads.** Max-margin MSE minus cosine is "
        f"{signed(leads['thesis'])} with the thesis' heads{steps}, {signed(leads['none'])} without "
        "a head. [Notebook 02](docs/notebooks/02_structural_loss.ipynb) compares them all."
    )


def _sentences_found(tables: Tables) -> str:
    """How often the right text comes first in notebook 00: teacher, student and TF-IDF."""
    rows = tables.read("tab_search")
    if rows.empty:
        return ""
    first = rows.set_index("reader")["first"]
    return (
        "**A student finds what its teacher never read**: the right text comes first for "
        f"{percent(first['student'])} of the searches, for its teacher for "
        f"{percent(first['teacher'])}. TF-IDF does it for {percent(first['TF-IDF'])}. "
        "[Notebook 00](docs/notebooks/00_start_here.ipynb) trains it."
    )


def _speed() -> str:
    """How many times as fast as Hugging Face's Longformer the student is, by document length."""
    rows = pd.read_csv(paths.ROOT / "tests" / "benchmarks" / "results" / "alternatives.csv")
    rows = rows[(rows["step"] == "inference") & (rows["precision"] == "fp32")]
    rates = rows.pivot(index="case", columns="model", values="tokens_per_second")
    times = rates["student"] / rates["Longformer"]
    equal = times.drop("mixed")
    return (
        "**Longformer's embeddings, several times as fast on a CPU**: "
        f"{equal.min():.1f} to {equal.max():.1f} times as fast as Hugging Face's code on documents "
        "of one length. [Other models](docs/speed.md) are measured, too."
    )


def _singular(words: str) -> str:
    known = {"hold": "holds", "are ties": "is a tie", "are plain numbers": "is a plain number"}
    known |= {"depend on the readout": "depends on the readout", "were not run": "was not run"}
    return known.get(words, words.replace("are ", "is ", 1))


def _answer(row: Mapping[str, Any]) -> str:
    """The sentences under a question: what the thesis says, and what became of it."""
    if row["verdict"] == NOT_RUN:
        return f"The finding: *{row['finding']}* It was not run."
    said = f'The thesis says: *"{row["quote"]}"*\n\nWe tested: {row["finding"]}'
    if row["verdict"] == NOT_TESTABLE:
        return f"{said} {answer(row)}."
    return f"{said} Does that repeat? {answer(row)}. Does it survive? {survival(row)}."


def _read_off(thesis: pd.DataFrame) -> str:
    """How many of the findings are no sentence of the thesis."""
    number = int(thesis["read_off"].astype(str).eq("True").sum())
    return (
        f"{count(number).capitalize()} of the findings are read off the thesis' figures; each of "
        "the others has a sentence of its text."
    )


def tell_steps(tables: Tables) -> str:
    """What the thesis' protocol does not fix: how many steps its epochs of heads are."""
    settings = published.load("tab4_3").set_index("parameter")["value"]
    epochs = int(settings["Epochs"])
    told = (
        f"These are the thesis' {count(epochs)} epochs, not its {THESIS_BATCHES * epochs:,} steps: "
        f"where a task has fewer examples, {count(epochs)} epochs are fewer steps."
    )
    few, as_many = (_lead(tables.heads(column)) for column in ("thesis", CONTROL))
    if np.isnan([few, as_many]).any():
        return told
    return (
        f"{told} In a control with the thesis' number of steps, max-margin MSE minus cosine is "
        f"{signed(as_many)} instead of {signed(few)}."
    )


def tell_unneeded_failures(tables: Tables) -> str:
    """A paragraph on the checks that failed and bar no finding, and what they mean for findings.

    Empty if there are none, or nothing was checked.
    """
    checks, ledger = tables.read("tab_checks"), tables.ledger()
    if checks.empty:
        return ""
    needed = {name for names in ledger["checks"].dropna() for name in names.split(", ")}
    failed = checks[checks["passed"].eq(False) & ~checks["check"].isin(needed)]
    told = []
    for row in failed.itertuples():
        ends = "" if pd.isna(row.low) else f" {interval(row.low, row.high)}"
        entry = f"{row.what} ({signed(row.value)}{ends}; needed: {row.needed})"
        told.append(f"{entry}. {LEARNING.get(row.check, '')}")
    if not told:
        return ""
    return f"These checks failed, but bar no finding:\n\n{bullets(*told)}\n"


def tell_citations(tables: Tables) -> str:
    """What the stand-ins for citations say, each by itself; empty where they were not judged."""
    leads = tables.leads_by_task("Longformer").reindex(CITATIONS).dropna()
    if leads.empty:
        return ""
    each = list_names(f"{signed(lead)} on {task}" for task, lead in leads.items())
    told = (
        f"By the thesis' heads, students minus the untrained base is {each}, the mean over "
        "students and rounds"
    )
    if (leads >= MARGIN).all():
        return f"{told}."
    small = list_names(leads.index[leads < MARGIN])
    least = signed(MARGIN, 2)
    if (leads < MARGIN).all():
        return f"{told}. All of it is below {least}, which is too small to matter."
    large = list_names(leads.index[leads >= MARGIN])
    return (
        f"{told}. So the lead comes from {large}. On {small} it is below {least}, which is too "
        "small to matter."
    )


def group_findings(ledger: pd.DataFrame) -> str:
    """A list of the findings that are decided by either question, by both answers."""
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
                f"*By the thesis' protocol: {repeats}. By the other readouts: {survives}.* {told}"
            )
    return bullets(*listed)


def _list_of(ledger: pd.DataFrame, verdict: str, title: str, column: str = "verdict") -> str:
    """The findings with a verdict on one question, each with its answer to the other one."""
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
        other = survival(row) if first else repetition(row)
        told = [] if ranked else [f"{other}."]
        if name in NOTES:
            told.append(NOTES[name])
        listed.append(" ".join([f"* {row['finding']} ({found})", *told]))
    none = title.replace("These", "None", 1).removesuffix(":")
    return "\n".join([title, "", *listed]) if listed else f"{none}."


def _lead(scores: pd.Series) -> float:
    return scores.get(MM_MSE, UNKNOWN) - scores.get("cosine", UNKNOWN)


def _sbert_by_other_heads(tables: Tables) -> list[str]:
    """How SBERT fares with all labels and heads that compare; nothing if that was not judged."""
    row = tables.claim("all-data-sbert-best")
    if row.get("survives", NOT_RUN) == NOT_RUN:
        return []
    names = ("effect", "low", "high", "verdict")
    compared = {name: row[f"compare_{name}"] for name in names}
    return [
        "With heads that compare, "
        + comparison("SBERT", "the best of the thesis' other six models", compared)
    ]


def _start_and_teachers(tables: Tables) -> list[str]:
    told = []
    scores = tables.accuracy("all")
    own = [f"{percent(scores[name], 1)} (`{name}`)" for name in list_students() if name in scores]
    if own:
        told.append(
            f"{_by_heads(tables)} and all labels, the final students are right on "
            f"{list_names(own)} of the test examples."
        )
    told += [
        f"{words.format(percent(scores[name], 1))}."
        for name, words in BASELINES.items()
        if name in scores
    ]
    for rival, words in (("SBERT", "SBERT"), ("Longformer", "the untrained base")):
        few, every = (tables.leads(name, rival) for name in ("1k", "all"))
        told.append(
            f"{_by_heads(tables)}, students minus {words} is {signed(few[0])} to "
            f"{signed(few[-1])} with the fewest labels and {signed(every[0])} to "
            f"{signed(every[-1])} with all: chance-corrected, the range over "
            f"{count(len(every), 'student')}."
        )
    told += [f"{sentence}." for sentence in _sbert_by_other_heads(tables)]
    found = tables.retrieval()
    best = found.reindex([*list_students()]).max()
    told.append(
        f"In retrieval the best student has a MAP of {signed(best)}, and the untrained base "
        f"{signed(found.get('Longformer', UNKNOWN))}."
    )
    told.append(
        f"SBERT has {signed(found.get('SBERT', UNKNOWN))} there, and TF-IDF "
        f"{signed(found.get('TF-IDF', UNKNOWN))}."
    )
    return told


def _citations(tables: Tables) -> str:
    return (
        "Do the students improve on their base on the passage pairs that stand in for citations? "
        f"{answer_twice(tables.claim('abstract-citations'))}. {tell_citations(tables)}"
    )


def _paragraph_vector(tables: Tables) -> list[str]:
    learned = tables.check("treatment_given", "fig4_7")
    return [
        "Added to the cosine loss, it has a share of "
        f"{percent(tables.check('treatment_given', 'fig4_8'))} in the gradient, the median over "
        "students.",
        "Embeddings of students with it and without it have a mean cosine of "
        f"{signed(tables.check('students_differ', 'fig4_8'))}; 1 would be the same embeddings.",
        "Added to max-margin MSE, it has a share of "
        f"{percent(tables.check('treatment_given', 'fig4_9'))} in the gradient.",
        "Students that learn from it alone correlate with it more, on held-out documents, than "
        f"students given other documents' vectors: by {signed(learned)}.",
        "As an encoder, is the large Paragraph Vector better than SBERT? "
        f"{answer(tables.claim('pv-over-sbert'))}.",
        "Does its loss with long documents masked beat cosine alone? "
        f"{answer_twice(tables.claim('weighting-masked-over-structural'))}.",
    ]


def _losses(tables: Tables) -> list[str]:
    claim = tables.claim("cosine-over-mse")
    told = [f"{_by_heads(tables)}, {comparison('cosine', 'MSE', claim)}."]
    lengths = tables.lengths()
    if len(lengths) > 1:
        leads = (lengths["cosine"] - lengths["MSE"]).round(6)
        told.append(
            f"Without a head, cosine minus MSE is {signed(leads.iloc[0])} after "
            f"{lengths.index[0]} updates and {signed(leads.iloc[-1])} after {lengths.index[-1]}."
        )
    words = {
        "thesis": "With heads trained as in the thesis,",
        CONTROL: "With such heads, trained for as many steps as in the thesis,",
        "compare": "With heads that compare, trained until they converge,",
        "none": "Without a head,",
    }
    for column, begin in words.items():
        scores = tables.heads(column)
        place = scores.rank(ascending=False).get(MM_MSE, UNKNOWN)
        told.append(
            f"{begin} max-margin MSE is {ordinal(place)} of {len(scores)} models; its score minus "
            f"cosine's is {signed(_lead(scores))}."
        )
    told.append(
        "Is the contrastive loss worse than cosine alone? "
        f"{answer_twice(tables.claim('contrastive-behind-cosine'))}."
    )
    return told


def _by_heads(tables: Tables) -> str:
    """With whose heads a verdict was found; by the first rules a profile had heads of its own."""
    theirs = asks_twice(tables.ledger())
    return "With the thesis' heads" if theirs else "With this profile's own heads"


def _real_documents(own_rules: int) -> str:
    """What the profile `lab` says about the same questions, from its committed figures.

    own_rules: the version of the rules by which the rest of the page was judged.
    """
    tables = Tables(paths.ROOT / "figures" / "lab")
    ledger = tables.ledger() if (tables.folder / "tab_claims.csv").is_file() else pd.DataFrame()
    if ledger.empty:
        return "The profile `lab`, of whole documents, was not run."
    thesis = thesis_findings(ledger)
    run = thesis[thesis["verdict"] != NOT_RUN]
    rules = find_rules(ledger)
    older = (
        f" They were judged by version {rules} of our rules, those above by version {own_rules}, "
        "so their verdicts cannot be compared."
        if rules != own_rules
        else ""
    )
    return "\n\n".join(
        [
            "The profile `lab` asks the main questions of whole documents of up to 4,096 tokens. "
            f"Of its {len(run)} findings {verdict_counts(run)}.{older}",
            bullets(*_start_and_teachers(tables), *_losses(tables)[:1], *_losses(tables)[-5:-1]),
            "With a few hundred documents the advice is the same as for "
            "[your own](own_documents.md): begin with the untrained base.",
        ]
    )
