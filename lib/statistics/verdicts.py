"""Turns evidence into verdicts, by the same rule for published numbers and ours.

    holds                the 95% interval of the effect is above 0
    reversed             the interval is below 0
    equivalent           neither, but the effect is less than MARGIN from 0 (Schuirmann 1987, 5%)
    smaller than published   none of these, but the interval ends below the published effect
                             (not for spreads, which noise shrinks)
    open                 none of these
    not testable here    a check failed, so the numbers say nothing about the finding

An effect is positive if it has the claimed direction. Intervals account for selection, see `judge`.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence, TaskScores, from_examples

HOLDS, REVERSED, EQUIVALENT, OPEN = "holds", "reversed", "equivalent", "open"
SMALLER = "smaller than published"
NOT_TESTABLE, NOT_RUN, NUMBER = "not testable here", "not run", "number"
DISAGREE = "readouts disagree"  # the two readouts that need little training
# In the order of tables.
VERDICTS = (HOLDS, REVERSED, EQUIVALENT, SMALLER, OPEN, DISAGREE, NOT_TESTABLE, NUMBER, NOT_RUN)
ALPHA = 0.05
# The version of the rules. Raise it with every change that can alter a verdict on the same scores:
# a limit, here or in `lib.ledger.checks`, a standard error, or what a kind of claim compares.
RULES = 5
# A difference too small to matter in the choice of a method: two of every hundred examples that
# guessing gets wrong. With two classes this is one test text in a hundred.
MARGIN = 0.02
CEILING = 0.97  # chance-corrected; on most tasks the rest is label noise
DRAWS = 100_000  # with these, a p of .05 varies by about .001 between random generators
Statement = Sequence[Sequence[Comparison]]
Numbers = tuple[float, float, float, float]  # low, high, p and p_equivalent


@dataclass(frozen=True)
class Judgement:
    """A verdict with its numbers."""

    verdict: str
    effect: float  # positive in the claimed direction
    low: float  # of the 95% interval
    high: float
    p: float  # two-sided, of no effect
    p_equivalent: float  # of an effect of at least MARGIN in size
    seeds: str  # how many the compared models have; a range such as "1-3" if it differs
    decided_by: str  # the deciding comparison
    reason: str  # why a finding is "not testable here", or "open" without an interval
    holding: str = ""  # how many units hold, each by itself: "21 of 24"; empty for a single one
    # Share of the squared standard error that would vanish with unlimited runs of each model.
    seed_share: float = np.nan


def judge(
    units: Statement,
    evidence: Evidence,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    sides: int = 2,
) -> Judgement:
    """Judge the statement "in at least so many units, or all, every comparison is positive".

        effect = at_least-th largest over units i of min over j of effect_ij

    "A beats all of B" has one unit for each b. Every comparison must hold by itself
    (intersection-union test); to reverse the statement, some b must win after correction for their
    number. "The best of A beats the best of B" has one unit for each a, with a comparison for each
    b in the same order, and needs one unit. `at_most` judges the negation of "at least at_most + 1"
    units. `sides` 1 gives each bound the whole of ALPHA. Without known noise, bounds are NaN.
    """
    shape = len(units), len(units[0])
    comparisons = [*itertools.chain(*units)]
    count = len(units) if at_least is None else at_least
    if at_most is not None:
        count = at_most + 1
    sums = _matrix([each.weights for each in comparisons], evidence)
    offsets = [each.offset for each in comparisons]
    effects = (sums @ evidence.scores + offsets).reshape(shape)
    errors, df = (values.reshape(shape) for values in evidence.errors(sums))
    unit = np.argsort(-effects.min(1), kind="stable")[count - 1]
    rival = int(effects[unit].argmin())
    effect, decisive = float(effects[unit, rival]), units[unit][rival]
    if at_most is not None:
        effect, decisive = -effect, decisive.turned()
    if np.isnan(errors).any():
        return _judgement(effect, (np.nan,) * 4, decisive, evidence)
    tails = _draw_tails(sums, shape, count, evidence)
    low, high, p, p_equivalent = _bound(effects, errors, df, count, tails, sides)
    margins = special.stdtrit(df, 1 - ALPHA / sides) * errors
    alone = (effects > margins).all(1)  # the units that hold, each by itself
    if at_most is not None:  # they are behind one rival; the bounds change sides
        low, high, alone = -high, -low, (-effects > margins).any(1)
    judgement = _judgement(effect, (low, high, p, p_equivalent), decisive, evidence)
    holding = f"{alone.sum()} of {len(units)}" if len(comparisons) > 1 else ""
    return replace(judgement, holding=holding)


@dataclass(frozen=True)
class _Tail:
    """Upper tail of the largest of correlated errors (max-T), from that of one to Bonferroni's."""

    noise: np.ndarray  # (draws, cases), the largest error of each draw
    members: int  # how many errors can make a verdict false
    df: float  # degrees of freedom of an error's t distribution

    def level(self, alpha: float) -> float:
        """The one-sided level for each error at which their joint level is alpha."""
        level = special.stdtr(self.df, -np.quantile(self.noise, 1 - alpha, axis=0).max())
        return float(np.clip(level, alpha / self.members, alpha))

    def p(self, z: float) -> float:
        """The joint one-sided p of a largest error of z."""
        single = special.stdtr(self.df, -z)
        joint = (self.noise >= z).mean(0).max()
        return float(np.clip(joint, single, min(self.members * single, 1.0)))


