"""Labels of Paragraph Vectors as the thesis prints them, for instance `DM;1024;stem;2` (Section 4.5.1, Figure 4.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass

SHARE = "10%"  # as printed; 5000 of 500k documents in the author's code, which is 1 %, and counts occurrences
PREPROCESSING = ("stem", "lowercase", "None")
CONTEXTUAL_TEACHERS = {  # the three models that Section 4.5.1 selects, by the names that the later figures use
    "DM;100d": "DM;100;lowercase;2",
    "DBOW;1024d": "DBOW;1024;None;2",
    "PV;2048d": "DM;1024;stem;2+DBOW;1024;None;2",
}


@dataclass(frozen=True)
class Spec:
    """One single model."""

    architecture: str  # "DM" or "DBOW"
    size: int  # of its vectors, scaled by the profile's width
    preprocessing: str  # "stem" (lowercase, then Porter), "lowercase" or "None"
    min_count: str  # as printed, a number or "10%"

    def occurrences(self, documents: int, share: float) -> int:
        """How often a word must occur: as labelled, or for `10%` `share` times the documents, rounded, at least 2."""
        return max(2, int(share * documents + 0.5)) if self.min_count == SHARE else int(self.min_count)


def parse(label: str, width: float) -> tuple[Spec, ...]:
    """The single models of a label, one or two; `PV;2048d` is short for one. `width` scales sizes: 1024 at .5 is 512.

    Raises ValueError naming the part of the label that is wrong and what was expected.
    """
    if not width > 0:
        raise ValueError(f"Paragraph Vector label '{label}': width must be above 0, got {width}")
    try:
        specs = tuple(_single(part.strip(), width) for part in CONTEXTUAL_TEACHERS.get(label, label).split("+"))
        if len(specs) > 1 and [spec.architecture for spec in specs] != ["DM", "DBOW"]:
            raise ValueError("a compound is one DM and one DBOW in this order, as 'DM;1024;stem;2+DBOW;1024;None;2'")
    except ValueError as error:
        raise ValueError(f"Paragraph Vector label '{label}': {error}") from None
    return specs


def _single(label: str, width: float) -> Spec:
    fields = label.split(";")
    if len(fields) != 4:
        form = "architecture;vector size;pre-processing;min_count"
        raise ValueError(f"expected {form}, got {len(fields)} part(s) in '{label}'")
    architecture, size, preprocessing, min_count = fields
    for what, value, expected, good in (
        ("architecture", architecture, "DM or DBOW", architecture in ("DM", "DBOW")),
        ("vector size", size, "a positive integer", re.fullmatch("[1-9][0-9]*", size)),
        ("pre-processing", preprocessing, ", ".join(PREPROCESSING), preprocessing in PREPROCESSING),
        ("min_count", min_count, f"a positive integer or {SHARE}", re.fullmatch(f"[1-9][0-9]*|{SHARE}", min_count)),
    ):
        if not good:
            raise ValueError(f"{what} is '{value}' in '{label}', expected {expected}")
    return Spec(architecture, max(1, round(int(size) * width)), preprocessing, min_count)
