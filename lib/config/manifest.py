"""Which notebook makes which figure and table: `params/manifest.yaml`, checked."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lib.config import paths, profiles
from lib.config.schema import Profile, Settings, Text

SUFFIXES = {
    "figure": (".svg", ".csv"),
    "drawing": (".svg", ".csv"),  # shows no numbers: its CSV lists what it connects
    "table": (".csv", ".md", ".tex"),
    "page": (".html",),  # shows the others, and is made anew when one of them is
}


class Entry(Settings):
    """One figure, table or page.

    minutes: what its notebook takes for it in the mini profile on 2 cores, the estimate before anything was timed.
    """

    label: Text
    notebook: Text
    kind: Literal["figure", "drawing", "table", "page"]
    title: Text
    section: Text
    minutes: Annotated[float, Field(ge=0)]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that saving it makes."""
        return tuple(self.label + suffix for suffix in SUFFIXES[self.kind])

    def paths(self, profile: Profile) -> list[Path]:
        """Where those files lie: with the figures, or for a page under the artifact root."""
        folder = paths.run_folder(profile) if self.kind == "page" else paths.figures(profile)
        return [folder / name for name in self.files]


def load() -> dict[str, Entry]:
    """Label -> entry, in the order of the file; `ParameterError`, naming label and key, for one that does not fit."""
    return {
        label: profiles.validated(Entry, {"label": label, **fields}, where)
        for label, fields, where in profiles.entries("manifest.yaml")
    }


def promised(entries: dict[str, Entry], notebook: str) -> dict[str, Entry]:
    """What a notebook makes."""
    return {label: entry for label, entry in entries.items() if entry.notebook == notebook}


def select(entries: dict[str, Entry], notebooks: Iterable[str], requests: Iterable[str]) -> dict[str, list[str]]:
    """Notebook -> wanted labels, in the notebooks' order; no request means everything.

    A request is a label (`fig4_2`) or a notebook's name (`02_structural_loss`, or just `02`); `ParameterError`, with
    the nearest valid name, for one that is neither.
    """
    names, wanted = sorted(notebooks), set()
    for request in requests:
        matching = [name for name in names if request in (name, name.split("_")[0])]
        if request in entries:
            wanted.add(request)
        elif matching:
            wanted.update([matching[0], *promised(entries, matching[0])])
        else:
            raise profiles.unknown("label, notebook or profile", request, [*entries, *names, *profiles.profiles()])
    chosen = {name: [label for label in promised(entries, name) if label in wanted or not wanted] for name in names}
    return {name: labels for name, labels in chosen.items() if labels or name in wanted or not wanted}
