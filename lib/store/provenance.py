"""How a figure or a table was made: one JSON file per label, beside the executed notebook.

The CSV and the SVG hold data only, so their bytes repeat; what changes from run to run - commit, versions, device,
seconds - stands here.
"""

from __future__ import annotations

import functools
import json
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from lib.config import paths
from lib.store.files import file_fingerprint, write_atomically

if TYPE_CHECKING:
    from lib.config.profiles import Profile

# What the numbers depend on; a package that is not installed is left out.
PACKAGES = ("torch", "transformers", "sentence-transformers", "gensim", "numpy", "scipy", "scikit-learn", "pandas",
            "matplotlib", "seaborn")  # fmt: skip


def write(label: str, *, profile: Profile, files: Iterable[Path], records: pd.DataFrame | None = None) -> Path:
    """Write `<label>.json` and return its path.

    files: what was saved under the label; each is listed with the fingerprint of its bytes.
    records: the tidy records the figure shows, or None for one that rests on no trained model. Their columns that end
        in `fingerprint`, their seeds and devices are summarised. `trainings` are the seconds of each training and
        encoding, by `embedding_fingerprint`: a model has a row per task and metric, and stands in several figures.
    """
    path = paths.provenance(profile) / f"{label}.json"
    entry = {
        "label": label,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        **_commit(),
        "profile": profile.name,
        "parameters": profile.fingerprintable(),
        "files": {file.name: file_fingerprint(file) for file in files},
        "versions": _versions(),
        **_summary(records),
    }
    write_atomically(path, (json.dumps(entry, indent=1, ensure_ascii=False, default=str) + "\n").encode())
    return path


def _summary(records: pd.DataFrame | None) -> dict[str, Any]:
    if records is None or records.empty:
        return {"records": 0}
    columns = [column for column in records if column.endswith("fingerprint")]
    summary: dict[str, Any] = {"records": len(records)}
    for column in (*columns, "seed", "device"):
        if column in records:
            summary[column] = sorted(records[column].dropna().unique().tolist())
    if {"embedding_fingerprint", "seconds"} <= set(records):
        timed = records.dropna(subset="seconds")
        summary["trainings"] = dict(zip(timed["embedding_fingerprint"], timed["seconds"], strict=True))
    return summary


def _commit() -> dict[str, Any]:
    # Read anew for every figure: a notebook stays open while its checkout changes.
    commit = _git("rev-parse", "HEAD")
    return {"commit": commit, "dirty": None if commit is None else bool(_git("status", "--porcelain"))}


def _git(*arguments: str) -> str | None:
    """Git's answer, or None where there is no git, no checkout (an unpacked archive) or no commit yet."""
    try:
        answer = subprocess.run(["git", "-C", str(paths.ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": sys.version.split()[0], "platform": platform.platform()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
