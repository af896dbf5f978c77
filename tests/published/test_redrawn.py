"""The committed figures of the profile `published` hold the published numbers."""

import shutil

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import manifest, paths, profiles
from lib.ledger.claims import read_table
from tests.run_notebooks import run

ENTRIES = manifest.promised(manifest.load(), manifest.PUBLISHED)
COMMITTED = paths.ROOT / "figures" / "published"
TABLES = [label for label, entry in ENTRIES.items() if entry.kind == "table"]


def test_every_label_with_published_numbers_is_committed_and_no_other():
    drawings = {label for label, entry in ENTRIES.items() if entry.kind == "drawing"}
    assert {*ENTRIES} - drawings == {*published.labels()}
    profile = profiles.load(manifest.PUBLISHED)
    files = {path.name for entry in ENTRIES.values() for path in entry.paths(profile)}
    assert {path.name for path in COMMITTED.iterdir()} == files


@pytest.mark.parametrize("label", TABLES)
def test_tables_hold_what_was_printed(label):
    table, printed = read_table(COMMITTED, label), published.load(label).replace("", np.nan)
    if label == "tab5_7":
        keys = ["round", "model", "task"]
        table = table.melt(keys[:2], var_name="task").dropna(subset="value")
        both = table.merge(printed, on=keys)
        assert len(both) == len(table) == len(printed)
        assert both["value_x"].tolist() == pytest.approx(both["value_y"].tolist())
        return
    assert len(table) == len(printed) and len(table.columns) > 1
    for column in table:
        if pd.api.types.is_numeric_dtype(table[column]):
            np.testing.assert_allclose(table[column], pd.to_numeric(printed[column]))
        else:
            ours, theirs = (each[column].astype(object).fillna("") for each in (table, printed))
            assert ours.tolist() == theirs.tolist(), column


@pytest.mark.smoke
def test_the_published_figures_are_drawn_again(tmp_path):
    """`figures/published` is committed, and drawn where the code is: here in a copy."""
    copy, figures = tmp_path / "checkout", "figures/published"
    left_out = shutil.ignore_patterns(".*", "artifacts", "tests", "docs", "__pycache__")
    shutil.copytree(paths.ROOT, copy, ignore=left_out)
    shutil.rmtree(copy / figures)
    run(tmp_path, "published", root=copy)
    for path in (paths.ROOT / figures).glob("*.csv"):
        assert (copy / figures / path.name).read_bytes() == path.read_bytes(), path.name
