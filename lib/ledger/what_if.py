"""What the ledger would say under other rules: another margin, other numbers of runs."""

import numpy as np
import pandas as pd
from scipy import stats

from lib.ledger import claims
from lib.ledger.claim_kinds import Alike
from lib.statistics import verdicts
from lib.statistics.verdicts import ALPHA, MARGIN

_UNMOVED = (verdicts.NOT_RUN, verdicts.NOT_TESTABLE, verdicts.NUMBER)


def judge_again(ledger: pd.DataFrame, *, margin: float = MARGIN, runs: float = 1) -> pd.DataFrame:
    """Judge a `claims.judge_claims` ledger with another margin or number of runs, without scores.

        interval = effect +- half-width sqrt(1 - seed_share + seed_share / runs)

    Effects stay the same, and the deciding comparison stands for the whole finding. The interval of
    a difference of spreads stays the same too. The 90% intervals of ties assume normal errors.

    `margin` is the least difference that matters, and `runs` the factor on the number of runs of
    each model. The columns are verdict, compare_verdict, none_verdict and survives.
    """
    alike = {claim.id for claim in claims.load_claims() if isinstance(claim, Alike)}
    shift = np.where(ledger["id"].isin(alike), margin - MARGIN, 0.0)  # their effects contain it
    again = pd.DataFrame(index=ledger.index)
    for prefix in claims.READOUT_OF_PREFIX:
        again[f"{prefix}verdict"] = _judge_readout(ledger, prefix, margin, runs, shift)
    both = [again[f"{prefix}verdict"] for prefix in claims.SURVIVAL]
    shared = both[0].where(both[0] == both[1], verdicts.DISAGREE)
    return again.assign(
        survives=shared.mask(ledger["survives"] == verdicts.NOT_RUN, verdicts.NOT_RUN)
    )


def _judge_readout(
    ledger: pd.DataFrame, prefix: str, margin: float, runs: float, shift: np.ndarray
) -> np.ndarray:
    """The verdicts by one readout, as `verdicts.judge` and `compare_with_published` give them."""
    names = ("effect", "low", "high", "seed_share", "p_equivalent")
    columns = [ledger[f"{prefix}{name}"].astype(float) for name in names]
    effect, low, high, share, p_equivalent = (column.to_numpy() for column in columns)
    narrower = np.sqrt(1 - np.nan_to_num(share) * (1 - 1 / runs))
    below, above = (effect - low) * narrower, (high - effect) * narrower
    effect = effect + shift
    low, high, with_tie = effect - below, effect + above, ~np.isnan(p_equivalent)
    one_sided = stats.norm.ppf(1 - ALPHA) / stats.norm.ppf(1 - ALPHA / 2)
    inside = (effect - one_sided * below > -margin) & (effect + one_sided * above < margin)
    smaller = (low <= 0) & (high >= 0) & (high < ledger["published_effect"].astype(float))
    found = ledger[f"{prefix}verdict"]
    cases = [found.isin(_UNMOVED), low > 0, high < 0, inside & with_tie, smaller & with_tie]
    words = [found, verdicts.HOLDS, verdicts.REVERSED, verdicts.EQUIVALENT, verdicts.SMALLER]
    return np.select(cases, words, verdicts.OPEN)
