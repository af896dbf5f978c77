"""What `./run_all.sh <profile> --dry-run` reckons, and that it follows what is asked for."""

import re

import numpy as np
import pandas as pd
import pytest

from lib import experiments
from lib.chapters import chapter4, contextual, final_students, sensitivity, teacher_distances
from lib.config import manifest, profiles
from lib.experiments import models, runs
from lib.ledger import costs, testability
from lib.published import CHAPTER_4
from lib.runner import run_all

ALL = [*manifest.load()]
PATTERNS = {
    "students": r"students: (\d+) on",
    "trained": r"([\d.,]+) million of training",
    "read": r"([\d.,]+) million of embedding",
    "taught": r"([\d.,]+) million of the teacher",
    "GPU": r"([\d.,]+) hours of one GPU",
    "core": r"([\d.,]+) hours of one core",
    "vectors": r"Paragraph Vectors: (\d+)",
    "dimensions": r"one Paragraph Vector ([\d.]+) GB",
    "store": r"store ([\d.,]+)",
}


def numbers(labels, name="thesis", **changes):
    """The numbers of the table, as a person reads them; 0 where there is none."""
    lines = costs.table(labels, profiles.load(name, **changes))
    assert len(lines) <= 14
    matches = {key: re.search(pattern, "\n".join(lines)) for key, pattern in PATTERNS.items()}
    return {
        key: float(match[1].replace(",", "")) if match else 0.0 for key, match in matches.items()
    }


