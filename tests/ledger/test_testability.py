"""Each check on cases that it must let pass, and on cases that it must not."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import base, contextual, data_statistics, final_students, sensitivity
from lib.config import profiles
from lib.ledger import claims, testability
from tests.fake_bench import FakeBench, fake_model

TASKS = ("ARXIV", "PAN")


def examples(best, **fields):
    """Scores of 300 examples on two tasks: of one model this share right, of the other half."""
    rng, rows = np.random.default_rng(0), []
    for model, share in (("SBERT", best), ("only-MSE", 0.5)):
        for task in TASKS:
            scores = (rng.random(300) < share).astype(float)
            row = {"model": model, "task": task, "seed": 0, "scores": scores}
            rows.append(row | {"groups": np.arange(300), "chance": 0.5, "readout": "compare"})
    return pd.DataFrame(rows).assign(**fields)


def test_a_round_whose_heads_guess_is_found():
    frames = [examples(0.5, round="1k"), examples(0.8, round="all")]
    checks = [*testability._check_final_scores({"fig5_3": pd.concat(frames)})]
    assert {(row.check, row.label) for row in checks} == {("round_not_at_chance", "fig5_3")}
    passed = {name: [row.passed for row in checks if name in row.what] for name in ("1k", "all")}
    assert passed == {"1k": [False, False], "all": [True, True]}


@pytest.mark.parametrize(("best", "passed"), [(0.8, True), (0.5, False)])
def test_retrieval_is_held_against_chance_too(best, passed):
    both = [examples(best, metric="MRR"), examples(0.3, metric="MAP")]
    checks = [*testability._check_final_scores({"fig5_6": pd.concat(both)})]
    assert {(row.check, row.label) for row in checks} == {("ranking_not_at_chance", "fig5_6")}
    assert [row.passed for row in checks] == [passed, passed]


@pytest.fixture
def measured(monkeypatch):
    """What is measured before any figure: lengths of documents and texts, and the base."""
    lengths = pd.DataFrame({"task": TASKS, "sbert_tokens": [1, 100]})
    monkeypatch.setattr(data_statistics, "count_corpus_tokens", lambda *_: lengths)
    monkeypatch.setattr(data_statistics, "count_task_tokens", lambda *_: lengths)
    monkeypatch.setattr(base, "measure_base", lambda _: {base.ALIKE: 0.5, base.NEAR: 0.1})
    monkeypatch.setattr(testability, "_check_students", lambda *_: [])


@pytest.mark.usefixtures("measured")
def test_whether_a_task_can_be_read_is_asked_by_heads_that_compare():
    """What the thesis' heads guess is told, and decides nothing."""
    both = pd.concat([examples(0.8), examples(0.5, readout="thesis")])
    scores = {"fig4_2": both.assign(model=both["model"].replace({"only-MSE": "PV;2048d"}))}
    bench = FakeBench("mini", corpus=None, base=None, tasks=None)
    checks = testability.run_checks(scores, bench, [], informing=True)
    rows = checks[checks["check"] == "task_not_at_chance"]
    informing = rows["what"].str.contains("thesis' heads")
    assert rows.loc[~informing, "passed"].tolist() == [True, True]
    assert rows.loc[informing, "passed"].isna().all() and informing.sum() == 2
    assert (rows.loc[informing, "low"] < 0).all()
    assert not testability.describe_failures(rows)
    less = testability.run_checks(scores, bench, [])
    told = {*checks["what"]} - {*less["what"]}
    assert told == {*rows.loc[informing, "what"]} | {
        f"share of {task}'s texts above the limit" for task in TASKS
    }
    failures = testability.describe_failures(less)
    assert "is 0.50, needed 0.66 to 0.76" in failures["texts_above_limit", ""]
    assert ("updates", "") not in failures, "mini's final students make enough updates"


def make_bench(make_rows, end=lambda variant, dealt: 0.6, share=lambda variant: 0.3, **options):
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

    bench = FakeBench(options.pop("profile", "mini"), model=make_model, embeddings=embed)
    bench.asked = asked
    return bench


@pytest.mark.parametrize(
    ("gain", "chance"), [(-0.02, 0.3), (0.0, 0.3), (0.02, 0.3), (0.02, 0.42), (0.02, 0.5)]
)
def test_students_of_context_alone_were_taught_if_they_end_above_controls_and_chance(
    monkeypatch, gain, chance
):
    """Their share of the gradient is 1 whatever happens, and their loss falls with any rows.

    CCA falls by .1 in all of them, with luck of .01; each of the sixteen has a control.
    """
    luck = np.random.default_rng(0)
    monkeypatch.setattr(contextual, "chance_cca", lambda student, rows: chance)
    bench = make_bench(
        lambda *_: np.eye(9),
        end=lambda _, dealt: 0.4 + luck.normal(0, 0.01) + gain * (not dealt),
    )
    rows = [*testability._check_students("fig4_7", bench)]
    controls, paired = [row for row in rows if row.check == "treatment_given"]
    assert controls.passed is (gain > 0) and controls.low < controls.value < controls.high
    assert paired.passed is (chance < 0.4)
    assert {row.check: row.passed for row in rows}["cca_rises"] is None
    dealt = [variant for training, variant, _ in bench.asked if training.contextual_rows == "dealt"]
    assert len(dealt) == 16 and all(each.contextual and not each.structural for each in dealt)


