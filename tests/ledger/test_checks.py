"""Each check on cases that it must let pass, and on cases that it must not."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.chapters import chapter4, final_students
from lib.config import profiles
from lib.ledger import checks
from tests.fake_bench import FakeBench, fake_model


def draw(best, names=("SBERT", "only-MSE"), **fields):
    """Scores of 300 examples on two tasks: of one model this share right, of the other half."""
    rng, rows = np.random.default_rng(0), []
    for model, share in zip(names, (best, 0.5), strict=True):
        for task in ("ARXIV", "PAN"):
            row = {"model": model, "task": task, "scores": (rng.random(300) < share).astype(float)}
            rows.append(row | {"groups": np.arange(300), "chance": 0.5, "readout": "compare"})
    return pd.DataFrame(rows).assign(seed=0, folds=1, **fields)


def test_a_round_at_random_and_a_ranking_at_the_ceiling_are_told():
    """Retrieval is held against chance by MRR of whole rankings alone."""
    scores = {"fig5_3": pd.concat([draw(0.5, round="1k"), draw(0.8, round="all")])}
    whole = {"metric": "MRR", "readout": "none"}
    others = draw(0.3, metric="MAP", readout="none"), draw(0.3, metric="MRR", readout="thesis")
    scores |= {"fig5_5": pd.concat([draw(0.8, **whole), *others])}
    perfect = draw(0.99, ("SBERT", "unknown"), **whole)
    scores |= {"fig5_6": pd.concat([perfect, *others])}
    rows = pd.DataFrame(checks.check_scores(scores), columns=checks.Check._fields)
    rounds, rankings = rows[rows["label"] == "fig5_3"], rows[rows["label"] != "fig5_3"]
    assert {*rounds["check"]} == {"round_not_at_chance"}
    assert {*rankings["check"]} == {"ranking_not_at_chance"}
    assert rounds["passed"].tolist() == [False, False, True, True]
    assert rankings["passed"].tolist() == [True, True, False, False]


def test_whether_a_task_can_be_read_is_asked_by_heads_that_compare():
    """What the thesis' heads guess is told, and decides nothing."""
    names = ("SBERT", "PV;2048d")
    both = pd.concat([draw(0.99, names), draw(0.5, names).assign(readout="thesis")])
    fewer = draw(0.5, ("SBERT", "cosine"))  # a figure with fewer encoders is not asked
    told = [*checks.check_scores({"fig4_2": fewer, "fig4_10": both})]
    told.append(checks.check_lengths(np.array([1, 100]), 50))
    rows = pd.DataFrame(told, columns=checks.Check._fields)
    learned = rows[rows["check"] == "task_not_at_chance"]
    informing = learned["what"].str.contains("thesis' heads")
    assert learned.loc[~informing, "passed"].tolist() == [True, True]
    assert learned.loc[informing, "passed"].isna().all() and informing.sum() == 2
    encoders = rows[rows["check"].str.endswith("teacher_above_chance")].set_index("check")["passed"]
    structural, contextual = "structural_teacher_above_chance", "contextual_teacher_above_chance"
    assert encoders.to_dict() == {structural: True, contextual: False}
    assert "is 0.50, needed 0.66 to 0.76" in told[-1].words and not told[-1].passed


def tell_students(label="fig4_8", names=range(16), **columns):
    """The checks of students with these numbers, by name of the check and label."""
    fields = ["end", "start", "chance", "control", "share", "context", "another_seed"]
    students = pd.DataFrame(index=names, columns=fields, dtype=float)
    students = students.assign(**{"alike": 0.1, **columns})
    rows = checks.check_students(label, students)
    return pd.DataFrame(rows, columns=checks.Check._fields).set_index(["check", "label"])


@pytest.mark.parametrize(
    ("gain", "chance"), [(-0.02, 0.3), (0.0, 0.3), (0.02, 0.3), (0.02, 0.42), (0.02, 0.5)]
)
def test_students_of_context_alone_must_end_above_controls_and_chance(gain, chance):
    """CCA falls by .1 in all of them, with luck of .01; each of the sixteen has a control."""
    ends, control = 0.4 + np.random.default_rng(0).normal(0, 0.01, (2, 16))
    numbers = {"start": 0.5, "end": ends + gain, "control": control, "chance": chance}
    rows = tell_students(**numbers)
    assert rows.loc["treatment_given", "passed"].tolist() == [gain > 0, chance < 0.4]
    assert rows.loc["cca_rises", "passed"].isna().all()
    three = tell_students(names=range(3), start=0.5, end=[4, 6, 8], control=[3, 4, 5], chance=0.3)
    row = three.loc["treatment_given"].iloc[0]  # t(.995, 2) is 9.925, the error 1 / sqrt(3)
    assert (row["value"], row["high"]) == pytest.approx((2, 2 + 9.925 / 3**0.5), abs=1e-3)
    one = tell_students(names=range(1), start=0.5, end=0.9, control=0.3, chance=0.3)
    one = one.loc["treatment_given"]  # a single student and its control tell nothing
    assert one["low"].isna().all() and not one["passed"].any()


