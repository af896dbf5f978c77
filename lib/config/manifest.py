"""Which notebook makes which figure and table: `params/manifest.yaml`, checked."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lib.config import paths, profiles
from lib.config.schema import Profile, Settings, Text

PUBLISHED = "published"  # a profile, and its only notebook
_WORDS = {
    "fig": "Figure",
    "tab": "Table",
    "news_tab": "News paper, table",
    "news_fig": "News paper, figure",
}


class Entry(Settings):  # one figure, table or page
    label: Text
    notebook: Text
    # A drawing shows no numbers: its CSV lists what it connects. A page shows the others: made anew when one is.
    kind: Literal["figure", "drawing", "table", "page"]
    title: Text
    section: Text
    minutes: Annotated[float, Field(ge=0)]  # what its notebook takes for it in the mini profile

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that saving it makes; of the site its first page."""
        suffixes = (".csv", ".md", ".tex") if self.kind == "table" else (".svg", ".csv")
        return (
            ("index.html",)
            if self.kind == "page"
            else tuple(self.label + suffix for suffix in suffixes)
        )

    def paths(self, profile: Profile) -> list[Path]:
        """Where those files lie: with the figures, or for the site under the artifact root."""
        folder = (
            paths.run_folder(profile) / "site" if self.kind == "page" else paths.figures(profile)
        )
        return [folder / name for name in self.files]


def load() -> dict[str, Entry]:
    """Label -> entry, in the order of the file; `ParameterError`, naming label and key, for one that does not fit."""
    entries = profiles.entries("manifest.yaml")
    return {
        label: profiles.validated(Entry, {"label": label, **fields}, where)
        for label, fields, where in entries
    }


def full_name(label: str) -> str:
    """`fig4_10` -> "Figure 4.10", `figA_1` -> "Figure A.1", `news_tab1` -> "News paper, table 1"."""
    match = re.fullmatch(r"(news_tab|news_fig|fig|tab)(?=[_\dA-Z])_?(.+)", label)
    return f"{_WORDS[match[1]]} {match[2].replace('_', '.')}" if match else label


def promised(entries: dict[str, Entry], notebook: str) -> dict[str, Entry]:
    """What a notebook makes; `PUBLISHED` redraws what has a number in the thesis or stands in the news paper."""
    redrawn = [
        label
        for label in entries
        if notebook == PUBLISHED and (label[3:4].isdigit() or label[:5] == "news_")
    ]
    return {
        label: entry
        for label, entry in entries.items()
        if entry.notebook == notebook or label in redrawn
    }


def select(
    entries: dict[str, Entry], notebooks: Iterable[str], requests: Iterable[str]
) -> dict[str, list[str]]:
    """Notebook -> wanted labels. A request is a label, or a notebook's name or number; none means everything."""
    names = sorted(notebooks)
    wanted: set[str] = set()
    for request in requests:
        matching = [name for name in names if request in (name, name.split("_")[0])]
        if request not in entries and not matching:
            raise profiles.unknown(
                "label, notebook or profile", request, [*entries, *names, *profiles.profiles()]
            )
        wanted.update([request, *matching], *(promised(entries, name) for name in matching))
    chosen = {
        name: [label for label in promised(entries, name) if label in wanted or not wanted]
        for name in names
    }
    return {
        name: labels for name, labels in chosen.items() if labels or name in wanted or not wanted
    }
