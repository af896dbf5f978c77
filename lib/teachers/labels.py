"""Labels of Paragraph Vectors as printed, such as `DM;1024;stem;2` (Section 4.5.1, Figure 4.5)."""

import re
from typing import NamedTuple

# As printed. The author's code has 5000 occurrences for 500,000 documents, which is 1%.
SHARE = "10%"
LONGEST = 10_000  # known words that gensim reads of a document (its MAX_DOCUMENT_LEN)
# The three models selected in Section 4.5.1, under the names of the later figures.
CONTEXTUAL_TEACHERS = {
    "DM;100d": "DM;100;lowercase;2",
    "DBOW;1024d": "DBOW;1024;None;2",
    "PV;2048d": "DM;1024;stem;2+DBOW;1024;None;2",
}


class Spec(NamedTuple):
    """The settings of one single model, read from its label."""

    architecture: str  # "DM" or "DBOW"
    size: int  # dimensions of its vectors, scaled by the profile's width
    preprocessing: str  # "stem" (lowercase, then Porter), "lowercase" or "None"
    min_count: str  # as printed, a number or "10%"

    def occurrences(self, documents: int, share: float) -> int:
        """How often a word must occur to be known; `10%` stands for a share of documents."""
        if self.min_count == SHARE:
            return max(2, int(share * documents + 0.5))  # rounds half up
        return int(self.min_count)


def parse(label: str, width: float) -> tuple[Spec, ...]:
    """One or two models of a label, or of a short name such as `PV;2048d`.

    `width` is a factor for their sizes. `ValueError` for a malformed label.
    """
    label = label.strip().replace("×", "x").replace("λ", "lam")
    specs = []
    for part in CONTEXTUAL_TEACHERS.get(label, label).split("+"):
        match = re.fullmatch(
            f"(DM|DBOW);([1-9][0-9]*);(stem|lowercase|None);([1-9][0-9]*|{SHARE})", part
        )
        if match is None:
            expected = f"DM or DBOW; vector size; stem, lowercase or None; a count or {SHARE}"
            raise ValueError(f"Paragraph Vector '{label}': '{part}' is not of the form {expected}")
        architecture, size, preprocessing, min_count = match.groups()
        specs.append(Spec(architecture, max(1, round(int(size) * width)), preprocessing, min_count))
    if len(specs) > 1 and [spec.architecture for spec in specs] != ["DM", "DBOW"]:
        raise ValueError(f"Paragraph Vector '{label}': expected one DM and one DBOW")
    return tuple(specs)
