"""Decided findings once more: which they are, which models they need, what the table says."""

import numpy as np
import pandas as pd
import pytest

from lib.config import profiles
from lib.distillation.variants import parse
from lib.ledger import claims, robustness
from lib.published import figure_models
from tests.fake_bench import FakeBench

SIZES = ("effect", "low", "high")


def make_ledger(**verdicts):
    """A ledger with these findings; each has its verdicts by heads and by the two other readouts,
    and effects of .1, .2 and .3.
    """
    rows = []
    for claim in claims.load_claims():
        name = claim.id.replace("-", "_")
        repeats, survives = verdicts.get(name, ("open", "open"))
        row = {"id": claim.id, "label": claim.figure, "finding": claim.finding}
        row |= {"survives": survives, "verdict": repeats}
        for number, prefix in enumerate(robustness.QUESTION_OF_PREFIX, 1):
            row |= {prefix + size: 0.1 * number for size in SIZES}
            row |= {f"{prefix}verdict": survives} if prefix else {}
        rows.append(row)
    return pd.DataFrame(rows)


def test_what_is_decided_by_either_question_is_judged_again():
    ledger = make_ledger(
        cosine_over_mse=("holds", "readouts disagree"),
        mm_mse_best=("open", "smaller than published"),
        sbert_over_longformer=("open", "not testable here"),
        news_gates=("holds", "holds"),
        retrieval_games_easier=("holds", "holds"),
    )
    decided = robustness.select_decided(ledger)
    assert decided[["id", "question", "effect"]].values.tolist() == [
        ["cosine-over-mse", "repeats", 0.1],
        ["mm-mse-best", "survives, heads that compare", 0.2],
        ["mm-mse-best", "survives, no head", pytest.approx(0.3)],
        ["retrieval-games-easier", "repeats", 0.1],
    ]
    assert robustness.select_decided(make_ledger()).empty


def list_named(*names):
    return robustness.list_models([claim for claim in claims.load_claims() if claim.id in names])


def test_models_that_no_decided_finding_names_are_left_out():
    """References of the same class stay, because they measure the noise of the others."""
    assert {*list_named("cosine-over-mse")} == {"cosine", "MSE", "max-margin;MSE;γ=1.0"}
    assert {*list_named("pv-over-sbert")} == {"PV;2048d", "SBERT"}
    alone = list_named("contextual-1024-over-2048")
    assert all(parse(model).structural is None for model in alone)
    assert {*figure_models.list_references(["fig4_7"])} < {*alone} and len(alone) == 13


def test_only_what_is_named_runs_by_every_readout():
    asked = []

    def run(bench, models, *, seeds):
        asked.append((bench.readout, models, seeds["cosine"]))
        return pd.DataFrame({"model": models})

    profile = profiles.load("mini", overrides={"reference_seeds": [3, 4]}, seeds=[3])
    bench = FakeBench(profile, run=run)
    chosen = [claim for claim in claims.load_claims() if claim.id == "cosine-over-mse"]
    scores = robustness.run_named(chosen, bench)
    models = list_named("cosine-over-mse")
    assert asked == [(name, models, [3, 4]) for name in ("thesis", "compare", "none")]
    assert {*scores} == {"fig4_2"}


def test_the_table_says_which_answers_are_the_same(monkeypatch):
    """Under the first variation all effects halve and nothing else; under the second all turn."""
    ledger = make_ledger(cosine_over_mse=("holds", "holds"), mm_mse_best=("equivalent", "open"))
    benches = []

    def judge(scores):
        again = ledger.copy()
        turned = benches[-1].profile.heads.hidden == 7
        for prefix in robustness.QUESTION_OF_PREFIX:
            again[f"{prefix}effect"] *= -0.5 if turned else 0.5
            again[f"{prefix}verdict"] = "reversed" if turned else again[f"{prefix}verdict"]
        return again

    def load(name, *, overrides):
        benches.append(FakeBench(profiles.load(name, overrides=overrides)))
        return benches[-1]

    monkeypatch.setattr(robustness.Bench, "load", load)
    monkeypatch.setattr(robustness, "run_named", lambda chosen, bench: {})
    monkeypatch.setattr(claims, "judge_claims", judge)
    variations = {"half": {"heads.hidden": 5}, "turned": {"heads.hidden": 7}}
    table = robustness.tabulate_robustness(ledger, "mini", variations)
    by_variation = table.groupby("variation")
    assert by_variation.size().to_dict() == {"as run": 4, "half": 4, "turned": 4}
    assert by_variation["same"].unique().map(list).to_dict() == {
        "as run": ["yes"],
        "half": ["yes"],
        "turned": ["no"],
    }
    effects = by_variation["effect"].sum()
    assert effects["half"] == pytest.approx(effects["as run"] / 2) and np.isfinite(effects).all()