def test_the_dry_run_tells_what_thesis_costs_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "not" / "there"))
    monkeypatch.setattr(
        costs.shutil, "disk_usage", lambda folder: type("", (), {"free": 100e9 if folder else 0})
    )
    assert run_all.main(["thesis", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "02_structural_loss" in printed and "ASSUMED" in printed
    assert re.search(
        r"disk: [\d.]+ GB at most: downloads 30.0 GB, .*; free now: 100 GB, too little\n", printed
    )
    assert not (tmp_path / "not").exists()
    monkeypatch.setattr(costs.shutil, "disk_usage", lambda folder: type("", (), {"free": 9000e9}))
    assert run_all.main(["thesis", "fig4_2", "--dry-run"]) == 0
    assert "free now: 9000 GB\n" in capsys.readouterr().out
    assert run_all.main(["smoke", "--dry-run"]) == 0
    assert "free now" not in capsys.readouterr().out, (
        "nothing was measured that smoke's minutes follow from"
    )


def test_one_figure_by_hand():
    """Figure 4.2: MSE, cosine and the reference max-margin, three seeds each, each 15,000 documents of 1,233 tokens."""
    told = numbers(["fig4_2"])
    assert told["students"] == 9 and told["vectors"] == told["core"] == 0
    assert told["trained"] == pytest.approx(9 * 15_000 * 1233.32 / 1e6, abs=0.06)
    forwards = 12 * (
        2 * 12 * 768**2 + 4 * 512 * 768
    )  # a weight takes an addition and a multiplication
    profile = profiles.load("thesis")
    assert costs.operations(profile) == (forwards, 4 * forwards, forwards)
    plain = profiles.load(
        "thesis",
        overrides=["training.gradient_checkpointing=false", "structural_teacher.max_tokens=256"],
    )
    assert costs.operations(plain) == (
        forwards,
        3 * forwards,
        12 * (2 * 12 * 768**2 + 4 * 256 * 768),
    )
    tokens = told["trained"] * 4 + told["read"] + told["taught"]
    assert told["GPU"] == pytest.approx(tokens * 1e6 * forwards / 50e12 / 3600, abs=0.06)


def test_it_follows_labels_filter_seeds_and_settings():
    base = numbers(["fig4_2"])
    assert numbers(["fig4_2"], only="cosine")["students"] == 6, (
        "MSE is left out, the references are not"
    )
    assert numbers(["fig4_2"], seeds="0,1,2,3,4")["students"] == 15
    more = numbers(["fig4_2", "fig4_3"])
    assert more["students"] == 33 and more["GPU"] > 3 * base["GPU"]
    short = numbers(["fig4_2"], overrides=["training.documents=1500"])
    assert (
        short["trained"] == pytest.approx(base["trained"] / 10, abs=0.1)
        and short["GPU"] < base["GPU"]
    )
    assert short["read"] == base["read"]
    for change in (
        "tasks.limit=1000",
        "student.max_positions=512",
        "corpus.validation_documents=100",
    ):
        assert numbers(["fig4_2"], overrides=[change])["read"] < base["read"], change
    thin = numbers(["fig4_2"], overrides=["student.layers=[0, 1, 2, 3, 4, 5]"])
    assert thin["GPU"] == pytest.approx(base["GPU"] / 2, rel=0.05) and thin["read"] == base["read"]
    grid = numbers(["fig4_5"])
    assert grid["vectors"] == 42 and grid["students"] == 0, (
        "36 of the grid; the three that teach with two seeds more"
    )
    assert grid["dimensions"] == pytest.approx(490_000 * 1024 * 4 / 1e9, abs=0.05)
    fewer = numbers(["fig4_5"], only="DM;100;*")
    assert (
        fewer["vectors"] < grid["vectors"]
        and fewer["core"] < grid["core"]
        and fewer["store"] < grid["store"]
    )
    assert numbers(["fig4_5"], overrides=["contextual_teacher.epochs=5"])["core"] == pytest.approx(
        grid["core"] / 2, rel=0.01
    )
    assert numbers(["tab4_1"])["GPU"] == 0


def test_the_same_models_are_reckoned_as_the_notebooks_ask_for(monkeypatch):
    """The functions that the notebooks call, with models that are only written down."""
    profile, wanted = profiles.load("thesis"), {}

    def run(models, *, profile, seeds, split="validation", **_):
        pairs = runs.models_and_seeds(models, seeds, profile)
        wanted.setdefault(
            (profile.training.documents, split, profile.training.contextual_rows), set()
        ).update(
            (model, seed) for model, seed in pairs if model.kind in ("student", "paragraph_vector")
        )
        return pd.DataFrame({"model": ["cosine"], "times": [0]})

    def of(model, seed, profile, split="validation"):
        run([model], profile=profile, seeds=[seed], split=split)
        return {"validation": np.ones((3, 2)), "watched": np.full((1, 4), 0.5)}

    monkeypatch.setattr(experiments, "run", run)
    monkeypatch.setattr(contextual.embeddings, "of", of)
    monkeypatch.setattr(
        testability.runs,
        "embed",
        lambda pairs, own, _, split: [of(*pair, own, split) for pair in pairs],
    )
    monkeypatch.setattr(testability, "contextual_rows", lambda *_: np.ones((3, 2)))
    monkeypatch.setattr(testability, "chance_cca", lambda *_: 0.4)
    chapter4.records(CHAPTER_4, profile=profile)
    sensitivity.under_other_heads("fig4_3", profile)
    run(teacher_distances.models(), profile=profile, seeds=profile.seeds)  # notebook 03
    run(contextual.DRAFTS, profile=profile, seeds=profile.reference_seeds)  # notebook 05
    contextual.factors(profile)
    students = chapter4.students(chapter4.models("fig4_7", profile)).values()
    assert len([*testability._control("fig4_7", students, profile)]) == 2
    sensitivity.trained_longer(profile)
    final_students.classification(profile)
    asked = costs.asked(ALL, profile)
    stages = {
        (own.training.documents, split, own.training.contextual_rows): pairs
        for own, split, pairs in asked
    }
    assert {stage[:2] for stage in stages} == {
        (15_000, "validation"),
        (15_000, None),  # twins, which no task judges
        (60_000, "validation"),
        (490_000, "test"),
    }
    assert (15_000, None, "dealt") in stages and len(stages) == 4
    for stage, pairs in stages.items():
        assert {
            (model, seed) for model, seed in pairs if model.kind in ("student", "paragraph_vector")
        } == wanted[stage]


@pytest.mark.parametrize(
    ("name", "hours"), [("mini", (78 + 9) / 60), ("lab", (604 + 167 + 12) / 60)]
)
def test_mini_and_lab_cost_about_what_they_took(name, hours, monkeypatch):
    """docs/scale.md, lab_sizes.md: models of mini took 87 core-minutes, those of lab 783 on a busy machine."""
    monkeypatch.setattr(costs, "precision", lambda profile: "bf16")  # as both were measured
    profile = profiles.load(name)
    told = "\n".join(costs.table(profile.shown or ALL, profile))
    reckoned = sum(map(float, re.findall(r"([\d.]+) hours of one core", told)))
    assert 0.6 < reckoned / hours < 1.1


@pytest.mark.parametrize(("precision", "rate"), [("fp32", "0.08"), ("bf16", "0.148")])
def test_the_rate_is_that_of_the_precision_which_the_processor_has(precision, rate, monkeypatch):
    monkeypatch.setattr(models, "device", lambda: "cpu")
    monkeypatch.setattr(models, "has_bfloat16", lambda: precision == "bf16")
    assert f"hours of one core at {rate} TFLOP/s" in "\n".join(
        costs.table(["fig4_2"], profiles.load("lab"))
    )


def test_texts_of_tasks_by_hand():
    """IMDB, single texts in five folds, and PAN, pairs: examples of Table 5.4, lengths of Figure 5.2."""
    folders = {"IMDB": {"folder": "imdb/sentiment", "folds": 5}}
    profile = profiles.load("thesis", overrides={"tasks.folders": folders})
    assert costs.task_texts(profile, "validation", 4096)[0] == 10_000
    texts, tokens, longer = costs.task_texts(profile, "test", 512)
    assert texts == 50_000 and tokens < 50_000 * 300
    assert longer / texts == pytest.approx(0.1432, abs=0.01), (
        "Table 5.4: 14.68 and 13.95 % above 512 tokens"
    )
    pairs = profiles.load("thesis", overrides={"tasks.folders": {"PAN": "pan/plagiarism"}})
    assert costs.task_texts(pairs, "validation", 4096)[0] == 2 * (10_000 + 2906)
    assert costs.task_texts(pairs, "test", 4096)[0] == 2 * (17_968 + 2 * 2906)
    retrieval = profiles.load("thesis", overrides={"tasks.folders": {"WINES": "wines/similar"}})
    assert costs.task_texts(retrieval, "validation", 4096)[0] == 0
    assert costs.task_texts(retrieval, "test", 4096)[0] == 1662


def test_models_of_unknown_size_are_not_reckoned():
    told = costs.table(ALL, profiles.load("thesis", overrides=["student.model=own"]))
    assert told[1:] == ["Costs: not reckoned, as the sizes of these models are not known"]
    assert costs.table(ALL, profiles.load("smoke")) == []


def test_what_a_label_asks_for_is_trained_and_judged(monkeypatch):
    """In all rounds of Chapter 5; twins, which no task judges, are embedded alone."""
    profile, calls = profiles.load("smoke"), []
    monkeypatch.setattr(
        costs.runs, "run", lambda models, **given: calls.append(("run", {*models}, given))
    )
    monkeypatch.setattr(
        costs.runs, "embed", lambda pairs, own, executor, split: calls.append(("embed", pairs, own))
    )
    costs.train("fig4_7", profile)
    (_, judged, given), (kind, twins, dealt) = calls
    assert (
        kind == "embed"
        and dealt.training.contextual_rows == "dealt"
        and {model.identity for model, _ in twins} < judged
    )
    assert given["seeds"].keys() == judged and given["seeds"]["cosine"] == [0, 1]
    assert (given["split"], given["limit"], given["profile"]) == ("validation", None, profile)
    calls.clear()
    costs.train("fig5_3", profile)
    assert [(given["split"], given["limit"]) for _, _, given in calls] == [
        ("test", 20),
        ("test", 60),
        ("test", None),
    ]
    assert all(
        given["profile"].training.accumulation == profile.final.accumulation
        for _, _, given in calls
    )
