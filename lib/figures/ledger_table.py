"""The claims ledger as a table that sorts, filters and searches, with intervals on one scale.

It is plain HTML with a short script and loads no library, so it works in JupyterLab, on the site
and from disk. A code host that removes scripts and drawings still shows the whole table.
"""

import hashlib
import math
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from lib.config import manifest
from lib.figures.style import settings
from lib.statistics.verdicts import VERDICTS

REACH = 0.6  # larger effects are drawn at the edge
WIDTH, HEIGHT, EDGE = 150, 56, 6  # of a drawing, and the space left free at its sides, in SVG units
TICKS = (-0.4, -0.1, 0.1, 0.4)
# Name, prefix of the ledger's columns, height in a drawing.
SIDES = (
    ("published", "published_", 8),
    ("heads", "", 21),
    ("compare", "compare_", 34),
    ("none", "none_", 47),
)
WORDS = {
    "published": "published",
    "heads": "by the thesis' heads",
    "compare": "by heads that compare",
    "none": "without a head",
}


def ledger_html(ledger: pd.DataFrame) -> str:
    """The ledger as an HTML fragment to display: a style, a table and a script.

    `ledger` has a row per finding, with the columns of `tab_claims.csv`. The same ledger gives the
    same text.
    """
    rows = [_row(values) for values in ledger.astype(object).to_dict("records")]
    present = {
        name: [word for word in VERDICTS if word in {row[name]["verdict"] for row in rows}]
        for name in ("heads", "survives", "published")
    }
    name = "ledger-" + hashlib.sha256(ledger.to_csv().encode()).hexdigest()[:8]
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    template = jinja2.Environment(loader=loader, **options).get_template("ledger.html.j2")
    return template.render(
        rows=rows,
        verdicts=present,
        sections=sorted(dict.fromkeys(row["section"] for row in rows), key=_section_order),
        name=name,
        width=WIDTH,
        height=HEIGHT,
        words=WORDS,
        colours=settings()["readouts"] | settings()["sides"],
        looks=settings()["verdicts"],
    )


def draw_intervals(row: dict[str, Any]) -> str:
    """One finding as SVG: published above, ours below by readout, on a signed square-root axis."""
    marks = [f'<path class="zero" d="M{_place(0)} 0V{HEIGHT}"/>']
    marks += [f'<path class="tick" d="M{_place(tick)} {HEIGHT - 4}v4"/>' for tick in TICKS]
    for name, prefix, height in SIDES:
        effect, low, high = (row.get(f"{prefix}{end}") for end in ("effect", "low", "high"))
        if row["verdict"] == "number" or pd.isna(effect):
            continue
        if not pd.isna(low) and not pd.isna(high):
            line = f"M{_place(low)} {height}H{_place(high)}"
            marks.append(f'<path class="{name}" d="{line}"/>')
        marks.append(f'<circle class="{name}" cx="{_place(effect)}" cy="{height}" r="4"/>')
    return "".join(marks)


def _place(effect: float) -> str:
    """The x coordinate of an effect. On a square-root axis .005 and .1 are both visible."""
    share = math.sqrt(min(abs(effect) / REACH, 1))
    return f"{WIDTH / 2 + math.copysign(share, effect) * (WIDTH / 2 - EDGE):.1f}"


def _row(values: dict[str, Any]) -> dict[str, Any]:
    """The values of one finding for the template."""
    row = {
        "id": values["id"],
        "finding": values["finding"],
        "label": values["label"],
        "where": manifest.full_name(values["label"]),
        "section": str(values["section"]),
        "svg": draw_intervals(values),
        "details": _details(values),
    }
    for name, prefix, _ in SIDES:
        effect, verdict = values.get(f"{prefix}effect"), values[f"{prefix}verdict"]
        holding = values.get(f"{prefix}holding")
        is_missing, is_effect = pd.isna(effect), values["verdict"] != "number"
        number = "" if is_missing else f"{effect:.3g}"
        row[name] = {
            "verdict": verdict,
            "order": _find_order(verdict),
            "effect": "" if is_missing or not is_effect else effect,
            "text": _signed(effect) if is_effect and not is_missing else number,
            "interval": _interval_text(values, prefix),
            "holding": holding if _is_text(holding) else "",
        }
    survives = values["survives"]
    row["survives"] = {"verdict": survives, "order": _find_order(survives)}
    return row


def _find_order(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def _interval_text(values: dict[str, Any], prefix: str) -> str:
    """An interval such as `[+.027, +.128]`; empty if there is none."""
    low, high = values.get(f"{prefix}low"), values.get(f"{prefix}high")
    if pd.isna(low) or pd.isna(high):
        return ""
    return f"[{_signed(low)}, {_signed(high)}]"


def _signed(number: float) -> str:
    """A number with its sign and three decimals, without a leading zero."""
    return f"{number:+.3f}".replace("0.", ".", 1).replace("-", "−")


def _details(values: dict[str, Any]) -> list[tuple[str, str]]:
    """How a verdict was decided: pairs of a heading and a text."""
    details = []
    if _is_text(values.get("quote")):
        read_off = values.get("read_off") in (True, "True")
        about = "read off the figure; the text says" if read_off else "in the words of the text"
        details.append((about, f"“{values['quote']}” ({values['section']})"))
    for name, prefix, _ in SIDES:
        if _is_text(values.get(f"{prefix}arithmetic")):
            parts = [f"{values[f'{prefix}decided_by']}: {values[f'{prefix}arithmetic']}"]
            if _is_text(holding := values.get(f"{prefix}holding")):
                parts.append(f"{holding} hold by themselves")
            if _is_text(values.get(f"{prefix}vacuous")):
                parts.append("the untrained base passes, too")
            for symbol in ("p", "q"):
                rate = values.get(f"{prefix}{symbol}")
                if not pd.isna(rate):
                    parts.append(f"{symbol} = {rate:.3f}" if rate >= 0.001 else f"{symbol} < .001")
            details.append((WORDS[name], "; ".join(parts)))
    if _is_text(values.get("seeds")):
        details.append(("seeds per model", str(values["seeds"])))
    if _is_text(values.get("checks")):
        details.append(("checks", values["checks"].replace("_", " ")))
    if _is_text(values.get("note")):
        details.append(("note", values["note"]))
    return details


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _section_order(section: str) -> list[int]:
    """Sections in the order of their numbers; other names come last."""
    parts = section.split(".")
    return [int(part) if part.isdigit() else 99 for part in parts]
