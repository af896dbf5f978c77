"""Whether numbers can speak to a finding: each check on cases that it must let pass and on cases
that it must not.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import final_students, sensitivity
from lib.config import profiles
from lib.ledger import claims, testability
from tests.fake_bench import FakeBench

TASKS = ("ARXIV", "PAN")


def examples(**fields):
    """Scores of 300 examples on two tasks: of one model clear of chance, of the other near .5,
    fields as given.
    """
    rng, rows = np.random.default_rng(0), []
    for model, share in (("SBERT", fields.pop("best")), ("only-MSE", 0.5)):
        for task in TASKS:
            scores = (rng.random(300) < share).astype(float)
            rows.append(
                {
                    "model": model,
                    "task": task,
                    "seed": 0,
                    "scores": scores,
                    "groups": np.arange(300),
                }
            )
    return pd.DataFrame(rows).assign(chance=0.5, **{"readout": "compare"} | fields)


def test_a_round_whose_heads_guess_is_found():
    frames = [examples(round="1k", best=0.5), examples(round="all", best=0.8)]
    checks = [*testability._check_final_scores({"fig5_3": pd.concat(frames)})]
    assert {(row.check, row.label) for row in checks} == {("round_not_at_chance", "fig5_3")}
    passed = {name: [row.passed for row in checks if name in row.what] for name in ("1k", "all")}
    assert passed == {"1k": [False, False], "all": [True, True]}


def test_whether_a_task_can_be_read_is_asked_by_heads_that_compare(monkeypatch):
    """What the thesis' heads guess is told, and decides nothing."""
    for name in ("_check_lengths", "_check_updates", "_check_base", "_check_students"):
        monkeypatch.setattr(testability, name, lambda *_: [])
    frames = [examples(best=0.8), examples(best=0.5, readout="thesis")]
    both = pd.concat(frames)
    scores = {"fig4_2": both.assign(model=both["model"].replace({"only-MSE": "PV;2048d"}))}
    checks = testability.run_checks(scores, FakeBench("mini"), [], informing=True)
    rows = checks[checks["check"] == "task_not_at_chance"]
    informing = rows["what"].str.contains("thesis' heads")
    assert rows.loc[~informing, "passed"].tolist() == [True, True]
    assert rows.loc[informing, "passed"].isna().all() and informing.sum() == 2
    assert (rows.loc[informing, "low"] < 0).all()
    assert not testability.describe_failures(rows)
    less = testability.run_checks(scores, FakeBench("mini"), [])
    assert len(checks) - len(less) == 2


@pytest.mark.parametrize(("best", "passed"), [(0.8, True), (0.5, False)])
def test_retrieval_is_held_against_chance_too(best, passed):
    both = [examples(metric=metric, best=share) for metric, share in (("MRR", best), ("MAP", 0.3))]
    checks = [*testability._check_final_scores({"fig5_6": pd.concat(both)})]
    assert {(row.check, row.label) for row in checks} == {("ranking_not_at_chance", "fig5_6")}
    assert [row.passed for row in checks] == [passed, passed]


def test_findings_over_the_smallest_round_need_that_it_is_not_at_chance():
    for claim in claims.load_claims():
        if claim.source == "fig5_3" and claim.kind != "number":
            sides = claim.sides(claims._list_models(claim))
            smallest = any(name.endswith(";1k") for side in sides for name in side)
            assert ("round_not_at_chance" in claim.needed) is smallest, claim.id


@pytest.mark.parametrize(
    ("gain", "chance"), [(-0.02, 0.3), (0.0, 0.3), (0.02, 0.3), (0.02, 0.42), (0.02, 0.5)]
)
def test_students_of_context_alone_were_taught_if_they_end_above_controls_and_chance(
    monkeypatch, gain, chance
):
    """Their share of the gradient is 1 whatever happens, and their loss falls with any rows.

    CCA falls by .1 in all of them, with luck of .01; each of the sixteen has a control.
    """
    trained, luck = [], np.random.default_rng(0)

    def embed_one(bench, variant, seed, *, split="validation"):
        dealt = bench.profile.training.contextual_rows == "dealt"
        assert dealt is (split is None)  # nobody judges controls by tasks
        end = 0.4 + luck.normal(0, 0.01) + gain * (not dealt)
        watched = np.ones((5, 4)) * np.linspace(0.5, end, 5)[:, None]
        return {"watched": watched, "validation": np.eye(9)}

    def embed(bench, pairs, *, split):
        trained.extend((bench.profile.training.contextual_rows, *pair) for pair in pairs)

    monkeypatch.setattr(testability, "chance_cca", lambda student, rows: chance)
    bench = FakeBench(
        "mini", embeddings=embed_one, embed=embed, contextual_rows=lambda *_: np.eye(9)
    )
    rows = [*testability._check_students("fig4_7", bench)]
    controls, paired = [row for row in rows if row.check == "treatment_given"]
    assert controls.passed is (gain > 0) and controls.low < controls.value < controls.high
    assert paired.passed is (chance < 0.4)
    assert {row.check: row.passed for row in rows}["cca_rises"] is None
    assert {rows for rows, *_ in trained} == {"dealt"} and len(trained) == 16
    assert all(variant.contextual and not variant.structural for _, variant, _ in trained)


