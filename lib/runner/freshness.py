"""Whether a notebook's last complete run still stands, and if not, why.

A complete run leaves a note under the artifact root: a fingerprint of everything the notebook read, and one of every
file it made. A notebook is left alone only while all of them are as they were. Records have fingerprints of their
own, so running a notebook again trains nothing that is still valid.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lib.config import paths, profiles
from lib.config.manifest import Entry
from lib.config.schema import Profile
from lib.data.sources import corpus_datasets
from lib.store.files import file_fingerprint
from lib.store.records import fingerprint

# The runner itself: a notebook's results do not depend on it.
RUNNER = {"run_all.py", "run_notebook.py", "schedule.py", "freshness.py", "status.py", "set_up.py"}
LOCK_FILE = "requirements.lock"


def inputs(notebook: Path, profile: Profile, shown: list[Entry] = ()) -> dict[str, Any]:
    """What a notebook's results depend on, as named fingerprints. shown: the figures and tables that it reads."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{notebook} is not a Jupyter notebook: restore it from git") from None
    modules = [path for path in sorted((paths.ROOT / "lib").rglob("*.*")) if path.suffix in (".py", ".j2")]
    modules = [path for path in modules if path.name not in RUNNER]
    # A profile counts by its values, which an override changes, and the manifest by the files that are missing.
    own = {f"{name}.yaml" for name in (*profiles.profiles(), "manifest")}
    shared = [path for path in sorted(paths.PARAMS.rglob("*")) if path.name not in own]
    results = [path for entry in shown for path in entry.paths(profile)]
    results += [paths.provenance(profile) / f"{entry.label}.json" for entry in shown]  # tells how, and when, too
    return {
        "notebook": fingerprint(sources),
        "lib": _files(modules, paths.ROOT),
        "params": _files(shared, paths.ROOT),
        "profile": fingerprint(profile.fingerprintable()),
        "data": _data(profile),
        "results": {path.name: file_fingerprint(path) for path in results if path.is_file()},
        "packages": fingerprint((paths.ROOT / LOCK_FILE).read_text(encoding="utf-8")),
    }


def _files(files: list[Path], root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): file_fingerprint(path) for path in files if path.is_file()}


def _data(profile: Profile) -> dict[str, list[int]]:
    """Size and time of every file in the dataset folders that the profile names; reading gigabytes would take long."""
    if profile.build is not None:
        return {}  # written by code and from settings that are named here already
    root = paths.data_root(profile)
    files = sorted(path for name in corpus_datasets(profile) for path in (root / name).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): [path.stat().st_size, path.stat().st_mtime_ns] for path in files}


def reasons(note: dict[str, Any], today: dict[str, Any], wanted: list[Entry], profile: Profile) -> list[str]:
    """Why a notebook has to run, the first reason first; empty if its last run still stands.

    Args:
        note: the note of the last complete run.
        today: today's `inputs`.
        wanted: the figures and tables that are asked for.
        profile: says where their files lie.
    """
    if not note:
        return ["it has not run to its end with these settings"]
    changed = []
    for kind, now in today.items():
        before = note["inputs"].get(kind)
        if before == now:
            continue
        if isinstance(now, dict):
            names = sorted(name for name in {*now, *(before or {})} if (before or {}).get(name) != now.get(name))
            changed.append(f"changed: {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}")
        else:
            changed.append(f"the {kind} changed")
    absent = [entry.label for entry in wanted if entry.label not in note["labels"]]
    if absent:
        changed.append(f"the last run did not make {', '.join(absent)}")
    for file in (file for entry in wanted if entry.label in note["labels"] for file in entry.paths(profile)):
        if not file.is_file():
            changed.append(f"{file.name} is missing")
        elif file_fingerprint(file) != note["files"].get(file.name):
            changed.append(f"{file.name} is not as it was saved")
    return changed
