"""Where things are: sources and committed figures in the checkout, the rest under one artifact
root."""

import hashlib
import json
import os
from pathlib import Path

from lib.config.schema import Profile

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PARAMS = ROOT / "params"


def artifacts() -> Path:
    """The artifact root: `THESIS_ARTIFACTS`, relative to the checkout, or `artifacts/`.

    Installed by pip there is no checkout. Then it is in the user's cache, not among the packages.
    """
    home = ROOT
    if not (ROOT / "pyproject.toml").is_file():
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        home = Path(cache) / "thesis-companion"
    return home / (os.environ.get("THESIS_ARTIFACTS") or "artifacts")


def store() -> Path:
    """The folder of `lib.store.cache`, shared by all profiles."""
    return artifacts() / "store"


def is_kept(folder: Path) -> bool:
    """Whether a folder holds the store or data, or is inside one of them."""
    root = artifacts().resolve()
    kept = {root / "store", root / "data"}
    return folder in (root, *root.parents) or bool(kept & {folder, *folder.parents})


def run_name(profile: Profile) -> str:
    """The folder name of a run; that of a changed profile has a hash, to spare the plain
    results."""
    if not profile.departures:
        return profile.name
    text = json.dumps(profile.departures, sort_keys=True, ensure_ascii=False)
    return f"{profile.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def figures(profile: Profile) -> Path:
    """Where figures are saved: `figures/<profile>`; of a changed profile, under the artifact
    root."""
    return (artifacts() if profile.departures else ROOT) / "figures" / run_name(profile)


def run_folder(profile: Profile) -> Path:
    """Where the rest of a run goes: executed notebooks, logs, notes, provenance."""
    return artifacts() / run_name(profile)


def provenance(profile: Profile) -> Path:
    """The folder of `<label>.json`, which say how figures and tables were made."""
    return run_folder(profile) / "provenance"
