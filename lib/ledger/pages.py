"""The ledger as text: verdicts in Markdown, counts, and numbers for sentences."""

from collections.abc import Mapping

import pandas as pd

from lib.statistics.verdicts import EQUIVALENT, HOLDS, NOT_RUN, NOT_TESTABLE, OPEN, REVERSED

VERDICTS = (HOLDS, REVERSED, EQUIVALENT, OPEN, NOT_TESTABLE, NOT_RUN)
NEWS = "news"  # labels of the news paper's findings begin with it


def count_verdicts(ledger: pd.DataFrame, column: str = "verdict") -> dict[str, int]:
    """Verdict -> how many findings have it, of all verdicts that there are.

    column: "published_verdict" counts those on the published numbers. Claims that are numbers have
    no verdict.
    """
    counts = ledger[column].value_counts()
    return {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}


def select_thesis(ledger: pd.DataFrame) -> pd.DataFrame:
    """The findings of the thesis, without the news paper's."""
    return ledger[~ledger["label"].str.startswith(NEWS)]


def select_news(ledger: pd.DataFrame) -> pd.DataFrame:
    """The findings of the news paper."""
    return ledger[ledger["label"].str.startswith(NEWS)]


def format_effect(ledger: pd.DataFrame, claim: str, prefix: str = "") -> str:
    """A finding's effect with its interval: "+.078 [.027, .128]".

    prefix: "published_" for the published numbers.
    """
    row = ledger.set_index("id").loc[claim]
    effect, low, high = (row[f"{prefix}{name}"] for name in ("effect", "low", "high"))
    text = format_number(effect, "+")
    return text if pd.isna(low) else f"{text} [{format_number(low)}, {format_number(high)}]"


def format_number(value: float, sign: str = "") -> str:
    """Three digits without the zero before the point: ".078", "-.019"."""
    return f"{value:{sign}.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{sign}.3f}"


def format_label(label: str) -> str:
    """A label as people read it: "Figure 4.2", "news, Table 3"."""
    for start, words in (("news_tab", "news, Table "), ("fig", "Figure "), ("tab", "Table ")):
        if label.startswith(start):
            return words + label.removeprefix(start).replace("_", ".")
    return label


def write_verdicts(ledgers: Mapping[str, pd.DataFrame]) -> str:
    """Every finding with its verdict on the published numbers and in each run, in Markdown.

    ledgers: heading of a column -> ledger. The first gives the findings and their order; what
    another ledger lacks was not run.
    """
    first = next(iter(ledgers.values())).set_index("id")
    verdicts = {
        title: ledger.set_index("id")["verdict"].reindex(first.index).fillna(NOT_RUN)
        for title, ledger in ledgers.items()
    }
    lines = [
        f"| finding | where | published | {' | '.join(verdicts)} |",
        "|---" * (3 + len(verdicts)) + "|",
    ]
    for name, row in first.iterrows():
        finding = row["finding"].replace("|", r"\|").replace("*", r"\*")
        cells = [finding, format_label(row["label"]), row["published_verdict"]]
        cells += [column[name] for column in verdicts.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
