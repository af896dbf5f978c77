"""Which models a figure shows, its noise, and what its findings say."""

import shutil

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.chapters import chapter4
from lib.config import manifest, paths, profiles
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.ledger import claims
from lib.published import figure_models
from lib.report import site


def as_records(label, scale=1.0, references=()):
    """Published accuracies in the form of our records, one seed; references get two more, moved by +-.01."""
    frame = published.load(label).rename(columns={"identity": "model_", "accuracy": "value"})
    frame = (
        frame[["model_", "task", "value"]]
        .rename(columns={"model_": "model"})
        .assign(seed=0, metric="accuracy")
    )
    frame["value"] *= scale
    more = [
        frame[frame["model"] == one].assign(
            seed=seed, value=lambda part, shift=shift: part["value"] + shift
        )
        for one in references
        for seed, shift in ((1, 0.01), (2, -0.01))
    ]
    return pd.concat([frame, *more], ignore_index=True)


def of_the_thesis(label, profile):
    """A figure's models without those that somebody added to a grid."""
    printed = figure_models.printed(label)
    return {
        name: model for name, model in chapter4.models(label, profile).items() if name in printed
    }


def test_every_figure_of_the_grid_has_its_number_of_models():
    """16 + 12 + 14 students with projections, 8 weightings each, 45 Paragraph Vectors, 11 structural students."""
    profile = profiles.load("mini")
    students = {
        label: sum(
            parse(model).kind == "student" for model in of_the_thesis(label, profile).values()
        )
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
    assert len(of_the_thesis("fig4_5", profile)) == 45


def test_chapter_4_has_69_students():
    labels = [f"fig4_{number}" for number in (2, 3, 7, 8, 9, 10, 11, 12)]
    found = {
        one
        for label in labels
        for one in figure_models.printed(label).values()
        if parse(one).kind == "student"
    }
    assert len(found) == 69


def test_only_keeps_what_matches_and_the_baselines():
    shown = of_the_thesis("fig4_3", profiles.load("mini", only="max-margin;MSE*, contrastive"))
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


def test_what_a_finding_compares_one_by_one_has_the_reference_seeds():
    profile = profiles.load("mini")
    seeds = chapter4.seeds(profile)
    weighted = figure_models.printed("fig4_10")
    for name, count in (("no-weighting", 3), ("None;λ=0.5", 3), ("None;λ=0.8", 1)):
        assert len(seeds.get(weighted[name], profile.seeds)) == count, name


def test_band_is_the_seeds_spread_of_the_references_alone():
    """By hand: every task moves by +-.01, so the mean normalised accuracy moves by +-mean(.01 / best of the task)."""
    records = as_records("fig4_3", references=chapter4.STRUCTURAL_REFERENCES)
    noise = chapter4.band(records, "fig4_3", profiles.load("mini"))
    best = published.load("fig4_3").groupby("task")["accuracy"].max()
    assert noise.sd == pytest.approx((0.01 / best).mean(), rel=1e-9)
    assert noise.df == 4 and noise.band == pytest.approx(2 * noise.sd)


def test_verdicts_are_those_of_the_figure_as_drawn(with_examples):
    """The references of other figures count for nothing; what `only` leaves out is not run."""
    records = as_records("fig4_3", references=chapter4.STRUCTURAL_REFERENCES)
    records["value"] *= 0.9 / records["task"].map(
        published.load("fig4_3").groupby("task")["accuracy"].max()
    )
    cosine = records[records["model"] == "cosine"]
    other = cosine.assign(
        model=NO_WEIGHTING["cosine"], value=0.1 + 0.4 * cosine["seed"]
    )  # seeds change all of it
    both, records = with_examples(pd.concat([records, other])), with_examples(records)
    table = claims.of_chapter_4("fig4_3", both, profiles.load("mini"))
    pd.testing.assert_frame_equal(
        table, claims.of_chapter_4("fig4_3", records, profiles.load("mini"))
    )
    np.testing.assert_allclose(table["ours"], 0.9 * table["published"], atol=1e-9)
    assert set(table["verdict"]) <= {"holds", "open", "equivalent"} and len(table) == 6
    fewer = claims.of_chapter_4(
        "fig4_3", records, profiles.load("mini", only="max-margin;MSE*, MSE")
    ).set_index("finding")
    assert fewer["verdict"].value_counts()["not run"] == 3  # those that compare with cosine


def test_own_models_on_one_own_task_are_drawn_and_judged(tmp_path, monkeypatch, with_examples):
    """Nothing of it is published: the figure, its noise, its verdicts, and its place on the page cope."""
    shutil.copytree(paths.PARAMS, tmp_path / "params")
    grid = tmp_path / "params" / "grids" / "structural.yaml"
    grid.write_text(
        grid.read_text(encoding="utf-8").replace("- 1.5\n", "- 1.5\n    - 2.0\n"), encoding="utf-8"
    )
    monkeypatch.setattr(paths, "PARAMS", tmp_path / "params")
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    profile = profiles.load("smoke", seeds=[5], overrides={"max_variants": None})
    own = [
        {
            "model": model,
            "task": "minutes",
            "seed": seed,
            "metric": "accuracy",
            "value": 0.5 + 0.01 * (row % 7) + shift,
        }
        for row, model in enumerate(chapter4.models("fig4_3", profile).values())
        for seed, shift in ((0, 0.0), (1, 0.01), (2, -0.01))
        if seed == 0 or model in chapter4.REFERENCES
    ]
    own = with_examples(pd.DataFrame(own))
    chapter4.draw("fig4_3", own, profile)
    data = pd.read_csv(paths.figures(profile) / "fig4_3.csv")
    assert "max-margin;MSE;γ=2.0" in set(data["model"]) and set(data["task"]) == {"minutes"}
    assert (
        data[["published", "published_normalized"]].isna().all(axis=None)
        and (data["band"] > 0).all()
    )
    assert not claims.of_chapter_4("fig4_3", own, profile)["verdict"].eq("not run").any()
    saved = pd.read_csv(paths.figures(profile) / "fig4_3.csv")
    count = len(chapter4.models("fig4_3", profile))
    assert len(saved) == count >= 15
    words = (
        site.templates()
        .get_template("macros.html.j2")
        .module.alt(site.item(manifest.load()["fig4_3"], profile))
    )
    assert f"one row for each of {count} models" in words and "Published best" not in words
