"""The claims ledger: what claims may say, the published findings, what noise and missing models do
to a verdict.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import published
from lib.config import profiles, roles
from lib.ledger import claims
from lib.ledger.claim_kinds import KINDS, Alike, match_models
from lib.published import figure_models
from lib.statistics import verdicts
from lib.statistics.intervals import SeedNoise, from_runs

NOISE = SeedNoise(sd=0.002, df=8)  # a difference counts above .0065
SCALE = 0.9  # of published numbers as records: leaves room for examples above the mean
WITHIN = {
    "fig4_7": (17, 21),
    "fig4_8": (16, 17),
    "fig4_9": (18, 19),
    "fig4_10": (11, 12),
    "fig4_11": (10, 12),
}


@pytest.fixture(scope="module")
def thesis():
    """The ledger's published part, without what is no difference of scores."""
    table = claims.judge_claims({}).set_index("id")
    table = table[~table["published_verdict"].isin([verdicts.NUMBER, verdicts.NOT_RUN])]
    names = {
        name: name.removeprefix("published_") for name in table if name.startswith("published_")
    }
    return table[[*names]].rename(columns=names)


@pytest.fixture(scope="module")
def as_records(with_examples):
    """The published normalised scores as if they were our records, which guessing scores 0 on: the
    same check must come to the same effects. In Chapter 4 every model has two seeds, .002 apart,
    else one.
    """
    records = {}
    for label in (*claims.RANKINGS, *claims.RETRIEVAL):
        frame = published.load(label).rename(
            columns={"accuracy": "value", "score": "value", "identity": "printed"}
        )
        frame = frame.assign(
            model=frame.get("printed", frame["model"]), metric=frame.get("metric", "accuracy")
        )
        best = frame.groupby(["metric", "task"])["value"].transform("max")
        shifts = (0.001, -0.001) if label.startswith("fig4_") else (0.0,)
        runs = [
            frame.assign(seed=seed, value=SCALE * frame["value"] / best + add)
            for seed, add in enumerate(shifts)
        ]
        records[label] = with_examples(pd.concat(runs, ignore_index=True))
    rounds = records["fig5_3"]
    rounds[["model", "round"]] = rounds["model"].str.rsplit(";", n=1, expand=True)
    return records


@pytest.fixture(scope="module")
def ledger(as_records):
    return claims.judge_claims(as_records, profile="mini").set_index("id")


def claim(**fields):
    given = {"section": "4.4", "figure": "fig4_2", "finding": "words", **fields}
    return claims.parse_claim("test", given, "claims.yaml: test")


# ---------------------------------------------------------------- what the YAML says


def test_the_yaml_uses_every_kind_and_names_no_finding_twice():
    found = claims.load_claims()
    assert {one.kind for one in found} == {*KINDS}
    assert len({one.finding for one in found}) == len({one.id for one in found}) == len(found)


def test_every_figure_of_the_experiments_has_a_finding():
    assert {one.figure for one in claims.load_claims()} >= {
        *claims.RANKINGS,
        "fig5_4",
        "fig5_5",
        "fig5_6",
    }


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "wins"}, "unknown kind 'wins'; known: beats"),
        ({"kind": "beats", "better": ["cosine"]}, "worse: is missing"),
        ({"kind": "beats", "better": ["cosin"], "worse": ["MSE"]}, "'cosin' matches no model"),
        ({"kind": "beats", "better": ["*", "!*"], "worse": ["MSE"]}, "leaves no model"),
        (
            {"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "rounds": ["1k"]},
            "'cosine;1k' matches no model",
        ),
        (
            {"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "tasks": ["PIE"]},
            "'PIE' matches no",
        ),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "figure": "fig4_6"}, "fig4_6"),
        (
            {"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "figure": "fig5_1"},
            "no scores per model",
        ),
        (
            {"kind": "beats", "beter": ["cosine"], "better": ["cosine"], "worse": ["MSE"]},
            "nearest: better",
        ),
        (
            {"kind": "count_beating", "group": ["*"], "baselines": ["MSE"]},
            "needs at_least, at_most",
        ),
        (
            {"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "checks": ["weather"]},
            "checks",
        ),
        ({"kind": "beats", "better": ["cosine"], "worse": ["MSE"], "share": 1.1}, "share"),
        ({"kind": "alike", "models": ["cosin"], "treatment": "cut"}, "'cosin' matches no model"),
        ({"kind": "number", "number": "share"}, "published: is missing"),
    ],
)
def test_a_wrong_claim_is_one_line_that_names_it(fields, message):
    with pytest.raises(profiles.ParameterError) as error:
        claim(**fields)
    assert message in str(error.value)
    assert str(error.value).startswith("claims.yaml: test") and "\n" not in str(error.value)