def test_one_student_and_its_control_tell_nothing_and_none_is_not_checked():
    profile = profiles.load("mini", only="100d;S:768;C:768")
    bench = make_bench(lambda *_: np.eye(9), profile=profile)
    rows = [*testability._check_students("fig4_7", bench)]
    rows = [row for row in rows if row.check == "treatment_given"]
    assert [(row.low, row.passed) for row in rows] == [(-np.inf, False)] * 2
    none = make_bench(lambda *_: np.eye(9), profile=profiles.load("mini", only="cosine"))
    assert [*testability._check_students("fig4_7", none)] == []


def test_a_finding_about_some_of_a_figures_students_needs_that_these_were_taught():
    """Others of Figure 4.10 have their share; the one that a finding is about does not."""
    bench = make_bench(
        lambda *_: np.eye(9),
        share=lambda variant: 0.03 if variant.masked and variant.lam == 0.5 else 0.3,
    )
    rows = testability._check_students("fig4_10", bench, claims.load_claims())
    passed = {row.label: row.passed for row in rows if row.check == "treatment_given"}
    failed = [name for name in passed if not passed[name]]
    assert failed == ["weighting-masked-over-structural"]
    assert len(passed) == 4 and passed["fig4_10"]


def make_noisy(context):
    """Rows that context moves by so much, and another seed by .1."""
    rows, noise = np.random.default_rng(0).standard_normal((2, 9, 50))
    return lambda variant, seed: (
        rows + (context if variant.contextual else 0.1 * bool(seed)) * noise
    )


@pytest.mark.parametrize(("context", "passed"), [(0.01, False), (0.2, True)])
def test_students_differ_from_those_without_context_more_than_a_second_seed(context, passed):
    bench = make_bench(make_noisy(context))
    checks = {row.check: row for row in testability._check_students("fig4_8", bench)}
    differ = checks["students_differ"]
    assert differ.passed is passed and differ.value > 0.95 and differ.low <= differ.value
    assert checks["treatment_given"].passed is True and checks["cca_rises"].passed is None


@pytest.mark.parametrize("context", [0.01, 0.2])
def test_a_final_student_is_compared_with_the_one_without_context(context):
    """MSE-contextual with only-MSE; cosine-masked has no such one."""
    bench = make_bench(make_noisy(context))
    rows = {row.check: row for row in testability._check_students("fig5_3", bench)}
    names = {identity: name for name, identity in final_students.load_models().items()}
    asked = {(names[variant.identity], seed) for _, variant, seed in bench.asked}
    assert asked == {("only-MSE", 1), *((name, 0) for name in final_students.list_students())}
    assert {training.documents for training, *_ in bench.asked} == {bench.profile.final.documents}
    assert rows["treatment_given"].passed is True
    assert rows["students_differ"].passed is (context > 0.1)
    assert {*rows} == {"treatment_given", "students_differ", "cca_rises", "not_collapsed"}


LEARNED, GUESSING = {"held_out": 4.0, "unigram": 7.0}, {"held_out": 6.9, "unigram": 7.0}


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

    found = [*testability._check_base(measure("base", note), measure("layers", None))]
    assert [row.passed for row in found] == passed
    assert {row.check for row in found} == {"base_is_language_model"}


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
    checks = [*testability._check_training(judged)]
    assert [row.passed for row in checks] == [below, below, converged]
    assert checks[-1].what.endswith("MSE") or not later
    assert checks[0].what.startswith("cosine minus base")


def test_what_failed_of_a_check_is_said_in_words():
    """A row that only informs, passed None, fails nothing; a check of one figure says nothing of
    another.
    """
    rows = [
        ("updates", "", "updates of a student", 4, None, None, "", None),
        ("updates", "", "updates of a final student", 49, None, None, "50", False),
        ("treatment_given", "fig4_7", "share", 0.2, 0.1, 0.3, "at least 0.1", True),
        ("treatment_given", "fig4_8", "share", 0.05, 0.01, 0.1, "at least 0.1", np.bool_(False)),
        ("task_not_at_chance", "", "DM on PAN", 0.0, -0.1, 0.1, "low above 0", False),
        ("task_not_at_chance", "", "PV on OC", 0.014, -0.1, 0.1, "low above 0", False),
    ]
    checked = pd.DataFrame(rows, columns=testability.Check._fields)
    assert testability.describe_failures(checked) == {
        ("updates", ""): "updates of a final student is 49.00, needed 50",
        ("treatment_given", "fig4_8"): "share is 0.05 [0.01, 0.10], needed at least 0.1",
        ("task_not_at_chance", ""): "DM on PAN is 0.00 [-0.10, 0.10], needed low above 0; "
        "PV on OC is 0.01 [-0.10, 0.10], needed low above 0",
    }
    assert testability.describe_failures(checked.iloc[[0, 2]]) == {}
