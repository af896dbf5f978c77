"""The claims ledger: what claims may say, the published findings, what noise and missing models do
to a verdict.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import published
from lib.chapters import published_noise
from lib.config import profiles, roles
from lib.evaluation.readouts import READOUTS
from lib.ledger import claims
from lib.ledger.claim_kinds import KINDS, match_models
from lib.published import figure_models
from lib.statistics import effects, verdicts
from lib.statistics.intervals import SeedNoise, from_runs

NOISE = SeedNoise(sd=0.002, df=8)  # a difference counts above .0065


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
    """The published scores as if they were our records: the same check must come to the same
    effects, on tasks of two classes. In Chapter 4 every model has two seeds, .002 apart, else
    one; each readout gives the same.
    """
    records = {}
    for label in (*claims.RANKINGS, *claims.RETRIEVAL):
        frame = published.load(label).rename(
            columns={"accuracy": "value", "score": "value", "identity": "printed"}
        )
        frame = frame.assign(
            model=frame.get("printed", frame["model"]), metric=frame.get("metric", "accuracy")
        )
        if label in claims.RETRIEVAL:
            chances = {name: published.load_chances("test", name) for name in ("MAP", "MRR")}
            pairs = zip(frame["metric"], frame["task"], strict=True)
            frame["chance"] = [chances[metric][task] for metric, task in pairs]
        corrected = effects.chance_corrected(frame)
        shifts = (0.001, -0.001) if label.startswith("fig4_") else (0.0,)
        runs = [
            frame.assign(seed=seed, value=0.5 + 0.5 * (corrected + add), readout=readout)
            for seed, add in enumerate(shifts)
            for readout in (["none"] if label in claims.RETRIEVAL else READOUTS)
        ]
        records[label] = with_examples(pd.concat(runs, ignore_index=True), chance=0.5)
    rounds = records["fig5_3"]
    rounds[["model", "round"]] = rounds["model"].str.rsplit(";", n=1, expand=True)
    return records


@pytest.fixture(scope="module")
def ledger(as_records):
    return claims.judge_claims(as_records, profile="mini").set_index("id")


def claim(**fields):
    given = {"section": "4.4", "figure": "fig4_2", "finding": "words", "quote": "thesis", **fields}
    return claims.parse_claim("test", given, "claims.yaml: test")


# ---------------------------------------------------------------- what the YAML says


def test_the_yaml_uses_every_kind_quotes_the_thesis_and_covers_every_figure():
    found = claims.load_claims()
    assert {one.kind for one in found} == {*KINDS}
    assert len({one.finding for one in found}) == len({one.id for one in found}) == len(found)
    assert all(len(one.quote.split()) >= 4 and one.quote != one.finding for one in found)
    figures = {one.figure for one in found}
    assert figures >= {*claims.RANKINGS, "fig5_4", "fig5_5", "fig5_6"}


BEATS = {"kind": "beats", "better": ["cosine"], "worse": ["MSE"]}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "wins"}, "unknown kind 'wins'; known: beats"),
        ({"kind": "beats", "better": ["cosine"]}, "worse: "),
        (BEATS | {"better": ["cosin"]}, "'cosin' matches no model"),
        (BEATS | {"better": ["*", "!*"]}, "leaves no model"),
        (BEATS | {"rounds": ["1k"]}, "'cosine;1k' matches no model"),
        (BEATS | {"tasks": ["PIE"]}, "'PIE' matches no"),
        (BEATS | {"figure": "fig5_1"}, "no scores per model"),
        (BEATS | {"beter": ["cosine"]}, "beter"),
        (BEATS | {"checks": ["weather"]}, "checks"),
        ({"kind": "count_beating", "group": ["*"], "baselines": ["MSE"]}, "needs at_least"),
        ({"kind": "alike", "models": ["cosin"], "treatment": "cut"}, "'cosin' matches no model"),
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
    accuracies = {"cosine": [0.8] * 6, "MSE": [0.4] * 5 + [0.8]}
    accuracies |= {"Longformer": [0.4] * 6, "SBERT": [0.2] * 6}
    records = pd.DataFrame(accuracies, index=roles.CLASSIFICATION).rename_axis("task")
    records = records.reset_index().melt("task", var_name="model").assign(seed=0)
    found = claims.judge_claims({"fig4_2": with_examples(records, chance=0.2)}).set_index("id")
    # MSE: five tasks at a quarter of the way from .2 to 1, one at three quarters
    assert found.at["cosine-over-mse", "effect"] == pytest.approx(0.75 - 2 / 6)
    assert found.at["cosine-over-mse", "arithmetic"] == ".7500 - .3333 = .4167"
    # Longformer is the closer of the two
    assert found.at["cosine-over-baselines", "effect"] == pytest.approx(0.5)
    assert found.at["cosine-over-baselines", "decided_by"] == "cosine against Longformer"
    assert found.at["sbert-over-longformer", "effect"] == pytest.approx(-0.25)


def judged(fields, noise=NOISE, **means):
    """The verdict of a claim on one task; noise: of one run."""
    index = pd.MultiIndex.from_tuples([(name, 0) for name in means], names=["model", "seed"])
    evidence = from_runs(pd.DataFrame({"PAN": list(means.values())}, index), noise=noise)
    return claim(**fields).judge_scores(evidence, list(means))


MEANS = {"cosine": 0.9, "MSE": 0.7, "Longformer": 0.6, "SBERT": 0.8}


def test_the_kth_model_decides_a_count():
    counting = {"kind": "count_beating", "group": ["cosine", "MSE", "SBERT"]}
    counting |= {"baselines": ["Longformer"]}
    assert judged(counting | {"at_least": 2}, **MEANS).decided_by == "SBERT against Longformer"
    assert judged(counting | {"at_least": 3}, **MEANS).verdict == verdicts.HOLDS
    some = counting | {"group": ["cosine", "MSE"], "baselines": ["SBERT", "Longformer"]}
    # the second of the group must stay behind the best baseline
    only = judged(some | {"at_most": 1}, **MEANS)
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


def test_the_noise_of_a_published_run_comes_from_the_gaps_of_two_pairs():
    """By hand, from the printed accuracies: PAN .7077 and .6861 and so on, each less its chance."""
    table = published_noise.tabulate_reruns()
    assert table.groupby("label").size().to_dict() == {"fig4_10": 6, "fig4_11": 6}
    accuracies = published.load("fig4_10").set_index(["model", "task"])["accuracy"]
    gap = accuracies["no-weighting", "PAN"] - accuracies["None;λ=0.5", "PAN"]
    row = table.set_index(["label", "task"]).loc[("fig4_10", "PAN")]
    assert row["gap"] == pytest.approx(gap / 0.5) and gap == pytest.approx(0.0217, abs=1e-4)
    noise = published_noise.measure_rerun_noise()
    assert noise == pytest.approx((np.sqrt((table["gap"] ** 2).mean() / 2), 12))
    without = published_noise.measure_rerun_noise(without="fig4_10")
    gaps = table.loc[table["label"] == "fig4_11", "gap"]
    assert without == pytest.approx((np.sqrt((gaps**2).mean() / 2), 6))


def test_test_examples_add_to_the_noise_of_a_published_run():
    """On IMDB, 10,000 examples and a chance of .5: half of .5 2 a (1 - a) / 10,000 / .25."""
    accuracy = published.load("fig4_3").groupby("task")["accuracy"].mean()["IMDB"]
    by_hand = np.sqrt(0.5 * accuracy * (1 - accuracy) / 10_000 / 0.25)
    assert published_noise.measure_test_noise("fig4_3", {"IMDB": 1.0}) == pytest.approx(by_hand)
    seeds, texts = (
        published_noise.measure_rerun_noise().sd,
        published_noise.measure_test_noise("fig4_3", {"IMDB": 1}),
    )
    both = published_noise.measure_published_noise("fig4_3", {"IMDB": 1.0})
    assert both.sd == pytest.approx(np.hypot(seeds, texts))
    assert both.df == pytest.approx(12 * (seeds**2 + texts**2) ** 2 / seeds**4)
    mean = published_noise.measure_published_noise("fig4_3")
    assert mean.sd < 0.6 * both.sd, "tasks are about independent"
    assert mean.least_difference == pytest.approx(0.0190, abs=1e-4)


def test_neighbours_within_noise():
    noise = published_noise.measure_published_noise("fig4_10")
    table = claims.compare_neighbours("fig4_10")
    assert len(table) == len(figure_models.printed("fig4_10")) - 1
    assert (table["within_noise"] == (table["gap"] <= noise.least_difference)).all()
    assert (table["gap"] >= 0).all() and table["within_noise"].mean() > 0.7
    rounds = claims.compare_neighbours("fig5_3")  # seven models in three rounds
    sides = [rounds[column].str.rpartition(";")[2] for column in ("model", "ahead_of")]
    assert len(rounds) == 18 and (sides[0] == sides[1]).all()


def test_published_effects_are_those_of_the_figures(thesis):
    scores = published.load("fig4_2")
    scores["score"] = (scores["accuracy"] - scores["chance"]) / (1 - scores["chance"])
    means = scores.groupby("model")["score"].mean()
    assert thesis.at["cosine-over-baselines", "effect"] == pytest.approx(
        means["cosine"] - means["SBERT"]
    )
    assert thesis.at["cosine-over-mse", "effect"] == pytest.approx(means["cosine"] - means["MSE"])
    gaps = published_noise.tabulate_reruns().groupby("label")["gap"].mean()
    found = thesis.loc[["weighting-halved-gradients-cosine", "weighting-halved-gradients-mm"]]
    assert found["effect"].tolist() == pytest.approx([gaps["fig4_10"], -gaps["fig4_11"]])


def test_published_runs_decide_what_is_larger_than_their_noise(thesis):
    """Differences of two runs count from .0190; averages of many models are surer."""
    unsure = ["few-shot-over-baselines", "only-mse-best-student", "contrastive-behind-cosine"]
    sure = ["cosine-over-mse", "cosine-over-baselines", "sbert-over-longformer"]
    sure += ["pv-large-dimensions", "weighting-masking-hurts-mm"]
    assert thesis.loc[unsure, "verdict"].eq(verdicts.OPEN).all()
    assert thesis.loc[sure, "verdict"].eq(verdicts.HOLDS).all()
    assert not thesis["verdict"].eq(verdicts.REVERSED).any(), "none contradicts its finding clearly"
    row = thesis.loc["cosine-over-mse"]
    half = published_noise.measure_published_noise("fig4_2").least_difference
    assert (row["low"], row["high"]) == pytest.approx((row["effect"] - half, row["effect"] + half))
    assert (thesis["q"] >= thesis["p"])[thesis["p"].notna()].all()


def test_a_pair_that_defines_the_yardstick_is_not_tested_by_it(thesis):
    row = thesis.loc["weighting-halved-gradients-cosine"]
    half = published_noise.measure_published_noise("fig4_10", without="fig4_10").least_difference
    assert row["high"] - row["effect"] == pytest.approx(half)
    assert half > published_noise.measure_published_noise("fig4_10").least_difference


# ---------------------------------------------------------------- the ledger


def test_published_numbers_as_records_give_the_published_effects(thesis, ledger):
    # its evidence: tests/news/test_results.py
    thesis = thesis[~thesis.index.str.startswith("news-")]
    ours = ledger.loc[thesis.index]
    assert (ours["verdict"] != verdicts.NOT_RUN).all()
    for prefix in claims.READOUT_OF_PREFIX:
        np.testing.assert_allclose(ours[f"{prefix}effect"], thesis["effect"], atol=1e-12)
    assert (ledger["profile"] == "mini").all()
    for chapter, seeds in (("fig4_", "2"), ("fig5_", "1")):
        assert set(ours.loc[ours["label"].str.startswith(chapter), "seeds"]) <= {seeds, ""}


def test_the_verdict_follows_the_noise_of_seeds(ledger):
    """By hand: seeds .002 apart have a variance of .002^2 / 2, known from two students, so that a
    difference of means over two has .002^2 / 2. The processor adds 2 times .0025^2 / 2 where heads
    are trained, which is known: (.000002 + .00000625)^2 / (.000002^2 / 2) = 34 degrees of freedom,
    and t(.975, 34.03) = 2.0322. Heads that compare have the seeds' two degrees of freedom, 4.3027.
    """
    row = ledger.loc["cosine-over-mse"]
    assert row["verdict"] == verdicts.HOLDS
    error = np.sqrt(0.000002 + 0.00000625)
    assert row["effect"] - row["low"] == pytest.approx(2.0322 * error, abs=1e-6)
    half = row["compare_effect"] - row["compare_low"]
    assert half == pytest.approx(4.3027 * np.sqrt(0.000002), abs=1e-6)
    # One run of each model: nothing is known about noise.
    assert ledger.at["retrieval-mrr-cosine-masked", "verdict"] == verdicts.OPEN
    assert "no model was run twice" in ledger.at["retrieval-mrr-cosine-masked", "note"]


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
    return pd.DataFrame(rows, columns=columns).assign(**{"readout": "thesis"} | fields)


def test_a_reference_that_the_figure_does_not_show_tells_what_a_seed_changes():
    rng = np.random.default_rng(0)
    singles = list(figure_models.printed("fig4_5").values())
    records = examples(rng, dict.fromkeys(singles, 0.7), seeds=1)
    open_ = claims.judge_claims({"fig4_5": records}).set_index("id").loc["pv-large-dimensions"]
    assert open_["verdict"] == verdicts.OPEN and "no model was run twice" in open_["note"]
    other = "DBOW;64;None;2"
    for name, known in ((other, True), ("cosine", False)):
        both = examples(rng, dict.fromkeys([*singles, name], 0.7), seeds=3)
        both = both[(both["model"] == name) | (both["seed"] == 0)]
        row = claims.judge_claims({"fig4_5": both}).set_index("id").loc["pv-large-dimensions"]
        assert np.isfinite(row["low"]) is np.bool_(known), "a student is another class"
        assert row["seeds"] == "1"


def test_queries_are_examples_too():
    rng = np.random.default_rng(0)
    names = ["Longformer", "DM", "PV", "SBERT", "cosine-masked", "MSE-contextual", "only-MSE"]
    accuracies = dict(zip(names, (0.2, 0.21, 0.22, 0.23, 0.24, 0.25, 0.6), strict=True))
    records = examples(rng, accuracies, tasks=("WINES", "GAMES"), metric="MAP").assign(chance=0.01)
    found = claims.judge_claims(dict.fromkeys(claims.RETRIEVAL, records)).set_index("id")
    assert found.at["retrieval-map-only-mse", "verdict"] == verdicts.HOLDS
    easier = found.loc["retrieval-games-easier"]
    assert easier["verdict"] == verdicts.OPEN and easier["decided_by"] == "GAMES against WINES"
    fewer = claims.judge_claims({"fig5_6": records[records["model"] != "DM"]}).set_index("id")
    fewer = fewer.loc["retrieval-games-easier"]  # an average of all models
    assert fewer["verdict"] == verdicts.NOT_RUN and "No records of DM." in fewer["note"]


def test_cut_texts_against_whole_ones():
    rng = np.random.default_rng(0)
    names = ["Longformer", "cosine-masked", "MSE-contextual", "only-MSE"]
    both = {name + suffix: 0.75 for name in names for suffix in ("", ";cut")}
    records = examples(rng, both, number=3000, tasks=roles.CLASSIFICATION, round="all")

    def judge(frame):
        table = claims.judge_claims({"fig5_3": frame}, label="fig5_3").set_index("id")
        return table.loc["long-context-matters-little"]

    row = judge(records)
    assert row["verdict"] == verdicts.HOLDS and row["published_verdict"] == verdicts.NOT_RUN
    row = judge(records[~records["model"].str.endswith(";cut")])
    assert row["verdict"] == verdicts.NOT_RUN and "No records of Longformer;cut;all" in row["note"]
    values = both | {"only-MSE;cut": 0.65}
    worse = examples(rng, values, number=1000, tasks=roles.CLASSIFICATION, round="all")
    assert judge(worse)["verdict"] == verdicts.REVERSED
    assert judge(worse)["decided_by"] == "only-MSE;cut;all against only-MSE;all"
    table = claims.compare_cut(worse).set_index("left")
    assert table.loc["only-MSE;all", "verdict"] == verdicts.HOLDS and len(table) == 4


def test_the_mean_of_the_final_students_is_judged_against_each_rival():
    rng = np.random.default_rng(0)
    scores = {"cosine-masked": 0.8, "MSE-contextual": 0.7, "only-MSE": 0.75}
    scores |= {"Longformer": 0.6, "TF-IDF": 0.8}
    records = examples(rng, scores, number=4000, tasks=["OC", "AAN"], round="all")
    records = records.assign(readout="compare")
    table = claims.compare_students(records, ["Longformer", "TF-IDF", "LSA"])
    assert table["rival"].tolist() == ["Longformer", "TF-IDF"]
    assert table["difference"].tolist() == pytest.approx([0.3, -0.1], abs=0.03)
    assert table["verdict"].tolist() == [verdicts.HOLDS, verdicts.REVERSED]
    alone = claims.compare_students(records[records["task"] == "OC"], ["Longformer"])
    assert claims.compare_students(records, ["Longformer"], ["OC"]).equals(alone)
    short = claims.compare_students(records.assign(readout="thesis"), ["Longformer", "TF-IDF"])
    assert short["rival"].tolist() == ["Longformer"], "TF-IDF's classifier always converges"


def test_students_are_judged_against_each_rival_in_retrieval():
    rng = np.random.default_rng(0)
    scores = {"cosine-masked": 0.8, "MSE-contextual": 0.7, "only-MSE": 0.75, "SBERT": 0.6}
    records = examples(rng, scores, number=4000, tasks=["WINES", "GAMES"], round="")
    table = claims.compare_retrieval(records.assign(metric="MAP"), ["SBERT", "LSA"])
    assert table["rival"].tolist() == ["SBERT"] and table["verdict"].tolist() == [verdicts.HOLDS]
    gain = 0.15 / (1 - records["chance"].iloc[0])
    assert table["difference"].iloc[0] == pytest.approx(gain, abs=0.03)


def read_out(with_examples, **effects_by_readout):
    """Records of Figure 4.2: cosine ahead of MSE by so much, by each readout."""
    rows = []
    for readout, effect in effects_by_readout.items():
        for task in roles.CLASSIFICATION:
            for seed, shift in enumerate((0.001, -0.001)):
                for model, value in (("cosine", 0.6 + effect), ("MSE", 0.6)):
                    rows.append((model, task, seed, value + shift, readout))
    frame = pd.DataFrame(rows, columns=["model", "task", "seed", "value", "readout"])
    return {"fig4_2": with_examples(frame)}


@pytest.mark.parametrize(
    ("effects_by_readout", "words"),
    [
        ({"thesis": -0.1, "compare": 0.1, "none": 0.05}, (verdicts.REVERSED, verdicts.HOLDS)),
        ({"thesis": 0.1, "compare": 0.1, "none": -0.1}, (verdicts.HOLDS, verdicts.DISAGREE)),
        ({"thesis": 0.1, "compare": 0.001, "none": 0.1}, (verdicts.HOLDS, verdicts.DISAGREE)),
        ({"thesis": 0.1, "compare": 0.1}, (verdicts.HOLDS, verdicts.NOT_RUN)),
        ({"compare": -0.1, "none": -0.1}, (verdicts.NOT_RUN, verdicts.REVERSED)),
    ],
)
def test_a_finding_repeats_by_one_readout_and_survives_by_two(
    with_examples, effects_by_readout, words
):
    scores = read_out(with_examples, **effects_by_readout)
    row = claims.judge_claims(scores, label="fig4_2").set_index("id").loc["cosine-over-mse"]
    assert (row["verdict"], row["survives"]) == words
    for readout, effect in effects_by_readout.items():
        prefix = {"thesis": ""}.get(readout, f"{readout}_")
        assert row[f"{prefix}effect"] == pytest.approx(effect)
    if row["survives"] != verdicts.NOT_RUN:
        same = effects_by_readout["compare"] * effects_by_readout["none"] > 0
        larger = max(row["compare_p"], row["none_p"])
        assert row["survives_p"] == pytest.approx(larger if same else 1.0)


def test_rankings_have_no_readouts_so_the_two_questions_are_one(ledger):
    rows = ledger.loc[ledger["label"].isin(claims.RETRIEVAL)]
    assert (rows["verdict"] == rows["survives"]).all() and len(rows) >= 4


def test_an_open_finding_whose_interval_excludes_the_published_size_is_smaller(with_examples):
    """The published lead is .1724; ours is .05 with seeds that move by .1."""
    scores = read_out(with_examples, thesis=0.05, compare=0.05, none=0.05)
    frame = scores["fig4_2"]
    for spread, word in ((0.02, verdicts.SMALLER), (0.2, verdicts.OPEN)):
        wider = frame["seed"].map({0: spread, 1: -spread}) * (frame["model"] == "cosine")
        moved = with_examples(frame.assign(value=frame["value"] + wider))
        found = claims.judge_claims({"fig4_2": moved}, label="fig4_2").set_index("id")
        row = found.loc["cosine-over-mse"]
        assert row["low"] < 0 < row["high"] and row["verdict"] == word == row["survives"]
        assert (row["high"] < row["published_effect"]) is np.bool_(word == verdicts.SMALLER)


def final_records(with_examples, values):
    """Records of Chapter 5 by every readout: model -> accuracy."""
    rows = [
        (model, part, task, seed, value + 0.001 * seed, readout)
        for model, value in values.items()
        for part in ("1k", "10k", "all")
        for task in roles.CLASSIFICATION
        for seed in (0, 1)
        for readout in READOUTS
    ]
    columns = ["model", "round", "task", "seed", "value", "readout"]
    return {"fig5_3": with_examples(pd.DataFrame(rows, columns=columns))}


def test_a_finding_that_the_untrained_base_passes_as_well_is_vacuous(with_examples):
    values = {"cosine-masked": 0.7, "PV": 0.5, "DM": 0.4, "SBERT": 0.65}
    values |= {"MSE-contextual": 0.68, "only-MSE": 0.69}
    for base, vacuous in ((0.6, "yes"), (0.5, ""), (0.3, "")):
        scores = final_records(with_examples, values | {"Longformer": base})
        found = claims.judge_claims(scores, label="fig5_3").set_index("id")
        row = found.loc["cosine-masked-over-its-teacher"]
        assert row["verdict"] == row["survives"] == verdicts.HOLDS
        assert row["vacuous"] == row["compare_vacuous"] == vacuous
        against_base = found.loc["all-data-students-over-context"]
        assert against_base["verdict"] == verdicts.HOLDS and against_base["vacuous"] == ""
        between = found.loc["mse-contextual-second"]
        assert between["vacuous"] == "", "student against student says nothing about the base"


def test_rounds_of_one_student_are_no_more_seeds(with_examples):
    """Three students with two seeds each, in three rounds: three degrees of freedom, not nine."""
    names = ("cosine-masked", "MSE-contextual", "only-MSE", "PV", "DM", "SBERT", "Longformer")
    scores = final_records(with_examples, dict.fromkeys(names, 0.6))
    evidence = claims._collect_evidence(
        scores["fig5_3"], "fig5_3", "accuracy", {"OC": 1.0}, "compare"
    )
    assert {name: noise.df for name, noise in evidence.noise.items()} == {
        "student": 3,
        "paragraph_vector": 2,
    }
    names = list(evidence.means.index)
    first, last, other = map(names.index, ("only-MSE;1k", "only-MSE;all", "cosine-masked;all"))
    assert evidence.together[first, [last, other]] == pytest.approx([1, 0])


def test_the_mean_over_published_rounds_is_no_surer_than_one_round(thesis):
    """Three students against the base, by hand."""
    row = thesis.loc["abstract-citations"]
    weights = dict.fromkeys(("OC", "AAN", "S2ORC"), 1 / 3)
    noise = published_noise.measure_published_noise("fig5_3", weights)
    half = stats.t.ppf(0.975, noise.df) * noise.sd * np.sqrt(1 / 3 + 1)
    assert row["high"] - row["effect"] == pytest.approx(half)


def test_a_failed_check_is_not_testable_here(as_records):
    results = {
        ("contextual_teacher_above_chance", ""): "PV at chance on four of six tasks",
        ("treatment_given", "fig4_8"): "that is another figure",
        ("treatment_given", "contextual-small-over-largest-teacher"): "one of its own",
    }
    found = claims.judge_claims({"fig4_7": as_records["fig4_7"]}, failures=results).set_index("id")
    assert "one of its own" in found.loc["contextual-small-over-largest-teacher", "note"]
    row = found.loc["pv-over-sbert"]
    assert row["verdict"] == verdicts.NOT_TESTABLE
    assert "PV at chance" in row["note"]
    assert np.isfinite(row["effect"])
    assert np.isfinite(row["p"]) and np.isnan(row["q"]), "it counts among no verdicts"
    always = claims.judge_claims(
        {"fig4_2": as_records["fig4_2"]}, failures={("task_not_at_chance", ""): "IMDB"}
    )
    assert set(always.loc[always["label"] == "fig4_2", "verdict"]) == {verdicts.NOT_TESTABLE}


def test_a_number_has_no_verdict():
    tables = [claims.judge_claims({}, numbers={"structural_updates_ratio": 2.5})]
    tables.append(claims.judge_claims({}))
    row, none = (each.set_index("id").loc["structural-updates-under-masking"] for each in tables)
    assert none["verdict"] == verdicts.NOT_RUN and "fig5_3" in none["note"]
    assert row["verdict"] == verdicts.NUMBER and "fig5_3" not in row["note"]
    assert (row["published_effect"], row["effect"]) == (3.26, 2.5) and np.isnan(row["p"])


def test_missing_models_are_not_run(as_records):
    records = as_records["fig4_2"]
    found = claims.judge_claims({"fig4_2": records[records["model"] != "MSE"]}).set_index("id")
    assert found.at["cosine-over-mse", "verdict"] == verdicts.NOT_RUN
    assert "No records of MSE" in found.at["cosine-over-mse", "note"]
    assert found.at["cosine-over-baselines", "verdict"] != verdicts.NOT_RUN
    assert found.at["mm-mse-best", "verdict"] == verdicts.NOT_RUN  # no figure 4.3 at all
    assert found.at["mm-mse-best", "note"].count("fig4_3") == 1
    rounds = as_records["fig5_3"]
    fewer = {"fig5_3": rounds[rounds["task"] != "IMDB"]}
    found = claims.judge_claims(fewer).set_index("id")
    assert found.at["imdb-longformer-best", "verdict"] == verdicts.NOT_RUN
    assert found.at["all-data-sbert-best", "verdict"] != verdicts.NOT_RUN, "over five tasks"


def test_a_run_without_all_tasks_is_an_error(as_records):
    with pytest.raises(
        ValueError, match="every task needs the same models with the same number of seeds"
    ):
        claims.judge_claims({"fig4_2": as_records["fig4_2"].iloc[1:]})


def test_a_figures_rows_are_the_ledgers(as_records, ledger):
    for figure, source in (("fig4_3", "fig4_3"), ("fig5_4", "fig5_3"), ("fig5_6", "fig5_6")):
        rows = claims.judge_figure(figure, as_records[source])
        expected = ledger[ledger["label"] == figure]
        assert len(rows) == len(expected) > 0
        for name, column in (
            ("verdict", "verdict"),
            ("decided_by", "decided_by"),
            ("published", "published_effect"),
            ("ours", "effect"),
            ("none_verdict", "none_verdict"),
            ("survives", "survives"),
        ):
            assert rows[name].tolist() == expected[column].tolist(), figure
