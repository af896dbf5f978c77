"""Standard errors by hand and against simulation; a test for each thing that they account for."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.statistics import intervals
from lib.statistics.intervals import PROCESSOR_SD, SeedNoise, TaskScores, from_examples, from_runs

SD = PROCESSOR_SD["thesis"]
# Means of the runs: a 1, .8, .9; b .5, .6; c .1.
VALUES = {
    "a": {0: (0.9, 1.1), 1: (0.8, 0.8), 2: (0.9, 0.9)},
    "b": {0: (0.5, 0.5), 1: (0.7, 0.5)},
    "c": {0: (0.1, 0.1)},
}


def runs(values):
    """{model: {seed: one score per task}} as a (model, seed) x task table."""
    table = {(model, seed): row for model, seeds in values.items() for seed, row in seeds.items()}
    index = pd.MultiIndex.from_tuples(table, names=["model", "seed"])
    return pd.DataFrame([*table.values()], index)


def errors(evidence, **weights):
    sums = np.array([[weights.get(model, 0.0) for model in evidence.means.index]])
    error, df = evidence.errors(sums)
    return float(error[0]), float(df[0])


def task(groups, chance=0.0, **scores):
    scores = {name: np.atleast_2d(values) for name, values in scores.items()}
    return {"t": TaskScores(scores, np.array([*groups]), chance)}


def test_seed_noise_by_hand():
    noise = intervals.seed_noise(runs(VALUES))
    # Squared deviations: a .01 + .01 + 0, b .0025 + .0025; 2 + 1 degrees of freedom; c has one seed
    # and adds nothing.
    assert noise.sd == pytest.approx(math.sqrt(0.025 / 3)) and noise.df == 3
    # t(.975, 3) = 3.182446 (any t table).
    assert noise.least_difference == pytest.approx(3.182446 * math.sqrt(2) * noise.sd, rel=1e-6)


def test_one_seed_each_is_no_noise():
    single = runs({"a": {0: (0.8, 0.5)}, "b": {0: (0.4, 0.3)}})
    with pytest.raises(ValueError, match="no model has two seeds"):
        intervals.seed_noise(single)
    assert math.isnan(errors(from_runs(single), a=1, b=-1)[0])


def test_a_missing_score_is_no_smaller_mean():
    gap = runs({"a": {0: (0.8, 0.5), 1: (0.4, math.nan)}})
    assert math.isnan(intervals.seed_noise(gap).sd)
    with pytest.raises(ValueError, match="no score on one of the tasks"):
        from_runs(gap, noise=SeedNoise(0.1, 5))
    with pytest.raises(ValueError, match="given twice"):
        from_runs(pd.concat([gap.dropna()] * 2), noise=SeedNoise(0.1, 5))
    assert math.isnan(SeedNoise.from_gaps(pd.Series([0.1, math.nan])).sd)


def test_seeds_are_credited():
    evidence = from_runs(runs(VALUES))
    sd = intervals.seed_noise(runs(VALUES)).sd
    assert evidence.scores == pytest.approx([0.9, 0.55, 0.1])
    assert errors(evidence, a=1, c=-1) == pytest.approx((sd * math.sqrt(1 / 3 + 1), 3))
    several = sd * math.sqrt(1 / 3 + 0.25 / 2 + 0.25)
    assert errors(evidence, a=1, b=-0.5, c=-0.5)[0] == pytest.approx(several)
    known = from_runs(runs(VALUES), noise=SeedNoise(0.3, 2))
    assert errors(known, a=1, c=-1) == pytest.approx((0.3 * math.sqrt(1 / 3 + 1), 2))


def test_a_given_model_has_no_seeds():
    """Two of its heads may differ, but another seed gives the same encoder."""
    rng = np.random.default_rng(0)
    tasks = task(range(50), a=rng.random((3, 50)), b=rng.random((2, 50)))
    trained, given = from_examples(tasks), from_examples(tasks, given=["b"])
    assert (trained.noise[""].df, given.noise[""].df) == (3, 2)
    assert errors(given, b=1)[0] == pytest.approx(float(given.sampling[1, 1]) ** 0.5)
    assert given.runs.tolist() == [3, np.inf]


def test_seeds_are_pooled_over_the_mean_of_the_tasks():
    """A seed that is good on one task and bad on the other moves no mean."""
    apart = runs({"a": {0: (0.5, 0.7), 1: (0.7, 0.5)}, "b": {0: (0.4, 0.4)}})
    together = runs({"a": {0: (0.5, 0.5), 1: (0.7, 0.7)}, "b": {0: (0.4, 0.4)}})
    assert from_runs(apart).noise[""].sd == pytest.approx(0)
    assert from_runs(together).noise[""].sd == pytest.approx(0.2 / math.sqrt(2))
    assert from_runs(apart, weights={0: 1.0}).noise[""].sd == pytest.approx(0.2 / math.sqrt(2))


def test_what_seeds_and_texts_both_count_is_counted_once():
    """Seeds disagree on single examples only: all of their variance is in the texts' already."""
    rng = np.random.default_rng(0)
    answers = (rng.random((2, 3, 4000)) < 0.7).astype(float)
    evidence = from_examples(task(range(4000), a=answers[0], b=answers[1]))
    assert evidence.overlap[""] == pytest.approx(0.21 / 4000, rel=0.05)
    error = errors(evidence, a=1, b=-1)[0]
    assert error < 1.25 * math.sqrt(2 * 0.21 / 3 / 4000), "1.41 of it if both counted in full"


