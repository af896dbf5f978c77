"""How far results hang on heads and on the length of training."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib import experiments
from lib.chapters import sensitivity
from lib.chapters.sensitivity import HEADS, STUDENTS, TIMES
from lib.config import profiles
from lib.experiments import embeddings

PROFILE = profiles.load("smoke", overrides={"max_variants": None})


def records(identities, *, profile, seeds):
    """As of `experiments.run`: a score falls with the documents that a student saw, a tenth for each 24."""
    rows = []
    for identity in identities:
        for seed in seeds:
            value = 0.9 if identity == "Longformer" else 0.9 - profile.training.documents / 240
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


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(experiments, "run", records)
    found = {"documents": []}

    def of(identity, seed, profile):
        found["documents"].append((identity, profile.training.documents))
        halves = np.eye(4)[
            [0, 1, 0, 2]
        ]  # the first document's halves are alike, the second's are not
        return {"halves": halves}

    monkeypatch.setattr(embeddings, "of", of)
    return sensitivity.trained_longer(PROFILE), found


def test_each_length_is_a_training_of_its_own_from_the_base_to_four_times(run):
    frame, _ = run
    counts = frame.groupby(["times", "updates"])["model"].nunique().to_dict()
    assert counts == {(0, 0): 1, (1, 4): 5, (4, 16): 5}
    assert set(frame["seed"]) == set(PROFILE.reference_seeds)


def test_scores_are_chance_corrected_and_every_student_is_asked_for_its_own_halves(run):
    frame, found = run
    table = sensitivity.length_scores(frame, PROFILE)
    cosine = table[(table["model"] == "cosine") & (table["seed"] == 0)]
    assert cosine["updates"].tolist() == [4, 16]
    assert cosine["accuracy"].tolist() == pytest.approx([0.6, 0.0])
    assert {("Longformer", 24)} | {
        (identity, 24 * times) for identity in STUDENTS.values() for times in TIMES
    } == {*found["documents"]}


def test_what_more_training_changes_is_judged_over_texts(run):
    table = sensitivity.length_verdicts(run[0]).set_index(["left", "right"])
    assert table.loc[("cosine ×4", "cosine ×1"), "difference"] == pytest.approx(-0.6)
    assert table.loc[("cosine ×4", "cosine ×1"), "verdict"] == "reversed"
    assert len(table) == 5 * 2 + 5 + 2 * 2 and ("cosine ×4", "MSE ×4") in table.index


def test_a_small_corpus_ends_the_lengths_early_and_max_variants_the_students(monkeypatch):
    monkeypatch.setattr(experiments, "run", records)
    small = profiles.load("smoke", overrides={"corpus.train_documents": 50, "max_variants": 2})
    frame = sensitivity.trained_longer(small)
    assert sorted(set(frame["times"])) == [0, 1]
    assert len(sensitivity.length_verdicts(frame)) == 2 + 1  # two students, as max_variants says


def test_three_seeds_are_enough_however_many_a_larger_size_has(monkeypatch):
    monkeypatch.setattr(experiments, "run", records)
    many = profiles.load("smoke", overrides={"reference_seeds": [0, 1, 2, 3]})
    assert set(sensitivity.trained_longer(many)["seed"]) == {0, 1, 2}


def test_one_student_alone_is_compared_with_its_base(monkeypatch):
    monkeypatch.setattr(experiments, "run", records)
    frame = sensitivity.trained_longer(profiles.load("smoke", overrides={"max_variants": 1}))
    assert len(sensitivity.length_verdicts(frame)) == 2 + 1


@pytest.fixture
def under_heads(monkeypatch):
    """Records of MSE, cosine, teacher and base under every setting of the heads, and the settings asked for: with
    published heads MSE is right where cosine is wrong, with all others the reverse."""
    asked = []

    def run(models, *, profile, seeds):
        heads = profile.heads
        asked.append((heads.features, heads.epochs, heads.learning_rate, heads.classifier))
        ahead = "MSE" if heads.features == "raw" and heads.classifier == "head" else "cosine"
        rows = []
        for model, task, seed in itertools.product(models, ("OC", "ARXIV"), (0, 1)):
            scores = np.tile([1, 1, 1, model == ahead], 25).astype(float)
            rows.append(
                (
                    model,
                    task,
                    seed,
                    scores.mean(),
                    0.5 if task == "OC" else 0.25,
                    scores,
                    np.arange(100),
                )
            )
        return pd.DataFrame(
            rows, columns=["model", "task", "seed", "value", "chance", "scores", "groups"]
        )

    monkeypatch.setattr(experiments, "run", run)
    profile = profiles.load("mini", overrides={"only": "cosine,MSE"})
    return sensitivity.under_other_heads("fig4_3", profile), asked, profile


def test_a_column_for_every_setting_of_the_heads(under_heads, monkeypatch):
    records, asked, profile = under_heads
    monkeypatch.setattr(experiments, "halves_mrr", lambda model, seed, profile: 0.25 + seed)
    table = sensitivity.heads_scores(records, profile).set_index("model")
    assert {*table.index} == {"cosine", "MSE", "Longformer", "SBERT"} and table.index[0] == "cosine"
    right, most = 1.0, (0.5 + 2 / 3) / 2
    assert table.loc["MSE"].tolist() == pytest.approx([right, most, most, most, most, 0.75])
    assert table.loc["cosine"].tolist() == pytest.approx([most, right, right, right, right, 0.75])
    assert [*table] == [*HEADS, "no label"]
    assert asked[:4] == [
        ("raw", 10, 1e-4, "head"),
        ("unit norm", 10, 1e-4, "head"),
        ("standardized", 10, 1e-4, "head"),
        ("standardized", 20, 1e-3, "head"),
    ]
    assert asked[4][3] == "similarity"


def test_converged_heads_train_as_long_as_those_of_the_profile(monkeypatch):
    asked = []
    monkeypatch.setattr(
        experiments,
        "run",
        lambda models, *, profile, seeds: asked.append(profile) or pd.DataFrame(),
    )
    monkeypatch.setattr(sensitivity.chapter4, "renamed", lambda frame, names: frame)
    sensitivity.under_other_heads("fig4_3", profiles.load("mini", overrides={"heads.epochs": 80}))
    epochs = {setting: profile.heads.epochs for setting, profile in zip(HEADS, asked, strict=True)}
    assert epochs["converged"] == 80 and epochs["published"] == epochs["standardised"] == 10


def test_two_models_are_judged_under_every_setting_of_the_heads(under_heads):
    verdict = sensitivity.heads_verdicts(under_heads[0], "MSE", "cosine").set_index("heads")
    assert verdict["verdict"].to_dict() == dict.fromkeys(HEADS, "reversed") | {"published": "holds"}
    assert verdict.loc["published", "difference"] == pytest.approx(1 - (0.5 + 2 / 3) / 2)
    assert sensitivity.heads_verdicts(under_heads[0], "MSE", "contrastive").empty