def test_one_student_and_its_control_tell_nothing(monkeypatch):
    monkeypatch.setattr(testability, "chance_cca", lambda *_: 0.0)
    bench = FakeBench(
        profiles.load("mini", only="100d;S:768;C:768"),
        embeddings=lambda *_, **__: {"watched": np.ones((5, 4)), "validation": np.eye(9)},
        embed=lambda *_, **__: None,
        contextual_rows=lambda *_: np.eye(9),
    )
    rows = [*testability._check_students("fig4_7", bench)]
    rows = [row for row in rows if row.check == "treatment_given"]
    assert [(row.low, row.passed) for row in rows] == [(-np.inf, False)] * 2


def test_a_finding_about_some_of_a_figures_students_needs_that_these_were_taught():
    """Others of Figure 4.10 have their share; the one that a finding is about does not."""

    def embed_one(bench, variant, *_, **__):
        weak = variant.masked and variant.lam == 0.5
        return {"watched": np.full((5, 4), 0.03 if weak else 0.3), "validation": np.eye(9)}

    bench = FakeBench("mini", embeddings=embed_one)
    rows = testability._check_students("fig4_10", bench, claims.load_claims())
    passed = {row.label: row.passed for row in rows if row.check == "treatment_given"}
    failed = [name for name in passed if not passed[name]]
    assert failed == ["weighting-masked-over-structural"]
    assert len(passed) == 4 and passed["fig4_10"]


@pytest.mark.parametrize(("context", "passed"), [(0.01, False), (0.2, True)])
def test_students_differ_from_those_without_context_more_than_a_second_seed(context, passed):
    rows, noise = np.random.default_rng(0).standard_normal((2, 9, 50))

    def embed_one(bench, variant, seed, **_):
        far = context if variant.contextual else 0.1 if seed else 0
        return {"watched": np.ones((5, 4)), "validation": rows + far * noise}

    bench = FakeBench("mini", embeddings=embed_one)
    checks = {row.check: row for row in testability._check_students("fig4_8", bench)}
    differ = checks["students_differ"]
    assert differ.passed is passed and differ.value > 0.95
    assert checks["treatment_given"].passed is True and checks["cca_rises"].passed is None


@pytest.mark.parametrize("context", [0.01, 0.2])
def test_a_final_student_is_compared_with_the_one_without_context(context):
    """MSE-contextual with only-MSE, trained as final students are; cosine-masked has no such
    one.
    """
    asked, noise = [], np.random.default_rng(0).standard_normal((2, 9, 50))

    def embed_one(bench, variant, seed, *, split):
        asked.append((variant.identity, seed))
        assert bench.profile.training.documents == bench.profile.final.documents
        assert split == "test"
        far = context if variant.contextual else 0.1 if seed else 0
        return {"watched": np.full((5, 4), 0.3), "validation": noise[0] + far * noise[1]}

    bench = FakeBench("mini", embeddings=embed_one)
    rows = {row.check: row for row in testability._check_students("fig5_3", bench)}
    names = {identity: name for name, identity in final_students.load_models().items()}
    assert [(names[model], seed) for model, seed in asked if seed] == [("only-MSE", 1)]
    assert {names[model] for model, _ in asked} == {*final_students.list_students()}
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

    def embed_base(bench, model, seed, *, split):
        assert (model, split) == ("Longformer", None)
        layers = bench.profile.student.language_model is None
        return {
            "validation": own + teacher + 1 if layers else own + common + like_teacher * teacher
        }

    profile = profiles.load("mini")
    bench = FakeBench(
        profile if note else profile.changed("student", language_model=None),
        embeddings=embed_base,
        structural=lambda *_: {"embeddings": teacher},
        language_model=lambda bench: note if bench.profile.student.language_model else None,
    )
    rows = [*testability._check_base(bench)]
    assert [row.passed for row in rows] == passed
    assert {row.check for row in rows} == {"base_is_language_model"}


@pytest.mark.parametrize(
    ("gain", "later", "below", "converged"),
    [(0.1, 0.015, True, True), (0.1, 0.04, True, False), (0.0, 0.0, False, True)],
)
def test_students_have_left_the_base_and_are_where_twice_the_updates_leave_them(
    monkeypatch, gain, later, below, converged
):
    rows = [(name, times) for name in ("cosine", "MSE") for times in (1, 2)]
    generator = np.random.default_rng(0)
    texts = generator.random(2000)
    frames = []
    for seed, (name, times) in itertools.product((0, 1), [("base", 0), *rows]):
        value = 0.5 + (times > 0) * gain + (times > 1) * later * (1 if name == "MSE" else 0.5)
        scores = (texts < value).astype(float)
        frames.append((name, times, seed, "no head", "OC", 0.0, scores, np.arange(2000)))
    columns = ["model", "times", "seed", "readout", "task", "chance", "scores", "groups"]
    records = pd.DataFrame(frames, columns=columns)
    monkeypatch.setattr(sensitivity, "run_lengths", lambda _: records)
    checks = [*testability._check_training(FakeBench("mini"))]
    assert [row.passed for row in checks] == [below, below, converged]
    assert checks[-1].what.endswith("MSE") or not later
    assert checks[0].what.startswith("cosine minus base")
