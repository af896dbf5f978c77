"""Each check on cases that it must let pass, and on cases that it must not."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import base, contextual, final_students, sensitivity
from lib.config import profiles
from lib.ledger import checks, claims
from tests.fake_bench import FakeBench, fake_model

TASKS = ("ARXIV", "PAN")
LEARNED, GUESSING = {"held_out": 4.0, "unigram": 7.0}, {"held_out": 6.9, "unigram": 7.0}


def draw(best, names=("SBERT", "only-MSE"), **fields):
    """Scores of 300 examples on two tasks: of one model this share right, of the other half."""
    rng, rows = np.random.default_rng(0), []
    for model, share in zip(names, (best, 0.5), strict=True):
        for task in TASKS:
            row = {"model": model, "task": task, "scores": (rng.random(300) < share).astype(float)}
            rows.append(row | {"groups": np.arange(300), "chance": 0.5, "readout": "compare"})
    return pd.DataFrame(rows).assign(seed=0, **fields)


def test_a_round_or_a_ranking_at_random_is_told():
    """Retrieval is held against chance by MRR alone."""
    scores = {"fig5_3": pd.concat([draw(0.5, round="1k"), draw(0.8, round="all")])}
    scores |= {"fig5_5": pd.concat([draw(0.8, metric="MRR"), draw(0.3, metric="MAP")])}
    scores |= {"fig5_6": pd.concat([draw(0.5, metric="MRR"), draw(0.8, metric="MAP")])}
    rows = pd.DataFrame(checks._check_scores(scores), columns=checks.Check._fields)
    rounds, rankings = rows[rows["label"] == "fig5_3"], rows[rows["label"] != "fig5_3"]
    assert {*rounds["check"]} == {"round_not_at_chance"}
    assert {*rankings["check"]} == {"ranking_not_at_chance"}
    assert rounds["passed"].tolist() == [False, False, True, True]
    assert rankings["passed"].tolist() == [True, True, False, False]


def test_whether_a_task_can_be_read_is_asked_by_heads_that_compare():
    """What the thesis' heads guess is told, and decides nothing."""
    names = ("SBERT", "PV;2048d")
    both = pd.concat([draw(0.8, names), draw(0.5, names).assign(readout="thesis")])
    fewer = draw(0.5, ("SBERT", "cosine"))  # a figure with fewer encoders is not asked
    frames = {
        "scores": {"fig4_2": fewer, "fig4_10": both},
        "students": {},
        "limit": 50,
        "corpus": pd.DataFrame({"sbert_tokens": [1, 100]}),
        "tasks": pd.DataFrame({"task": TASKS, "sbert_tokens": [1, 100]}),
        "updates": (40, 49),
        "base": {base.ALIKE: 0.5, base.NEAR: 0.1},
        "layers": {base.ALIKE: 0.5, base.NEAR: 0.1},
    }
    rows = checks.run_checks(frames, claims.load_claims())
    learned = rows[rows["check"] == "task_not_at_chance"]
    informing = learned["what"].str.contains("thesis' heads")
    assert learned.loc[~informing, "passed"].tolist() == [True, True]
    assert learned.loc[informing, "passed"].isna().all() and informing.sum() == 2
    encoders = rows[rows["check"].str.endswith("teacher_above_chance")].set_index("check")["passed"]
    assert encoders.to_dict() == {
        "structural_teacher_above_chance": True,
        "contextual_teacher_above_chance": False,
    }
    failures = checks.describe_failures(rows)
    assert "is 0.50, needed 0.66 to 0.76" in failures["texts_above_limit", ""]
    assert failures["updates", ""] == "updates of a final student is 49.00, needed 50"
    above = rows[rows["what"].str.contains("texts above the limit")]
    assert above["value"].tolist() == [0.0, 1.0] and above["passed"].isna().all()


