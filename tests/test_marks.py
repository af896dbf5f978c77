"""Sentences that state a verdict agree with the ledger of mini, as their marks say."""

import re

import pytest

from lib.config import paths
from lib.ledger.claims import read_table

MARK = re.compile(r"<!-- ([^:>]+?)( survives)?: (.+?) -->")
FILES = ["README.md", *(f"docs/{file.name}" for file in sorted(paths.ROOT.glob("docs/*.md")))]
FILES += [f"notebooks/{file.name}" for file in sorted(paths.NOTEBOOKS.glob("*.ipynb"))]
# What tells findings has marks. Notebooks 03 and 10 test none of the ledger.
TELL = re.compile(r"README|docs/results|notebooks/0[24-9]")
LEDGER = read_table(paths.ROOT / "figures" / "mini", "tab_claims").set_index("id")


@pytest.mark.parametrize("name", FILES)
def test_a_sentence_states_the_verdict_that_the_ledger_has(name):
    marks = MARK.findall((paths.ROOT / name).read_text(encoding="utf-8"))
    wrong = [
        f"{finding}{survives}: {verdict}"
        for finding, survives, verdict in marks
        if finding not in LEDGER.index
        or LEDGER.at[finding, survives.strip() or "verdict"] != verdict
    ]
    assert wrong == [] and (marks or not TELL.match(name))
