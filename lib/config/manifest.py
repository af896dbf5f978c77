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
    "news_tab": "Trofimchuk (2022), Table",
    "news_fig": "Trofimchuk (2022), Figure",
}


class Entry(Settings):
    """One figure or table."""

    label: Text
    notebook: Text
    also: Text | None = None  # a second notebook that makes it, for the profile of that name
    kind: Literal["figure", "drawing", "table"]  # a drawing's CSV lists what it connects
    title: Text
    section: Text
    minutes: Annotated[float, Field(ge=0)]  # what its notebook takes for it in the mini profile

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that saving it makes."""
        suffixes = (".csv", ".md", ".tex") if self.kind == "table" else (".svg", ".csv")
        return tuple(self.label + suffix for suffix in suffixes)

    def paths(self, profile: Profile) -> list[Path]:
        """Where those files are."""
        return [paths.figures(profile) / name for name in self.files]


def load() -> dict[str, Entry]:
    """Label -> entry, in the order of the file; `ParameterError` for one that does not fit."""
    return {
        label: profiles.validated(Entry, {"label": label, **fields}, where)
        for label, fields, where in profiles.entries("manifest.yaml")
    }


def full_name(label: str) -> str:
    """`fig4_10` -> "Figure 4.10", `figA_1` -> "Figure A.1", `news_tab1` -> "Trofimchuk (2022),
    Table 1"."""
    match = re.fullmatch(r"(news_tab|news_fig|fig|tab)(?=[_\dA-Z])_?(.+)", label)
    return f"{_WORDS[match[1]]} {match[2].replace('_', '.')}" if match else label


def promised(entries: dict[str, Entry], notebook: str) -> dict[str, Entry]:
    """What a notebook makes; `PUBLISHED` redraws what has a number in the thesis or the news
    paper."""
    if notebook == PUBLISHED:
        return {
            label: entry
            for label, entry in entries.items()
            if label[3:4].isdigit() or label.startswith("news_")
        }
    return {
        label: entry for label, entry in entries.items() if notebook in (entry.notebook, entry.also)
    }


def select(
    entries: dict[str, Entry], notebooks: Iterable[str], requests: Iterable[str]
) -> list[str]:
    """The notebooks that make what is asked for, in order.

    Parameters
    ----------
    entries : dict
        Those that the notebooks can make.
    notebooks : iterable of str
        The notebooks that there are.
    requests : iterable of str
        Labels, and names or numbers of notebooks. None means everything.

    Raises
    ------
    ParameterError
        A request matches nothing.
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
