"""The claims ledger: the engine by hand, the published findings, and what noise and missing models do to a verdict."""

import numpy as np
import pandas as pd
import pytest
from lib.statistics.claim_kinds import Comparison, resolve
from lib.statistics.noise import NoiseBand

from lib import published
from lib.config import profiles, roles
from lib.findings import claims
from lib.statistics import published_noise

BAND = NoiseBand(sd=0.002, df=8, band=0.004, least_difference=0.0065)
WITHIN = {"fig4_7": (8, 21), "fig4_8": (13, 17), "fig4_9": (13, 19), "fig4_10": (10, 12), "fig4_11": (5, 12)}


@pytest.fixture(scope="module")
def thesis():
    return claims.published().set_index("id")


@pytest.fixture(scope="module")
def as_records():
    """The published numbers as if they were our records: the same check must come to the same effects."""
    records = {}
    for label in claims.RANKINGS:
        frame = published.load(label)
        records[label] = frame.assign(model=frame["identity"], value=frame["accuracy"], metric="accuracy", seed=0)
    rounds = records["fig5_3"]
    rounds[["model", "round"]] = rounds["model"].str.rsplit(";", n=1, expand=True)
    for label in ("fig5_5", "fig5_6"):
        records[label] = published.load(label).rename(columns={"score": "value"}).assign(seed=0)
    return records


@pytest.fixture(scope="module")
def ledger(as_records):
    return claims.check(as_records, {"fig4_2": BAND, "fig4_3": BAND}, profile="mini").set_index("id")


def claim(**fields):
    given = {"section": "4.4", "label": "fig4_2", "finding": "words", **fields}
    return claims.parse("test", given, "claims.yaml: test")


# ---------------------------------------------------------------- what the YAML says


def test_there_are_at_least_25_findings_with_distinct_names_and_words():
    found = claims.load()
    assert len(found) >= 25
    assert len({one.finding for one in found}) == len({one.id for one in found}) == len(found)
    assert {one.kind for one in found} >= {"beats", "beats_on_average", "count_beating", "spread", "collapsed"}
    assert {one.section.split(".")[0] for one in found} == {"4", "5", "Conclusion"}


def test_every_figure_of_the_experiments_has_a_finding():
    assert {one.label for one in claims.load()} >= {*claims.RANKINGS, "fig5_4", "fig5_5", "fig5_6"}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "wins"}, "unknown kind 'wins'; known: beats"),
        ({"kind": "beats", "better": ["cosine"]}, "worse: is missing"),
        ({"kind": "beats", "better": ["cosin"], "worse": ["MSE"]}, "'cosin' matches no model"),
        ({"kind": "beats", "better": ["*", "!*"], "worse": ["MSE"]}, "leaves no model"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "rounds": ["1k"]}, "'cosine;1k' matches no model"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "tasks": ["PIE"]}, "'PIE' matches no"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "label": "fig4_6"}, "fig4_6"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "label": "fig5_1"}, "no scores per model"),
        ({"kind": "beats", "beter": ["cosine"], "better": ["cosine"], "worse": ["MSE"]}, "nearest: better"),
        ({"kind": "count_beating", "group": ["*"], "baselines": ["MSE"]}, "needs at_least, at_most"),
    ],
)
def test_a_wrong_claim_is_one_line_that_names_it(fields, message):
    with pytest.raises(profiles.ParameterError) as error:
        claim(**fields)
    assert message in str(error.value)
    assert str(error.value).startswith("claims.yaml: test") and "\n" not in str(error.value)


def test_patterns_take_in_and_leave_out():
    singles = resolve(["*;2", "!*+*"], published.models("fig4_5"))
    assert len(singles) == 18 and "DM;1024;stem;2" in singles
    assert len(resolve(["*+*"], published.models("fig4_5"))) == 9


# ---------------------------------------------------------------- the engine, by hand


