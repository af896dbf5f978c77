"""Notes on how figures and tables were made, and on the last complete run of each notebook.

Both are JSON in the format of `lib.store.sealed`. The files that they list are in `figures/`.
"""

import functools
import json
import platform
import subprocess
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lib.config import paths
from lib.config.schema import Profile
from lib.store.files import sha256, write_atomically
from lib.store.sealed import read_facts

PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "gensim", "numpy", "scipy"),
    *("scikit-learn", "pandas", "matplotlib", "seaborn"),
)


def write(
    label: str,
    *,
    profile: Profile,
    files: Iterable[Path],
    records: Any = None,
    stale: Collection[str] = (),
) -> None:
    """Write `<label>.json`, the note on how a figure or table was made.

    Parameters
    ----------
    label : str
    profile : Profile
        The profile it was made with.
    files : iterable of Path
        The files of the figure or table.
    records : DataFrame, optional
        The results it shows, one row per model, task and seed, perhaps with fingerprints and
        seconds.
    stale : collection of str
        Products of older code that were used because of `--keep`, as `<kind>/<key>`.
    """
    facts = {"label": label, "written": datetime.now(UTC).isoformat(timespec="seconds"), **commit()}
    facts |= {"profile": profile.name, "parameters": profile.model_dump(mode="json")}
    facts |= {"versions": versions(), "records": 0 if records is None else len(records)}
    if stale:
        facts["stale"] = sorted(stale)
    for column in () if records is None else records:
        if column.endswith("fingerprint") or column in ("seed", "device"):
            facts[column] = sorted(records[column].dropna().unique().tolist())
    if records is not None and {"embedding_fingerprint", "seconds"} <= set(records):
        # A model has one row per task, but was trained only once.
        timed = records.dropna(subset="seconds").set_index("embedding_fingerprint")
        facts["trainings"] = timed["seconds"].to_dict()
    _write(paths.provenance(profile) / f"{label}.json", files, facts)


def read(label: str, profile: Profile) -> dict[str, Any]:
    """Read how a figure or table was made; empty for those that came with the repository."""
    return read_facts(paths.provenance(profile) / f"{label}.json") or {}


def write_run(
    notebook: str,
    profile: Profile,
    *,
    files: Iterable[Path],
    inputs: dict[str, str],
    seconds: float,
    products: Collection[str],
) -> None:
    """Note that a notebook ran to its end.

    Parameters
    ----------
    notebook : str
    profile : Profile
    files : iterable of Path
        The files that it saved.
    inputs : dict
        Kind of input -> its fingerprint before the run.
    seconds : float
        Duration of the run.
    products : collection of str
        Notes of the products that it used, relative to `paths.store()`.
    """
    facts = {"inputs": inputs, "seconds": round(seconds, 1), "products": sorted(products)}
    _write(_run_path(notebook, profile), files, facts)


def read_run(notebook: str, profile: Profile) -> dict[str, Any]:
    """Read the note of `write_run` on the last complete run; empty if it is missing or damaged."""
    note = read_facts(_run_path(notebook, profile)) or {}
    return note if {"inputs", "seconds", "products"} <= note.keys() else {}


def _run_path(notebook: str, profile: Profile) -> Path:
    return paths.run_folder(profile) / "runs" / f"{notebook}.json"


def _write(path: Path, files: Iterable[Path], facts: dict[str, Any]) -> None:
    """Write a seal of files in another folder, which lists only their names."""
    content = {"files": {file.name: sha256(file) for file in files}, **facts}
    write_atomically(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


def commit() -> dict[str, Any]:
    """Return the commit, and whether files differ from it; None without git or a checkout."""
    if not (paths.ROOT / ".git").exists():  # installed, perhaps inside somebody else's checkout
        return {"commit": None, "dirty": None}
    command = ["git", "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.check_output(
            command, cwd=paths.ROOT, stderr=subprocess.DEVNULL, text=True
        ).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    # Lines about the branch begin with #, and the first of them ends with the commit.
    return {"commit": lines[0].split()[-1], "dirty": not lines[-1].startswith("#")}


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python, the system and `PACKAGES`."""
    installed = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **installed}