def test_patterns_take_in_and_leave_out():
    singles = match_models(["*;2", "!*+*"], list(figure_models.printed("fig4_5")))
    assert len(singles) == 18 and "DM;1024;stem;2" in singles
    assert len(match_models(["*+*"], list(figure_models.printed("fig4_5")))) == 9


# ---------------------------------------------------------------- the engine, by hand


def test_effect_is_the_difference_of_mean_chance_corrected_accuracies(with_examples):
    accuracies = {
        "cosine": [0.8] * 6,
        "MSE": [0.4] * 5 + [0.8],
        "Longformer": [0.4] * 6,
        "SBERT": [0.2] * 6,
    }
    rows = [
        (model, *pair)
        for model, row in accuracies.items()
        for pair in zip(roles.CLASSIFICATION, row, strict=True)
    ]
    records = pd.DataFrame(rows, columns=["model", "task", "value"]).assign(seed=0)
    found = claims.judge_claims({"fig4_2": with_examples(records, chance=0.2)}).set_index("id")
    # MSE: five tasks at a quarter of the way from .2 to 1, one at three quarters
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(0.75 - 2 / 6)
    assert found.at["cosine-over-mse", "arithmetic"] == ".7500 - .3333 = .4167"
    assert found.at["cosine-over-baselines", "effect"] == pytest.approx(
        0.5
    )  # Longformer is the closer of the two
    assert found.at["cosine-over-baselines", "decided_by"] == "cosine against Longformer"
    assert found.at["sbert-over-longformer", "effect"] == pytest.approx(-0.25)


def judged(fields, noise=NOISE, **means):
    """The verdict of a claim on one task; noise: of one run."""
    index = pd.MultiIndex.from_tuples([(name, 0) for name in means], names=["model", "seed"])
    evidence = from_runs(pd.DataFrame({"PAN": list(means.values())}, index), noise=noise)
    return claim(**fields).judge_scores(evidence, list(means))


MEANS = {"cosine": 0.9, "MSE": 0.7, "Longformer": 0.6, "SBERT": 0.8}


def test_the_best_is_the_best_of_this_run():
    left, right = ["cosine", "MSE"], ["Longformer", "SBERT"]
    every = judged({"kind": "beats", "better": left, "worse": right}, **MEANS)
    fields = {"kind": "count_beating", "group": left, "baselines": right, "at_least": 1}
    best = judged(fields, **MEANS)
    assert (every.verdict, every.decided_by) == (verdicts.REVERSED, "MSE against SBERT")
    assert (best.verdict, best.decided_by) == (verdicts.HOLDS, "cosine against SBERT")
    swapped = MEANS | {"cosine": 0.7, "MSE": 0.9}
    assert judged(fields, **swapped).decided_by == "MSE against SBERT"


def test_the_kth_model_decides_a_count():
    counting = {
        "kind": "count_beating",
        "group": ["cosine", "MSE", "SBERT"],
        "baselines": ["Longformer"],
    }
    assert judged(counting | {"at_least": 2}, **MEANS).decided_by == "SBERT against Longformer"
    assert judged(counting | {"at_least": 3}, **MEANS).verdict == verdicts.HOLDS
    some = {
        "kind": "count_beating",
        "group": ["cosine", "MSE"],
        "baselines": ["SBERT", "Longformer"],
    }
    only = judged(
        some | {"at_most": 1}, **MEANS
    )  # the second of the group must stay behind the best baseline
    assert (only.verdict, only.decided_by) == (verdicts.HOLDS, "SBERT against MSE")
    assert only.effect == pytest.approx(0.1) and only.arithmetic == ".8000 - .7000 = .1000"
    assert judged(some | {"at_most": 0}, **MEANS).verdict == verdicts.REVERSED
    assert judged(some | {"at_least": 1, "at_most": 1}, **MEANS).verdict == verdicts.HOLDS
    assert judged(some | {"at_least": 2, "at_most": 2}, **MEANS).verdict == verdicts.REVERSED
    assert judged(some | {"at_most": 1}, SeedNoise(0.05, 8), **MEANS).verdict == verdicts.OPEN