def frame(**models):
    rows = [(name, task, seed, value) for name, runs in models.items() for seed, run in enumerate(runs)
            for task, value in zip(roles.CLASSIFICATION, run, strict=True)]  # fmt: skip
    return pd.DataFrame(rows, columns=["model", "task", "seed", "value"])


def test_effect_is_the_difference_of_mean_normalised_accuracies():
    records = frame(cosine=[[0.8] * 6], MSE=[[0.4] * 5 + [0.8]], Longformer=[[0.4] * 6], SBERT=[[0.2] * 6])
    found = claims.check({"fig4_2": records}).set_index("id")
    # MSE: five tasks at half of the best, one at the best; 1 - 3.5 / 6
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(2.5 / 6)
    assert found.at["cosine-over-baselines", "effect"] == pytest.approx(0.5)  # Longformer is the closer of the two
    assert found.at["cosine-over-baselines", "decided_by"] == "cosine against Longformer"
    assert found.at["sbert-over-longformer", "effect"] == pytest.approx(-0.25)


def test_noise_scales_with_the_number_of_runs_on_each_side():
    assert Comparison({"a": 1}, {"b": 1}, "", "").norm == pytest.approx(1)
    averages = Comparison({f"a{i}": 0.25 for i in range(4)}, {f"b{i}": 0.25 for i in range(4)}, "", "")
    assert averages.norm == pytest.approx(0.5)
    shared = Comparison({"a": 0.5, "b": 0.5}, {"b": 0.5, "c": 0.5}, "", "")
    assert shared.weights["b"] == 0 and shared.norm == pytest.approx(0.5)


def test_the_kth_model_decides_a_count():
    means = pd.Series({"cosine": 0.9, "MSE": 0.7, "Longformer": 0.6, "SBERT": 0.8})
    known = list(means.index)
    counting = claim(kind="count_beating", group=["cosine", "MSE", "SBERT"], baselines=["Longformer"], at_least=2)
    assert counting.comparisons(means, known)[0].left == "SBERT"
    counting = claim(kind="count_beating", group=["cosine", "MSE"], baselines=["SBERT", "Longformer"], at_most=1)
    (only,) = counting.comparisons(means, known)
    assert (only.left, only.right) == ("SBERT", "MSE")  # the second of the group must stay behind the best baseline


def test_spread_is_a_difference_of_standard_deviations():
    means = pd.Series({"cosine": 0.9, "MSE": 0.5, "Longformer": 0.7, "SBERT": 0.6})
    spread = claim(kind="spread", wider=["cosine", "MSE"], narrower=["Longformer", "SBERT"])
    (one,) = spread.comparisons(means, list(means.index))
    effect = sum(weight * means[name] for name, weight in one.weights.items())
    assert effect == pytest.approx(np.std([0.9, 0.5], ddof=1) - np.std([0.7, 0.6], ddof=1))


def test_the_bootstrap_is_paired_over_tasks():
    hard = np.array([[0.1, 0.5, 0.9, 0.3, 0.7, 0.2]])
    assert published_noise.interval({"a": hard + 0.01, "b": hard}, {"a": 1, "b": -1}) == pytest.approx((0.01, 0.01))


def test_two_tasks_give_the_two_differences_as_interval():
    found = published_noise.interval({"a": np.array([[0.5, 0.9]]), "b": np.array([[0.4, 0.6]])}, {"a": 1, "b": -1})
    assert found == pytest.approx((0.1, 0.3))


def test_seeds_widen_the_interval_and_one_seed_of_one_task_has_none():
    other = np.array([[0.5] * 6])
    runs = np.array([[0.6] * 6, [0.7] * 6, [0.8] * 6])
    assert published_noise.interval({"a": runs, "b": other}, {"a": 1, "b": -1}) == pytest.approx((0.1, 0.3), abs=0.02)
    assert published_noise.interval({"a": runs[:, :1], "b": other[:, :1]}, {"a": 1, "b": -1})[1] > 0.25
    assert all(np.isnan(published_noise.interval({"a": other[:, :1], "b": other[:, :1]}, {"a": 1, "b": -1})))


