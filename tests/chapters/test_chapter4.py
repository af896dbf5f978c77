"""Which models a figure shows, its noise, and what its findings say."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.chapters import chapter4
from lib.config import profiles
from lib.distillation.variants import CONTEXTUAL_TEACHERS, MM_MSE, parse
from lib.evaluation.metrics import mean_cosine
from tests.fake_bench import FakeBench, fake_model


def as_records(label, references=()):
    """Published accuracies as records of one seed; references have two more, moved by +-.01."""
    frame = published.load(label)[["identity", "task", "accuracy"]]
    frame = frame.set_axis(["model", "task", "value"], axis=1).assign(seed=0, metric="accuracy")
    seen = frame[frame["model"].isin(references)]
    up, down = (seen.assign(value=seen["value"] + by) for by in (0.01, -0.01))
    return pd.concat([frame, up.assign(seed=1), down.assign(seed=2)], ignore_index=True)


def test_only_and_max_variants_keep_what_matches_baselines_and_references():
    only = profiles.load("mini", only="max-margin;MSE*, contrastive")
    shown = {*chapter4.list_models("fig4_3", only)} & {*published.printed("fig4_3")}
    margins = {f"max-margin;MSE;γ={gamma}" for gamma in (0.1, 0.5, "1.0", 1.5)}
    assert shown == {"Longformer", "SBERT", "contrastive", *margins}
    shown = chapter4.list_models("fig4_3", profiles.load("smoke"))
    assert {"Longformer", "SBERT", "cosine", MM_MSE} < set(shown) and len(shown) == 5


def test_what_a_finding_compares_one_by_one_has_the_reference_seeds():
    profile = profiles.load("mini")
    seeds, weighted = chapter4.assign_seeds(profile), published.printed("fig4_10")
    once, several = list(profile.seeds), list(profile.reference_seeds)
    for name, wanted in (("no-weighting", several), ("None;λ=0.5", several), ("None;λ=0.8", once)):
        assert list(seeds.get(weighted[name], once)) == wanted, name
    alone = [m for m in chapter4.list_references("fig4_7") if parse(m).structural is None]
    teachers = {parse(model).contextual for model in alone}
    assert teachers == {*CONTEXTUAL_TEACHERS.values()} and len(alone) == 3
    assert {*alone} <= {*chapter4.list_models("fig4_7", profile).values()}
    assert all(seeds[model] == several for model in alone)
    assert not {*alone} & {*chapter4.list_references("fig4_8")}


def test_the_band_of_figure_4_7_is_that_of_students_of_the_contextual_loss_alone():
    """Other references are of another class, and their seeds move five times as much."""
    references = chapter4.list_references("fig4_7")
    records = as_records("fig4_7", references=references).assign(chance=0.5)
    others = records["model"].isin([model for model in references if parse(model).structural])
    records.loc[others & (records["seed"] == 1), "value"] += 0.04
    records.loc[others & (records["seed"] == 2), "value"] -= 0.04
    noise = chapter4.measure_noise(records, "fig4_7", profiles.load("mini"))
    assert noise.df == 6 and noise.sd == pytest.approx(0.02, rel=1e-9)


def test_tables_of_hyperparameters_follow_the_profile():
    changes = {"heads.hidden": 51, "training.accumulation": 3, "final.accumulation": 7}
    profile = profiles.load("thesis", overrides=changes | {"training.warmup_share": 0.005})

    def tell(label, profile=profile):
        return chapter4.tabulate_settings(label, profile).set_index("parameter")["value"]

    longer = profiles.load("mini", overrides=["heads.steps=3130"])
    assert tell("tab4_3", longer)["Epochs"] == "3130 steps", "which replace the epochs"
    heads, training, final = map(tell, ("tab5_6", "tab4_4", "tab5_2"))
    assert heads["Hidden features"] == "51"
    assert training["Warmup steps"] == "0.5% of training steps"
    steps = "Gradient accumulation steps"
    assert (training[steps], final[steps]) == ("3", "7")
    mixed = "Mixed-precision training"
    assert final[mixed] == "Yes, where the device supports bfloat16" and heads[mixed] == "No"


def test_each_encoder_is_called_by_its_own_name():
    profile = profiles.load("mini", overrides=["structural_teacher.model=bge"])
    told = chapter4.describe_encoders(profile)
    assert "of all-minilm-l6-v2 trained" in told and "SBERT is bge cut at 48 tokens" in told


def test_histories_say_what_chance_gives(monkeypatch):
    """A row for each measurement of each student with a contextual loss, and of no other model."""
    watched = np.array([[0, 0.5, 0.4, 0.2], [4, 0.6, 0.5, 0.3]])
    monkeypatch.setattr(chapter4, "chance_cca", lambda student, teacher: 0.1)
    student = fake_model(np.eye(3), outcome={"watched": watched}, prepare_rows=np.eye(3))
    bench = FakeBench("mini", model=lambda *_: student)
    name = "100d;S:768;C:768"
    models = {"Longformer": "Longformer", name: f"only-contextual;{name}", "cosine": "cosine"}
    table = chapter4.collect_histories({"alone": models}, bench)
    row = {"group": "alone", "model": name, "dimension": "100", "update": 4, "embedding": 0.6}
    row |= {"projected": 0.5, "chance": 0.1, "share": 0.3}
    assert len(table) == 2 and table.iloc[1].to_dict() == row


def test_a_student_has_collapsed_when_its_embeddings_point_one_way():
    """In one of its seeds; the base model, whose embeddings do so too, is no student."""
    spread, narrow = np.eye(4), np.eye(4) + 2.0  # mean cosine 0, and 20 / 21
    embedded = {("MSE", 0): spread, ("MSE", 1): narrow}
    embedded |= {("cosine", 0): spread, ("Longformer", 0): narrow}
    bench = FakeBench("mini", model=lambda _, *run: fake_model(embedded[run]))
    rows = [(model, seed, task) for model, seed in embedded for task in ("ARXIV", "IMDB")]
    records = pd.DataFrame(rows, columns=["model", "seed", "task"])
    records["kind"] = records["model"].where(records["model"] == "Longformer", "student")
    assert chapter4.mark_collapsed(records, bench).tolist() == [True] * 4 + [False] * 4
    assert mean_cosine(narrow) == pytest.approx(20 / 21)
    assert mean_cosine(spread) == 0
