"""Tables: three formats from one frame, published values beside ours."""

import re

import pandas as pd
import pytest

from lib.config import manifest, paths, profiles
from lib.figures import tables

CAPTIONS = profiles.read_yaml("tables.yaml")["captions"]
COMMITTED = sorted(path for path in paths.ROOT.glob("figures/mini/*tab*.csv"))


def read(path, profile):
    """A saved table, as `nb.save_table` hands it on."""
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
    rounds = manifest.printed_rounds(profiles.load(profile).final.rounds)
    frame.attrs |= {"label": path.stem, "rounds": rounds}
    return frame


def test_escapes():
    page = tables.render("tex", pd.DataFrame({"c": [r"a\b {x}", "x^2~y#$", "[1] λ"]}))
    first, second, third = page.splitlines()[7:10]
    assert first == r"a\textbackslash{}b \{x\} \\"
    assert second == r"x\textasciicircum{}2\textasciitilde{}y\#\$ \\"
    assert third == r"{[}1{]} \(\lambda\) \\"  # [ would be an argument of the \\ before it
    assert r"a\|b \*c\*" in tables.render("md", pd.DataFrame({"c": ["a|b *c*"]}))


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ([0.5, -10.666667, 1234.56, None], ["0.500", "-10.7", "1,235", "–"]),
        ([0.0004, -0.0004, 1.0], ["0.000", "0.000", "1.000"]),  # no minus of a zero
        ([3.0, None, 40.0], ["3", "–", "40"]),
        (["1e-4", "3e-05", "None", "-", ""], ["0.0001", "0.00003", "None", "–", "–"]),
        ([True, False, None], ["yes", "no", "–"]),
        (["news_tab3", "treatment_given"], ["Trofimchuk (2022), Table 3", "treatment given"]),
    ],
)
def test_cells(column, cells):
    assert tables.readable(pd.DataFrame({"c": column}))[""]["c"].tolist() == cells


def test_a_small_p_is_not_zero_and_a_readout_has_its_one_name():
    frame = pd.DataFrame({"p": [0.0004, 0.0006, None], "none_q": [0.0, 1.0, 0.2]})
    cells = tables.readable(frame.assign(drop=[0.0, 0.1, 0.2], readout=["none", "compare", ""]))[""]
    assert cells["p"].tolist() == ["<.001", "0.001", "–"]
    assert cells["none q"].tolist() == ["<.001", "1.000", "0.200"]
    assert cells["drop"].tolist() == ["0.000", "0.100", "0.200"]
    assert cells["readout"].tolist() == ["no head", "heads that compare", "–"]


def test_table_5_7_has_models_by_tasks_and_a_part_for_each_round():
    """As the thesis prints it, ours and in brackets published."""
    frame = read(paths.ROOT / "figures/mini/tab5_7.csv", "mini")
    parts = tables.readable(frame)
    rounds = manifest.printed_rounds(profiles.load("mini").final.rounds)
    assert [*parts] == ["all", rounds["10k"], rounds["1k"], "retrieval"]
    means, tasks = ["mean", "normalised mean"], ["ARXIV", "IMDB", "AAN", "OC", "PAN", "S2ORC"]
    assert parts["all"].columns.tolist() == ["model", *tasks, *means]
    assert parts["retrieval"].columns.tolist() == ["model", "GAMES", "WINES", *means]
    row = frame.query("round == 'all' and model == 'SBERT' and task == 'AAN'").iloc[0]
    cell = parts["all"].set_index("model").loc["SBERT", "AAN"]
    assert cell == f"{row['value']:.3f} ({row['published']:.3f})"
    assert parts["all"].set_index("model").loc["TF-IDF", "AAN"].count("(") == 0  # nothing published


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_committed_tables_are_for_people_and_show_their_csv(path):
    frame, caption = read(path, path.parent.name), CAPTIONS[path.stem]
    markdown = path.with_suffix(".md").read_text(encoding="utf-8")
    assert markdown == tables.render("md", frame, caption)
    latex = tables.render("tex", frame, caption, path.stem)
    assert path.with_suffix(".tex").read_text(encoding="utf-8") == latex
    unread = r"_|nan\b|[1-9]\d*\.\d{4}|\d[eE][-+]?\d"
    assert not re.search(unread, markdown.replace(r"\_", " ")), path
    parts = tables.readable(frame)
    assert not any("_" in name for cells in parts.values() for name in cells)
    assert max(len(cells.columns) for cells in parts.values()) <= 9
