"""docs/verdicts.md: every finding with its verdict on the published numbers and in each committed run.

python -m tests.verdicts_page       # writes it, after the figures of a profile were drawn anew
"""

import pandas as pd

from lib.config import paths

PAGE = paths.ROOT / "docs" / "verdicts.md"
COLUMNS = {"mini": "mini", "mini_medium": "mini, twice the size", "lab": "lab"}
HEAD = """# The findings and their verdicts, side by side

Written by `python -m tests.verdicts_page` from `figures/*/tab_claims.csv`. [results.md](results.md) says what the
words mean. `lab` was judged by the checks of 22 November, which were laxer ([lab_sizes.md](../params/lab_sizes.md)).
"""


def page() -> str:
    """The page as the committed ledgers have it."""
    ledgers = {
        name: pd.read_csv(paths.ROOT / "figures" / name / "tab_claims.csv").set_index("id")
        for name in COLUMNS
    }
    first = ledgers["mini"]
    verdicts = pd.DataFrame(
        {title: ledgers[name]["verdict"] for name, title in COLUMNS.items()}
    ).reindex(first.index)
    lines = [
        "| finding | where | published | " + " | ".join(verdicts) + " |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for name, row in first.iterrows():
        finding = row["finding"].replace("|", r"\|").replace("*", r"\*")
        where = (
            row["label"]
            .replace("news_tab", "news, Table ")
            .replace("fig", "Figure ")
            .replace("_", ".")
        )
        told = [row["published_verdict"], *verdicts.loc[name].fillna("not run")]
        lines.append("| " + " | ".join([finding, where, *told]) + " |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
