"""The claims ledger: what claims may say, the published findings, what noise and missing models do to a verdict."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import profiles, roles
from lib.findings import claims
from lib.findings.claim_kinds import resolve
from lib.published import figure_models
from lib.statistics import verdicts
from lib.statistics.intervals import SeedNoise

NOISE = SeedNoise(sd=0.002, df=8)  # a difference counts above .0065
WITHIN = {"fig4_7": (8, 21), "fig4_8": (13, 17), "fig4_9": (13, 19), "fig4_10": (10, 12), "fig4_11": (5, 12)}


@pytest.fixture(scope="module")
def thesis():
    """The ledger's published part."""
    table = claims.check({}).set_index("id")
    names = {name: name.removeprefix("published_") for name in table if name.startswith("published_")}
    return table[[*names, "arithmetic"]].rename(columns=names)


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
    return claims.check(as_records, {"fig4_2": NOISE, "fig4_3": NOISE}, profile="mini").set_index("id")


def claim(**fields):
    given = {"section": "4.4", "figure": "fig4_2", "finding": "words", **fields}
    return claims.parse("test", given, "claims.yaml: test")


# ---------------------------------------------------------------- what the YAML says


def test_there_are_at_least_25_findings_with_distinct_names_and_words():
    found = claims.load()
    assert len(found) >= 25
    assert len({one.finding for one in found}) == len({one.id for one in found}) == len(found)
    assert {one.kind for one in found} >= {"beats", "beats_on_average", "count_beating", "spread", "collapsed"}
    assert {one.section.split(".")[0] for one in found} == {"4", "5", "Conclusion"}


def test_every_figure_of_the_experiments_has_a_finding():
    assert {one.figure for one in claims.load()} >= {*claims.RANKINGS, "fig5_4", "fig5_5", "fig5_6"}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "wins"}, "unknown kind 'wins'; known: beats"),
        ({"kind": "beats", "better": ["cosine"]}, "worse: is missing"),
        ({"kind": "beats", "better": ["cosin"], "worse": ["MSE"]}, "'cosin' matches no model"),
        ({"kind": "beats", "better": ["*", "!*"], "worse": ["MSE"]}, "leaves no model"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "rounds": ["1k"]}, "'cosine;1k' matches no model"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "tasks": ["PIE"]}, "'PIE' matches no"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "figure": "fig4_6"}, "fig4_6"),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "figure": "fig5_1"}, "no scores per model"),
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
    singles = resolve(["*;2", "!*+*"], list(figure_models.printed("fig4_5")))
    assert len(singles) == 18 and "DM;1024;stem;2" in singles
    assert len(resolve(["*+*"], list(figure_models.printed("fig4_5")))) == 9


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


# ---------------------------------------------------------------- published evidence


def test_the_rerun_distance_is_recomputed_from_the_published_numbers():
    assert claims.rerun_distance() == pytest.approx((0.0067 + 0.0047) / 2, abs=5e-5)


def test_on_one_task_reruns_lie_further_apart_than_on_the_mean_of_six():
    """Differences of single tasks do not cancel: the mean of their sizes, not the size of their mean."""
    tables = [
        published.load(figure).pivot(index="model", columns="task", values="normalized") for figure, *_ in claims.RERUNS
    ]
    gaps = [table.loc["no-weighting"] - table.loc["None;λ=0.5"] for table in tables]
    assert claims.rerun_distance(("IMDB",)) == pytest.approx(np.mean([gap.abs().mean() for gap in gaps]))
    assert claims.rerun_distance(("IMDB",)) > 1.5 * claims.rerun_distance()


@pytest.mark.parametrize("figure", WITHIN)
def test_neighbours_within_noise(figure):
    table = claims.neighbours(figure)
    assert (table["within_noise"].sum(), len(table)) == WITHIN[figure]
    assert (table["gap"] >= 0).all() and table["model"].iloc[0] == list(figure_models.printed(figure))[-1]


def test_neighbours_beside_ours():
    data = published.load("fig4_2").assign(normalized=lambda frame: 1 - frame["normalized"])  # our ranking upside down
    table = claims.neighbours("fig4_2", data[data["model"] != "SBERT"], NOISE)
    assert [*table["model"], table["ahead_of"].iloc[-1]] == ["cosine", "Longformer", "MSE"]
    assert table["ours"].tolist() == pytest.approx((-table["gap"]).tolist()) and table["ours_differ"].all()
    assert not claims.neighbours("fig4_2", data, SeedNoise(0.2, 8))["ours_differ"].any()


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


# ---------------------------------------------------------------- the ledger