def test_the_processor_adds_a_variance_for_each_run_and_none_to_what_was_given():
    """By hand: two models of two runs add PROCESSOR_SD^2, a single task six times as much."""
    rng = np.random.default_rng(0)
    scores = {name: rng.random((2, 50)) for name in "abc"}
    tasks = {f"t{n}": TaskScores(scores, np.arange(50), 0.0) for n in range(6)}

    def added(weights=None, **sums):
        bare = from_examples(tasks, weights=weights, given="c")
        evidence = from_examples(tasks, weights=weights, given="c", processor_sd=SD)
        return errors(evidence, **sums)[0] ** 2 - errors(bare, **sums)[0] ** 2

    assert added(a=1, b=-1) == pytest.approx(SD**2)
    assert added(a=1, c=-1) == pytest.approx(SD**2 / 2)
    assert added(a=0.5, b=0.5, c=-1) == pytest.approx(SD**2 / 4)
    assert added({"t0": 1.0}, a=1, c=-1) == pytest.approx(6 * SD**2 / 2)
    assert np.all(from_runs(runs(VALUES)).processor == 0), "published numbers stay as printed"


def make_noisy_class(rng, seeds=3):
    """Quiet models a, b and noisy ones A, B, whose right answers move from seed to seed."""
    scores = {}
    for name in "abAB":
        share = np.clip(0.5 + 0.2 * name.isupper() * rng.standard_normal(seeds), 0.05, 0.95)
        scores[name] = (np.arange(4000) / 4000 < share[:, None]).astype(float)
    return {"t": TaskScores(scores, np.arange(4000), 0.0)}


def test_seed_noise_is_pooled_within_classes():
    tasks = make_noisy_class(np.random.default_rng(0))
    evidence = from_examples(tasks, class_of=lambda name: "noisy" * name.isupper())
    assert evidence.noise[""].sd < 1e-9 and evidence.noise["noisy"].df == 4
    scores = tasks["t"].scores
    pooled = np.mean([scores[name].mean(1).var(ddof=1) for name in "AB"])
    assert evidence.noise["noisy"].sd == pytest.approx(np.sqrt(pooled))
    quiet, mixed, loud = (errors(evidence, **s) for s in ({"a": 1}, {"a": 1, "A": -1}, {"A": 1}))
    assert quiet[0] < 0.3 * mixed[0] and mixed[0] > 0.9 * loud[0]
    together = from_examples(tasks)
    assert errors(together, A=1)[0] < 0.8 * loud[0] and errors(together, a=1)[0] > 2 * quiet[0]
    draws = evidence.draws(4000).std(axis=0)
    assert draws == pytest.approx([errors(evidence, **{name: 1})[0] for name in "abAB"], rel=0.1)


