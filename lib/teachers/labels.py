"""Labels of Paragraph Vectors as printed, such as `DM;1024;stem;2` (Section 4.5.1, Figure 4.5)."""

import re
from typing import NamedTuple

# As printed. In the author's code it is 5000 occurrences for 500k documents, which is 1 %.
SHARE = "10%"
# Known words of a document that gensim has room for (MAX_DOCUMENT_LEN); it drops the rest silently.
LONGEST = 10_000
# The three models that Section 4.5.1 selects, by the names that the later figures use.
CONTEXTUAL_TEACHERS = {
    "DM;100d": "DM;100;lowercase;2",
    "DBOW;1024d": "DBOW;1024;None;2",
    "PV;2048d": "DM;1024;stem;2+DBOW;1024;None;2",
}


class Spec(NamedTuple):
    """One single model."""

    architecture: str  # "DM" or "DBOW"
    size: int  # of its vectors, scaled by the profile's width
    preprocessing: str  # "stem" (lowercase, then Porter), "lowercase" or "None"
    min_count: str  # as printed, a number or "10%"

    def occurrences(self, documents: int, share: float) -> int:
        """How often a word must occur, given the documents and the share that `10%` stands for."""
        if self.min_count == SHARE:
            return max(2, int(share * documents + 0.5))  # rounds half up
        return int(self.min_count)


def parse(label: str, width: float) -> tuple[Spec, ...]:
    """Read the single models of a label, one or two.

    Parameters
    ----------
    label : str
        As printed, or a short name such as `PV;2048d`.
    width : float
        Scales the sizes.

    Raises
    ------
    ValueError
        For a bad label, with what was expected and where.
    """
    label = label.strip().replace("×", "x").replace("λ", "lam")
    specs = []
    for part in CONTEXTUAL_TEACHERS.get(label, label).split("+"):
        match = re.fullmatch(
            f"(DM|DBOW);([1-9][0-9]*);(stem|lowercase|None);([1-9][0-9]*|{SHARE})", part
        )
        if match is None:
            expected = f"DM or DBOW; vector size; stem, lowercase or None; a count or {SHARE}"
            raise ValueError(
                f"Paragraph Vector label '{label}': '{part}' is not of the form {expected}"
            )
        architecture, size, preprocessing, min_count = match.groups()
        specs.append(Spec(architecture, max(1, round(int(size) * width)), preprocessing, min_count))
    if len(specs) > 1 and [spec.architecture for spec in specs] != ["DM", "DBOW"]:
        raise ValueError(
            f"Paragraph Vector label '{label}': a compound is one DM and one DBOW, in this order"
        )
    return tuple(specs)
