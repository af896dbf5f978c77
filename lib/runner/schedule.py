"""What a run has to do: the command line, the notebooks it asks for, and why each of them has to run.

A complete run leaves a note under the artifact root: a fingerprint of everything the notebook read, and one of every
file it made. A notebook is left alone only while all of them are as they were. Records have fingerprints of their
own, so running a notebook again trains nothing that is still valid.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.data.sources import corpus_datasets
from lib.store import executors, provenance
from lib.store.files import file_fingerprint, fingerprint
from lib.store.progress import duration


@dataclass
class Plan:
    """One notebook of a run: what it has to make, whether it must run, and how it went."""

    path: Path
    profile: Profile
    own: list[manifest.Entry]  # all that the notebook makes
    wanted: list[manifest.Entry]  # what is asked for
    reads: list[manifest.Entry]  # what a page shows, which others make
    force: bool
    inputs: dict[str, Any] = field(default_factory=dict)  # today's
    note: dict[str, Any] = field(default_factory=dict)  # of the last complete run
    reasons: list[str] = field(default_factory=list)  # why it must run; none if its last run still stands
    result: str = "not run"
    heading: str = ""  # `[2/9] 02_structural_loss`
    seconds: float = 0.0
    problem: str = ""  # why it failed, and below that what to do

    @property
    def name(self) -> str:
        return self.path.stem

    def expected(self) -> float | None:
        """Seconds this notebook will take: as last time, else the manifest's minutes, which are those of mini."""
        if self.note and {entry.label for entry in self.wanted} <= set(self.note["labels"]):
            return self.note["seconds"]
        return 60 * sum(entry.minutes for entry in self.wanted) if self.profile.name == "mini" else None

    def judge(self) -> None:
        """Find out, as things stand now, whether and why the notebook must run."""
        self.inputs = inputs(self.path, self.profile, self.reads)
        self.note = provenance.run_note(self.name, self.profile)
        self.reasons = ["--force"] if self.force else list(self._reasons())

    def _reasons(self) -> Iterator[str]:
        if not self.note:
            yield "it has not run to its end with these settings"
            return
        for kind, now in self.inputs.items():
            before = self.note["inputs"].get(kind)
            if before == now:
                continue
            if isinstance(now, dict) and isinstance(before, dict):
                names = sorted(name for name in {*now, *before} if before.get(name) != now.get(name))
                yield f"changed: {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
            else:
                yield f"the {kind} changed"
        if absent := [entry.label for entry in self.wanted if entry.label not in self.note["labels"]]:
            yield f"the last run did not make {', '.join(absent)}"
        for file in (file for entry in self.wanted if entry.label not in absent for file in entry.paths(self.profile)):
            if not file.is_file():
                yield f"{file.name} is missing"
            elif file_fingerprint(file) != self.note["files"].get(file.name):
                yield f"{file.name} is not as it was saved"


def inputs(notebook: Path, profile: Profile, shown: list[manifest.Entry]) -> dict[str, Any]:
    """What a notebook's results depend on, as named fingerprints. shown: the figures and tables that it reads."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a Jupyter notebook: restore it from git") from None
    modules = [path for path in (paths.ROOT / "lib").rglob("*.*") if path.suffix in (".py", ".j2")]
    # Of the runner, the results depend on the notebooks' frame alone. A profile counts by its values, which an override
    # changes, and the manifest by the files that are missing.
    modules = [path for path in modules if path.parent.name != "runner" or path.name == "notebook.py"]
    own = {f"{name}.yaml" for name in (*profiles.profiles(), "manifest")}
    results = [path for entry in shown for path in entry.paths(profile)]
    results += [paths.provenance(profile) / f"{entry.label}.json" for entry in shown]  # tells how, and when, too
    return {
        "notebook": fingerprint(sources),
        "lib": _files(modules),
        "params": _files(path for path in paths.PARAMS.rglob("*") if path.name not in own),
        "profile": fingerprint(profile.model_dump(mode="json")),
        "data": _data(profile),
        "results": {path.name: file_fingerprint(path) for path in results if path.is_file()},
        "packages": fingerprint((paths.ROOT / "requirements.lock").read_text(encoding="utf-8")),
    }


def _files(files: Iterable[Path]) -> dict[str, str]:
    return {str(path.relative_to(paths.ROOT)): file_fingerprint(path) for path in sorted(files) if path.is_file()}


def _data(profile: Profile) -> dict[str, list[int]]:
    """Size and time of every file in the dataset folders that the profile names; reading gigabytes would take long."""
    if profile.build is not None:
        return {}  # written by code and from settings that are named here already
    root = paths.data_root(profile)
    files = sorted(path for name in corpus_datasets(profile) for path in (root / name).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}


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
        flags = [flag for action in parser._actions for flag in action.option_strings]
        raise profiles.unknown("option", unknown[0], flags)
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
    all_plans: list[Plan] = []
    for name, labels in manifest.select(present, files, options.requests).items():
        own = list(manifest.promised(present, name).values())
        is_page = any(entry.kind == "page" for entry in own)
        reads = [entry for entry in present.values() if is_page and entry.notebook != name]
        plan = Plan(files[name], profile, own, [present[label] for label in labels], reads, options.force)
        plan.judge()
        if not plan.reasons and is_page and any(earlier.reasons for earlier in all_plans):
            plan.reasons = ["it shows what the notebooks before it make"]
        all_plans.append(plan)
    return all_plans


def shown(path: Path) -> str:
    """A path relative to where the person is, or absolute if it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _table(*rows: tuple[str, ...]) -> str:
    """Rows as aligned text; the first row is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = (rows[0], tuple("-" * width for width in widths), *rows[1:])
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def summary(plans: list[Plan]) -> str:
    """The table at the end: label, file, made / reused / failed, and the seconds of its notebook, once for each."""
    rows = []
    for plan in plans:
        files = [(entry.label, shown(entry.paths(plan.profile)[0])) for entry in plan.wanted]
        for place, names in enumerate(files or [("-", shown(plan.path))]):
            rows.append((*names, plan.result, "" if place else f"{plan.seconds:.0f}", plan.name))
    return _table(("label", "file", "result", "seconds", "notebook"), *rows)


def dry_run(plans: list[Plan]) -> str:
    """What would run and why, and what would be reused."""
    rows = []
    for plan in plans:
        expected = plan.expected()
        doing = "run" + (f", about {duration(expected)}" if expected else "") if plan.reasons else "be reused"
        why = plan.reasons or ["nothing it depends on has changed"]
        rows.append((plan.name, " ".join(entry.label for entry in plan.wanted) or "-", doing, why[0]))
        rows += [("", "", "", reason) for reason in why[1:]]
    return _table(("notebook", "labels", "would", "because"), *rows)