def _draw_tails(
    sums: np.ndarray, shape: tuple[int, int], count: int, evidence: Evidence
) -> tuple[_Tail, _Tail]:
    """Tails of the upper and lower errors of (units, rivals) comparisons; `count` units must hold.

    If k units have to hold, a false verdict requires that one of the n - k + 1 weakest looks better
    than it is.
    """
    # If pooled seed noise is the only noise, all errors are wrong together: multivariate t.
    pooled = [noise.df for noise in evidence.noise.values()]
    common = pooled[0] if len(pooled) == 1 and not evidence.sampling.any() else np.inf
    noise = (evidence.draws(DRAWS if len(sums) > 1 else 2) @ sums.T).reshape(-1, *shape)
    noise /= np.maximum(noise.std(0), 1e-12)
    if np.isfinite(common):  # ratios of true to estimated standard errors
        ratios = common / np.random.default_rng(1).chisquare(common, len(noise))
        noise *= np.sqrt(ratios)[:, None, None]
    # `above` has a column for each rival, because the same rival is the best for every unit.
    above = _Tail(noise.max(1), shape[0] - count + 1, common)
    least = noise.min(2) if count == 1 else noise.min((1, 2))[:, None]
    return above, _Tail(-least, count * shape[1], common)


def _bound(
    effects: np.ndarray, errors: np.ndarray, df: np.ndarray, count: int, tails: Any, sides: int
) -> Numbers:
    """The numbers of the count-th best unit; arrays are (units, rivals)."""
    above, below = tails

    def margins(tail: _Tail) -> np.ndarray:
        return -special.stdtrit(df, tail.level(ALPHA / sides)) * errors

    low = float(np.sort((effects - margins(above)).min(1))[-count])
    high = float(np.sort((effects + margins(below)).min(1))[-count])

    def p_values(shift: float) -> tuple[float, float]:
        """One-sided, of the hypotheses that the effect is at most, and at least, -shift."""
        t = (effects + shift) / errors
        # The error that is as improbable in the distribution of the draws.
        z = -np.sign(t) * special.stdtrit(above.df, special.stdtr(df, -abs(t)))
        return above.p(np.sort(z.min(1))[-count]), below.p(np.sort((-z).max(1))[count - 1])

    p_equivalent = max(p_values(MARGIN)[0], p_values(-MARGIN)[1]) if sides == 2 else np.nan
    return low, high, min(1.0, sides * min(p_values(0.0))), p_equivalent


def compare(pairs: Iterable[tuple[str, str] | Comparison], evidence: Evidence) -> pd.DataFrame:
    """Judge pairs, a row for each, with q over all; "not run" if a model of one has no scores."""
    rows: list[dict[str, Any]] = []
    for names in pairs:
        each = names if isinstance(names, Comparison) else pair(*names)
        rows.append({"left": each.left, "right": each.right, "verdict": NOT_RUN})
        if {*each.weights} <= {*evidence.means.index}:
            rows[-1] |= asdict(judge([[each]], evidence))
    table = pd.DataFrame(rows).rename(columns={"effect": "difference"})
    table = table.reindex(columns="left right difference low high p q verdict".split())
    return table.assign(q=q_values(table["p"]))


def mean_score(tasks: Mapping[str, TaskScores], models: Sequence[str]) -> tuple[float, ...]:
    """The chance-corrected mean of models over tasks, and low and high over test texts alone."""
    average = Comparison(dict.fromkeys(models, 1 / len(models)), {}, "mean", "chance")
    judged = judge([[average]], from_examples(tasks, given=models))
    chances = np.array([task.chance for task in tasks.values()])
    least = -(chances / (1 - chances)).mean()  # everything is wrong: no score is below
    return judged.effect, *np.clip([judged.low, judged.high], least, 1).tolist()


def q_values(p: Sequence[float] | pd.Series) -> np.ndarray:
    """Benjamini-Hochberg q: false discovery rate among tests with as small a p; NaN is left out."""
    values = np.array(p, dtype=float)
    tested = ~np.isnan(values)
    values[tested] = stats.false_discovery_control(values[tested])
    return values


def _judgement(
    effect: float, numbers: Numbers, decisive: Comparison, evidence: Evidence
) -> Judgement:
    low, high, _, p_equivalent = numbers
    (weights,) = _matrix([decisive.weights], evidence)
    counts = sorted({int(n) for n in evidence.runs[weights != 0] if np.isfinite(n)})
    verdict = OPEN  # also if the bounds are NaN
    if low > 0:
        verdict = HOLDS
    elif high < 0:
        verdict = REVERSED
    elif p_equivalent < ALPHA:
        verdict = EQUIVALENT
    endless = replace(evidence, runs=np.full(len(evidence.runs), np.inf), processor=0.0)
    (error,), _ = evidence.errors(weights[None])
    (least,), _ = endless.errors(weights[None])  # NaN: nothing is left
    reason, trained = "", (weights != 0) & np.isfinite(evidence.runs)
    if np.isnan(low):
        reason = "no model was run twice, so what a seed changes is not known"
    if np.isnan(error) and weights.any() and {*evidence.classes[trained]} <= {*evidence.noise}:
        reason = "both sides have the same answers, so nothing varies"
    return Judgement(
        verdict,
        effect,
        *numbers,
        seeds="-".join(map(str, counts if len(counts) < 3 else (counts[0], counts[-1]))),
        decided_by=f"{decisive.left} against {decisive.right}",
        reason=reason,
        seed_share=float(1 - np.nan_to_num(least) ** 2 / error**2),
    )


def _matrix(weights: Sequence[Mapping[str, float]], evidence: Evidence) -> np.ndarray:
    """Weights as (sums, models), with models in the order of the evidence."""
    if missing := {name for row in weights for name in row} - {*evidence.means.index}:
        raise ValueError(f"there are no scores of {min(missing)!r}")
    return np.array([[row.get(model, 0.0) for model in evidence.means.index] for row in weights])
