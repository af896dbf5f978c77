"""What a run has to do: the command line, the notebooks it asks for, and why each of them has to run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.runner import freshness
from lib.runner.status import duration, shown, table


@dataclass
class Plan:
    """One notebook of a run: what it has to make, whether it must run, and how it went."""

    path: Path
    wanted: list[manifest.Entry]
    partial: bool
    found: dict[str, Any]
    note: dict[str, Any]
    reasons: list[str]
    again: Callable[[], Plan]  # the same plan, judged anew: a page shows what the notebooks before it have just made
    result: str = "not run"
    seconds: float = 0.0
    problem: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def is_page(self) -> bool:
        """Whether the notebook shows what others make."""
        return any(entry.kind == "page" for entry in self.wanted)

    def expected(self, profile: Profile) -> float | None:
        """Seconds this notebook will take: as last time, else the manifest's minutes, which are those of mini."""
        if self.note and {entry.label for entry in self.wanted} <= set(self.note["labels"]):
            return self.note["seconds"]
        return 60 * sum(entry.minutes for entry in self.wanted) if profile.name == "mini" else None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise profiles.ParameterError(message)


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line, checked as far as it can be without reading the profile."""
    parser = _Parser(prog="run_all.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--set", dest="assignments", nargs="+", action="append", default=[])
    parser.add_argument("--seeds")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        nearest = profiles.nearest(unknown[0], [flag for action in parser._actions for flag in action.option_strings])
        raise profiles.ParameterError(f"unknown option {unknown[0]}; nearest: {nearest}")
    # `--set a=1 b=2 fig4_2`: after the first assignment, what holds no "=" is a request
    options.overrides = [words[0] for words in options.assignments]
    for word in (word for words in options.assignments for word in words[1:]):
        (options.overrides if "=" in word else options.requests).append(word)
    if options.jobs is not None and not (options.jobs.isdigit() and int(options.jobs) >= 1):
        raise profiles.ParameterError(f"--jobs: expected a whole number from 1, got {options.jobs!r}")
    named = [word for word in options.requests if word in profiles.profiles()]
    if len(named) > 1:
        raise profiles.ParameterError(f"two profiles at once: {' and '.join(named)}; run them one after the other")
    options.profile = named[0] if named else "mini"
    options.requests = [word for word in options.requests if word not in named]
    return options


def plans(options: argparse.Namespace, profile: Profile) -> list[Plan]:
    """The notebooks that make what is asked for, in order, each with the reasons why it must run."""
    files = {path.stem: path for path in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))}
    present = {label: entry for label, entry in manifest.load().items() if entry.notebook in files}
    chosen = manifest.select(present, files, options.requests)
    made = [judged(files[name], labels, present, options, profile) for name, labels in chosen.items()]
    for number, one in enumerate(made):
        if not one.reasons and one.is_page and any(earlier.reasons for earlier in made[:number]):
            one.reasons = ["it shows what the notebooks before it make"]
    return made


def judged(
    path: Path, labels: list[str], present: dict[str, manifest.Entry], options: argparse.Namespace, profile: Profile
) -> Plan:
    """The plan for one notebook as things stand now."""
    own = manifest.promised(present, path.stem)
    is_page = any(entry.kind == "page" for entry in own.values())
    found = freshness.inputs(
        path, profile, [entry for entry in present.values() if is_page and entry.notebook != path.stem]
    )
    note = freshness.read_note(path.stem, profile)
    wanted = [present[label] for label in labels]
    reasons = ["--force"] if options.force else freshness.reasons(note, found, wanted, profile)
    return Plan(
        path,
        wanted,
        len(labels) < len(own),
        found,
        note,
        reasons,
        lambda: judged(path, labels, present, options, profile),
    )


def summary(plans: list[Plan], profile: Profile) -> str:
    """The table at the end: label, file, made / reused / failed, and the seconds of its notebook, once for each."""
    rows = [("label", "file", "result", "seconds", "notebook")]
    for one in plans:
        seconds = f"{one.seconds:.0f}"
        for entry in one.wanted:
            rows.append((entry.label, shown(entry.paths(profile)[0]), one.result, seconds, one.name))
            seconds = ""
        if not one.wanted:
            rows.append(("-", shown(one.path), one.result, seconds, one.name))
    return table(rows)


def dry_run(plans: list[Plan], profile: Profile) -> str:
    """What would run and why, and what would be reused."""
    rows = [("notebook", "labels", "would", "because")]
    for one in plans:
        expected = one.expected(profile)
        doing = "run" + (f", about {duration(expected)}" if expected else "") if one.reasons else "be reused"
        why = one.reasons or ["nothing it depends on has changed"]
        rows.append((one.name, " ".join(entry.label for entry in one.wanted) or "-", doing, why[0]))
        rows += [("", "", "", reason) for reason in why[1:]]
    return table(rows)