def test_the_correlation_of_rounds_by_hand():
    """Seeds move both rounds of a by .1 and -.1, and one round of b: 4 / (4 + 2)."""
    shares = {"a1": (0.6, 0.4), "a2": (0.8, 0.6), "b1": (0.6, 0.4), "b2": (0.5, 0.5)}
    scores = {name: np.arange(10) < 10 * np.array([pair]).T for name, pair in shares.items()}
    tasks = {"t": TaskScores({n: s.astype(float) for n, s in scores.items()}, np.arange(10), 0.0)}
    pooled = from_examples(tasks, student_of=lambda name: name[0]).together
    two, none = np.ones((2, 2)) - np.eye(2), np.zeros((2, 2))
    assert pooled == pytest.approx(np.eye(4) + 2 / 3 * np.block([[two, none], [none, two]]))
    classes = from_examples(tasks, student_of=lambda name: name[0], class_of=lambda name: name[0])
    assert classes.together == pytest.approx(np.eye(4) + np.block([[two, none], [none, none]]))
    assert from_examples(tasks).together == pytest.approx(np.eye(4))


def test_scores_are_chance_corrected_means_over_tasks():
    other = {"a": np.ones((1, 3)), "b": np.zeros((1, 3))}
    tasks = task("xyzw", 0.5, a=[1, 1, 1, 0], b=[1, 1, 0, 0])
    tasks["u"] = TaskScores(other, np.array(["x", "y", "v"]), 0.25)
    evidence = from_examples(tasks)
    assert evidence.means.to_numpy() == pytest.approx(np.array([[0.5, 1], [0, -1 / 3]]))
    assert evidence.scores[0] == pytest.approx(0.75)
    assert from_examples(tasks, weights={"u": 1.0}).scores == pytest.approx([1, -1 / 3])


def test_independent_examples_by_hand():
    a, b = np.array([1, 1, 0, 1, 0, 0, 1, 1.0]), np.array([0, 1, 0, 1, 1, 0, 0, 1.0])
    evidence = from_examples(task(range(8), a=a, b=b), given=["a", "b"])
    # Variance of the mean difference: the squared deviations over n^2, with 8 / (8 - 1) because
    # they add up to zero.
    expected = np.sqrt(((a - b - (a - b).mean()) ** 2).sum() / 64 * 8 / 7)
    assert errors(evidence, a=1, b=-1)[0] == pytest.approx(expected)


def test_texts_of_one_article_count_as_one_and_it_is_the_same_in_two_tasks():
    once = np.random.default_rng(0).random((2, 40))
    ten = np.repeat(once, 10, axis=1)
    alone = task(range(40), a=once[0], b=once[1])
    copies = task(np.repeat(range(40), 10), a=ten[0], b=ten[1])
    single, repeated = (from_examples(each, given="ab") for each in (alone, copies))
    assert errors(repeated, a=1, b=-1) == pytest.approx(errors(single, a=1, b=-1))
    others = {"u": replace(alone["t"], groups=np.arange(40) + 40)}
    same, other = (from_examples(alone | each, given="ab") for each in ({"u": alone["t"]}, others))
    ratio = errors(same, a=1, b=-1)[0] / errors(other, a=1, b=-1)[0]
    assert ratio == pytest.approx(math.sqrt(2), rel=0.05)


@pytest.mark.parametrize(("classes", "apart"), [(2, 0.0), (2, 0.5), (3, 0.0)])
def test_folds_train_on_each_other(classes, apart):
    """Against simulation: new texts each time, in the class of the nearest centroid of the other
    four folds. As independent examples they would have 1.5 to 1.8 times the estimated variance.
    """
    labels, folds = np.arange(60) % classes, np.repeat(np.arange(5), 12)
    texts = np.random.default_rng(0).standard_normal((400, 60, 8)) + apart * labels[:, None]
    right = np.empty((400, 60))
    for fold in range(5):
        seen, test = folds != fold, folds == fold
        classed = [texts[:, seen & (labels == each)].mean(1) for each in range(classes)]
        away = texts[:, None, test] - np.stack(classed, axis=1)[:, :, None]
        right[:, test] = (away**2).sum(3).argmin(1) == labels[test]
    tasks = task(range(60), **{str(number): row for number, row in enumerate(right)})
    evidence = from_examples({"t": replace(tasks["t"], folds=5)}, given=tasks["t"].scores)
    for sums in (np.eye(400), np.eye(400)[:200] - np.eye(400)[200:]):  # scores and differences
        spread, error = (sums @ evidence.scores).std(), evidence.errors(sums)[0]
        assert 0.6 < spread**2 / (error**2).mean() < 1.15