def test_published_numbers_as_records_give_the_published_effects(thesis, ledger):
    assert (ledger["verdict"] != verdicts.NOT_RUN).all()
    np.testing.assert_allclose(ledger["effect"], thesis["effect"], atol=1e-12)
    np.testing.assert_allclose(ledger["low"], thesis["low"], atol=1e-12)
    assert (ledger["profile"] == "mini").all() and (ledger["seeds"] == "1").all()


def test_the_verdict_follows_the_given_noise(ledger):
    assert ledger.at["cosine-over-mse", "verdict"] == verdicts.HOLDS
    assert ledger.at["cosine-over-mse", "needed"] == pytest.approx(0.0065, abs=5e-5)
    assert ledger.at["cosine-hurt-by-negatives", "verdict"] == verdicts.UNCLEAR  # ahead by .0015
    # without a band the interval decides: GAMES is easier for every model, the two tasks disagree about MRR
    assert ledger.at["retrieval-games-easier", "verdict"] == verdicts.HOLDS
    assert ledger.at["retrieval-mrr-cosine-masked", "verdict"] == verdicts.UNCLEAR


def test_swapped_models_turn_the_verdict(as_records):
    records = as_records["fig4_2"].copy()
    records["model"] = records["model"].replace({"cosine": "MSE", "MSE": "cosine"})
    found = claims.check({"fig4_2": records}, {"fig4_2": NOISE}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == verdicts.FAILS
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
    assert found.at["cosine-over-mse", "verdict"] == verdicts.NOT_RUN
    assert "No records of MSE" in found.at["cosine-over-mse", "note"]
    assert found.at["cosine-over-baselines", "verdict"] != verdicts.NOT_RUN
    assert found.at["mm-mse-best", "verdict"] == verdicts.NOT_RUN  # no figure 4.3 at all


def test_missing_tasks_are_not_run(as_records):
    rounds, retrieval = (as_records[label] for label in ("fig5_3", "fig5_6"))
    fewer = {"fig5_3": rounds[rounds["task"] != "IMDB"], "fig5_6": retrieval[retrieval["task"] != "WINES"]}
    found = claims.check(fewer).set_index("id")
    for name in ("imdb-longformer-best", "retrieval-games-easier"):
        assert found.at[name, "verdict"] == verdicts.NOT_RUN
    assert found.at["arxiv-pv-best", "verdict"] == verdicts.UNCLEAR  # one task, one seed: nothing to resample
    assert found.at["all-data-sbert-best", "verdict"] != verdicts.NOT_RUN  # over the five tasks that are left


def test_further_models_do_not_change_the_normalisation(as_records):
    one = as_records["fig4_2"]
    more = one[one["model"] == "cosine"].assign(model="max-margin;MSE;γ=1.0", value=1.0)
    found = claims.check({"fig4_2": pd.concat([one, more])}).set_index("id")
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(0.1298, abs=1e-4)


def test_a_run_without_all_tasks_is_an_error(as_records):
    with pytest.raises(ValueError, match="fig4_2: model .* has no value for task"):
        claims.check({"fig4_2": as_records["fig4_2"].iloc[1:]})


def test_a_figures_rows_are_the_ledgers(as_records, ledger):
    for figure, noise, source in (("fig4_3", NOISE, "fig4_3"), ("fig5_4", None, "fig5_3"), ("fig5_6", None, "fig5_6")):
        rows, expected = claims.of_figure(figure, as_records[source], noise), ledger[ledger["label"] == figure]
        assert len(rows) == len(expected) > 0
        for name, column in (
            ("verdict", "verdict"),
            ("decided_by", "decided_by"),
            ("published", "published_effect"),
            ("ours", "effect"),
        ):
            assert rows[name].tolist() == expected[column].tolist(), figure


def test_the_noise_of_a_mean_over_six_tasks_does_not_judge_one_task(as_records):
    rows = claims.check({"fig5_3": as_records["fig5_3"]}, {"fig5_3": NOISE}).set_index("id")
    assert np.isnan(rows.at["imdb-longformer-best", "needed"])
    assert rows.at["all-data-sbert-best", "needed"] == pytest.approx(NOISE.least_difference)


def test_a_mean_repeated_for_each_seed_is_no_noise(as_records):
    """A CSV holds means over seeds. On one task they once decided by their rounding: needed 1e-16, p 1e-251."""
    rounds = as_records["fig5_3"].assign(value=lambda frame: frame["value"] + 1 / 3)
    repeated = pd.concat([rounds.assign(seed=seed) for seed in range(3)])
    row = claims.check({"fig5_3": repeated}).set_index("id").loc["arxiv-pv-best"]
    assert np.isnan(row["needed"]) and row["verdict"] == verdicts.UNCLEAR
