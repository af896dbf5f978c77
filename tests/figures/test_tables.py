"""Tables: three formats from one frame, published values beside ours."""

import pandas as pd
import pytest

from lib.config import paths, profiles, roles
from lib.figures import tables
from lib.store import provenance

FRAME = pd.DataFrame(
    {
        "model_name": ["max-margin;MSE;γ=1.0", "a|b & 50% *new*"],
        "documents": [500_000, 12],
        "accuracy": [1 / 3, None],
        "tokens": [6.85e8, 1371.26],
    }
)


def test_markdown():
    assert tables.markdown(FRAME, "Two_models").splitlines() == [
        r"Two\_models",
        "",
        r"| model\_name | documents | accuracy | tokens |",
        "| --- | ---: | ---: | ---: |",
        "| max-margin;MSE;γ=1.0 | 500000 | 0.3333 | 6.85e+08 |",
        r"| a\|b & 50% \*new\* | 12 |  | 1371 |",
    ]


def test_latex():
    assert tables.latex(FRAME, "tab4_1", "5 % of R&D").splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{5 \% of R\&D}",
        r"\label{table:tab4_1}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"model\_name & documents & accuracy & tokens \\",
        r"\midrule",
        r"max-margin;MSE;\(\gamma\)=1.0 & 500000 & 0.3333 & 6.85e+08 \\",
        r"a\textbar{}b \& 50\% *new* & 12 &  & 1371 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"a\b", r"a\textbackslash{}b"),  # the braces of one replacement are not escaped by another
        ("{x}", r"\{x\}"),
        ("x^2~y#$", r"x\textasciicircum{}2\textasciitilde{}y\#\$"),
        ("[1] λ", r"{[}1{]} \(\lambda\)"),  # a row that opens with [ would be an argument of the \\ before it
        ("two\nlines", "two lines"),
    ],
)
def test_latex_escapes(text, escaped):
    assert tables.latex(pd.DataFrame({"c": [text]}), "t").splitlines()[7] == rf"{escaped} \\"


def test_save(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(provenance, "saved", {})
    profile = profiles.load("smoke", seeds=[5])
    files = tables.save(FRAME, "tab4_1", profile=profile, caption="Corpus")
    assert [file.name for file in files] == ["tab4_1.csv", "tab4_1.md", "tab4_1.tex"]
    assert {file.parent for file in files} == {paths.figures(profile)} and provenance.saved == {"tab4_1": files}
    assert (
        files[0].read_text(encoding="utf-8").splitlines()[1] == "max-margin;MSE;γ=1.0,500000,0.333333,685000000.000000"
    )
    assert (paths.provenance(profile) / "tab4_1.json").is_file()
    first = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in tables.save(FRAME, "tab4_1", profile=profile, caption="Corpus")] == first


def test_nothing_to_save():
    with pytest.raises(ValueError, match="tab4_1: nothing to save"):
        tables.save(FRAME.iloc[:0], "tab4_1", profile=None)


def test_beside():
    ours = pd.DataFrame({"split": ["validation", "train"], "documents": [60, 300], "tokens": [1.5, 2.5]})
    theirs = pd.DataFrame({"split": ["train", "validation", "test"], "documents": [500, 10, 7], "sd": [1, 2, 3]})
    frame = tables.beside(ours, theirs, on="split")
    assert frame.columns.tolist() == ["split", "documents", "documents (published)", "tokens", "sd (published)"]
    assert frame["split"].tolist() == [
        "validation",
        "train",
        "test",
    ]  # ours first, in our order; nothing published is lost
    assert frame["documents"].tolist()[:2] == [60, 300] and pd.isna(frame["documents"][2])
    assert frame["documents (published)"].tolist() == [10, 500, 7] and frame["sd (published)"].tolist() == [2, 1, 3]


def test_beside_keeps_whole_numbers_when_all_rows_match():
    ours = pd.DataFrame({"task": ["OC"], "split": ["train"], "documents": [3]})
    frame = tables.beside(ours, ours.assign(documents=10_000), on=["task", "split"])
    assert frame.iloc[0].tolist() == ["OC", "train", 3, 10_000] and frame["documents"].dtype == int


def test_beside_wants_distinct_rows_and_the_key():
    frame = pd.DataFrame({"split": ["train", "train"], "documents": [1, 2]})
    with pytest.raises(ValueError, match="not unique in left"):
        tables.beside(frame, frame.iloc[:1], on="split")
    with pytest.raises(KeyError, match="task"):
        tables.beside(pd.DataFrame({"task": ["OC"]}), frame, on="task")


def test_rounds_are_printed_by_what_they_hold(tmp_path, monkeypatch):
    """mini's smallest round has 25 examples; the CSV keeps the thesis' name, by which numbers are found."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    profile = profiles.load("mini", overrides={"final.rounds": {"1k": 25, "10k": 10000, "all": None}})
    frame = pd.DataFrame({"round": ["1k", "10k", "all", "retrieval"], "value": [0.1, 0.2, 0.3, 0.4]})
    monkeypatch.setattr(paths, "figures", lambda profile: tmp_path)
    csv, markdown, latex = tables.save(frame, "tab5_7", profile=profile)
    assert pd.read_csv(csv)["round"].tolist() == ["1k", "10k", "all", "retrieval"]
    shown = [line.split("|")[1].strip() for line in markdown.read_text(encoding="utf-8").splitlines()[2:]]
    assert shown == ["25 (1k)", "10k", "all", "retrieval"]
    assert "25 (1k) & 0.1" in latex.read_text(encoding="utf-8")


def test_a_round_s_name_stays_where_its_number_is_the_thesis():
    assert roles.printed_rounds({"1k": 1000, "10k": 300, "all": 50, "few": 7}) == {
        "1k": "1k",
        "10k": "300 (10k)",
        "all": "50 (all)",
        "few": "few",
    }
    assert roles.printed_rounds({"1k": None}) == {"1k": "all (1k)"}
