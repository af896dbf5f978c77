"""Which notebook makes which figure and table: `params/manifest.yaml`."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lib.config import paths, profiles
from lib.config.schema import Profile, Settings, Text

PUBLISHED = "published"  # a profile, and its only notebook
_WORDS = {"news_": "Trofimchuk (2022), ", None: "", "fig": "Figure", "tab": "Table"}


class Entry(Settings):
    """One figure or table of the manifest."""

    label: Text
    notebook: Text
    kind: Literal["figure", "drawing", "table"]  # a drawing's CSV lists what it connects
    title: Text
    section: Text
    minutes: Annotated[float, Field(ge=0)]  # the time its notebook takes for it in profile mini

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that are written when it is saved."""
        suffixes = (".csv", ".md", ".tex") if self.kind == "table" else (".svg", ".csv")
        return tuple(self.label + suffix for suffix in suffixes)

    def paths(self, profile: Profile) -> list[Path]:
        """Return the paths of those files."""
        return [paths.figures(profile) / name for name in self.files]


def load() -> dict[str, Entry]:
    """Read the manifest as label -> entry, in its order; ParameterError for an invalid entry."""
    return {
        label: profiles.validated(Entry, {"label": label, **fields}, where)
        for label, fields, where in profiles.entries("manifest.yaml")
    }


def full_name(label: str) -> str:
    """Write out a label: `figA_1` is "Figure A.1", `news_tab1` "Trofimchuk (2022), Table 1"."""
    match = re.fullmatch(r"(news_)?(fig|tab)(?=[_\dA-Z])_?(.+)", label)
    return f"{_WORDS[match[1]]}{_WORDS[match[2]]} {match[3].replace('_', '.')}" if match else label


def promised(
    entries: dict[str, Entry], notebook: str, labels: Collection[str] | None = None
) -> dict[str, Entry]:
    """The entries that a notebook makes, of the labels that a profile lists (None: of all).

    `PUBLISHED` redraws all that have a published number. ParameterError for an unknown label.
    """
    for label in labels or ():
        if label not in entries:
            raise profiles.make_unknown_error("label in the profile's labels", label, entries)
    return {
        label: entry
        for label, entry in entries.items()
        if (notebook == entry.notebook and (labels is None or label in labels))
        or (notebook == PUBLISHED and (label[3:4].isdigit() or label.startswith("news_")))
    }
