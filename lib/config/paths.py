"""Paths: sources and committed figures are in the checkout, the rest under one artifact root."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
PARAMS = ROOT / "params"


def artifacts() -> Path:
    """The artifact root: `THESIS_ARTIFACTS`, relative to the checkout, or `artifacts/`."""
    checkout = (ROOT / "pyproject.toml").is_file()  # else pip installed it
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = ROOT if checkout else cache / "thesis-companion"
    return home / (os.environ.get("THESIS_ARTIFACTS") or "artifacts")


def run_name(profile: Any) -> str:
    """The folder name of a run; a changed profile has its own, which ends in a hash."""
    text = json.dumps(profile.departures, sort_keys=True, ensure_ascii=False).encode()
    return profile.name + (f"-{hashlib.sha256(text).hexdigest()[:8]}" if profile.departures else "")


def figures(profile: Any) -> Path:
    """Where figures are saved: in the checkout, or of a changed profile with artifacts."""
    return (artifacts() if profile.departures else ROOT) / "figures" / run_name(profile)


def run_folder(profile: Any) -> Path:
    """The folder for the rest of a run: executed notebooks with logs and notes, provenance."""
    return artifacts() / run_name(profile)