def test_at_least_so_many_pairs():
    pairs = {"kind": "count_pairs", "pairs": [["cosine", "MSE"], ["MSE", "SBERT"]]}
    assert judged(pairs | {"at_least": 1}, **MEANS).verdict == verdicts.HOLDS
    assert judged(pairs | {"at_least": 2}, **MEANS).verdict == verdicts.REVERSED


def test_spread_is_a_difference_of_standard_deviations():
    fields = {"kind": "spread", "wider": ["cosine", "MSE"], "narrower": ["Longformer", "SBERT"]}
    spread = judged(fields, **MEANS | {"MSE": 0.5, "SBERT": 0.61})
    assert spread.effect == pytest.approx(np.std([0.9, 0.5], ddof=1) - np.std([0.6, 0.61], ddof=1))
    assert spread.verdict == verdicts.HOLDS


def test_collapsed_is_below_a_share_of_the_reference():
    fields = {"kind": "beats", "better": ["Longformer"], "worse": ["MSE"], "share": 0.9}
    assert judged(fields, **MEANS).verdict == verdicts.REVERSED
    assert judged(fields, **MEANS | {"MSE": 0.5}).effect == pytest.approx(0.04)
    every = judged(
        fields | {"better": ["Longformer", "SBERT"]}, **MEANS | {"MSE": 0.5, "SBERT": 0.57}
    )
    assert (
        every.effect == pytest.approx(0.9 * 0.57 - 0.5)
        and every.decided_by == "0.9 x SBERT against MSE"
    )


def test_a_collapse_is_none_if_plain_mse_falls_as_deep():
    """All of the fall may be the distance's, not the margin's: then nothing has broken down at γ =
    1.5.
    """
    (claim,) = (claim for claim in claims.load_claims() if claim.id == "mm-mse-collapses")
    means = {"max-margin;MSE;γ=1.5": 0.5, "MSE": 0.5, "Longformer": 0.8}
    index = pd.MultiIndex.from_product([means, [0]], names=["model", "seed"])
    evidence = from_runs(pd.DataFrame({"PAN": [*means.values()]}, index), noise=NOISE)
    assert claim.judge_scores(evidence, list(means)).verdict == verdicts.REVERSED


def test_tests_say_what_their_findings_say():
    """A best structural loss has structural losses as rivals; what masking costs is a difference to
    no masking.
    """
    wording = {claim.id: claim for claim in claims.load_claims()}
    _, rivals = wording["mm-mse-best"].sides(list(figure_models.printed("fig4_3")))
    assert {"SBERT", "Longformer"}.isdisjoint(rivals) and len(rivals) == 10
    masked = wording["weighting-masking-hurts-more-at-high-lambda"]
    names = list(figure_models.printed("fig4_11"))
    costs = {
        f"{limit};λ={lam}": 0.9 - 0.1 * (limit == "384") - 0.3 * (lam > 0.6)
        for limit in ("384", "None")
        for lam in (0.2, 0.5, 0.8, 0.95)
    }
    index = pd.MultiIndex.from_product([costs, [0]], names=["model", "seed"])
    evidence = from_runs(pd.DataFrame({"PAN": [*costs.values()]}, index), noise=NOISE)
    assert masked.judge_scores(evidence, names).effect == pytest.approx(0), (
        "high weights are worse, masked or not"
    )
    costs |= {
        "384;λ=0.8": 0.4,
        "384;λ=0.95": 0.4,
    }  # masking costs .2 there, and .1 at the lower weights
    evidence = from_runs(pd.DataFrame({"PAN": [*costs.values()]}, index), noise=NOISE)
    assert masked.judge_scores(evidence, names).effect == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("cut", "sd", "word"),
    [
        (0.9, 0.002, verdicts.HOLDS),
        (0.87, 0.002, verdicts.REVERSED),
        (0.89, 0.02, verdicts.OPEN),
        (0.905, 0.006, verdicts.OPEN),
    ],
)
def test_alike_needs_equivalence_and_no_difference_found_is_not_enough(cut, sd, word):
    fields = {"kind": "alike", "models": ["cosine"], "treatment": "cut"}
    index = pd.MultiIndex.from_tuples([("cosine", 0), ("cosine;cut", 0)], names=["model", "seed"])
    evidence = from_runs(pd.DataFrame({"PAN": [0.9, cut]}, index), noise=SeedNoise(sd, 8))
    assert claim(**fields).judge_scores(evidence, ["cosine"]).verdict == word


