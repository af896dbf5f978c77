"""What a run has to do: the command line, the notebooks it asks for, and why each of them has to run: what it read or
what it made is not as its last complete run noted it."""

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.data.sources import corpus_datasets
from lib.store import executors, provenance
from lib.store.files import file_fingerprint, fingerprint


@dataclass
class Plan:
    """One notebook of a run: what it has to make, whether it must run, and how it went."""

    name: str
    path: Path
    profile: Profile
    wanted: list[manifest.Entry]  # what is asked for
    reads: list[manifest.Entry]  # what a page shows, which others make
    inputs: dict[str, str] = field(default_factory=dict)  # today's
    reasons: list[str] = field(
        default_factory=list
    )  # why it must run; none if its last run still stands
    result: str = "not run"
    seconds: float = 0.0
    problem: str = ""  # why it failed, and below that what to do

    def judge(self, force: bool) -> None:
        """Find out, as things stand now, whether and why the notebook must run."""
        self.inputs = inputs(self.path, self.profile, self.reads)
        note = provenance.run_note(self.name, self.profile)
        if force or not note:
            self.reasons = ["--force" if force else "it has not run to its end with these settings"]
            return
        changed = [kind for kind, now in self.inputs.items() if note["inputs"].get(kind) != now]
        files = [file for entry in self.wanted for file in entry.paths(self.profile)]
        left = note["files"]
        others = [
            file.name
            for file in files
            if not file.is_file() or file_fingerprint(file) != left.get(file.name)
        ]
        self.reasons = [f"changed: {', '.join(changed)}"] if changed else []
        drawn = [entry.label for entry in self.wanted if entry.kind != "page"]
        others += [f"{label}.json" for label in drawn if not provenance.read(label, self.profile)]
        self.reasons += [f"not as its last run left them: {', '.join(others)}"] if others else []