def test_the_sign_flip_test_is_exact():
    assert published_noise.sign_flip(np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.4])) == pytest.approx(2 / 64)
    assert published_noise.sign_flip(np.array([0.1, -0.1])) == pytest.approx(1)


def test_the_seed_test_agrees_with_the_least_difference():
    band = NoiseBand(sd=0.002, df=8, band=0.004, least_difference=2.306004135 * np.sqrt(2) * 0.002)
    pair = Comparison({"a": 1}, {"b": 1}, "", "")
    assert published_noise.seed_test(band.least_difference, pair, band) == pytest.approx(0.05, abs=1e-9)
    average = Comparison({"a": 0.5, "b": 0.5}, {"c": 0.5, "d": 0.5}, "", "")
    assert published_noise.seed_test(band.least_difference * average.norm, average, band) == pytest.approx(
        0.05, abs=1e-9
    )


# ---------------------------------------------------------------- published evidence


def test_the_rerun_distance_is_recomputed_from_the_published_numbers():
    assert published_noise.rerun_distance() == pytest.approx((0.0067 + 0.0047) / 2, abs=5e-5)


@pytest.mark.parametrize("label", WITHIN)
def test_neighbours_within_noise(label):
    found = claims.neighbours(label)
    assert (found["within_noise"].sum(), len(found)) == WITHIN[label]
    assert (found["gap"] >= 0).all() and found["model"].iloc[0] == published.models(label)[-1]


def test_neighbours_of_figure_5_3_are_of_one_round():
    found = claims.neighbours("fig5_3")
    assert len(found) == 18  # seven models in three rounds
    assert (found["model"].str.split(";").str[-1] == found["ahead_of"].str.split(";").str[-1]).all()


def test_published_effects_are_those_of_the_figures(thesis):
    means = published.load("fig4_2").groupby("model")["normalized"].mean()
    assert thesis.at["cosine-over-baselines", "effect"] == pytest.approx(means["cosine"] - means["SBERT"])
    assert thesis.at["cosine-over-mse", "arithmetic"] == ".9503 - .8205 = .1298 > .0057"
    assert thesis.at["weighting-halved-gradients-cosine", "effect"] == pytest.approx(0.00665, abs=1e-5)
    assert thesis.at["weighting-halved-gradients-mm", "effect"] == pytest.approx(0.00474, abs=1e-5)


def test_the_seventh_of_eight_pairs_decides(thesis):
    assert thesis.at["contextual-larger-student-projection", "arithmetic"] == ".8797 - .8633 = .0163 > .0057"


def test_no_published_number_contradicts_its_finding(thesis):
    assert (thesis["effect"] > 0).all()


def test_at_least_five_findings_are_within_noise_with_their_arithmetic(thesis):
    within = thesis[thesis["verdict"] == "holds within noise"]
    assert len(within) >= 5 and not within["exceeds"].any()
    assert within["arithmetic"].str.fullmatch(r"\.\d{4} - \.\d{4} = \.\d{4} < \.\d{4}").all()
    assert {"pv-over-sbert", "few-shot-over-baselines", "only-mse-best-student", "weighting-masked-over-plain-sum",
            "cosine-masked-over-its-teacher"} <= set(within.index)  # fmt: skip


def test_retrieval_has_no_published_noise(thesis):
    assert thesis.at["retrieval-map-only-mse", "verdict"] == "holds, noise unknown"
    assert thesis.at["retrieval-games-easier", "effect"] == pytest.approx(0.1718 - 0.1322, abs=2e-4)


def test_arithmetic_of_a_difference_that_goes_the_other_way():
    assert published_noise.arithmetic(0.95, 0.951, 0.0057) == ".9500 - .9510 = -.0010, .0010 < .0057"
    assert published_noise.arithmetic(1.0, 0.5) == "1.0000 - .5000 = .5000"


