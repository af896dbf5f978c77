"""Where things are: sources of truth and committed figures in the checkout, the rest under one artifact root."""

import hashlib
import json
import os
from pathlib import Path

from lib.config.schema import Profile

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PARAMS = ROOT / "params"


def artifacts() -> Path:
    """The artifact root: the environment variable `THESIS_ARTIFACTS`, relative to the checkout, or `artifacts/`."""
    return ROOT / (os.environ.get("THESIS_ARTIFACTS") or "artifacts")


def data_root(profile: Profile) -> Path:
    """The folder of dataset folders, `THESIS_DATA` or `data_root`; `ValueError` if it or the corpus is not there."""
    named = os.environ.get("THESIS_DATA") or profile.data_root
    if not named or not (ROOT / named).is_dir():
        wrong = (
            f"the data root {named!r} is not a folder" if named else "it needs documents of yours"
        )
        told = "set THESIS_DATA, or data_root in the profile, to the folder that holds <name>/documents.jsonl"
        raise ValueError(f"profile {profile.name!r}: {wrong}: {told}")
    missing = [
        name for name in profile.corpus.names if not [*(ROOT / named / name).glob("documents*")]
    ]
    if missing and profile.build is None:
        raise ValueError(
            f"{ROOT / named / missing[0]}: no such dataset folder, or no documents.jsonl in it"
        )
    return ROOT / named


def run_name(profile: Profile) -> str:
    """The folder name of a run's results: a modified profile's has a hash, so as not to replace the plain one's."""
    if not profile.departures:
        return profile.name
    text = json.dumps(profile.departures, sort_keys=True, ensure_ascii=False)
    return f"{profile.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def figures(profile: Profile) -> Path:
    """Where figures and tables are saved: `figures/<profile>`, or under the artifact root for a modified profile."""
    return (artifacts() if profile.departures else ROOT) / "figures" / run_name(profile)


def run_folder(profile: Profile) -> Path:
    """Where the rest of a run goes: executed notebooks, logs, notes, the page."""
    return artifacts() / run_name(profile)


def provenance(profile: Profile) -> Path:
    """Where `<label>.json` goes, the record of how a figure or table was made."""
    return run_folder(profile) / "provenance"
