"""How far results hang on heads and on the length of training."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import sensitivity
from lib.config import profiles
from lib.config.profiles import grid
from tests.fake_bench import FakeBench

HEADS, STUDENTS, TIMES = (grid("beyond")[name] for name in ("heads", "students", "times"))


def run_falling(bench, identities, *, seeds):
    """As `Bench.run`: a score falls by a tenth for each 24 documents that a student saw."""
    rows = []
    for identity in identities:
        for seed in seeds:
            value = (
                0.9 if identity == "Longformer" else 0.9 - bench.profile.training.documents / 240
            )
            scores = (np.arange(200) < round(200 * value)).astype(float)
            row = {
                "model": identity,
                "task": "OC",
                "seed": seed,
                "value": value,
                "chance": 0.5,
                "scores": scores,
            }
            rows.append(row | {"groups": np.arange(200).astype(str)})
    return pd.DataFrame(rows)


def load_bench(**overrides):
    return FakeBench(profiles.load("smoke", overrides=overrides), run=run_falling)


@pytest.fixture
def bench():
    return load_bench(max_variants=None)


@pytest.fixture
def frame(bench):
    return sensitivity.run_longer(bench)


def test_each_length_is_a_training_of_its_own_from_the_base_to_four_times(frame, bench):
    counts = frame.groupby(["times", "updates"])["model"].nunique().to_dict()
    assert counts == {(0, 0): 1, (1, 4): 5, (4, 16): 5}
    assert set(frame["seed"]) == set(bench.profile.reference_seeds)


def test_scores_are_chance_corrected_and_every_student_is_asked_for_its_own_halves(frame):
    asked = set()

    def find_halves(bench, model, seed):
        asked.add((model, bench.profile.training.documents))
        return 0.5

    profile = profiles.load("smoke", overrides={"max_variants": None})
    table = sensitivity.tabulate_lengths(frame, FakeBench(profile, halves_mrr=find_halves))
    cosine = table[(table["model"] == "cosine") & (table["seed"] == 0)]
    assert cosine["updates"].tolist() == [4, 16]
    assert cosine["accuracy"].tolist() == pytest.approx([0.6, 0.0])
    assert [*table] == ["model", "updates", "seed", "accuracy", "halves"]
    expected = {(model, 24 * times) for model in STUDENTS.values() for times in TIMES}
    assert asked == expected | {("Longformer", 24)}


def test_what_more_training_changes_is_judged_over_texts(frame):
    table = sensitivity.judge_lengths(frame).set_index(["left", "right"])
    assert table.loc[("cosine ×4", "cosine ×1"), "difference"] == pytest.approx(-0.6)
    assert table.loc[("cosine ×4", "cosine ×1"), "verdict"] == "reversed"
    assert len(table) == 5 * 2 + 5 + 2 * 2 and ("cosine ×4", "MSE ×4") in table.index


def test_a_small_corpus_ends_the_lengths_early_and_max_variants_the_students():
    small = load_bench(**{"corpus.train_documents": 50, "max_variants": 2})
    frame = sensitivity.run_longer(small)
    assert sorted(set(frame["times"])) == [0, 1]
    assert len(sensitivity.judge_lengths(frame)) == 2 + 1  # two students, and one pair of rivals


def test_three_seeds_are_enough_however_many_a_larger_size_has():
    many = load_bench(reference_seeds=[0, 1, 2, 3])
    assert set(sensitivity.run_longer(many)["seed"]) == {0, 1, 2}


@pytest.fixture
def under_heads():
    """Records of contrastive, MSE, cosine, teacher and base under every setting of heads, and the
    settings.

    With raw features MSE is right where cosine is wrong, with all others the reverse.
    """
    asked = []

    def run(bench, models, *, seeds):
        heads, rows = bench.profile.heads, []
        asked.append((heads.features, heads.steps, heads.repeats, heads.classifier, len(models)))
        ahead = "MSE" if heads.features == "raw" and heads.classifier == "head" else "cosine"
        for model, task, seed in itertools.product(models, ("OC", "ARXIV"), (0, 1)):
            scores = np.tile([1, 1, 1, model == ahead], 25).astype(float)
            chance = 0.5 if task == "OC" else 0.25
            rows.append((model, task, seed, scores.mean(), chance, scores, np.arange(100)))
        columns = ["model", "task", "seed", "value", "chance", "scores", "groups"]
        return pd.DataFrame(rows, columns=columns)

    profile = profiles.load("mini", overrides={"only": "cosine,MSE,contrastive"})
    halves = lambda bench, model, seed: 0.25 + seed  # noqa: E731
    bench = FakeBench(profile, run=run, halves_mrr=halves)
    return sensitivity.run_other_heads("fig4_3", bench), asked, bench


def test_a_column_for_every_setting_of_the_heads(under_heads):
    records, asked, bench = under_heads
    table = sensitivity.tabulate_heads(records, bench).set_index("model")
    assert {*table.index} == {"cosine", "MSE", "contrastive", "Longformer", "SBERT"}
    right, most = 1.0, (0.5 + 2 / 3) / 2
    assert table.loc["MSE"].tolist() == pytest.approx([right, most, right, most, most, 0.75])
    assert table.loc["cosine"].tolist() == pytest.approx([most, right, most, right, right, 0.75])
    assert [*table] == [*HEADS, "no label"] and table.index[0] == "MSE"
    assert asked == [
        ("raw", None, 2, "head", 5),
        ("standardized", None, 2, "head", 5),
        ("raw", 3130, 1, "head", 4),
        ("raw", None, 2, "compare", 5),
        ("raw", None, 2, "similarity", 5),
    ]
    without = table.loc["contrastive"].isna()
    assert without[sensitivity.CONTROL] and without.sum() == 1, "it is not among the controlled"


def test_two_models_are_judged_under_every_setting_of_the_heads(under_heads):
    verdict = sensitivity.judge_heads(under_heads[0], "MSE", "cosine").set_index("heads")
    raw = {"thesis": "holds", sensitivity.CONTROL: "holds"}
    assert verdict["verdict"].to_dict() == dict.fromkeys(HEADS, "reversed") | raw
    assert verdict.loc["thesis", "difference"] == pytest.approx(1 - (0.5 + 2 / 3) / 2)
    few = sensitivity.judge_heads(under_heads[0], "MSE", "contrastive")
    assert sensitivity.CONTROL not in set(few["heads"]) and len(few) == len(HEADS) - 1
