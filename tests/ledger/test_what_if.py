"""The ledger under other rules: the same verdicts by the same rules, others by others."""

import numpy as np
import pandas as pd
import pytest

from lib.config import paths
from lib.ledger import claims
from lib.ledger.claim_kinds import Alike
from lib.ledger.what_if import judge_again
from lib.statistics import verdicts
from tests.fake_ledger import make_ledger

PREFIXES = claims.READOUT_OF_PREFIX


def make(**values) -> pd.DataFrame:
    """A ledger whose findings have these numbers by every readout; `alike` ones are left out."""
    values = {"seed_share": 0.0, "p_equivalent": 0.5, "verdict": "open"} | values
    columns = {prefix + name: value for prefix in PREFIXES for name, value in values.items()}
    ledger = make_ledger(published_effect=0.01, survives="open", **columns)
    alike = [claim.id for claim in claims.load_claims() if isinstance(claim, Alike)]
    return ledger[~ledger["id"].isin(alike) & (ledger["verdict"] != verdicts.NUMBER)]


def words(ledger: pd.DataFrame, **rules) -> set[str]:
    return {*judge_again(ledger, **rules).to_numpy().ravel()}


def test_the_ledger_s_own_rules_give_its_own_verdicts():
    file = paths.ROOT / "figures/mini/tab_claims.csv"
    ledger = pd.read_csv(file, keep_default_na=False, na_values=[""])
    for prefix in PREFIXES:
        ledger[f"{prefix}seed_share"] = 0.5
    again = judge_again(ledger)
    pd.testing.assert_frame_equal(again, ledger[[*again]])


@pytest.mark.parametrize(("margin", "word"), [(0.019, "open"), (0.03, "equivalent")])
def test_a_wider_margin_calls_more_equivalent(margin, word):
    # At 90% the interval ends at .004 + .839 .019 = .0199.
    assert words(make(effect=0.004, low=-0.015, high=0.023), margin=margin) == {word}


def test_more_runs_take_away_the_part_of_an_interval_that_is_the_seeds():
    numbers = {"effect": 0.03, "low": -0.01, "high": 0.07}
    for share, runs, word in ((1.0, 1.7, "open"), (1.0, 1.8, "holds"), (0.4, 100, "open")):
        assert words(make(**numbers, seed_share=share), runs=runs) == {word}  # (4 / 3)^2 = 1.78


def test_a_spread_is_never_equivalent_and_an_untested_finding_stays_what_it_is():
    near = {"effect": 0.0, "low": -0.01, "high": 0.01}
    assert words(make(**near)) == {"equivalent"}
    assert words(make(**near, p_equivalent=np.nan)) == {"open"}
    assert words(make(**near, verdict="not testable here")) == {"not testable here"}


def test_readouts_that_no_longer_share_a_verdict_disagree():
    ledger = make(effect=0.03, low=-0.01, high=0.07).assign(none_low=0.01)
    assert {*judge_again(ledger)["survives"]} == {"readouts disagree"}


def test_a_finding_that_claims_equivalence_has_the_margin_in_its_effect():
    ledger = make_ledger(effect=0.01, low=-0.005, high=0.025, p_equivalent=np.nan, verdict="open")
    names = ("seed_share", "p_equivalent")
    ledger[[prefix + name for prefix in PREFIXES for name in names]] = np.nan
    (name,) = (claim.id for claim in claims.load_claims() if isinstance(claim, Alike))
    row = ledger[ledger["id"] == name]
    found = [judge_again(row, margin=margin)["verdict"].item() for margin in (0.02, 0.03)]
    assert found == ["open", "holds"]
