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
from lib.statistics.intervals import from_runs
from tests.fake_bench import FakeBench

TASKS = ("ARXIV", "PAN")


MODELS = ("SBERT", "Longformer", "cosine", "MSE", "max-margin;MSE;γ=1.0")
FOLDS = {"ARXIV": 1, "PAN": 2}
# Of a head's own luck in one task: .0119 in a mean over mini's six, by the two heads of each of 137
# runs.
LUCK = 0.0119 * np.sqrt(len(TASKS))


def heads_moved(monkeypatch, moves, *, luck=LUCK, common=0.4, rng=None, heads=None):
    """The check's row for models that twice the epochs move by `moves`, of heads with so much luck,
    of which a share is the same at both lengths. All in chance-corrected accuracy.
    """
    rng, asked = rng or np.random.default_rng(0), []
    shared = {}

    def run(bench, models, *, seeds):
        profile = bench.profile
        asked.append((profile.heads.epochs, profile.heads.repeats, list(seeds)))
        rows = []
        for model in models:
            for task, folds in FOLDS.items():
                size = profile.heads.repeats
                same = shared.setdefault((model, task, size), rng.standard_normal(size))
                own = luck * (
                    np.sqrt(common) * same + np.sqrt(1 - common) * rng.standard_normal(size)
                )
                score = 0.4 + own + (profile.heads.epochs > 20) * moves.get(model, 0.0)
                spread = np.linspace(-0.1, 0.1, folds) if folds > 1 else np.zeros(1)
                rows.append(
                    (model, task, 0.5, (0.5 + 0.5 * score[:, None] + spread).ravel().tolist())
                )
        return pd.DataFrame(rows, columns=["model", "task", "chance", "by_head"])

    monkeypatch.setattr(testability, "HEADS", heads or testability.HEADS)
    bench = FakeBench("mini", run=run)
    (row,) = testability._check_heads({model: [model] for model in MODELS}, "fig4_5", bench)
    counts = (testability.HEADS, 2 * testability.HEADS)[: len(asked) // 2]
    assert (
        asked == [(epochs, count, [0]) for count in counts for epochs in (40, 20)]
        and bench.profile.heads.epochs == 20
    )
    return row


@pytest.mark.parametrize(
    ("moves", "passed"),
    [
        ({}, True),
        ({"SBERT": 0.008, "Longformer": -0.004}, True),
        (
            {"SBERT": 0.035, "Longformer": -0.03, "MSE": -0.005},
            False,
        ),  # the mean of what they gain and lose is 0
        ({"MSE": -0.025}, False),
    ],
)
def test_heads_converged_if_no_model_moves(monkeypatch, moves, passed):
    """Each by itself: rankings change where one gains what another loses."""
    row = heads_moved(monkeypatch, moves, luck=0.001)
    assert row[:2] == ("heads_converged", "fig4_5") and row[-1] is passed
    if moves:
        worst = max(moves, key=lambda model: abs(moves[model]))
        assert row[2].endswith(worst) and row[3] == pytest.approx(moves[worst], abs=0.002)
        assert row[4] < row[3] < row[5]


PARTS = list(itertools.product(("DM", "DBOW"), range(2, 8)))
SINGLES = {
    size: [f"{kind};{size};None;{count}" for kind, count in PARTS] for size in ("100", "1024")
}


def test_paragraph_vectors_are_judged_by_size(monkeypatch):
    asked = []
    monkeypatch.setattr(
        testability, "_check_heads", lambda groups, label, _: asked.append((label, groups)) or []
    )
    names = ("_check_lengths", "_check_updates", "_check_base", "_check_encoders")
    for name in (*names, "_check_students"):
        monkeypatch.setattr(testability, name, lambda *_: [])
    frame = pd.DataFrame({"model": ["SBERT", "cosine"], "seed": 0})
    vectors = ["SBERT", "DM;100d", "DM;100;stem;2", "DM;768;None;2", "DBOW;1024d", "PV;2048d"]
    both = {"fig4_2": frame, "fig4_5": pd.DataFrame({"model": vectors, "seed": 0})}
    testability.run_checks(both, FakeBench("mini"), claims.load_claims(), informing=True)
    sizes = {"100": ["DM;100d", "DM;100;stem;2"], "1024": ["DBOW;1024d"]}
    sizes = {f"single models of {size} dimensions": models for size, models in sizes.items()}
    assert asked == [("", {"SBERT": ["SBERT"], "cosine": ["cosine"]}), ("fig4_5", sizes)]
    assert testability._group_by_size(["SBERT", "DM;768;None;2"]) == {}


@pytest.mark.parametrize(("move", "passed"), [(0.0, True), (0.03, False)])
def test_a_group_of_models_has_converged_if_its_mean_has(move, passed):
    """Single models scatter by .013 around what their group does, as runs of DM;100 do, and that is
    no fault.
    """
    rng, asked = np.random.default_rng(1), []

    def run(bench, models, *, seeds):
        profile = bench.profile
        asked.append((profile.heads.epochs, profile.heads.narrow_epochs, profile.heads.repeats))
        longer = profile.heads.epochs > 20
        rows = []
        for model in models:
            own = longer * (
                move * (";100;" in model) + 0.013 * np.sqrt(2) * rng.standard_normal(len(TASKS))
            )
            rows += [
                (model, task, 0.5, [0.7 + x / 2] * 2) for task, x in zip(TASKS, own, strict=True)
            ]
        return pd.DataFrame(rows, columns=["model", "task", "chance", "by_head"])

    bench = FakeBench("mini", run=run)
    (row,) = testability._check_heads(SINGLES, "fig4_5", bench)
    assert asked == [(40, 160, 2), (20, 80, 2)] and row[-1] is passed
    assert move == 0 or (row[2].endswith(": 100") and row[3] == pytest.approx(move, abs=0.015))
    assert testability._check_heads({}, "fig4_5", bench) == []


def test_few_heads_show_no_convergence(monkeypatch):
    assert heads_moved(monkeypatch, {}, heads=10)[-1] is True
    assert heads_moved(monkeypatch, {}, heads=2)[-1] is False


@pytest.mark.parametrize(("move", "decided_by"), [(0.001, 10), (0.013, 20), (0.04, 10)])
def test_twice_as_many_heads_decide_where_ten_leave_it_open(monkeypatch, move, decided_by):
    made = []
    monkeypatch.setattr(
        testability,
        "from_runs",
        lambda moved: made.append(len(moved) // len(MODELS)) or from_runs(moved),
    )
    assert heads_moved(monkeypatch, {"cosine": move}, luck=0.016)[-1] is (move < 0.02)
    assert made[-1] == decided_by


def test_the_check_of_heads_errs_seldom_both_ways(monkeypatch):
    """With the luck of mini's heads."""
    rng, passed = np.random.default_rng(0), {}
    for move in (0.0, 0.005, 0.02):
        passed[move] = np.mean(
            [heads_moved(monkeypatch, {"cosine": move}, rng=rng)[-1] for _ in range(25)]
        )
    assert passed[0.0] >= 0.9 and passed[0.005] >= 0.8 and passed[0.02] <= 0.08, passed


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
    return pd.DataFrame(rows).assign(chance=0.5, **fields)


def test_a_round_whose_heads_guess_is_found():
    frames = [examples(round="1k", best=0.5), examples(round="all", best=0.8)]
    checks = [*testability._check_final_scores({"fig5_3": pd.concat(frames)})]
    assert {(row.check, row.label) for row in checks} == {("round_not_at_chance", "fig5_3")}
    passed = {name: [row.passed for row in checks if name in row.what] for name in ("1k", "all")}
    assert passed == {"1k": [False, False], "all": [True, True]}


@pytest.mark.parametrize(("best", "passed"), [(0.8, True), (0.5, False)])
def test_retrieval_is_held_against_chance_too(best, passed):
    both = [examples(metric="MRR", best=best), examples(metric="MAP", best=1.1 - best)]
    checks = [*testability._check_final_scores({"fig5_6": pd.concat(both)})]
    assert {(row.check, row.label) for row in checks} == {("ranking_not_at_chance", "fig5_6")}
    assert [row.passed for row in checks] == [passed, passed]


def test_findings_over_the_smallest_round_need_that_it_is_not_at_chance():
    needed = {claim.id for claim in claims.load_claims() if "round_not_at_chance" in claim.needed}
    assert (
        needed
        == {claim.id for claim in claims.load_claims() if "1k" in getattr(claim, "rounds", ())}
        and len(needed) == 4
    )


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
    """Others of Figure 4.10 have their share; the three that one finding compares do not."""

    def embed_one(bench, variant, *_, **__):
        weak = not variant.masked and variant.lam in (0.5, 0.8, 0.95)
        return {"watched": np.full((5, 4), 0.03 if weak else 0.3), "validation": np.eye(9)}

    bench = FakeBench("mini", embeddings=embed_one)
    rows = testability._check_students("fig4_10", bench, claims.load_claims())
    passed = {row.label: row.passed for row in rows if row.check == "treatment_given"}
    failed = [name for name in passed if not passed[name]]
    assert failed == ["weighting-unmasked-heavy-structural"]
    assert len(passed) == 5 and passed["fig4_10"]


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