def inputs(notebook: Path, profile: Profile, shown: list[manifest.Entry]) -> dict[str, str]:
    """What a notebook's results depend on, as named fingerprints. shown: what it reads, with other profiles' claims."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a Jupyter notebook: restore it from git") from None
    modules = [path for path in (paths.ROOT / "lib").rglob("*.*") if path.suffix in (".py", ".j2")]
    results = [path for entry in shown for path in entry.paths(profile)]
    results += [
        paths.provenance(profile) / f"{entry.label}.json" for entry in shown
    ]  # tells how, and when, too
    results += [
        csv
        for csv in paths.ROOT.glob("figures/*/tab_claims.csv")
        if shown and csv.parts[-2] != profile.name
    ]
    # A dataset that code writes depends on nothing else; of others the size and time count, as reading takes long.
    names = {*corpus_datasets(profile), profile.news.events.partition("/")[0], *profile.news.texts}
    folders = [] if profile.build else [paths.data_root(profile) / name for name in names]
    data = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    read = {
        "notebook": sources,
        "lib": _fingerprints(modules),
        "params": _fingerprints(paths.PARAMS.rglob("*")),
    }
    read |= {"profile": profile.model_dump(mode="json"), "results": _fingerprints(results)}
    read["data"] = {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in data}
    read["packages"] = (paths.ROOT / "requirements.lock").read_text(encoding="utf-8")
    return {kind: fingerprint(value) for kind, value in read.items()}


def _fingerprints(files: Iterable[Path]) -> dict[str, str]:
    return {
        os.path.relpath(path, paths.ROOT): file_fingerprint(path)
        for path in files
        if path.is_file()
    }


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise profiles.ParameterError(message)


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line, checked as far as it can be without reading the profile."""
    parser = _Parser(prog="run_all.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--set", dest="assignments", nargs="+", action="extend", default=[])
    parser.add_argument("--only", default="")
    for option in ("--size", "--budget", "--seeds", "--jobs", "--dask"):
        parser.add_argument(option)
    for option in ("--force", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_intermixed_args(words)
    # `--set a=1 b=2 fig4_2`: what holds no "=" is a request
    options.overrides = [word for word in options.assignments if "=" in word]
    options.requests += [word for word in options.assignments if "=" not in word]
    if options.dask and options.jobs:
        raise profiles.ParameterError(
            "--jobs counts processes of this machine; --dask has as many as workers join"
        )
    # Where nobody said how many processes may work, another one may train in idle time (`run_all.train_ahead`).
    told = (
        options.dask,
        options.jobs,
        os.environ.get("THESIS_DASK"),
        os.environ.get("THESIS_JOBS"),
    )
    options.train_ahead = not any(told)
    options.jobs = executors.jobs(options.jobs)
    named = [word for word in options.requests if word in profiles.profiles()]
    if len(named) > 1:
        raise profiles.ParameterError(
            f"two profiles at once: {' and '.join(named)}; run them one after the other"
        )
    options.profile = named[0] if named else "mini"
    given = f"{options.profile} --budget {options.budget}"
    if options.budget and given not in ("lab --budget cpu", "lab --budget gpu"):
        raise profiles.ParameterError(f"expected lab --budget cpu or lab --budget gpu, got {given}")
    if part := options.size or (options.budget == "gpu" and "gpu"):
        options.profile += f"_{part}"
    options.requests = [word for word in options.requests if word not in named]
    return options


def plans(options: argparse.Namespace, profile: Profile) -> list[Plan]:
    """The notebooks that make what is asked for, in order, each with the reasons why it must run."""
    pattern = manifest.PUBLISHED if profile.name == manifest.PUBLISHED else "[0-9]*"
    files = {path.stem: path for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb"))}
    entries = manifest.load()
    present = {
        label: entry for name in files for label, entry in manifest.promised(entries, name).items()
    }
    if ours := [label for label in options.requests if label in entries and label not in present]:
        raise profiles.ParameterError(
            f"{ours[0]}: nothing of it was published; ./run_all.sh mini {ours[0]} makes it"
        )
    all_plans: list[Plan] = []
    for name, labels in manifest.select(present, files, options.requests or profile.shown).items():
        is_page = any(entry.kind == "page" for entry in manifest.promised(present, name).values())
        reads = [entry for entry in present.values() if is_page and entry.notebook != name]
        plan = Plan(name, files[name], profile, [present[label] for label in labels], reads)
        plan.judge(options.force)
        if not plan.reasons and is_page and any(earlier.reasons for earlier in all_plans):
            plan.reasons = ["it shows what the notebooks before it make"]
        all_plans.append(plan)
    return all_plans


def summary(plans: list[Plan]) -> str:
    """The table at the end: a line for each label, with made / reused / failed and the seconds of its notebook."""
    line = "{:<12} {:<24} {:<8} {:>7}  {}".format
    lines = [line("label", "notebook", "result", "seconds", "file")]
    for plan in plans:
        for entry in plan.wanted:
            file = os.path.relpath(entry.paths(plan.profile)[0])
            lines.append(line(entry.label, plan.name, plan.result, f"{plan.seconds:.0f}", file))
    if plans[0].name == manifest.PUBLISHED:
        entries = manifest.load()
        ours = (
            label
            for label in entries
            if label not in manifest.promised(entries, manifest.PUBLISHED)
        )
        lines += ["", f"nothing was published of {' '.join(ours)}"]
    return "\n".join(lines)


def dry_run(plans: list[Plan]) -> str:
    """A line for each notebook: what would run and why, and what would be reused; then what the profile costs."""
    lines = []
    for plan in plans:
        minutes = sum(entry.minutes for entry in plan.wanted)
        took = (
            "a minute"
            if plan.name == manifest.PUBLISHED
            else f"{minutes:.1f} min in mini if all is new"
        )
        why = f"run ({took}), because {'; '.join(plan.reasons)}"
        labels = " ".join(entry.label for entry in plan.wanted)
        lines.append(f"{plan.name} ({labels}) would {why if plan.reasons else 'be reused'}")
    from lib.ledger import costs  # seconds of imports, which a run does without

    labels = [entry.label for plan in plans if plan.reasons for entry in plan.wanted]
    return "\n".join([*lines, *costs.table(labels, plans[0].profile)])