# ---------------------------------------------------------------- published evidence


def test_the_noise_of_a_published_run_comes_from_two_pairs():
    noise = claims.measure_rerun_noise()
    assert (
        noise.sd == pytest.approx(np.sqrt((0.00665**2 + 0.00474**2) / 4), abs=1e-5)
        and noise.df == 2
    )
    assert noise.least_difference == pytest.approx(0.0249, abs=5e-5)
    assert claims.measure_rerun_noise(without="fig4_10") == pytest.approx(
        (0.00474 / np.sqrt(2), 1), abs=1e-5
    )


def test_on_one_task_reruns_lie_further_apart_than_on_the_mean_of_six():
    """Differences of single tasks do not cancel."""
    single = claims.measure_rerun_noise(("IMDB",))
    assert single.df == 12 and single.sd > 2 * claims.measure_rerun_noise().sd


@pytest.mark.parametrize("figure", WITHIN)
def test_neighbours_within_noise(figure):
    table = claims.compare_neighbours(figure)
    assert (table["within_noise"].sum(), len(table)) == WITHIN[figure]
    assert (table["gap"] >= 0).all() and table["model"].iloc[0] == list(
        figure_models.printed(figure)
    )[-1]


def test_neighbours_of_figure_5_3_are_of_one_round():
    found = claims.compare_neighbours("fig5_3")
    assert len(found) == 18  # seven models in three rounds
    assert (found["model"].str.split(";").str[-1] == found["ahead_of"].str.split(";").str[-1]).all()


def test_published_effects_are_those_of_the_figures(thesis):
    means = published.load("fig4_2").groupby("model")["normalized"].mean()
    assert thesis.at["cosine-over-baselines", "effect"] == pytest.approx(
        means["cosine"] - means["SBERT"]
    )
    assert thesis.at["cosine-over-mse", "arithmetic"] == ".9503 - .8205 = .1298"
    assert thesis.at["weighting-halved-gradients-cosine", "effect"] == pytest.approx(
        0.00665, abs=1e-5
    )
    assert thesis.at["weighting-halved-gradients-mm", "effect"] == pytest.approx(0.00474, abs=1e-5)


def test_the_seventh_of_eight_pairs_decides(thesis):
    assert (
        thesis.at["contextual-larger-student-projection", "arithmetic"] == ".8797 - .8633 = .0163"
    )


def test_no_published_number_contradicts_its_finding(thesis):
    assert (thesis["effect"] > 0).all() and not (thesis["verdict"] == verdicts.REVERSED).any()


def test_published_single_runs_leave_most_open(thesis):
    """Differences of two runs count from .0249; averages of many models are surer."""
    assert {
        "pv-over-sbert",
        "few-shot-over-baselines",
        "only-mse-best-student",
        "cosine-over-baselines",
        "cosine-masked-over-its-teacher",
    } <= set(thesis.index[thesis["verdict"] == verdicts.OPEN])
    assert {
        "cosine-over-mse",
        "sbert-over-longformer",
        "pv-large-dimensions",
        "weighting-masking-hurts-mm",
    } <= set(thesis.index[thesis["verdict"] == verdicts.HOLDS])
    row = thesis.loc["cosine-over-mse"]
    assert (row["low"], row["high"]) == pytest.approx((0.1298 - 0.0249, 0.1298 + 0.0249), abs=1e-4)
    assert (thesis["q"] >= thesis["p"])[thesis["p"].notna()].all()


def test_a_pair_that_defines_the_yardstick_is_not_tested_by_it(thesis):
    """By the other pair alone, with one degree of freedom: t(.975, 1) = 12.7062."""
    row = thesis.loc["weighting-halved-gradients-cosine"]
    assert (
        row["high"] - row["effect"] == pytest.approx(12.7062 * 0.00474, abs=2e-4)
        and row["verdict"] == verdicts.OPEN
    )


def test_retrieval_has_no_published_noise(thesis):
    row = thesis.loc["retrieval-map-only-mse"]
    assert (
        row["verdict"] == verdicts.OPEN
        and np.isnan(row["p"])
        and "no model was run twice" in row["reason"]
    )
    assert thesis.at["retrieval-games-easier", "effect"] == pytest.approx(0.1718 - 0.1322, abs=2e-4)
    assert thesis.at["retrieval-games-easier", "arithmetic"].startswith(".1718 - .1322")


