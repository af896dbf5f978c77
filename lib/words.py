"""Makes sentences from numbers, for the cells and pages that report what a run has found.

A number that was not measured becomes `MISSING`, and `bullets` leaves out every sentence that
contains it. So the same cell works for a run of all models and for a run of three.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from lib.statistics.verdicts import (
    DISAGREE,
    EQUIVALENT,
    HOLDS,
    NOT_RUN,
    NOT_TESTABLE,
    NUMBER,
    OPEN,
    REVERSED,
    SMALLER,
)

MISSING = "(not measured)"
_ANSWERS = {HOLDS: "Yes", REVERSED: "No, it is reversed"}
_ANSWERS |= {EQUIVALENT: "It is a tie", OPEN: "Too close to call"}
_ANSWERS |= {SMALLER: "The effect, if any, is smaller than published"}
_SURVIVES = {
    HOLDS: "It survives with the other readouts",
    REVERSED: "With the other readouts it is reversed",
    EQUIVALENT: "With the other readouts it is a tie",
    OPEN: "With the other readouts it is too close to call",
    SMALLER: "With the other readouts the effect, if any, is smaller than published",
}
_REPEATS = {
    HOLDS: "It repeats with the thesis' protocol",
    REVERSED: "With the thesis' protocol it is reversed",
    EQUIVALENT: "With the thesis' protocol it is a tie",
    OPEN: "With the thesis' protocol it is too close to call",
    SMALLER: "With the thesis' protocol the effect, if any, is smaller than published",
}
_SMALL = "no one two three four five six seven eight nine ten eleven twelve".split()
_EFFECTS = ("effect", "ours", "difference")  # names of one column in several tables
_NOT_RUN = {"effect": None, "low": None, "high": None, "verdict": NOT_RUN, "survives": NOT_RUN}


def signed(value: float, digits: int = 3) -> str:
    """Format a number without a leading zero: `.031`, `-.019`, `1.250`."""
    if pd.isna(value):
        return MISSING
    text = f"{value:.{digits}f}"
    whole = text.removeprefix("-")
    sign = "-" if whole != text and whole.strip("0.") else ""  # no minus sign before zero
    return sign + (whole.removeprefix("0") if digits else whole)


def interval(low: float, high: float, digits: int = 3) -> str:
    """Format an interval: `[.010, .050]`."""
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def estimate(row: Mapping[str, Any], digits: int = 3) -> str:
    """Format effect and interval of a row in a table of verdicts: `.078 [.027, .128]`.

    A bound that would be rounded to zero gets one more digit, because its sign decides the verdict.
    """
    if any(bound and round(bound, digits) == 0 for bound in (row["low"], row["high"])):
        digits += 1
    return f"{signed(_effect(row), digits)} {interval(row['low'], row['high'], digits)}"


def comparison(left: str, right: str, row: Mapping[str, Any]) -> str:
    """Describe a judged difference, left - right: `cosine is ahead of MSE by .078 [.03, .13]`."""
    verdict = row["verdict"]
    if verdict == HOLDS:
        return f"{left} is ahead of {right} by {estimate(row)}"
    if verdict == REVERSED:
        turned = {"effect": -_effect(row), "low": -row["high"], "high": -row["low"]}
        return f"{left} is behind {right} by {estimate(turned)}"
    if verdict == EQUIVALENT:
        return f"{left} and {right} tie ({estimate(row)})"
    if verdict == OPEN:
        return f"{left} and {right} are too close to call ({estimate(row)})"
    if verdict == SMALLER:
        return (
            f"{left} and {right} are too close to call, and closer than published ({estimate(row)})"
        )
    if verdict == NOT_TESTABLE:
        return f"{left} and {right} cannot be compared here"
    return f"{left} against {right}: {MISSING}"


def answer(row: Mapping[str, Any]) -> str:
    """Give the verdict on a finding as the answer to its question: `Yes (.078 [.027, .128])`."""
    verdict = row["verdict"]
    if verdict == NOT_TESTABLE:
        return "That cannot be tested here"
    if verdict == NUMBER:
        return f"It is a number, {signed(_effect(row), 2)}"
    if verdict == NOT_RUN or pd.isna(_effect(row)):
        return MISSING
    return f"{_ANSWERS[verdict]} ({estimate(row)})"


def repetition(row: Mapping[str, Any]) -> str:
    """Say whether a finding repeats with the thesis' protocol, with its effect and interval.

    row: a row of the ledger.
    """
    verdict = row["verdict"]
    if verdict == NOT_TESTABLE:
        return "That cannot be tested here"
    if verdict in (NOT_RUN, NUMBER):
        return MISSING
    return f"{_REPEATS[verdict]} ({estimate(row)})"


def survival(row: Mapping[str, Any]) -> str:
    """Say whether a finding survives with the two other readouts, with both effects.

    row: a row of the ledger or of `claims.judge_figure`.
    """
    verdict = row["survives"]
    if verdict == NOT_TESTABLE:
        return "That cannot be tested here"
    if verdict in (NOT_RUN, NUMBER):
        return MISSING
    if verdict == DISAGREE:
        return f"The other readouts disagree: {other_effects(row, verdicts=True)}"
    return f"{_SURVIVES[verdict]} ({other_effects(row)})"


def other_effects(row: Mapping[str, Any], *, verdicts: bool = False) -> str:
    """Give a finding's effects by the other readouts: `heads that compare .050, no head .040`.

    row: a row of the ledger or of `claims.judge_figure`.
    verdicts: whether to add the verdict on each effect.
    """
    told = []
    for name, words in (("compare", "heads that compare"), ("none", "no head")):
        effect = signed(row.get(f"{name}_effect", row.get(name)))
        verdict = f" ({row[f'{name}_verdict']})" if verdicts else ""
        told.append(f"{words} {effect}{verdict}")
    return ", ".join(told)


def answer_twice(row: Mapping[str, Any]) -> str:
    """Give the answer and whether it survives: `Yes (.078 [.027, .128]). It survives ...`.

    The second sentence is left out if the other readouts give no verdict.
    """
    told = answer(row)
    if row.get("survives", NOT_RUN) in (NOT_TESTABLE, NOT_RUN, NUMBER):
        return told
    return f"{told}. {survival(row)}"


def percent(share: float, digits: int = 0) -> str:
    """Format a share between 0 and 1 as a percentage: `73%`."""
    return MISSING if pd.isna(share) else f"{100 * share:.{digits}f}%"


def multiple(value: float) -> str:
    """Format a factor with two digits: `1.5 times`, `2,300 times`, `more than a million times`."""
    if pd.isna(value):
        return MISSING
    if value > 1e6:
        return "more than a million times"
    return f"{float(f'{value:.2g}'):,.{0 if value >= 9.95 else 1}f} times"


def rounded(value: float) -> str:
    """Format a number with two significant digits and no exponent: `180`, `9.4`, `.25`."""
    text = f"{float(f'{value:.2g}'):f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") or "0"


def count(number: int, noun: str = "") -> str:
    """Write a count: `one finding`, `twelve findings`, `13 findings`; without a noun, `twelve`."""
    word = _SMALL[number] if number < len(_SMALL) else f"{number:,}"
    if not noun:
        return word
    return f"{word} {noun if number == 1 else noun + 's'}"


def ordinal(number: float) -> str:
    """Write an ordinal number: `1st`, `2nd`, `11th`, `23rd`."""
    if pd.isna(number):
        return MISSING
    number = int(number)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def list_names(names: Iterable[str]) -> str:
    """Join names: `a`, `a and b`, `a, b and c`; without any names, `none`."""
    *first, last = [*names] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def bullets(*texts: str) -> str:
    """Make a Markdown list of those entries whose numbers were all measured.

    Each text is one entry, or a list in which every entry begins a line with `* `.
    """
    entries = [entry for text in texts for entry in re.split(r"^\* ", text, flags=re.MULTILINE)]
    known = [entry.split() for entry in entries if entry.strip() and MISSING not in entry]
    return "\n".join(f"* {' '.join(entry)}" for entry in known or [["Nothing", "measured."]])


def by_claim(claims: Iterable[Any], *tables: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """Return claim's id -> its row in the tables of verdicts, found by the text of the finding.

    A claim without a row is "not run".
    """
    rows = {row["finding"]: row for table in tables for _, row in table.iterrows()}
    return {claim.id: rows.get(claim.finding, _NOT_RUN) for claim in claims}


def _effect(row: Mapping[str, Any]) -> float:
    return next(row[name] for name in _EFFECTS if name in row)
