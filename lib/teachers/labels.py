"""Labels of Paragraph Vectors as printed, such as `DM;1024;stem;2` (Section 4.5.1, Figure 4.5)."""

import re
from typing import NamedTuple

# The three models selected in Section 4.5.1, under the names of the later figures.
CONTEXTUAL_TEACHERS = {
    "DM;100d": "DM;100;lowercase;2",
    "DBOW;1024d": "DBOW;1024;None;2",
    "PV;2048d": "DM;1024;stem;2+DBOW;1024;None;2",
}
# The author's code takes "10%" as 5000 occurrences for 500,000 documents, which is 1%.
_SINGLE = re.compile(r"(DM|DBOW);([1-9]\d*);(stem|lowercase|None);([1-9]\d*|10%)", re.ASCII)


class Spec(NamedTuple):
    """The settings of one single model, read from its label."""

    architecture: str  # "DM" or "DBOW"
    size: int  # dimensions of its vectors, scaled by the profile's width
    preprocessing: str  # "stem" (lowercase, then Porter), "lowercase" or "None"
    min_count: int | None  # fewest occurrences of a word that counts; None: a share of documents


def parse(label: str, width: float = 1.0) -> Spec:
    """The settings in a label, with the size times `width`; `ValueError` for a malformed label."""
    match = _SINGLE.fullmatch(label)
    if match is None:
        form = "DM or DBOW; vector size; stem, lowercase or None; a count or 10%"
        raise ValueError(f"Paragraph Vector '{label}' is not of the form {form}")
    architecture, size, preprocessing, count = match.groups()
    least = None if count == "10%" else int(count)
    return Spec(architecture, max(1, round(int(size) * width)), preprocessing, least)
