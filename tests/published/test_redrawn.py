"""The committed figures of the profile `published` hold the published numbers."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import manifest, paths

ENTRIES = manifest.promised(manifest.load(), manifest.PUBLISHED)
COMMITTED = paths.ROOT / "figures" / "published"
TABLES = [label for label, entry in ENTRIES.items() if entry.kind == "table"]


def read(label: str) -> pd.DataFrame:
    return pd.read_csv(COMMITTED / f"{label}.csv", keep_default_na=False, na_values=[""])


def test_every_label_with_published_numbers_is_committed_and_no_other():
    drawings = {label for label, entry in ENTRIES.items() if entry.kind == "drawing"}
    assert {*ENTRIES} - drawings == {*published.labels()}
    files = {name for entry in ENTRIES.values() for name in entry.files}
    assert {path.name for path in COMMITTED.iterdir()} == files


@pytest.mark.parametrize("label", published.BOXPLOTS)
def test_boxplots_show_the_published_accuracies(label):
    drawn, scores = read(label), published.load(label)
    assert drawn[["model", "task"]].equals(scores[["model", "task"]])
    assert drawn["published"].tolist() == pytest.approx(scores["accuracy"].tolist(), abs=1e-6)
    shares = drawn["published_normalized"].tolist()
    assert shares == pytest.approx(scores["normalized"].tolist(), abs=1e-6)


@pytest.mark.parametrize("label", ["fig5_4", "fig5_5", "fig5_6"])
def test_scores_are_the_published_ones(label):
    theirs = published.load(label).rename(columns={"accuracy": "score"})
    keys = [*theirs.columns.intersection(["round", "metric"]), "model", "task"]
    both = read(label).merge(theirs, on=keys)
    assert len(both) == len(theirs) == len(read(label))
    assert both["published"].tolist() == pytest.approx(both["score"].tolist(), abs=1e-6)


def test_curves_show_the_published_numbers():
    for label in ("fig4_1", "fig5_1"):
        keys = ["split", "source", "bin_lo"]
        theirs = published.load(label).set_index(keys)["percent"]
        # the last bin holds all longer documents
        ours = read(label).dropna(subset="bin_hi").set_index(keys)["published"]
        inner = theirs.index.intersection(ours.index[ours > 0])
        assert len(inner) > 100
        assert ours[inner].tolist() == pytest.approx(theirs[inner].tolist(), abs=1e-6)
    for label in ("fig4_4", "fig5_2"):
        theirs, ours = published.load(label).select_dtypes("number"), read(label)
        np.testing.assert_allclose(ours[theirs.columns], theirs)
    paper = published.load("news_fig1").dropna(subset="value")
    values = sorted(paper.loc[paper["size_mb"] != "", "value"])
    drawn = read("news_fig1").dropna(subset="size_mb")["f1"] / 100
    assert sorted(drawn) == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("label", TABLES)
def test_tables_hold_what_was_printed(label):
    table, printed = read(label), published.load(label).replace("", np.nan)
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