def test_a_finding_about_some_of_a_figures_students_needs_that_these_were_taught():
    """Others of Figure 4.10 have their share; the one that a finding is about does not."""
    students = chapter4.select_students(published.shown("fig4_10"), contextual=True)
    share = pd.Series({name: 0.03 if name == "384;λ=0.5" else 0.3 for name in students})
    told = tell_students("fig4_10", share.index, share=share).loc["treatment_given", "passed"]
    assert told[~told.astype(bool)].index.tolist() == ["weighting-masked-over-structural"]
    assert len(told) == 4


@pytest.mark.parametrize(("context", "passed"), [(0.93, False), (0.9, True)])
def test_context_must_change_students_more_than_a_second_seed(context, passed):
    both = {"share": 0.3, "another_seed": 0.92}
    rows = tell_students(context=context, **both).droplevel("label")["passed"]
    told = {"treatment_given": True, "students_differ": passed, "not_collapsed": True}
    assert rows.to_dict() == told
    collapsed = tell_students(names=range(2), context=0.9, alike=[0.1, 0.95], **both)
    assert not collapsed.at[("not_collapsed", "fig4_8"), "passed"]


def measure(label, monkeypatch, profile="mini"):
    """The students of a bench that trains nothing, and the models that it was asked for.

    Context moves rows by .2, another seed by .1; other documents' rows make CCA rise by less.
    """
    monkeypatch.setattr(chapter4, "chance_cca", lambda *_: 0.3)
    rows, noise = np.random.default_rng(0).standard_normal((2, 9, 50))
    asked = []

    def embed(bench, variant, seed):
        asked.append((bench.profile.training, variant.identity, seed))
        return rows + (0.2 if variant.contextual else 0.1 * bool(seed)) * noise

    def train(bench, variant, seed):
        moved = embed(bench, variant, seed)
        dealt = bench.profile.training.contextual_rows == "dealt"
        watched = np.full((5, 4), 0.3)
        watched[:, 1] = np.linspace(0.5, 0.55 if dealt else 0.6, 5)
        return fake_model(moved, outcome={"watched": watched}, prepare_rows=moved)

    bench = FakeBench(profile, model=train)
    return checks.measure_students(label, bench), asked


def test_students_of_context_alone_have_controls(monkeypatch):
    students, asked = measure("fig4_7", monkeypatch)
    ends = students[["start", "end", "control", "chance"]].dropna()  # one has no context
    assert len(ends) == 16 and ends.drop_duplicates().values.tolist() == [[0.5, 0.6, 0.55, 0.3]]
    assert students[["share", "context", "another_seed"]].isna().all(axis=None)
    dealt = [name for training, name, _ in asked if training.contextual_rows == "dealt"]
    assert len({*dealt}) == 16
    none = profiles.load("mini", only="cosine")
    assert measure("fig4_7", monkeypatch, none)[0].empty


@pytest.mark.parametrize("label", ["fig4_8", "fig5_3"])
def test_students_of_both_losses_are_compared_with_those_without_context(label, monkeypatch):
    """Of the final students, MSE-contextual is compared with only-MSE, cosine-masked with none."""
    students, asked = measure(label, monkeypatch)
    both = students.dropna(subset="context")
    assert (both["context"] < both["another_seed"]).all() and students["control"].isna().all()
    assert students["share"].dropna().tolist() == pytest.approx([0.3] * students["share"].count())
    if label == "fig5_3":
        assert both.index.tolist() == ["MSE-contextual"] and students["share"].count() == 2
        models = final_students.load_models()
        own = {(models[name], 0) for name in final_students.list_students()}
        assert {(name, seed) for _, name, seed in asked} == own | {(models["only-MSE"], 1)}
        final = profiles.load("mini").final.documents
        assert {training.documents for training, *_ in asked} == {final}
