"""Labels of Paragraph Vectors as the thesis prints them, for instance `DM;1024;stem;2` (Section 4.5.1, Figure 4.5)."""

import re
from dataclasses import dataclass

SHARE = "10%"  # as printed; 5000 of 500k documents in the author's code, which is 1 %, and counts occurrences
_FIELDS = (  # what stands between the semicolons: its name, what it may be, and that in words
    ("architecture", "DM|DBOW", "DM or DBOW"),
    ("vector size", "[1-9][0-9]*", "a positive integer"),
    ("pre-processing", "stem|lowercase|None", "stem, lowercase, None"),
    ("min_count", f"[1-9][0-9]*|{SHARE}", f"a positive integer or {SHARE}"),
)
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
    values = label.split(";")
    if len(values) != len(_FIELDS):
        form = "architecture;vector size;pre-processing;min_count"
        raise ValueError(f"expected {form}, got {len(values)} part(s) in '{label}'")
    for value, (name, pattern, expected) in zip(values, _FIELDS, strict=True):
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{name} is '{value}' in '{label}', expected {expected}")
    architecture, size, preprocessing, min_count = values
    return Spec(architecture, max(1, round(int(size) * width)), preprocessing, min_count)
