"""From evidence to a verdict: one rule for published numbers and ours.

    holds                the 95% interval of the effect lies above 0
    reversed             it lies below 0
    equivalent           neither, but the effect is less than MARGIN from 0 (two one-sided tests at
                         5%, Schuirmann 1987)
    smaller than published
                         none of these, but the interval ends below the published effect
    open                 none of these
    not testable here    a check failed: the numbers cannot speak to the finding

The effect is positive as claimed, and selection is part of the interval: see `judge`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from lib.statistics.effects import Comparison, pair
from lib.statistics.intervals import Evidence, TaskScores, from_examples

HOLDS, REVERSED, EQUIVALENT, OPEN = "holds", "reversed", "equivalent", "open"
SMALLER = "smaller than published"
NOT_TESTABLE, NOT_RUN, NUMBER = "not testable here", "not run", "number"
DISAGREE = "readouts disagree"  # of the two readouts that need little training
# In the order of tables.
VERDICTS = (HOLDS, REVERSED, EQUIVALENT, SMALLER, OPEN, DISAGREE, NOT_TESTABLE, NUMBER, NOT_RUN)
ALPHA = 0.05
# The version of the rules. Raise it with whatever can turn a verdict on the same scores: a limit
# here or in `lib.ledger.testability`, an error in `lib.statistics.intervals`, the comparisons that
# a kind of claim stands for.
RULES = 3
# A difference too small to matter to somebody who chooses a method: two of a hundred examples that
# guessing gets wrong (on a task of two classes, one test text in a hundred). Published single runs
# show nothing below .0190.
MARGIN = 0.02
CEILING = 0.97  # of the way from chance to 1; what is left is label noise on most tasks
DRAWS = 100_000  # a p of .05 repeats to .001 from one generator to another
Statement = Sequence[Sequence[Comparison]]


@dataclass(frozen=True)
class Judgement:
    """A verdict with its numbers.

    Attributes
    ----------
    effect, low, high
        The effect, positive as claimed, and its 95% interval.
    p, p_equivalent
        Two-sided p of no effect, and p of an effect of at least MARGIN.
    one_task_low, one_task_high
        Smallest and largest effect of the deciding comparison when one task is left out.
    seeds
        How many seeds the compared models have.
    seed_share
        How much of the squared standard error of the deciding comparison goes away with ever more
        runs of each model. Examples of other texts would take away the rest.
    decided_by, arithmetic
        The deciding comparison in words and in numbers.
    holding
        How many of the statement's parts hold, each by an interval of its own: "21 of 24". The
        verdict on the whole is stricter. Empty where there is one comparison.
    reason
        Why a finding is "not testable here", or "open" without an interval.
    """

    verdict: str
    effect: float
    low: float
    high: float
    p: float
    p_equivalent: float
    one_task_low: float
    one_task_high: float
    seeds: str
    decided_by: str
    arithmetic: str
    reason: str
    holding: str = ""
    seed_share: float = np.nan


def judge(
    units: Statement,
    evidence: Evidence,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    sides: int = 2,
) -> Judgement:
    """The verdict on: in at least so many units (all by default), every comparison is positive.

        effect = at_least-th largest over units i of min over j of effect_ij

    "A beats all of B" has a unit for each b: every comparison must hold by itself
    (intersection-union), and it is reversed only if some b wins with all of them in view. "The best
    of A beats the best of B", with one unit for each a and in it each b, needs one; so does "some a
    beats all of B". Where the data choose among n units, bounds are simultaneous: the quantile of
    the largest of n correlated normal errors (max-T), never more than Bonferroni's. If k units are
    to hold, a false verdict needs one of the n - k + 1 weakest to look better than it is.

    Parameters
    ----------
    units
        Comparisons by unit, as many in each. Where units are models, each lists its rivals in the
        same order.
    at_least
        How many units have to hold; all by default.
    at_most
        The statement is the contrary of "at least at_most + 1", and so is its verdict.
    sides
        1 gives each bound the whole of ALPHA, for a finding that itself claims equivalence.
    """
    shape = len(units), len(units[0])
    comparisons = [comparison for unit in units for comparison in unit]
    count = at_most + 1 if at_most is not None else len(units) if at_least is None else at_least
    sums = _matrix([comparison.weights for comparison in comparisons], evidence)
    effects = (sums @ evidence.scores + [comparison.offset for comparison in comparisons]).reshape(
        shape
    )
    errors, df = (array.reshape(shape) for array in evidence.errors(sums))
    unit = np.argsort(-effects.min(1), kind="stable")[count - 1]
    decisive = units[unit][int(effects[unit].argmin())]
    sign = 1 if at_most is None else -1
    decisive, effect = decisive if sign > 0 else decisive.turned, sign * float(effects[unit].min())
    if np.isnan(errors).any():
        return _judgement(effect, _UNKNOWN, decisive, evidence)
    # Which units hold by themselves: ahead of all rivals; of "at most", behind one of them.
    clear = sign * effects > special.stdtrit(df, 1 - ALPHA / sides) * errors
    alone = clear.all(1) if sign > 0 else clear.any(1)
    holding = f"{alone.sum()} of {len(units)}" if len(comparisons) > 1 else ""
    # With nothing but pooled seed noise all errors are too small, or too large, together: a
    # multivariate t.
    pooled = [noise.df for noise in evidence.noise.values()]
    common = pooled[0] if len(pooled) == 1 and not evidence.sampling.any() else np.inf
    noise = (evidence.draws(DRAWS if len(comparisons) > 1 else 2) @ sums.T).reshape(-1, *shape)
    noise /= np.maximum(noise.std(0), 1e-12)
    noise *= _scales(common, len(noise))[:, None, None]
    # Above there is a column for each rival: the same one is the best for every unit.
    above = _Tail(noise.max(1), len(units) - count + 1, common)
    below = _Tail(
        -noise.min(2) if count == 1 else -noise.min((1, 2))[:, None], count * shape[1], common
    )

    def tails(shift: float) -> tuple[float, float]:
        """One-sided p of an effect of at most, and of at least, -shift."""
        t = (effects + shift) / errors
        # The error that is as rare among the draws.
        z = -np.sign(t) * special.stdtrit(common, special.stdtr(df, -abs(t)))
        return above.p(np.sort(z.min(1))[-count]), below.p(np.sort((-z).max(1))[count - 1])

    p_equivalent = max(tails(MARGIN)[0], tails(-MARGIN)[1]) if sides == 2 else np.nan
    margins = [-special.stdtrit(df, tail.level(ALPHA / sides)) * errors for tail in (above, below)]
    bounds = [
        np.sort((effects + way * m).min(1))[-count] for way, m in zip((-1, 1), margins, strict=True)
    ]
    low, high = sorted(sign * float(bound) for bound in bounds)
    numbers = low, high, min(1.0, sides * min(tails(0.0))), p_equivalent
    return replace(_judgement(effect, numbers, decisive, evidence), holding=holding)


def compare_with_published(judgement: Judgement, published: float) -> Judgement:
    """The judgement, with the word "smaller than published" where it applies.

    That is where the verdict would be "open", and the interval spans zero and ends below the
    published effect: whatever there is, it is less than what was published. Spreads have no such
    verdict, as they have no tie (p_equivalent is NaN): noise spreads the narrower group, too, so
    their difference looks smaller than it is, and in simulations 19% of true published differences
    were denied.
    """
    smaller = judgement.low <= 0 <= judgement.high < published
    if judgement.verdict == OPEN and smaller and not np.isnan(judgement.p_equivalent):
        return replace(judgement, verdict=SMALLER)
    return judgement


def judge_spread(wider: Sequence[str], narrower: Sequence[str], evidence: Evidence) -> Judgement:
    """The verdict on: the scores of `wider` have a larger standard deviation than `narrower`'s.

    Noise alone spreads scores. So the difference is compared with draws in which both groups have
    one true spread (the observed spread less its noise) and noise is added (a parametric
    bootstrap). No spreads are called equivalent, because MARGIN is a difference of scores.
    """
    groups = [evidence.means.index.get_indexer(list(names)) for names in (wider, narrower)]
    scores = [evidence.scores[group] for group in groups]
    sds = [float(values.std(ddof=1)) for values in scores]
    effect = sds[0] - sds[1]
    decisive = Comparison({}, {}, f"sd of {len(wider)} models", f"sd of {len(narrower)} models")
    inner = [{names[0]: 1.0, name: -1.0} for names in (wider, narrower) for name in names[1:]]
    errors, df = evidence.errors(_matrix(inner, evidence))
    numbers = _UNKNOWN
    if not np.isnan(errors).any():
        noise = evidence.draws(DRAWS) * _scales(df.min(), DRAWS)[:, None]
        clean = [
            sd**2 - noise[:, group].var(1, ddof=1).mean()
            for sd, group in zip(sds, groups, strict=True)
        ]
        spread = np.sqrt(max(np.average(clean, weights=[len(group) - 1 for group in groups]), 0.0))
        true = [
            spread * (values - values.mean()) / max(sd, 1e-12)
            for values, sd in zip(scores, sds, strict=True)
        ]
        null = [
            (values + noise[:, group]).std(1, ddof=1)
            for values, group in zip(true, groups, strict=True)
        ]
        null = null[0] - null[1]
        low, high = effect - np.quantile(null, [1 - ALPHA / 2, ALPHA / 2])
        beyond = min((null >= effect).sum(), (null <= effect).sum())
        numbers = float(low), float(high), min(1.0, 2 * float((1 + beyond) / (1 + DRAWS))), np.nan
    return replace(_judgement(effect, numbers, decisive, evidence), arithmetic=arithmetic(*sds))


def compare(pairs: Iterable[tuple[str, str]], evidence: Evidence) -> pd.DataFrame:
    """A row for each pair of models.

    Columns: left, right, difference (left - right), low, high, p, q (over all rows), verdict.
    """
    judged = [(names, judge([[pair(*names)]], evidence)) for names in pairs]
    rows = [
        (*names, result.effect, result.low, result.high, result.p, result.verdict)
        for names, result in judged
    ]
    table = pd.DataFrame(
        rows, columns=["left", "right", "difference", "low", "high", "p", "verdict"]
    )
    table.insert(6, "q", q_values(table["p"].tolist()))
    return table


def above_chance(tasks: Mapping[str, TaskScores], models: Sequence[str]) -> pd.DataFrame:
    """Every model against guessing, on the mean over tasks.

    Columns: model, score (chance-corrected), low and high (95% interval over test texts; seeds are
    left aside) and passed: the interval lies above chance and the score below CEILING.
    """
    evidence = from_examples(tasks, given=[*next(iter(tasks.values())).scores])
    return pd.DataFrame([_against_chance([model], evidence) for model in models])


def learnable(tasks: Mapping[str, TaskScores], models: Sequence[str]) -> pd.DataFrame:
    """The mean of the models against guessing, a row for each task, otherwise as `above_chance`.

    The best of many models looks better than chance by luck. Their mean is one question, chosen by
    no result.
    """
    rows = []
    for task in tasks:
        evidence = from_examples(tasks, weights={task: 1.0}, given=[*tasks[task].scores])
        rows.append(_against_chance(models, evidence) | {"task": task})
    return pd.DataFrame(rows)


def _against_chance(models: Sequence[str], evidence: Evidence) -> dict[str, Any]:
    name = models[0] if len(models) == 1 else f"mean of {len(models)} models"
    judged = judge(
        [[Comparison(dict.fromkeys(models, 1 / len(models)), {}, name, "chance")]], evidence
    )
    passed = judged.verdict == HOLDS and judged.effect < CEILING
    return {
        "model": name,
        "score": judged.effect,
        "low": judged.low,
        "high": judged.high,
        "passed": passed,
    }


def weakest(judgements: Sequence[Judgement]) -> Judgement:
    """The verdict on statements that must all be true, such as "at least two" and "at most two".

    At most one of them can be false, so their errors of one in forty add up to one in twenty.
    """
    order = (REVERSED, OPEN, EQUIVALENT, HOLDS)
    return min(judgements, key=lambda each: (order.index(each.verdict), each.effect))


def share_verdict(one: Judgement, other: Judgement) -> str:
    """The verdict that two readouts share, else "readouts disagree"."""
    return one.verdict if one.verdict == other.verdict else DISAGREE


def checked(judgement: Judgement, checks: Collection[str], failed: Mapping[str, str]) -> Judgement:
    """The judgement, or "not testable here" if a check failed. failed: check -> what failed."""
    reasons = [failed[check] for check in checks if check in failed]
    return (
        replace(judgement, verdict=NOT_TESTABLE, reason="; ".join(reasons))
        if reasons
        else judgement
    )


def q_values(p: Sequence[float]) -> np.ndarray:
    """Benjamini-Hochberg: the false discovery rate among verdicts with a p of at most this one."""
    values = np.array(p, dtype=float)
    tested = ~np.isnan(values)
    values[tested] = stats.false_discovery_control(values[tested])
    return values


def arithmetic(left: float, right: float) -> str:
    """A difference spelt out: ".9571 - .9530 = .0041"."""
    return re.sub(r"\b0\.", ".", f"{left:.4f} - {right:.4f} = {left - right:.4f}")


@dataclass(frozen=True)
class _Tail:
    """Upper tail of the largest of several correlated errors.

    Attributes
    ----------
    noise
        (draws, cases), the largest error of each draw; the worst case counts.
    members
        How many errors can make a verdict false. The tail is never above Bonferroni's, nor below
        that of one error.
    df
        Degrees of freedom of an error's t distribution.
    """

    noise: np.ndarray
    members: int
    df: float

    def level(self, alpha: float) -> float:
        """The one-sided level for each error at which all of them together keep to alpha."""
        level = special.stdtr(self.df, -np.quantile(self.noise, 1 - alpha, axis=0).max())
        return float(np.clip(level, alpha / self.members, alpha))

    def p(self, z: float) -> float:
        single = special.stdtr(self.df, -z)
        return float(
            np.clip((self.noise >= z).mean(0).max(), single, min(self.members * single, 1.0))
        )


_UNKNOWN = (np.nan, np.nan, np.nan, np.nan)


def _judgement(
    effect: float,
    numbers: tuple[float, float, float, float],
    decisive: Comparison,
    evidence: Evidence,
) -> Judgement:
    """numbers: low, high, p, p_equivalent."""
    low, high, _, p_equivalent = numbers
    (weights,) = _matrix([decisive.weights], evidence)
    sides = _matrix([decisive.plus, decisive.minus], evidence)
    by_task, without = weights @ evidence.means.to_numpy(), np.array([np.nan])
    if len(by_task) > 1 and np.isclose(evidence.weights.sum(), 1) and weights.any():
        others = by_task @ evidence.weights - by_task * evidence.weights
        without = others / (1 - evidence.weights) + decisive.offset
    counts = sorted({int(n) for n in evidence.runs[weights != 0] if np.isfinite(n)})
    if low > 0:
        verdict = HOLDS
    elif high < 0:
        verdict = REVERSED
    elif p_equivalent < ALPHA:
        verdict = EQUIVALENT
    else:
        verdict = OPEN
    unknown = "no model was run twice, so what a seed changes is not known"
    return Judgement(
        verdict,
        effect,
        *numbers,
        one_task_low=float(without.min()),
        one_task_high=float(without.max()),
        seeds="-".join(map(str, dict.fromkeys([*counts[:1], *counts[-1:]]))),
        decided_by=f"{decisive.left} against {decisive.right}",
        arithmetic=arithmetic(*(sides @ evidence.scores)),
        reason=unknown if np.isnan(low) else "",
        seed_share=_seed_share(weights, evidence),
    )


def _seed_share(weights: np.ndarray, evidence: Evidence) -> float:
    """See `Judgement.seed_share`; NaN where the error is not known."""
    endless = replace(evidence, runs=np.full(len(evidence.runs), np.inf), processor=0.0)
    (error,), _ = evidence.errors(weights[None])
    (least,), _ = endless.errors(weights[None])  # NaN: nothing is left
    return float(1 - np.nan_to_num(least) ** 2 / error**2)


def _matrix(weights: Sequence[Mapping[str, float]], evidence: Evidence) -> np.ndarray:
    """(sums, models) weights in the order of the evidence."""
    return np.array([[row.get(model, 0.0) for model in evidence.means.index] for row in weights])


def _scales(df: float, count: int) -> np.ndarray:
    """(count,) draws of how much larger an error is than its estimate with so many degrees of
    freedom says.
    """
    return (
        np.sqrt(df / np.random.default_rng(1).chisquare(df, count))
        if np.isfinite(df)
        else np.ones(count)
    )
