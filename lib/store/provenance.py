"""How figures and tables were made, as their own bytes repeat: a JSON file per label, a note per run of a notebook."""

import contextlib
import functools
import json
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from lib.config import paths
from lib.config.schema import Profile
from lib.store.files import file_fingerprint, fingerprint, write_atomically

PACKAGES = "torch transformers sentence-transformers gensim numpy scipy scikit-learn pandas matplotlib seaborn".split()
saved: dict[
    str, list[Path]
] = {}  # by label, in the order of saving: the end of a notebook asks for all it promised


def write(label: str, *, profile: Profile, files: Iterable[Path], records: Any = None) -> None:
    """Write `<label>.json`, and enter the files in `saved`. records: a frame of what the figure shows, where a model
    has a row per task; so `trainings`, in seconds, go by `embedding_fingerprint`."""
    saved[label] = list(files)
    entry = {"label": label, "written": datetime.now(UTC).isoformat(timespec="seconds"), **commit()}
    entry |= {
        "profile": profile.name,
        "parameters": profile.model_dump(mode="json"),
        "versions": versions(),
    }
    entry |= {
        "files": _fingerprints(saved[label]),
        "records": 0 if records is None else len(records),
    }
    for column in () if records is None else records:
        if column.endswith("fingerprint") or column in ("seed", "device"):
            entry[column] = sorted(records[column].dropna().unique().tolist())
    if records is not None and {"embedding_fingerprint", "seconds"} <= set(records):
        entry["trainings"] = (
            records.dropna(subset="seconds").set_index("embedding_fingerprint")["seconds"].to_dict()
        )
    _write(paths.provenance(profile) / f"{label}.json", entry)


def read(label: str, profile: Profile) -> dict[str, Any]:
    """How a label was made; empty if nothing undamaged says so, as for figures that came with the repository."""
    return _read(paths.provenance(profile) / f"{label}.json")


def run_note(notebook: str, profile: Profile) -> dict[str, Any]:
    """What `note_run` noted of a notebook's last complete run; empty if there is no note, or if it is damaged."""
    return _read(paths.run_folder(profile) / "runs" / f"{notebook}.json")


def note_run(
    notebook: str, profile: Profile, *, inputs: dict[str, Any], files: list[Path], seconds: float
) -> None:
    """Note a complete run. files: those that it made, as it saved them: another run may have drawn over them since."""
    as_saved = {
        name: key
        for file in files
        for name, key in read(file.stem, profile).get("files", {}).items()
    }
    note = {
        "inputs": inputs,
        "files": _fingerprints(files) | as_saved,
        "seconds": round(seconds, 1),
    }
    _write(paths.run_folder(profile) / "runs" / f"{notebook}.json", note)


def _write(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry with its fingerprint, which tells damage."""
    content = json.dumps(
        {**entry, "entry_fingerprint": fingerprint(entry)}, indent=1, ensure_ascii=False
    )
    write_atomically(path, content.encode())


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(
        OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError
    ):
        entry = json.loads(path.read_bytes())
        if entry.pop("entry_fingerprint") == fingerprint(entry):
            return entry
    return {}


def _fingerprints(files: Iterable[Path]) -> dict[str, str]:
    return {file.name: file_fingerprint(file) for file in files}


def commit() -> dict[str, Any]:
    """The commit as it is now, as a notebook stays open while its checkout changes; None without git or checkout."""
    command = [
        "git",
        "status",
        "--porcelain=v2",
        "--branch",
    ]  # the commit, lines on the branch with #, then changes
    try:
        lines = subprocess.check_output(
            command, cwd=paths.ROOT, stderr=subprocess.DEVNULL, text=True
        ).splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    return {"commit": lines[0].split()[-1], "dirty": not lines[-1].startswith("#")}


@functools.cache
def versions() -> dict[str, str]:
    """The versions of Python, the system and `PACKAGES`."""
    installed = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **installed}