# ---------------------------------------------------------------- the ledger


def test_published_numbers_as_records_give_the_published_effects(thesis, ledger):
    thesis = thesis[
        ~thesis.index.str.startswith("news-")
    ]  # its evidence: tests/news/test_results.py
    normalised = thesis.drop("retrieval-games-easier")  # that one compares scores as they are
    ours = ledger.loc[normalised.index]
    assert (ledger.loc[thesis.index, "verdict"] != verdicts.NOT_RUN).all()
    np.testing.assert_allclose(ours["effect"], SCALE * normalised["effect"], atol=1e-12)
    assert (ledger["profile"] == "mini").all()
    for chapter, seeds in (("4", "2"), ("5", "1")):
        assert set(ours.loc[ours["section"].str.startswith(chapter), "seeds"]) <= {seeds, ""}


def test_the_verdict_follows_the_noise_of_seeds(ledger):
    """By hand: seeds .002 apart have a variance of .002^2 / 2, known from two students, so that a
    difference of means over two has .002^2 / 2. The processor adds 2 times .0025^2, which is known:
    (.000002 + .0000125)^2 / (.000002^2 / 2) = 105 degrees of freedom, and t(.975, 105.1) = 1.9828.
    """
    row = ledger.loc["cosine-over-mse"]
    assert row["verdict"] == verdicts.HOLDS
    error = np.sqrt(0.000002 + 0.0000125)
    assert row["effect"] - row["low"] == pytest.approx(1.9828 * error, abs=1e-6)
    assert ledger.at["cosine-hurt-by-negatives", "verdict"] == verdicts.EQUIVALENT  # ahead by .0015
    # One run of each model: nothing is known about noise.
    assert ledger.at["retrieval-mrr-cosine-masked", "verdict"] == verdicts.OPEN
    assert "no model was run twice" in ledger.at["retrieval-mrr-cosine-masked", "note"]


def test_every_row_says_by_which_rules_it_was_judged(ledger):
    assert set(ledger["rules"]) == {verdicts.RULES}


def test_the_p_of_equivalence_is_kept(ledger):
    """Without it nobody can check the word."""
    tested = ledger["p_equivalent"].notna()
    alike, others = ledger["verdict"] == verdicts.EQUIVALENT, ledger["verdict"] == verdicts.OPEN
    assert (ledger.loc[alike, "p_equivalent"] < 0.05).all() and alike.any()
    assert (ledger.loc[others & tested, "p_equivalent"] >= 0.05).all() and ledger[
        "published_p_equivalent"
    ].notna().any()


def test_it_says_how_much_hangs_on_one_task(ledger):
    table = published.load("fig4_2").pivot(index="model", columns="task", values="normalized")
    gaps = table.loc["cosine"] - table.loc["MSE"]
    without = (gaps.sum() - gaps) / 5
    row = ledger.loc["cosine-over-mse"]
    assert (row["one_task_low"], row["one_task_high"]) == pytest.approx(
        (SCALE * without.min(), SCALE * without.max())
    )


