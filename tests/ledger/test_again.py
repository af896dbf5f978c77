"""The ledger under other rules, and decided findings under other conditions."""

import numpy as np
import pandas as pd
import pytest

from lib.config import paths
from lib.ledger import again, claims
from lib.ledger.kinds import Alike
from lib.statistics import verdicts
from tests.fake_ledger import make_ledger

ALIKE = [claim.id for claim in claims.load_claims() if isinstance(claim, Alike)]
NEAR = {"effect": 0.0, "low": -0.01, "high": 0.01}
WIDE = {"effect": 0.03, "low": -0.01, "high": 0.07}


@pytest.fixture(scope="module")
def mini():
    return pd.read_csv(
        paths.ROOT / "figures/mini/tab_claims.csv", keep_default_na=False, na_values=[""]
    )


def make(*, alike=False, **values) -> pd.DataFrame:
    """A ledger whose findings have these numbers by every readout."""
    values = {"seed_share": 0.0, "p_equivalent": 0.5, "verdict": "open"} | values
    columns = {
        prefix + name: value
        for prefix in claims.PREFIXES.values()
        for name, value in values.items()
    }
    ledger = make_ledger(published_effect=0.01, survives="open", **columns)
    return ledger[(ledger["id"].isin(ALIKE) == alike) & (ledger["verdict"] != verdicts.NUMBER)]


def test_the_ledger_s_own_rules_give_its_own_verdicts(mini):
    turned = again.judge_again(mini)
    pd.testing.assert_frame_equal(turned, mini[[*turned]])


@pytest.mark.parametrize(
    ("values", "rules", "word"),
    [
        # At 90% the interval ends at .004 + .839 .019 = .0199.
        ({"effect": 0.004, "low": -0.015, "high": 0.023}, {"margin": 0.019}, "open"),
        ({"effect": 0.004, "low": -0.015, "high": 0.023}, {"margin": 0.03}, "equivalent"),
        (WIDE | {"seed_share": 1.0}, {"runs": 1.7}, "open"),
        (WIDE | {"seed_share": 1.0}, {"runs": 1.8}, "holds"),  # (4 / 3)^2 = 1.78
        (WIDE | {"seed_share": 0.4}, {"runs": 100}, "open"),
        (NEAR, {}, "equivalent"),
        (NEAR | {"p_equivalent": np.nan}, {}, "open"),  # a spread
        (NEAR | {"verdict": "not testable here"}, {}, "not testable here"),
    ],
)
def test_other_rules_give_other_verdicts(values, rules, word):
    assert {*again.judge_again(make(**values), **rules).to_numpy().ravel()} == {word}


def test_a_finding_that_claims_equivalence_has_the_margin_in_its_effect():
    ledger = make(alike=True, effect=0.01, low=-0.005, high=0.025, p_equivalent=np.nan)
    words = [again.judge_again(ledger, margin=margin)["verdict"].item() for margin in (0.02, 0.03)]
    assert words == ["open", "holds"]


def decide(**words) -> pd.DataFrame:
    """A ledger in which these findings repeat and survive with these verdicts, others are open."""
    ledger = make_ledger(verdict="open", survives="open")
    for name, (repeats, survives) in words.items():
        row = ledger["id"] == name.replace("_", "-")
        ledger.loc[row, ["verdict", "survives"]] = repeats, survives
        ledger.loc[row, ["compare_verdict", "none_verdict"]] = survives
    return ledger


def test_what_is_decided_by_either_question_is_judged_again(mini):
    ledger = decide(
        cosine_over_mse=("holds", "readouts disagree"),
        mm_mse_best=("open", "smaller than published"),
        sbert_over_longformer=("open", "not testable here"),
        news_gates=("holds", "holds"),
        retrieval_games_easier=("holds", "holds"),
    )
    decided = again.select_decided(ledger)
    assert decided[["id", "question", "effect"]].values.tolist() == [
        ["cosine-over-mse", "repeats", pytest.approx(0.05)],
        ["mm-mse-best", "survives, heads that compare", pytest.approx(0.06)],
        ["mm-mse-best", "survives, no head", pytest.approx(0.07)],
        ["retrieval-games-easier", "repeats", pytest.approx(0.05)],
    ]
    assert again.select_decided(decide()).empty
    robust = pd.read_csv(paths.ROOT / "figures/mini/tab_robust.csv")
    as_run = robust[robust["variation"] == again.AS_RUN]
    assert as_run["id"].tolist() == again.select_decided(mini)["id"].tolist()
