"""Which notebook makes which figure and table: `params/manifest.yaml`, checked."""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lib.config import paths, profiles
from lib.config.schema import Profile, Settings, Text

PUBLISHED = "published"  # a profile, and its only notebook
NEWS = "Trofimchuk (2022), "
_WORDS = {"fig": "Figure", "tab": "Table", "news_tab": NEWS + "Table", "news_fig": NEWS + "Figure"}


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
    match = re.fullmatch(r"(news_tab|news_fig|fig|tab)(?=[_\dA-Z])_?(.+)", label)
    return f"{_WORDS[match[1]]} {match[2].replace('_', '.')}" if match else label


def promised(
    entries: dict[str, Entry], notebook: str, labels: Collection[str] | None = None
) -> dict[str, Entry]:
    """The entries that a notebook makes; `PUBLISHED` redraws all that have a published number.

    `labels` are those that a profile lists, by default all.
    """
    return {
        label: entry
        for label, entry in entries.items()
        if (notebook == entry.notebook and (labels is None or label in labels))
        or (notebook == PUBLISHED and (label[3:4].isdigit() or label.startswith("news_")))
    }


def select(
    entries: dict[str, Entry], notebooks: Iterable[str], requests: Iterable[str]
) -> list[str]:
    """The notebooks that make what is requested, in order; all if nothing is.

    Requests are labels, and names or numbers of notebooks. ParameterError for one of nothing.
    """
    names = sorted(notebooks)
    wanted: set[str] = set()
    for request in requests:
        matching = [name for name in names if request in (name, name.split("_")[0])]
        matching += [name for name in names if request in promised(entries, name)]
        if not matching:
            valid = [*entries, *names, *profiles.list_profiles()]
            raise profiles.make_unknown_error("label, notebook or profile", request, valid)
        wanted.update(matching)
    return [name for name in names if name in wanted or not wanted]