def make_bench(
    make_rows, end=lambda variant, dealt: 0.6, share=lambda variant: 0.3, profile="mini"
):
    """A bench whose students have these rows, last held-out CCA and shares of the gradient.

    make_rows: function of a variant and its seed. CCA begins at .5. Which models are asked for is
    in `bench.asked`, with the training that they had.
    """
    asked = []

    def make_model(bench, variant, seed):
        dealt = bench.profile.training.contextual_rows == "dealt"
        asked.append((bench.profile.training, variant, seed))
        watched = np.full((5, 4), share(variant))
        watched[:, 1] = np.linspace(0.5, end(variant, dealt), 5)
        rows = make_rows(variant, seed)
        return fake_model(rows, history={"watched": watched}, prepare_rows=rows)

    def embed(bench, variant, seed):
        asked.append((bench.profile.training, variant, seed))
        return {"validation": make_rows(variant, seed)}

    bench = FakeBench(profile, model=make_model, embeddings=embed)
    bench.asked = asked
    return bench


def check(label, bench):
    """The checks of a figure's students, a table."""
    students = checks.measure_students(label, bench)
    rows = checks._check_students(label, students, claims.load_claims())
    return pd.DataFrame(rows, columns=checks.Check._fields).set_index("check")


def same_rows(*_):
    return np.eye(9)


@pytest.mark.parametrize(
    ("gain", "chance"), [(-0.02, 0.3), (0.0, 0.3), (0.02, 0.3), (0.02, 0.42), (0.02, 0.5)]
)
def test_students_of_context_alone_must_end_above_controls_and_chance(monkeypatch, gain, chance):
    """Their share of the gradient is 1 whatever happens, and their loss falls with any rows.

    CCA falls by .1 in all of them, with luck of .01; each of the sixteen has a control.
    """
    luck = np.random.default_rng(0)
    monkeypatch.setattr(contextual, "chance_cca", lambda student, rows: chance)
    bench = make_bench(
        same_rows, end=lambda _, dealt: 0.4 + luck.normal(0, 0.01) + gain * (not dealt)
    )
    rows = check("fig4_7", bench)
    assert rows.loc["treatment_given", "passed"].tolist() == [gain > 0, chance < 0.4]
    assert rows.loc["cca_rises", "passed"] is None
    dealt = [variant for training, variant, _ in bench.asked if training.contextual_rows == "dealt"]
    assert len(dealt) == 16 and all(each.contextual and not each.structural for each in dealt)


def test_one_student_and_its_control_tell_nothing_and_none_is_not_checked():
    profile = profiles.load("mini", only="100d;S:768;C:768")
    rows = check("fig4_7", make_bench(same_rows, profile=profile)).loc["treatment_given"]
    assert rows["passed"].eq(False).all() and rows["low"].eq(-np.inf).all() and len(rows) == 2
    none = profiles.load("mini", only="cosine")
    assert check("fig4_7", make_bench(same_rows, profile=none)).empty


def test_a_finding_about_some_of_a_figures_students_needs_that_these_were_taught():
    """Others of Figure 4.10 have their share; the one that a finding is about does not."""
    bench = make_bench(
        same_rows, share=lambda variant: 0.03 if variant.masked and variant.lam == 0.5 else 0.3
    )
    passed = check("fig4_10", bench).loc["treatment_given"].set_index("label")["passed"]
    assert passed.index[~passed.astype(bool)].tolist() == ["weighting-masked-over-structural"]
    assert len(passed) == 4 and passed["fig4_10"]


def make_noisy(context):
    """Rows that context moves by so much, and another seed by .1."""
    rows, noise = np.random.default_rng(0).standard_normal((2, 9, 50))
    return lambda variant, seed: (
        rows + (context if variant.contextual else 0.1 * bool(seed)) * noise
    )