# ---------------------------------------------------------------- the ledger


def test_published_numbers_as_records_give_the_published_effects(thesis, ledger):
    assert (ledger["verdict"] != claims.NOT_RUN).all()
    np.testing.assert_allclose(ledger["effect"], thesis["effect"], atol=1e-12)
    np.testing.assert_allclose(ledger["low"], thesis["low"], atol=1e-12)
    assert (ledger["profile"] == "mini").all() and (ledger["seeds"] == "1").all()


def test_the_verdict_follows_the_given_noise(ledger):
    assert ledger.at["cosine-over-mse", "verdict"] == claims.HOLDS
    assert ledger.at["cosine-over-mse", "needed"] == pytest.approx(0.0065)
    assert ledger.at["cosine-hurt-by-negatives", "verdict"] == claims.UNCLEAR  # ahead by .0015
    # without a band the interval decides: GAMES is easier for every model, the two tasks disagree about MRR
    assert ledger.at["retrieval-games-easier", "verdict"] == claims.HOLDS
    assert ledger.at["retrieval-mrr-cosine-masked", "verdict"] == claims.UNCLEAR


def test_swapped_models_turn_the_verdict(as_records):
    records = as_records["fig4_2"].copy()
    records["model"] = records["model"].replace({"cosine": "MSE", "MSE": "cosine"})
    found = claims.check({"fig4_2": records}, {"fig4_2": BAND}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == claims.FAILS
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(-0.1298, abs=1e-4)


def test_several_seeds_measure_their_own_noise(as_records):
    one = as_records["fig4_2"]
    cosine = one[one["model"] == "cosine"]
    more = [cosine.assign(seed=seed, value=cosine["value"] + shift) for seed, shift in ((1, 0.01), (2, -0.01))]
    found = claims.check({"fig4_2": pd.concat([one, *more])}).set_index("id")
    row = found.loc["cosine-over-mse"]
    assert row["seeds"] == "1-3" and row["needed"] > 0.01 and row["p_seeds"] < 0.05


def test_missing_models_are_not_run(as_records):
    records = as_records["fig4_2"]
    found = claims.check({"fig4_2": records[records["model"] != "MSE"]}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == claims.NOT_RUN
    assert "No records of MSE" in found.at["cosine-over-mse", "note"]
    assert found.at["cosine-over-baselines", "verdict"] != claims.NOT_RUN
    assert found.at["mm-mse-best", "verdict"] == claims.NOT_RUN  # no figure 4.3 at all


def test_missing_tasks_are_not_run(as_records):
    rounds, retrieval = (as_records[label] for label in ("fig5_3", "fig5_6"))
    fewer = {"fig5_3": rounds[rounds["task"] != "IMDB"], "fig5_6": retrieval[retrieval["task"] != "WINES"]}
    found = claims.check(fewer).set_index("id")
    for name in ("imdb-longformer-best", "retrieval-games-easier"):
        assert found.at[name, "verdict"] == claims.NOT_RUN
    assert found.at["arxiv-pv-best", "verdict"] == claims.UNCLEAR  # one task, one seed: nothing to resample
    assert found.at["all-data-sbert-best", "verdict"] != claims.NOT_RUN  # over the five tasks that are left


def test_further_models_do_not_change_the_normalisation(as_records):
    one = as_records["fig4_2"]
    more = one[one["model"] == "cosine"].assign(model="max-margin;MSE;γ=1.0", value=1.0)
    found = claims.check({"fig4_2": pd.concat([one, more])}).set_index("id")
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(0.1298, abs=1e-4)


def test_a_run_without_all_tasks_is_an_error(as_records):
    with pytest.raises(ValueError, match="fig4_2: .*lacks some of"):
        claims.check({"fig4_2": as_records["fig4_2"].iloc[1:]})