def measure(groups, scores):
    """The mean score of each row, and its variance as found: rows are models of one evidence."""
    rows = {str(number): row for number, row in enumerate(np.clip(scores, 0, 1))}
    evidence = from_examples(task(groups, **rows), given=rows)
    return evidence.scores, evidence.sampling.diagonal()


def test_pairs_share_either_article():
    """Against simulation: scores of pairs that hold an effect of each of their two articles."""
    rng, parts = np.random.default_rng(0), []
    for _ in range(20):
        groups, effects = rng.integers(0, 40, (200, 2)), rng.normal(0, 0.1, (30, 40))
        scores = 0.5 + effects[:, groups].sum(2) + rng.normal(0, 0.05, (30, 200))
        parts.append(measure(groups, scores))
    truth, found = np.hstack(parts)
    assert np.sqrt(found.mean()) == pytest.approx(truth.std(), rel=0.08)


def test_few_articles_need_a_correction_that_the_design_gives():
    """All pairs of six are equally frequent: without the correction, 6 * 5 / (4 * 3) = 2.5, the
    variance would be 40% of the truth, by hand.
    """
    pairs = np.array(list(itertools.combinations(range(6), 2)))
    effects = np.random.default_rng(0).normal(0, 0.05, (1000, 6))
    truth, found = measure(pairs, 0.5 + effects[:, pairs].sum(2))
    assert found.mean() == pytest.approx(truth.var(), rel=0.1)


def test_a_pair_does_not_share_two_articles_with_itself():
    """Without article effects the variance of pairs is that of independent examples, not twice."""
    rng, ratios = np.random.default_rng(0), []
    for _ in range(100):
        evidence = from_examples(task(rng.integers(0, 60, (200, 2)), a=rng.random(200)), given="a")
        ratios.append(float(evidence.sampling[0, 0] / evidence.independent[0, 0]))
    assert np.mean(ratios) == pytest.approx(1, abs=0.1)


def test_draws_have_the_covariance_of_the_errors(simulate):
    evidence = from_examples(simulate(np.random.default_rng(0), 3, seeds=[3, 3, 1], seed_sd=0.03))
    draws = evidence.draws(40_000)
    for weights in ([1, -1, 0], [0, 1, -1], [0.5, 0.5, -1]):
        error = evidence.errors(np.array([weights]))[0][0]
        assert (draws @ weights).std() == pytest.approx(error, rel=0.03)
    assert (replace(evidence).draws(5) == evidence.draws(5)).all()


def test_scores_that_would_not_compare_are_refused():
    good, more = task("xyzw", a=np.ones(4), b=np.ones(4)), np.ones((2, 4))
    for change in ({"scores": {"a": more, "b": more[:1]}}, {"chance": 1.0}):
        with pytest.raises(ValueError, match="task 'u'|broadcast"):
            from_examples(good | {"u": replace(good["t"], **change)})


def test_a_repeated_record_is_no_further_seed():
    row = {"model": "a", "task": "t", "seed": 0, "scores": np.ones(4), "groups": [*"xyzw"]}
    frame = pd.DataFrame([row | {"chance": 0.5, "folds": 1}] * 2)
    with pytest.raises(ValueError, match="duplicate entries"):
        intervals.task_scores(frame)
    for change in ({"groups": [[*"xyzw"], [*"wzyx"]]}, {"chance": [0.5, 0.25]}):
        with pytest.raises(ValueError, match="'t': models were judged by other examples"):
            intervals.task_scores(frame.assign(model=["a", "b"], **change))
    twice = pd.concat([frame.assign(model=["a", "b"]), frame.assign(seed=[0, 1], task="u")])
    with pytest.raises(ValueError, match="other seeds on one task"):
        intervals.task_scores(twice)
