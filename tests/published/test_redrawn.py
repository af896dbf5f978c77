"""The committed figures of the profile `published` hold the published numbers."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import manifest, paths

ENTRIES = manifest.promised(manifest.load(), manifest.PUBLISHED)
OURS = manifest.load().keys() - ENTRIES.keys()
COMMITTED = paths.ROOT / "figures" / "published"


def read(folder, label: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def test_it_makes_every_label_that_has_published_numbers_and_no_other():
    drawings = {label for label, entry in ENTRIES.items() if entry.kind == "drawing"}
    assert {*ENTRIES} - drawings == {*published.labels()} and drawings == {"fig3_1", "fig4_6"}
    own = {label for label in OURS if not label.startswith(("figA_", "figB_"))}
    tables = {"tab_search", "tab_heads", "tab_words", "tab_yardstick"}
    tables |= {"tab_checks", "tab_claims"}
    assert own == tables | {"fig_losses", "fig_settings", "fig_ledger"}


def test_what_is_committed_is_whole():
    assert {path.name for path in COMMITTED.iterdir()} == {
        name for entry in ENTRIES.values() for name in entry.files
    }
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) < 2.5e6


@pytest.mark.parametrize("label", published.BOXPLOTS)
def test_boxplots_show_the_published_accuracies(label):
    drawn, scores = read(COMMITTED, label), published.load(label)
    assert drawn["model"].tolist() == scores["model"].tolist()
    assert drawn["task"].tolist() == scores["task"].tolist()
    assert drawn["published"].to_numpy() == pytest.approx(scores["accuracy"].to_numpy(), abs=1e-6)
    boxes = [*published.printed(label)]
    assert drawn["model"].unique().tolist() == boxes, "rows as in the thesis, from top to bottom"
    assert drawn["published_normalized"].to_numpy() == pytest.approx(
        scores["normalized"].to_numpy(), abs=1e-6
    )


def test_other_figures_show_the_published_numbers():
    for label, column in {"fig5_4": "accuracy", "fig5_5": "score", "fig5_6": "score"}.items():
        theirs = published.load(label).rename(columns={column: "published"})
        both = read(COMMITTED, label).merge(
            theirs, on=[*theirs.columns.intersection(["round", "metric"]), "model", "task"]
        )
        assert len(both) == len(theirs) == len(read(COMMITTED, label))
        assert both["published_x"].to_numpy() == pytest.approx(
            both["published_y"].to_numpy(), abs=1e-6
        )
    for label in ("fig4_1", "fig5_1"):
        assert read(COMMITTED, label).groupby(["split", "source"])[
            "published"
        ].sum().to_numpy() == pytest.approx([100] * 4, abs=0.01)
        theirs = published.load(label).set_index(["split", "source", "bin_lo"])["percent"]
        # the last bin holds all longer documents
        closed = read(COMMITTED, label).dropna(subset="bin_hi")
        ours = closed.set_index(["split", "source", "bin_lo"])["published"]
        inner = theirs.index.intersection(ours.index[ours > 0])
        assert len(inner) > 100
        assert ours[inner].to_numpy() == pytest.approx(theirs[inner].to_numpy(), abs=1e-6)
    for label in ("fig4_4", "fig5_2"):
        theirs, ours = published.load(label), read(COMMITTED, label)
        numbers = theirs.select_dtypes("number").columns
        assert len(ours) == len(theirs)
        assert ours[numbers].to_numpy() == pytest.approx(theirs[numbers].to_numpy())
    paper = published.load("news_fig1").dropna(subset="value")
    drawn = read(COMMITTED, "news_fig1").dropna(subset="size_mb")
    assert sorted(drawn["f1"] / 100) == pytest.approx(
        sorted(paper.loc[paper["size_mb"] != "", "value"]), abs=1e-6
    )


@pytest.mark.parametrize("label", [label for label in ENTRIES if ENTRIES[label].kind == "table"])
def test_tables_hold_what_was_printed(label):
    table, printed = read(COMMITTED, label), published.load(label).replace("", np.nan)
    if label == "tab5_7":
        table = table.melt(["round", "model"], var_name="task").dropna(subset="value")
        both = table.merge(printed, on=["round", "model", "task"])
        assert len(both) == len(table) == len(printed)
        assert both["value_x"].to_numpy() == pytest.approx(both["value_y"].to_numpy())
        return
    printed = printed[[*table.columns]]
    for column in table:
        if pd.api.types.is_numeric_dtype(table[column]):
            expected = pd.to_numeric(printed[column]).to_numpy(float)
            assert table[column].to_numpy(float) == pytest.approx(expected, nan_ok=True), column
        else:
            assert (
                table[column].astype(object).fillna("").tolist()
                == printed[column].astype(object).fillna("").tolist()
            )
    assert len(table) == len(printed) and len(table.columns) > 1
