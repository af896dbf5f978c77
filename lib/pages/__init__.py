"""The pages that notebook 09 writes: docs/results.md, docs/verdicts.md, docs/figures.md and the
numbers in README.

Every number and every verdict comes from the tables that notebooks have saved.
"""

from lib.pages.answers import CITATIONS, tell_citations
from lib.pages.results import tell_robustness, tell_steps, tell_unneeded_failures
from lib.pages.saved_tables import Tables
from lib.pages.verdicts import (
    find_rules,
    group_findings,
    other_ledgers,
    thesis_findings,
    verdict_counts,
)
from lib.pages.writing import write_pages

__all__ = [
    "CITATIONS",
    "Tables",
    "find_rules",
    "group_findings",
    "other_ledgers",
    "tell_citations",
    "tell_robustness",
    "tell_steps",
    "tell_unneeded_failures",
    "thesis_findings",
    "verdict_counts",
    "write_pages",
]
