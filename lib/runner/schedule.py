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
from lib.runner.status import shown, table
from lib.store import executors, run_notes
from lib.store.progress import duration


@dataclass
class Plan:
    """One notebook of a run: what it has to make, whether it must run, and how it went."""

    path: Path
    wanted: list[manifest.Entry]
    partial: bool
    inputs: dict[str, Any]
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
    options.jobs = executors.jobs(options.jobs)
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
    all_plans = [judged(files[name], labels, present, options, profile) for name, labels in chosen.items()]
    for number, plan in enumerate(all_plans):
        if not plan.reasons and plan.is_page and any(earlier.reasons for earlier in all_plans[:number]):
            plan.reasons = ["it shows what the notebooks before it make"]
    return all_plans


def judged(
    path: Path, labels: list[str], present: dict[str, manifest.Entry], options: argparse.Namespace, profile: Profile
) -> Plan:
    """The plan for one notebook as things stand now."""
    own = manifest.promised(present, path.stem)
    is_page = any(entry.kind == "page" for entry in own.values())
    inputs = freshness.inputs(
        path, profile, [entry for entry in present.values() if is_page and entry.notebook != path.stem]
    )
    note = run_notes.read(path.stem, profile)
    wanted = [present[label] for label in labels]
    reasons = ["--force"] if options.force else freshness.reasons(note, inputs, wanted, profile)
    return Plan(
        path,
        wanted,
        len(labels) < len(own),
        inputs,
        note,
        reasons,
        lambda: judged(path, labels, present, options, profile),
    )


def summary(plans: list[Plan], profile: Profile) -> str:
    """The table at the end: label, file, made / reused / failed, and the seconds of its notebook, once for each."""
    rows = [("label", "file", "result", "seconds", "notebook")]
    for plan in plans:
        seconds = f"{plan.seconds:.0f}"
        for entry in plan.wanted:
            rows.append((entry.label, shown(entry.paths(profile)[0]), plan.result, seconds, plan.name))
            seconds = ""
        if not plan.wanted:
            rows.append(("-", shown(plan.path), plan.result, seconds, plan.name))
    return table(rows)


def dry_run(plans: list[Plan], profile: Profile) -> str:
    """What would run and why, and what would be reused."""
    rows = [("notebook", "labels", "would", "because")]
    for plan in plans:
        expected = plan.expected(profile)
        doing = "run" + (f", about {duration(expected)}" if expected else "") if plan.reasons else "be reused"
        why = plan.reasons or ["nothing it depends on has changed"]
        rows.append((plan.name, " ".join(entry.label for entry in plan.wanted) or "-", doing, why[0]))
        rows += [("", "", "", reason) for reason in why[1:]]
    return table(rows)
