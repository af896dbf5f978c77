"""The published findings, and what noise, readouts and missing models do to a verdict."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import published
from lib.chapters import chapter4
from lib.config import manifest, paths
from lib.evaluation.ranking import TOPS
from lib.evaluation.readouts import READOUTS
from lib.ledger import claims
from lib.ledger.checks import Check
from lib.ledger.kinds import load_claims
from lib.statistics import effects, verdicts

STUDENTS = ("cosine-masked", "MSE-contextual", "only-MSE")


@pytest.fixture(scope="module")
def thesis():
    """The published side of the ledger, without what is no difference of scores."""
    ledger = claims.judge_claims({}).set_index("id")
    judged = ~ledger["published_verdict"].isin([verdicts.NUMBER, verdicts.NOT_RUN])
    rows = ledger.loc[judged].filter(regex="^published_").rename(columns=lambda name: name[10:])
    return rows.join(ledger["label"])


@pytest.fixture(scope="module")
def as_records(with_examples):
    """The published scores as if they were our records, on tasks of two classes, by every readout.

    In Chapter 4 every model has two seeds, .002 apart, else one.
    """
    records = {}
    for label in (*published.BOXPLOTS, *claims.RETRIEVAL):
        frame = published.load(label).rename(columns={"accuracy": "value", "score": "value"})
        frame = frame.assign(model=frame.get("identity", frame["model"]))
        if retrieval := label in claims.RETRIEVAL:
            chances = {name: published.load_chances("test", name) for name in ("MAP", "MRR")}
            pairs = zip(frame["metric"], frame["task"], strict=True)
            frame["chance"] = [chances[metric][task] for metric, task in pairs]
        corrected = effects.chance_corrected(frame)
        shifts = (0.001, -0.001) if label.startswith("fig4_") else (0.0,)
        runs = [
            frame.assign(seed=seed, value=0.5 + 0.5 * (corrected + add), readout=readout)
            for seed, add in enumerate(shifts)
            for readout in (TOPS if retrieval else READOUTS)
        ]
        records[label] = with_examples(pd.concat(runs, ignore_index=True), chance=0.5)
    rounds = records["fig5_3"]
    rounds[["model", "round"]] = rounds["model"].str.rsplit(";", n=1, expand=True)
    return records


def judge(scores, label="", **options) -> pd.DataFrame:
    return claims.judge_claims(scores, label=label, **options).set_index("id")


@pytest.fixture(scope="module")
def ledger(as_records):
    return judge(as_records, profile="mini")


def make_records(with_examples, values, readouts=tuple(READOUTS), rounds=("",)):
    """Records with two seeds, .002 apart: model -> accuracy, or readout -> model -> accuracy."""
    rows = [
        (model, part, task, seed, value + shift, readout)
        for readout in readouts
        for model, value in values.get(readout, values).items()
        for part in rounds
        for task in manifest.CLASSIFICATION
        for seed, shift in enumerate((0.001, -0.001))
    ]
    columns = ["model", "round", "task", "seed", "value", "readout"]
    return with_examples(pd.DataFrame(rows, columns=columns))


def test_the_noise_of_a_published_run_comes_from_the_gaps_of_two_pairs():
    """By hand, from the printed accuracies: PAN .7077 and .6861 and so on, each less its chance."""
    table = chapter4.tabulate_reruns().set_index("label")
    accuracies = published.load("fig4_10").set_index(["model", "task"])["accuracy"]
    gap = accuracies["no-weighting", "PAN"] - accuracies["None;λ=0.5", "PAN"]
    row = table.loc["fig4_10"].set_index("task").loc["PAN"]
    assert row["gap"] == pytest.approx(gap / 0.5) and gap == pytest.approx(0.0217, abs=1e-4)
    for without, gaps in {"": table["gap"], "fig4_10": table.loc["fig4_11", "gap"]}.items():
        noise = chapter4.measure_rerun_noise(without=without)
        assert noise == pytest.approx((np.sqrt((gaps**2).mean() / 2), len(gaps)))


def test_test_examples_add_to_the_noise_of_a_published_run():
    """On IMDB, 10,000 examples and a chance of .5: half of .5 2 a (1 - a) / 10,000 / .25."""
    accuracy = published.load("fig4_3").groupby("task")["accuracy"].mean()["IMDB"]
    texts = chapter4.measure_test_noise("fig4_3", {"IMDB": 1.0})
    assert texts == pytest.approx(np.sqrt(0.5 * accuracy * (1 - accuracy) / 10_000 / 0.25))
    seeds = chapter4.measure_rerun_noise().sd
    df = 12 * (seeds**2 + texts**2) ** 2 / seeds**4
    both = chapter4.measure_published_noise("fig4_3", {"IMDB": 1.0})
    assert both == pytest.approx((np.hypot(seeds, texts), df))
    mean = chapter4.measure_published_noise("fig4_3")
    assert mean.least_difference == pytest.approx(0.0190, abs=1e-4)


def test_twins_of_the_news_paper_tell_its_noise():
    f1 = published.load(published.NEWS).groupby("model")["value"].mean()
    names = ["BiLSTM(2)+1 linear;cosine", "BiGRU(2)+1 linear;cosine", "BiGRU+1 linear;cosine"]
    gaps = [f1[name] - f1[f"{name};plateau"] for name in names]
    sd = np.sqrt(np.mean(np.square(gaps)) / 2)
    assert claims.measure_twin_noise() == pytest.approx((sd, 3))


def test_published_runs_decide_what_is_larger_than_their_noise(thesis):
    """Differences of two runs count from .0190; averages of many models are surer."""
    unsure = ["few-shot-over-baselines", "only-mse-best-student", "contrastive-behind-cosine"]
    sure = ["cosine-over-mse", "cosine-over-baselines", "sbert-over-longformer"]
    sure += ["pv-large-dimensions", "weighting-masking-hurts-mm"]
    assert thesis.loc[unsure, "verdict"].eq(verdicts.OPEN).all()
    assert thesis.loc[sure, "verdict"].eq(verdicts.HOLDS).all()
    row = thesis.loc["cosine-over-mse"]
    half = chapter4.measure_published_noise("fig4_2").least_difference
    assert (row["low"], row["high"]) == pytest.approx((row["effect"] - half, row["effect"] + half))
    of_news = thesis["label"].str.startswith("news")
    for rows in (thesis[of_news], thesis[~of_news]):
        tested = rows[rows["p"].notna()]
        assert tested["q"].to_numpy() == pytest.approx(stats.false_discovery_control(tested["p"]))


def test_a_pair_that_defines_the_yardstick_is_not_tested_by_it(thesis):
    row = thesis.loc["weighting-halved-gradients-cosine"]
    half = chapter4.measure_published_noise("fig4_10", without="fig4_10").least_difference
    assert row["high"] - row["effect"] == pytest.approx(half)
    assert half > chapter4.measure_published_noise("fig4_10").least_difference


def test_the_mean_over_published_rounds_is_no_surer_than_one_round(thesis):
    """Three students against the base, by hand."""
    row, weights = thesis.loc["abstract-citations"], dict.fromkeys(("OC", "AAN", "S2ORC"), 1 / 3)
    noise = chapter4.measure_published_noise("fig5_3", weights)
    half = stats.t.ppf(0.975, noise.df) * noise.sd * np.sqrt(1 / 3 + 1)
    assert row["high"] - row["effect"] == pytest.approx(half)


@pytest.mark.parametrize("profile", ["mini", "lab"])
def test_the_committed_ledger_is_one_of_today(thesis, profile):
    kept = pd.read_csv(paths.ROOT / f"figures/{profile}/tab_claims.csv", keep_default_na=False)
    assert {*claims.COLUMNS} <= {*kept} and kept["rules"].nunique() == 1
    assert kept["id"].tolist() == [claim.id for claim in load_claims()]
    kept = kept.set_index("id").loc[thesis.index]
    effect = kept["published_effect"].astype(float).to_numpy()
    assert effect == pytest.approx(thesis["effect"].to_numpy(), abs=1e-6)
    clear = (thesis["p"] - 0.05).abs() > 0.01  # tests draw less often
    clear &= kept["rules"].eq(verdicts.RULES)  # those of lab are older
    assert kept.loc[clear, "published_verdict"].equals(thesis.loc[clear, "verdict"])


def test_published_numbers_as_records_give_the_published_effects(thesis, ledger):
    thesis = thesis[~thesis["label"].str.startswith("news")]  # its evidence: tests/news
    ours = ledger.loc[thesis.index]
    assert (ours["verdict"] != verdicts.NOT_RUN).all() and (ledger["profile"] == "mini").all()
    for prefix in claims.PREFIXES.values():
        np.testing.assert_allclose(ours[f"{prefix}effect"], thesis["effect"], atol=1e-12)
    for chapter, seeds in (("fig4_", "2"), ("fig5_", "1")):
        assert set(ours.loc[ours["label"].str.startswith(chapter), "seeds"]) <= {seeds, ""}


def test_the_verdict_follows_the_noise_of_seeds(ledger):
    """By hand: seeds .002 apart have a variance of .002^2 / 2, known from two students, so that a
    difference of means over two has .002^2 / 2. The processor adds 2 times .004^2 / 2 where heads
    are trained, which is known: (.000002 + .000016)^2 / (.000002^2 / 2) = 162 degrees of freedom.
    Heads that compare add .001^2, and have (.000002 + .000001)^2 / (.000002^2 / 2) = 4.5 of them.
    """
    row, error = ledger.loc["cosine-over-mse"], np.sqrt(0.000002 + 0.000016)
    assert row["effect"] - row["low"] == pytest.approx(stats.t.ppf(0.975, 162) * error, abs=1e-6)
    half = row["compare_effect"] - row["compare_low"]
    assert half == pytest.approx(stats.t.ppf(0.975, 4.5) * np.sqrt(0.000003), abs=1e-6)
    # One run of each model: nothing is known about noise.
    assert ledger.at["retrieval-mrr-cosine-masked", "verdict"] == verdicts.OPEN
    assert "no model was run twice" in ledger.at["retrieval-mrr-cosine-masked", "note"]


@pytest.mark.parametrize(("name", "of_class"), [("DBOW;64;None;2", True), ("cosine", False)])
def test_a_reference_that_the_figure_does_not_show_tells_what_a_seed_changes(
    with_examples, name, of_class
):
    """A student is another class than a Paragraph Vector."""
    singles = published.printed("fig4_5").values()
    records = make_records(with_examples, dict.fromkeys([*singles, name], 0.7))
    records = records[(records["model"] == name) | (records["seed"] == 0)]
    row = judge({"fig4_5": records}, "fig4_5").loc["pv-large-dimensions"]
    assert np.isfinite(row["low"]) == of_class and row["seeds"] == "1"


@pytest.mark.parametrize(
    ("by_readout", "words"),
    [
        ({"thesis": -0.1, "compare": 0.1, "none": 0.05}, (verdicts.REVERSED, verdicts.HOLDS)),
        ({"thesis": 0.1, "compare": 0.1, "none": -0.1}, (verdicts.HOLDS, verdicts.DISAGREE)),
        ({"thesis": 0.1, "compare": 0.001, "none": 0.1}, (verdicts.HOLDS, verdicts.DISAGREE)),
        ({"thesis": 0.1, "compare": 0.1}, (verdicts.HOLDS, verdicts.NOT_RUN)),
        ({"compare": -0.1, "none": -0.1}, (verdicts.NOT_RUN, verdicts.REVERSED)),
    ],
)
def test_a_finding_repeats_by_one_readout_and_survives_by_two(with_examples, by_readout, words):
    values = {name: {"cosine": 0.6 + lead, "MSE": 0.6} for name, lead in by_readout.items()}
    records = make_records(with_examples, values, [*by_readout])
    row = judge({"fig4_2": records}, "fig4_2").loc["cosine-over-mse"]
    assert (row["verdict"], row["survives"]) == words
    for readout, lead in by_readout.items():
        assert row[f"{claims.PREFIXES[readout]}effect"] == pytest.approx(lead)
    if row["survives"] != verdicts.NOT_RUN:
        larger = max(row["compare_p"], row["none_p"])
        same_way = by_readout["compare"] * by_readout["none"] > 0
        assert row["survives_p"] == pytest.approx(larger if same_way else 1.0)


@pytest.mark.parametrize(("spread", "word"), [(0.02, verdicts.SMALLER), (0.2, verdicts.OPEN)])
def test_an_interval_that_excludes_the_published_size_is_smaller(with_examples, spread, word):
    """The published lead is .1724; ours is .05 with seeds that move."""
    frame = make_records(with_examples, {"cosine": 0.65, "MSE": 0.6})
    wider = frame["seed"].map({0: spread, 1: -spread}) * (frame["model"] == "cosine")
    moved = with_examples(frame.assign(value=frame["value"] + wider))
    row = judge({"fig4_2": moved}, "fig4_2").loc["cosine-over-mse"]
    assert row["low"] < 0 < row["high"] and row["verdict"] == word == row["survives"]


def test_rounds_of_one_student_are_no_more_seeds(with_examples):
    """Three students with two seeds each, in three rounds: three degrees of freedom, not nine."""
    names = (*STUDENTS, "PV", "DM", "SBERT", "Longformer")
    scores = make_records(with_examples, dict.fromkeys(names, 0.6), rounds=("1k", "10k", "all"))
    asked = "fig5_3", "accuracy", "compare", (("OC", 1.0),)
    evidence = claims.collect_evidence({"fig5_3": scores}, *asked)
    df = {name: noise.df for name, noise in evidence.noise.items()}
    assert df == {"student": 3, "paragraph_vector": 2}
    names = ["only-MSE;1k", "only-MSE;all", "cosine-masked;all"]
    first, last, other = map(list(evidence.means.index).index, names)
    assert evidence.together[first, [last, other]] == pytest.approx([1, 0])


def test_a_failed_check_is_not_testable_here(as_records):
    def check(name, label, words):
        return Check(name, label, words, 0.0, needed="more", passed=False)

    failed = [
        check("contextual_teacher_above_chance", "", "PV at chance"),
        check("treatment_given", "fig4_8", "that is another figure"),
        check("treatment_given", "contextual-small-over-largest-teacher", "one of its own"),
    ]
    scores = {"fig4_7": as_records["fig4_7"]}
    table = judge(scores, "fig4_7", checked=pd.DataFrame(failed))
    assert "one of its own" in table.at["contextual-small-over-largest-teacher", "note"]
    row = table.loc["pv-over-sbert"]
    assert row["verdict"] == verdicts.NOT_TESTABLE and "PV at chance is 0.00" in row["note"]
    assert np.isfinite(row["effect"]) and not table["note"].str.contains("another figure").any()
    assert np.isfinite(row["p"]) and np.isnan(row["q"]), "it counts among no verdicts"
    passed = pd.DataFrame([each._replace(passed=None) for each in failed])
    assert judge(scores, "fig4_7", checked=passed).equals(judge(scores, "fig4_7"))


def test_missing_models_are_not_run(as_records):
    records = as_records["fig4_2"]
    table = judge({"fig4_2": records[records["model"] != "MSE"]}, "fig4_")
    assert table.at["cosine-over-mse", "verdict"] == verdicts.NOT_RUN
    assert "No records of MSE" in table.at["cosine-over-mse", "note"]
    assert table.at["cosine-over-baselines", "verdict"] != verdicts.NOT_RUN
    assert table.at["mm-mse-best", "note"].count("fig4_3") == 1  # no Figure 4.3 at all
    rounds = as_records["fig5_3"]
    table = judge({"fig5_3": rounds[rounds["task"] != "IMDB"]}, "fig5_")
    assert table.at["imdb-longformer-best", "verdict"] == verdicts.NOT_RUN
    assert table.at["all-data-sbert-best", "verdict"] != verdicts.NOT_RUN, "over five tasks"
    with pytest.raises(ValueError, match="other seeds"):
        judge({"fig4_2": records.iloc[1:]}, "fig4_2")


def test_cut_texts_against_whole_ones(with_examples):
    both = {f"{name}{end}": 0.75 for name in ("Longformer", *STUDENTS) for end in ("", ";cut")}

    def judge_alike(values):
        records = make_records(with_examples, values, rounds=("all",))
        rng = np.random.default_rng(0)  # no example of the base, which has no seeds, is the same
        records["scores"] = [scores + rng.normal(0, 0.002, 10) for scores in records["scores"]]
        return judge({"fig5_3": records}, "fig5_3").loc["long-context-matters-little"]

    row = judge_alike(both)
    assert row["verdict"] == verdicts.HOLDS and row["published_verdict"] == verdicts.NOT_RUN
    row = judge_alike({name: value for name, value in both.items() if name != "Longformer;cut"})
    assert row["verdict"] == verdicts.NOT_RUN and "No records of Longformer;cut;all" in row["note"]
    row, words = judge_alike(both | {"only-MSE;cut": 0.65}), "only-MSE;cut;all against only-MSE;all"
    assert (row["verdict"], row["decided_by"]) == (verdicts.REVERSED, words)
