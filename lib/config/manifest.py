"""Which notebook makes which figure and table; the thesis' tasks and rounds in its order."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from lib.config import paths, profiles
from lib.config.schema import Profile

PUBLISHED = "published"  # a profile, and its only notebook
# Sections 4.2 and 5.2.1, as the boxplots count them, and 5.2.2.
CLASSIFICATION = ("ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN")
ROLES = (*CLASSIFICATION, "WINES", "GAMES")
ROUNDS = {"1k": 1000, "10k": 10000, "all": None}  # labelled examples (Section 5.3.1)
TABLE_5_7 = ("ARXIV", "IMDB", "AAN", "OC", "PAN", "S2ORC", "GAMES", "WINES")


class Entry(NamedTuple):
    """One figure or table, as `params/manifest.yaml` explains it."""

    label: str
    notebook: str
    kind: str
    title: str
    minutes: float

    def paths(self, profile: Profile) -> list[Path]:
        """Return the paths of the files that are written when it is saved."""
        suffixes = (".csv", ".md", ".tex") if self.kind == "table" else (".svg", ".csv")
        return [paths.figures(profile) / f"{self.label}{suffix}" for suffix in suffixes]


def load() -> dict[str, Entry]:
    """Read `params/manifest.yaml` as label -> entry, in its order."""
    entries = profiles.read_yaml("manifest.yaml")
    return {label: Entry(label, **fields) for label, fields in entries.items()}


def full_name(label: str) -> str:
    """Write out a label: `figA_1` is "Figure A.1", `news_tab1` "Trofimchuk (2022), Table 1"."""
    match = re.fullmatch(r"(news_)?(fig|tab)(?=[_\dA-Z])_?(.+)", label)
    if not match:
        return label
    word = "Trofimchuk (2022), " if match[1] else ""
    word += "Figure" if match[2] == "fig" else "Table"
    return f"{word} {match[3].replace('_', '.')}"


def promised(
    entries: dict[str, Entry], notebook: str, labels: Collection[str] | None = None
) -> dict[str, Entry]:
    """The entries that a notebook makes, of the labels that a profile lists (None: of all)."""
    if unknown := {*(labels or ())} - {*entries}:
        raise profiles.make_unknown_error("label", min(unknown), entries)
    if notebook == PUBLISHED:  # it redraws what the thesis and the second paper printed
        made = [label for label in entries if label[3:4].isdigit() or label.startswith("news_")]
    else:
        made = [label for label, entry in entries.items() if entry.notebook == notebook]
    return {label: entries[label] for label in made if labels is None or label in labels}


def ordered(names: Iterable[str], order: Collection[str] = ROLES) -> list[str]:
    """Sort names without repetition: first those of `order`, in its order, then alphabetically."""
    return sorted(set(names), key=lambda name: ([*order, name].index(name), name))


def printed_rounds(rounds: Mapping[str, float | None]) -> dict[str, str]:
    """Round -> its name: "1k" with as many examples as the thesis, else "25 (1k)" or "25% (1k)"."""
    names = {}
    for name, size in rounds.items():
        told = f"{100 * size:g}%" if size and size < 1 else size or "all"
        names[name] = name if ROUNDS.get(name, size) == size else f"{told} ({name})"
    return names
