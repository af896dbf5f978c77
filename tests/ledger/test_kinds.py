"""What `params/claims.yaml` says, and what each kind of claim makes of scores, by hand."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.config import paths
from lib.ledger.kinds import KINDS, Number, load_claims, match_models
from tests.statistics.test_verdicts import evidence

MEANS = {"cosine": 0.9, "MSE": 0.7, "Longformer": 0.6, "SBERT": 0.8}
BEATS = {"kind": "beats", "better": ["cosine"], "worse": ["MSE"]}


def make_claim(**fields):
    given = {"section": "4.4", "figure": "fig4_2", "finding": "words", "quote": "thesis", **fields}
    return KINDS[fields["kind"]].model_validate({"id": "test", **given})


def judge(fields, means, sd=0.002):
    """Differences of single runs count above 2.3 sqrt(2) sd."""
    return make_claim(**fields).judge_scores(evidence(sd, **means), list(means))


def test_the_yaml_uses_every_kind_quotes_the_thesis_and_names_models_and_tasks():
    everything = load_claims()
    assert {claim.kind for claim in everything} == {*KINDS}
    for names in ("id", "finding"):
        assert len({getattr(claim, names) for claim in everything}) == len(everything)
    figures = {claim.figure for claim in everything}
    assert figures >= {*published.BOXPLOTS, "fig5_4", "fig5_5", "fig5_6"}
    checks = pd.read_csv(paths.ROOT / "figures/mini/tab_checks.csv")["check"]
    for claim in everything:
        assert {*claim.needed} <= {*checks}, claim.id
        assert len(claim.quote.split()) >= 4 and claim.quote != claim.finding
        source = published.load(claim.source)
        assert {*claim.tasks} <= {*source.get("task", ())}, claim.id
        if not isinstance(claim, Number):
            assert claim.units(source["model"].unique().tolist()), claim.id


def test_patterns_take_in_and_leave_out():
    names = list(published.printed("fig4_5"))
    singles = match_models(["*;2", "!*+*"], names)
    assert len(singles) == 18 and "DM;1024;stem;2" in singles
    assert len(match_models(["*+*"], names)) == 9
    with pytest.raises(ValueError, match="'cosin' matches no model"):
        match_models(["*", "!cosin"], names)


COUNT = {"kind": "beats", "better": ["cosine", "MSE", "SBERT"], "worse": ["Longformer"]}
SOME = COUNT | {"better": ["cosine", "MSE"], "worse": ["SBERT", "Longformer"]}
PAIRS = {"kind": "count_pairs", "pairs": [["cosine", "MSE"], ["MSE", "SBERT"]]}
AVERAGE = {"kind": "beats_on_average", "better": ["cosine", "MSE"], "worse": ["SBERT"]}


@pytest.mark.parametrize(
    ("fields", "verdict", "effect", "decided_by"),
    [
        (BEATS | {"worse": ["MSE", "SBERT"]}, "holds", 0.1, "cosine against SBERT"),
        (BEATS | {"share": 0.75}, "reversed", -0.025, "0.75 x cosine against MSE"),
        (AVERAGE, "equivalent", 0.0, "average of 2 models against SBERT"),
        (AVERAGE | {"worse": ["Longformer"], "scale": 2}, "holds", 0.4, None),
        # The k-th model decides.
        (COUNT | {"at_least": 2}, "holds", 0.2, "SBERT against Longformer"),
        (COUNT | {"at_least": 3}, "holds", 0.1, "MSE against Longformer"),
        # The second of the group must stay behind the best baseline.
        (SOME | {"at_most": 1}, "holds", 0.1, "SBERT against MSE"),
        (SOME | {"at_most": 0}, "reversed", -0.1, None),
        (SOME | {"at_least": 1, "at_most": 1}, "holds", 0.1, None),
        (COUNT | {"at_least": 2, "at_most": 2}, "reversed", -0.1, None),
        (PAIRS | {"at_least": 1}, "holds", 0.2, "cosine against MSE"),
        (PAIRS | {"at_least": 2}, "reversed", -0.1, "MSE against SBERT"),
    ],
)
def test_the_deciding_comparison(fields, verdict, effect, decided_by):
    judged = judge(fields, MEANS)
    assert judged.verdict == verdict and judged.effect == pytest.approx(effect)
    assert decided_by in (None, judged.decided_by)
    assert judge(fields, MEANS, sd=0.5).verdict == "open"


def test_each_comparison_counts_unless_models_are_counted():
    rivals = BEATS | {"better": ["cosine", "SBERT"], "worse": ["MSE", "Longformer"]}
    told = [judge(rivals | bound, MEANS).holding for bound in ({}, {"at_least": 1})]
    assert told == ["4 of 4", "2 of 2"]


def test_spread_is_a_difference_of_standard_deviations():
    fields = {"kind": "spread", "wider": ["cosine", "MSE"], "narrower": ["Longformer", "SBERT"]}
    spread = judge(fields, MEANS | {"MSE": 0.5, "SBERT": 0.61})
    sds = np.std([0.9, 0.5], ddof=1), np.std([0.6, 0.61], ddof=1)
    assert spread.effect == pytest.approx(sds[0] - sds[1]) and spread.verdict == "holds"


@pytest.mark.parametrize(
    ("cut", "sd", "verdict"),
    [
        (0.9, 0.002, "holds"),
        (0.87, 0.002, "reversed"),
        (0.89, 0.02, "open"),
        (0.905, 0.006, "open"),
    ],
)
def test_alike_needs_equivalence_and_no_difference_is_not_enough(cut, sd, verdict):
    fields = {"kind": "alike", "models": ["cosine;all"], "treatment": "cut"}
    known = evidence(sd, **{"cosine;all": 0.9, "cosine;cut;all": cut})
    assert make_claim(**fields).judge_scores(known, ["cosine;all"]).verdict == verdict
    rounds = make_claim(**fields | {"models": ["cosine;all"], "source": "fig5_3"})
    assert rounds.named(["cosine;all", "MSE;all"]) == {"cosine;all", "cosine;cut;all"}


def test_the_easier_task_has_the_higher_mean_over_models():
    claim = make_claim(kind="easier_task", easier="GAMES", harder="WINES")
    assert claim.weights(["WINES", "GAMES"]) == {"GAMES": 1.0, "WINES": -1.0}
    (((each,),),) = [claim.units(["DM", "PV"])]
    assert each.weights == {"DM": 0.5, "PV": 0.5}