def test_swapped_models_turn_the_verdict(as_records):
    records = as_records["fig4_2"].copy()
    records["model"] = records["model"].replace({"cosine": "MSE", "MSE": "cosine"})
    found = claims.judge_claims({"fig4_2": records}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == verdicts.REVERSED
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(SCALE * -0.1298, abs=1e-4)


def test_several_seeds_measure_their_own_noise(as_records, with_examples):
    one = as_records["fig4_2"].query("seed == 0")
    cosine = one[one["model"] == "cosine"]
    more = [
        cosine.assign(seed=seed, value=cosine["value"] + shift)
        for seed, shift in ((1, 0.01), (2, -0.01))
    ]
    row = (
        claims.judge_claims({"fig4_2": with_examples(pd.concat([one, *more]))})
        .set_index("id")
        .loc["cosine-over-mse"]
    )
    # Three runs of one model, a standard deviation of .01 with two degrees of freedom, against one
    # run of the other; and the processor.
    assert row["seeds"] == "1-3" and row["p"] < 0.05
    seeds, processor = 0.01**2 * (1 / 3 + 1), 2 * 0.0025**2
    df = (seeds + processor) ** 2 / (seeds**2 / 2)
    half = stats.t.ppf(0.975, df) * np.sqrt(seeds + processor)
    assert row["effect"] - row["low"] == pytest.approx(half, abs=1e-5)


def examples(
    rng, effects, *, tasks=("ARXIV", "PAN"), metric="accuracy", seeds=2, number=400, **fields
):
    """Tidy rows with scores of single examples, as own runs give them. effects: model ->
    accuracy.
    """
    groups = {
        task: np.char.add("article ", rng.integers(0, 40, (number, 2)).astype(str))
        for task in tasks
    }
    hard = {task: rng.random(number) for task in tasks}
    rows = []
    for (model, accuracy), task, seed in [
        (m, t, s) for m in effects.items() for t in tasks for s in range(seeds)
    ]:
        scores = (hard[task] * 0.98 + rng.random(number) * 0.02 < accuracy).astype(float)
        rows.append((model, task, metric, seed, scores.mean(), scores, groups[task], 0.5))
    columns = ["model", "task", "metric", "seed", "value", "scores", "groups", "chance"]
    return pd.DataFrame(rows, columns=columns).assign(**fields)


def test_a_reference_student_that_the_figure_does_not_show_tells_what_a_seed_changes():
    rng = np.random.default_rng(0)
    singles = list(figure_models.printed("fig4_5").values())
    records = examples(rng, dict.fromkeys(singles, 0.7), seeds=1)
    open_ = claims.judge_claims({"fig4_5": records}).set_index("id").loc["pv-large-dimensions"]
    assert open_["verdict"] == verdicts.OPEN and "no model was run twice" in open_["note"]
    both = examples(rng, dict.fromkeys([*singles, "cosine"], 0.7), seeds=3)
    both = both[(both["model"] == "cosine") | (both["seed"] == 0)]
    row = claims.judge_claims({"fig4_5": both}).set_index("id").loc["pv-large-dimensions"]
    assert np.isfinite(row["low"]) and row["seeds"] == "1"


def test_queries_are_examples_too():
    rng = np.random.default_rng(0)
    names = ["Longformer", "DM", "PV", "SBERT", "cosine-masked", "MSE-contextual", "only-MSE"]
    accuracies = dict(zip(names, (0.2, 0.21, 0.22, 0.23, 0.24, 0.25, 0.6), strict=True))
    records = examples(rng, accuracies, tasks=("WINES", "GAMES"), metric="MAP").assign(chance=0.01)
    found = claims.judge_claims(dict.fromkeys(claims.RETRIEVAL, records)).set_index("id")
    assert found.at["retrieval-map-only-mse", "verdict"] == verdicts.HOLDS
    easier = found.loc["retrieval-games-easier"]
    assert easier["verdict"] == verdicts.OPEN and easier["decided_by"] == "GAMES against WINES"
    fewer = (
        claims.judge_claims({"fig5_6": records[records["model"] != "DM"]})
        .set_index("id")
        .loc["retrieval-games-easier"]
    )
    assert fewer["verdict"] == verdicts.NOT_RUN and "No records of DM." in fewer["note"], (
        "an average of all models"
    )


def test_cut_texts_against_whole_ones():
    rng = np.random.default_rng(0)
    names = ["Longformer", "cosine-masked", "MSE-contextual", "only-MSE"]
    both = {name + suffix: 0.75 for name in names for suffix in ("", ";cut")}
    records = examples(rng, both, number=3000, tasks=roles.CLASSIFICATION, round="all")
    row = (
        claims.judge_claims({"fig5_3": records}).set_index("id").loc["long-context-matters-little"]
    )
    assert row["verdict"] == verdicts.HOLDS and row["published_verdict"] == verdicts.NOT_RUN
    whole = records[~records["model"].str.endswith(";cut")]
    row = claims.judge_claims({"fig5_3": whole}).set_index("id").loc["long-context-matters-little"]
    assert row["verdict"] == verdicts.NOT_RUN and "No records of Longformer;cut;all" in row["note"]
    worse = examples(
        rng, both | {"only-MSE;cut": 0.65}, number=1000, tasks=roles.CLASSIFICATION, round="all"
    )
    row = claims.judge_claims({"fig5_3": worse}).set_index("id").loc["long-context-matters-little"]
    assert (
        row["verdict"] == verdicts.REVERSED
        and row["decided_by"] == "only-MSE;cut;all against only-MSE;all"
    )


def test_a_failed_check_is_not_testable_here(as_records):
    results = {
        ("contextual_teacher_above_chance", ""): "PV at chance on four of six tasks",
        ("treatment_given", "fig4_8"): "that is another figure",
        ("not_collapsed", "contextual-small-over-largest-teacher"): "one of its own",
    }
    found = claims.judge_claims({"fig4_7": as_records["fig4_7"]}, failures=results).set_index("id")
    assert "one of its own" in found.loc["contextual-small-over-largest-teacher", "note"]
    row = found.loc["pv-over-sbert"]
    assert (
        row["verdict"] == verdicts.NOT_TESTABLE
        and "PV at chance" in row["note"]
        and np.isfinite(row["effect"])
    )
    assert np.isfinite(row["p"]) and np.isnan(row["q"]), "it counts among no verdicts"
    always = claims.judge_claims(
        {"fig4_2": as_records["fig4_2"]}, failures={("heads_converged", ""): "loss still falls"}
    )
    assert set(always.loc[always["label"] == "fig4_2", "verdict"]) == {verdicts.NOT_TESTABLE}


def test_a_number_has_no_verdict():
    rows = [
        claims.judge_claims({}, numbers=ours)
        .set_index("id")
        .loc["structural-updates-under-masking"]
        for ours in ({}, {"structural_updates_ratio": 2.5})
    ]
    assert [row["verdict"] for row in rows] == [verdicts.NOT_RUN, verdicts.NUMBER]
    assert ["fig5_3" in row["note"] for row in rows] == [True, False]
    assert (
        rows[1]["published_effect"] == 3.26 and rows[1]["effect"] == 2.5 and np.isnan(rows[1]["p"])
    )


def test_missing_models_are_not_run(as_records):
    records = as_records["fig4_2"]
    found = claims.judge_claims({"fig4_2": records[records["model"] != "MSE"]}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == verdicts.NOT_RUN
    assert "No records of MSE" in found.at["cosine-over-mse", "note"]
    assert found.at["cosine-over-baselines", "verdict"] != verdicts.NOT_RUN
    assert found.at["mm-mse-best", "verdict"] == verdicts.NOT_RUN  # no figure 4.3 at all
    assert found.at["mm-mse-best", "note"].count("fig4_3") == 1
    assert found.at["imdb-longformer-best", "note"].count("fig5_3") == 1, (
        "Figure 5.4 shows the same runs"
    )


def test_missing_tasks_are_not_run(as_records):
    rounds, retrieval = (as_records[label] for label in ("fig5_3", "fig5_6"))
    fewer = {
        "fig5_3": rounds[rounds["task"] != "IMDB"],
        "fig5_6": retrieval[retrieval["task"] != "WINES"],
    }
    found = claims.judge_claims(fewer).set_index("id")
    for name in ("imdb-longformer-best", "retrieval-games-easier"):
        assert found.at[name, "verdict"] == verdicts.NOT_RUN
    assert found.at["arxiv-pv-best", "verdict"] == verdicts.OPEN  # one seed: nothing to judge by
    assert (
        found.at["all-data-sbert-best", "verdict"] != verdicts.NOT_RUN
    )  # over the five tasks that are left


def test_a_run_without_all_tasks_is_an_error(as_records):
    with pytest.raises(
        ValueError, match="every task needs the same models with the same number of seeds"
    ):
        claims.judge_claims({"fig4_2": as_records["fig4_2"].iloc[1:]})


def test_a_figures_rows_are_the_ledgers(as_records, ledger):
    for figure, source in (("fig4_3", "fig4_3"), ("fig5_4", "fig5_3"), ("fig5_6", "fig5_6")):
        rows, expected = (
            claims.judge_figure(figure, as_records[source]),
            ledger[ledger["label"] == figure],
        )
        assert len(rows) == len(expected) > 0
        for name, column in (
            ("verdict", "verdict"),
            ("decided_by", "decided_by"),
            ("published", "published_effect"),
            ("ours", "effect"),
        ):
            assert rows[name].tolist() == expected[column].tolist(), figure


def test_a_treatment_stands_before_the_round():
    (alike,) = (claim for claim in claims.load_claims() if isinstance(claim, Alike))
    _, treated = alike.sides([*claims._list_models(alike)])
    assert "only-MSE;cut;all" in treated and all(name.count(";cut;") == 1 for name in treated)
    assert claim(kind="alike", models=["cosine"], treatment="cut").sides(["cosine"]) == [
        ["cosine"],
        ["cosine;cut"],
    ]
