"""Which notebooks must run, and why: what they read or made has changed since their last run."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.data import sources
from lib.store import provenance
from lib.store.files import file_fingerprint, fingerprint, sha256
from lib.store.progress import duration

REPORT = "09_report"  # it shows what the notebooks before it have made


@dataclass
class Plan:
    """One notebook of a run: what it makes, why it must run, and how it went."""

    path: Path
    profile: Profile
    makes: list[manifest.Entry]
    inputs: dict[str, str]  # kind -> fingerprint, as they are now
    note: dict[str, Any]  # what its last complete run noted
    reasons: list[str]  # why it must run; empty if its last run is still valid
    result: str = "not run"
    seconds: float = 0.0
    problem: str = ""  # why it failed and, on further lines, what to do

    @property
    def name(self) -> str:
        return self.path.stem


def plan_notebook(
    path: Path, profile: Profile, makes: list[manifest.Entry], *, force: bool = False
) -> Plan:
    """Find out whether a notebook must run now, and why."""
    inputs = fingerprint_inputs(path, profile)
    note = provenance.read_run(path.stem, profile)
    if force:
        reasons = ["--force"]
    elif not note:
        reasons = ["it has not run to its end with these settings"]
    else:
        changed = [kind for kind, now in inputs.items() if note["inputs"].get(kind) != now]
        reasons = [f"its inputs changed: {', '.join(changed)}"] if changed else []
        if files := _list_changed_files(makes, profile, note["files"]):
            reasons.append(f"its files are missing or changed: {', '.join(files)}")
    return Plan(path, profile, makes, inputs, note, reasons)


def plan_all(
    notebooks: dict[Path, list[manifest.Entry]], profile: Profile, *, force: bool = False
) -> list[Plan]:
    """Plan several notebooks. The report must run if one before it must."""
    plans = [plan_notebook(path, profile, makes, force=force) for path, makes in notebooks.items()]
    for place, plan in enumerate(plans):
        earlier = any(other.reasons for other in plans[:place])
        if plan.name == REPORT and not plan.reasons and earlier:
            plan.reasons = ["it shows what the notebooks before it make"]
    return plans


def _list_changed_files(
    makes: list[manifest.Entry], profile: Profile, noted: dict[str, str]
) -> list[str]:
    """Names of the files, including provenance, that are missing or not as noted."""
    changed = []
    for entry in makes:
        for file in entry.paths(profile):
            # A filter on models may leave nothing to draw in a figure. Then it was not noted.
            owed = file.name in noted or not profile.only
            if owed and not (file.is_file() and sha256(file) == noted.get(file.name)):
                changed.append(file.name)
        if f"{entry.label}.csv" in noted and not provenance.read(entry.label, profile):
            changed.append(f"{entry.label}.json")
    return changed


def fingerprint_inputs(notebook: Path, profile: Profile) -> dict[str, str]:
    """Fingerprint what a notebook's results depend on, by kind ("lib", "params", "data", ...).

    Raises `ValueError` if the file is not a notebook.
    """
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a Jupyter notebook: restore it from git") from None
    modules = [path for path in (paths.ROOT / "lib").rglob("*.*") if path.suffix in (".py", ".j2")]
    names = profiles.list_profiles()  # of profiles, only the given one counts, see below
    params = [
        path
        for path in paths.PARAMS.rglob("*")
        if path.suffix != ".md" and (path.parent != paths.PARAMS or path.stem not in names)
    ]
    shown: list[Path] = []
    if notebook.stem == REPORT:
        shown = [
            path
            for entry in manifest.load().values()
            if entry.notebook < REPORT
            for path in entry.paths(profile)
        ]
    if notebook.stem in (REPORT, profile.notebook):  # it has the other profiles' ledgers
        shown += [
            path
            for path in paths.ROOT.glob("figures/*/tab_claims.csv")
            if path.parent != paths.figures(profile)
        ]
    read = {
        "notebook": sources,
        "lib": _fingerprint_files(modules),
        "params": _fingerprint_files(params),
        "profile": profile.model_dump(mode="json"),
        "results": _fingerprint_files(shown),
        "data": _describe_data(profile),
        "packages": (paths.ROOT / "requirements.lock").read_text(encoding="utf-8"),
    }
    return {kind: fingerprint(value) for kind, value in read.items()}


def _describe_data(profile: Profile) -> dict[str, list[int]]:
    """Size and modification time of the user's own files, because reading them all is slow.

    Files that a builder writes are left out: they depend only on settings and code.
    """
    named = [os.environ.get("THESIS_DATA") or "", *profile.data_roots]
    roots = [sources.find_root(name) for name in named if name and name != sources.BUILT]
    datasets = {place.folder.partition("/")[0] for place in profile.tasks.folders.values()}
    datasets |= {*profile.corpus.names, *profile.news.texts}
    datasets.add(profile.news.events.partition("/")[0])
    files = [
        path
        for root in roots
        for name in datasets
        for path in sources.find_folder(root, name).rglob("[!.]*")
        if path.is_file()
    ]
    return {str(path): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}


def _fingerprint_files(files: Iterable[Path]) -> dict[str, str]:
    return {
        os.path.relpath(path, paths.ROOT): file_fingerprint(path)
        for path in files
        if path.is_file()
    }


def describe_plans(plans: list[Plan]) -> str:
    """A line for each notebook: whether it would run, why, and how long it took last time."""
    lines = []
    for plan in plans:
        minutes = sum(entry.minutes for entry in plan.makes)
        took = f"about {minutes:.1f} min in mini if everything is new"
        if plan.name == manifest.PUBLISHED:
            took = "about a minute"
        if plan.note:
            took = f"took {duration(plan.note['seconds'])} last time"
        if not plan.reasons:
            lines.append(f"{plan.name}: up to date")
            continue
        missing = [note for note in _list_products(plan) if not note.exists()]
        lines.append(f"{plan.name}: would run ({took}), because {'; '.join(plan.reasons)}")
        if missing:
            lines.append(f"    {len(missing)} of the products that it used are missing")
    return "\n".join(lines)


def describe_stale(plans: list[Plan]) -> str:
    """A line for each changed module: how many products it makes stale, and their making time.

    Only products that the notebooks to be run used last time are counted.
    """
    from lib.store import cache  # loads NumPy

    used = {note for plan in plans if plan.reasons for note in _list_products(plan)}
    lines = []
    for module, notes in sorted(cache.list_stale(sorted(used)).items()):
        kinds: dict[str, int] = {}
        for note in notes:
            kinds[note.get("kind", "?")] = kinds.get(note.get("kind", "?"), 0) + 1
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        seconds = duration(sum(note.get("seconds", 0) for note in notes))
        lines.append(f"{module} has changed: {counts} stale (made in {seconds})")
    if lines:
        lines.append("stale products are made again; --keep uses them as they are")
    return "\n".join(lines)


def _list_products(plan: Plan) -> list[Path]:
    return [paths.store() / name for name in plan.note.get("products", ())]