@pytest.mark.parametrize(("context", "passed"), [(0.01, False), (0.2, True)])
@pytest.mark.parametrize("label", ["fig4_8", "fig5_3"])
def test_context_must_change_students_more_than_a_second_seed(label, context, passed):
    """Of the final students, MSE-contextual is compared with only-MSE, cosine-masked with none."""
    bench = make_bench(make_noisy(context))
    rows = check(label, bench)
    assert rows.loc["students_differ", "passed"] is passed
    assert rows.loc["treatment_given", "passed"] is True and rows.loc["cca_rises", "passed"] is None
    assert rows.loc["not_collapsed", "passed"] is True and len(rows) == 4
    if label == "fig5_3":
        names = {identity: name for name, identity in final_students.load_models().items()}
        asked = {(names[variant.identity], seed) for _, variant, seed in bench.asked}
        own = [(name, 0) for name in final_students.list_students()]
        assert asked == {("only-MSE", 1), *own}
        trained = {training.documents for training, *_ in bench.asked}
        assert trained == {bench.profile.final.documents}


def test_students_that_all_point_one_way_have_collapsed():
    rows = check("fig4_8", make_bench(lambda *_: np.eye(9) + 5))
    assert rows.loc["not_collapsed", "passed"] is False


@pytest.mark.parametrize(
    ("note", "common", "like_teacher", "passed"),
    [
        (LEARNED, 3, 0.0, [True, True, True]),
        (GUESSING, 3, 0.0, [False, True, True]),
        (LEARNED, 0, 0.0, [True, False, True]),
        (LEARNED, 3, 3.0, [True, True, False]),
        (None, 3, 0.0, [None, None]),
    ],
)
def test_a_base_guesses_words_and_has_forgotten_what_its_layers_knew_of_texts(
    note, common, like_teacher, passed
):
    """Texts are alike where a common direction outweighs the rest."""
    teacher, own = np.random.default_rng(0).standard_normal((2, 40, 64))
    rows = {"layers": own + teacher + 1, "base": own + common + like_teacher * teacher}

    def measure(name, note):
        model = fake_model(rows[name], history=note)
        return base.measure_base(FakeBench("mini", base=model, teacher=fake_model(teacher)))

    told = [*checks._check_base(measure("base", note), measure("layers", None))]
    assert [row.passed for row in told] == passed


@pytest.mark.parametrize(
    ("gain", "later", "below", "converged"),
    [(0.1, 0.015, True, True), (0.1, 0.04, True, False), (0.0, 0.0, False, True)],
)
def test_students_have_left_the_base_and_are_where_twice_the_updates_leave_them(
    gain, later, below, converged
):
    trained = [(name, times) for name in ("cosine", "MSE") for times in (1, 2)]
    texts, rows = np.random.default_rng(0).random(2000), []
    for seed, (name, times) in itertools.product((0, 1), [("base", 0), *trained]):
        value = 0.5 + (times > 0) * gain + (times > 1) * later * (1 if name == "MSE" else 0.5)
        scores = (texts < value).astype(float)
        rows.append((name, times, seed, "no head", "OC", 0.0, scores, np.arange(2000)))
    columns = ["model", "times", "seed", "readout", "task", "chance", "scores", "groups"]
    judged = sensitivity.judge_lengths(pd.DataFrame(rows, columns=columns), "no head")
    told = [*checks._check_training(judged)]
    assert [row.passed for row in told] == [below, below, converged]
    assert told[-1].what.endswith("MSE") or not later


def test_what_failed_of_a_check_is_said_once_for_its_figure():
    rows = [
        ("updates", "", "updates of a student", 4, None, None, "", None),
        ("treatment_given", "fig4_7", "share", 0.2, 0.1, 0.3, "at least 0.1", True),
        ("treatment_given", "fig4_8", "share", 0.05, 0.01, 0.1, "at least 0.1", np.bool_(False)),
        ("task_not_at_chance", "", "DM on PAN", 0.0, -0.1, 0.1, "low above 0", False),
        ("task_not_at_chance", "", "PV on OC", 0.014, -0.1, 0.1, "low above 0", False),
    ]
    assert checks.describe_failures(pd.DataFrame(rows, columns=checks.Check._fields)) == {
        ("treatment_given", "fig4_8"): "share is 0.05 [0.01, 0.10], needed at least 0.1",
        ("task_not_at_chance", ""): "DM on PAN is 0.00 [-0.10, 0.10], needed low above 0; "
        "PV on OC is 0.01 [-0.10, 0.10], needed low above 0",
    }
