"""What README.md says in numbers: its findings, and its table of sizes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import published
from lib.chapters.sensitivity import CONTROL
from lib.config import paths, profiles
from lib.config.schema import Profile
from lib.pages.saved_tables import UNKNOWN, Tables, find_lead
from lib.pages.verdicts import agree, tell_survivors, thesis_findings
from lib.statistics.verdicts import HOLDS, OPEN, REVERSED
from lib.words import bullets, count, percent, signed

# The blocks that are filled in. A changed profile gets them as a page of its own.
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


def replace_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Replace what is between `<!-- name -->` and `<!-- /name -->` in a text.

    `blocks` maps names to new content. Raises `ValueError` unless each name has exactly one place.
    """
    for name, block in blocks.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"expected {start} and {end} once each, around the text to replace")
        before, rest = text.split(start)
        text = f"{before}{start}\n{block}\n{end}{rest.split(end)[1]}"
    return text


def tell_findings(tables: Tables) -> str:
    """README's first screen: how the verdicts fall, and the five results worth a visit."""
    told = (
        _scrambled_negatives(),
        _solved_accuracies(),
        _best_loss(tables),
        _sentences_found(tables),
        _speed(),
    )
    return f"{_verdicts_in_short(tables)}\n\n{bullets(*told)}"


def tabulate_scale(profile: Profile) -> str:
    """README's table of sizes: the thesis', this profile's and their ratio; and other material."""
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


def _verdicts_in_short(tables: Tables) -> str:
    """Say how the findings fall by the thesis' heads, and how those that hold fare without."""
    thesis = thesis_findings(tables.ledger())
    holding, turned, unclear = (
        int((thesis["verdict"] == verdict).sum()) for verdict in (HOLDS, REVERSED, OPEN)
    )
    vacuous = int(thesis.loc[thesis["verdict"] == HOLDS, "vacuous"].eq("yes").sum())
    passed = f" ({count(vacuous)} of them for the untrained base, too)" if vacuous else ""
    return (
        f"**Of the thesis' {len(thesis)} findings, {holding} repeat here with its own "
        f"heads{passed}, "
        f"{count(turned)} {agree('are reversed', turned)}, and {unclear} "
        f"{agree('are too close to call', unclear)}.** {tell_survivors(tables)} "
        "[All of them](docs/results.md)."
    )


def _scrambled_negatives() -> str:
    """Tell what the missing axis did to the published distances of Figure 4.4."""
    drawn = published.load("fig4_4")
    negatives = drawn[(drawn["distance"] == "cosine") & (drawn["to"] == "negatives")]
    return (
        "**One missing `axis` scrambled the published Figure 4.4.** All "
        f"{count(negatives['model'].nunique())} models, even the untrained one, have a cosine "
        f"distance of {negatives['mean'].mean():.2f} to their negatives there, as if these were "
        "random. [Notebook 03](docs/notebooks/03_composite_analysis.ipynb) shows why."
    )


def _solved_accuracies() -> str:
    """Tell how many accuracies the thesis drew without printing them."""
    drawn = pd.concat(published.load(label) for label in published.CHAPTER_4)
    number = len(drawn.drop_duplicates(["identity", "task"]))
    return (
        f"**The thesis prints no accuracy of its Chapter 4.** We recovered all {number} "
        "from the boxes of its vector figures: [they are here](params/published/README.md)."
    )


def _best_loss(tables: Tables) -> str:
    """Compare the thesis' best loss with cosine, by its own readout and without a head."""
    leads = {name: find_lead(tables.heads(name)) for name in ("thesis", CONTROL, "none")}
    steps = (
        ""
        if np.isnan(leads[CONTROL])
        else f" ({signed(leads[CONTROL])} if the heads train for longer)"
    )
    return (
        "**Which loss is best depends on how students are scored.** Max-margin MSE minus cosine is "
        f"{signed(leads['thesis'])} with the thesis' heads{steps}, {signed(leads['none'])} without "
        "a head. [Notebook 02](docs/notebooks/02_structural_loss.ipynb) compares them all."
    )


def _sentences_found(tables: Tables) -> str:
    """Tell how often notebook 00's search finds a text by a sentence the teacher never read."""
    rows = tables.read("tab_search")
    if rows.empty:
        return ""
    first = rows.set_index("reader")["sentence"]
    return (
        "**A student reads on where its teacher stops.** Given a sentence from there, it ranks the "
        f"right text first in {percent(first['student after'])} of the searches, the teacher in "
        f"{percent(first['teacher'])} and TF-IDF in {percent(first.get('TF-IDF', UNKNOWN))}. "
        "[Notebook 00](docs/notebooks/00_start_here.ipynb) asks in other words, too."
    )


def _speed() -> str:
    """Compare the student's speed with Hugging Face's Longformer, over document lengths."""
    rows = pd.read_csv(paths.ROOT / "tests" / "benchmarks" / "results" / "alternatives.csv")
    rows = rows[(rows["step"] == "inference") & (rows["precision"] == "fp32")]
    rates = rows.pivot(index="case", columns="model", values="tokens_per_second")
    times = rates["student"] / rates["Longformer"]
    equal = times.drop("mixed")
    return (
        "**Longformer's embeddings, several times as fast on a CPU**: "
        f"{equal.min():.1f} to {equal.max():.1f} times as fast as Hugging Face's code on documents "
        "of one length. [Here](docs/speed.md) are other models, too."
    )
