"""Which models a figure shows, its noise, and what its findings say."""

import numpy as np
import pandas as pd
import pytest

from lib import figures, published
from lib.config import profiles
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.findings import chapter4
from lib.statistics.noise import NoiseBand

NOISE = NoiseBand(sd=0.002, df=8, band=0.004, least_difference=0.0065)


def as_records(label, scale=1.0, references=()):
    """Published accuracies in the form of our records, one seed; references get two more, moved by +-.01."""
    frame = published.load(label).rename(columns={"identity": "model_", "accuracy": "value"})
    frame = frame[["model_", "task", "value"]].rename(columns={"model_": "model"}).assign(seed=0, metric="accuracy")
    frame["value"] *= scale
    more = [
        frame[frame["model"] == one].assign(seed=seed, value=lambda part, shift=shift: part["value"] + shift)
        for one in references
        for seed, shift in ((1, 0.01), (2, -0.01))
    ]
    return pd.concat([frame, *more], ignore_index=True)


def test_every_figure_of_the_grid_has_its_number_of_models():
    """16 + 12 + 14 students with projections, 8 weightings each, 45 Paragraph Vectors, 11 structural students."""
    profile = profiles.load("mini")
    students = {
        label: sum(parse(one).kind == "student" for one in chapter4.models(label, profile).values())
        for label in ("fig4_3", "fig4_7", "fig4_8", "fig4_9", "fig4_10", "fig4_11", "fig4_12")
    }
    # 4.7-4.11 also show the structural student they build on; 4.10 and 4.11 their no-weighting student besides.
    assert students == {
        "fig4_3": 11,
        "fig4_7": 17,
        "fig4_8": 13,
        "fig4_9": 15,
        "fig4_10": 10,
        "fig4_11": 10,
        "fig4_12": 4,
    }
    assert len(chapter4.models("fig4_5", profile)) == 45


def test_chapter_4_has_69_students():
    labels = [f"fig4_{number}" for number in (2, 3, 7, 8, 9, 10, 11, 12)]
    found = {one for label in labels for one in published.identities(label).values() if parse(one).kind == "student"}
    assert len(found) == 69


def test_only_keeps_what_matches_and_the_baselines():
    shown = chapter4.models("fig4_3", profiles.load("mini", only="max-margin;MSE*, contrastive"))
    assert set(shown) == {
        "Longformer",
        "SBERT",
        "contrastive",
        *(f"max-margin;MSE;γ={g}" for g in (0.1, 0.5, "1.0", 1.5)),
    }


def test_smoke_keeps_baselines_references_and_two_others():
    shown = chapter4.models("fig4_3", profiles.load("smoke"))
    assert {"Longformer", "SBERT", "cosine", MM_MSE} < set(shown) and len(shown) == 6


def test_no_weighting_is_two_students():
    profile = profiles.load("mini")
    assert chapter4.models("fig4_10", profile)["no-weighting"] == NO_WEIGHTING["cosine"]
    assert chapter4.models("fig4_11", profile)["no-weighting"] == NO_WEIGHTING["mm-MSE"]


def test_band_is_the_seeds_spread_of_the_references_alone():
    """By hand: every task moves by +-.01, so the mean normalised accuracy moves by +-mean(.01 / best of the task)."""
    records = as_records("fig4_3", references=chapter4.STRUCTURAL_REFERENCES)
    noise = chapter4.band(records, "fig4_3", profiles.load("mini"))
    best = published.load("fig4_3").groupby("task")["accuracy"].max()
    assert noise.sd == pytest.approx((0.01 / best).mean(), rel=1e-9)
    assert noise.df == 4 and noise.band == pytest.approx(2 * noise.sd)


def test_neighbours_within_noise_are_the_ones_counted_from_the_published_numbers():
    """Neighbours closer than .0057: 8 of 21, 13 of 17, 13 of 19, 10 of 12, 5 of 12."""
    expected = {"fig4_7": (8, 21), "fig4_8": (13, 17), "fig4_9": (13, 19), "fig4_10": (10, 12), "fig4_11": (5, 12)}
    for label, (close, pairs) in expected.items():
        data = figures.boxplot_frame(label, as_records(label), band=None)
        table = chapter4.neighbours(label, data, NOISE)
        assert ((~table["published_differ"]).sum(), len(table)) == (close, pairs), label


def test_findings_have_three_verdicts():
    data = figures.boxplot_frame("fig4_2", as_records("fig4_2"), band=None)
    claims = [
        ("right", "cosine", "MSE"),
        ("wrong", "MSE", "SBERT"),
        ("same", "SBERT", "SBERT"),
        ("absent", "cosine", "no such"),
    ]
    table = chapter4.findings(data, NOISE, claims)
    assert table["verdict"].tolist() == ["holds", "does not hold", "not distinguishable"]
    np.testing.assert_allclose(table["ours"], table["published"])  # fed with the published numbers


def test_reference_tests_pair_tasks_and_seeds():
    records = as_records("fig4_3", references=chapter4.STRUCTURAL_REFERENCES)
    table = chapter4.reference_tests(records)
    assert table[["one", "other", "pairs"]].to_numpy().tolist() == [["cosine", MM_MSE, 18]]
    scores = published.load("fig4_3").pivot(index="model", columns="task", values="accuracy")
    assert table["difference"][0] == pytest.approx((scores.loc["cosine"] - scores.loc[MM_MSE]).mean())
    assert table["low"][0] < table["difference"][0] < table["high"][0]
