"""One notebook of a run: whether its last whole run would be repeated, and what that left."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.jobs import duration

REPORT = "09_report"  # it shows what the notebooks before it have made


@dataclass
class Run:
    """One notebook, what it makes, and how it went."""

    path: Path
    profile: Profile
    makes: list[manifest.Entry]
    force: bool = False
    result: str = "reused"
    seconds: float = 0.0
    problem: str = ""  # why it failed and, on further lines, what to do

    def __post_init__(self) -> None:
        self.name = self.path.stem
        self.note = paths.run_folder(self.profile) / "runs" / f"{self.name}.json"
        self.files = [path for entry in self.makes for path in entry.paths(self.profile)]

    def find_reason(self) -> str:
        """Say why the notebook must run; empty if its last whole run would be repeated."""
        note, folder = self.read_note(), paths.figures(self.profile)
        if self.force:
            return "--force"
        if not note:
            return "it has not run to its end with these settings"
        if note["hash"] != self.hash_inputs():
            return "its cells, the parameters, lib or the data changed"
        changed = [name for name, noted in note["files"].items() if _hash(folder / name) != noted]
        return f"its files are missing or changed: {', '.join(changed)}" if changed else ""

    def describe(self) -> str:
        """Say whether the notebook would run, why, and how long it took last time."""
        if not (reason := self.find_reason()):
            return f"{self.name}: up to date"
        minutes = sum(entry.minutes for entry in self.makes)
        took = f"about {minutes:.1f} min in mini if everything is new"
        if note := self.read_note():
            took = f"took {duration(note['seconds'])} last time"
        return f"{self.name}: would run ({took}), because {reason}"

    def hash_inputs(self) -> str:
        """Hash all that results come from, and comments in lib: what runs again mostly reads."""
        from lib.store import hash_value, read_sources  # imports NumPy, as everywhere here

        try:
            cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        except (ValueError, KeyError):
            raise ValueError(f"{self.path} is no Jupyter notebook: restore it from git") from None
        others = {paths.PARAMS / f"{name}.yaml" for name in profiles.list_profiles()}
        files = {*paths.PARAMS.rglob("*.*"), *(paths.ROOT / "lib").rglob("*.j2")} - others
        files.add(paths.ROOT / "requirements.lock")
        if self.name == REPORT:  # they show what others have made
            earlier = [entry for entry in manifest.load().values() if entry.notebook < REPORT]
            files |= {path for entry in earlier for path in entry.paths(self.profile)}
            files |= {*paths.ROOT.glob("figures/*/tab_claims.csv")}  # of other profiles
            files -= {*self.files}
        return hash_value(
            [
                [[cell["cell_type"], "".join(cell["source"])] for cell in cells],
                self.profile.model_dump(mode="json"),
                read_sources(),
                {os.path.relpath(path, paths.ROOT): _hash(path) for path in files},
                _list_own_data(self.profile),
            ]
        )

    def read_note(self) -> dict[str, Any]:
        """What `write_note` wrote after the last whole run; empty if there was none."""
        try:
            return json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def write_note(self, before: str) -> None:
        """Note that the notebook ran to its end; `before` is `hash_inputs` when it began."""
        from lib.store import write_text

        # With `only`, a figure may have nothing to show.
        files = {path.name: _hash(path) for path in self.files if path.is_file()}
        note = {"hash": before, "seconds": round(self.seconds, 1), "files": files}
        write_text(self.note, json.dumps(note, indent=1))


def _hash(path: Path) -> str:
    from lib.store import hash_file

    return hash_file(path) if path.is_file() else ""


def _list_own_data(profile: Profile) -> list[list[Any]]:
    """Path, size and time of each file in a person's own data roots: reading all takes long."""
    from lib.data import sources

    roots = {os.environ.get("THESIS_DATA", ""), *profile.data_roots} - {"", sources.BUILT}
    files: list[Path] = []
    for root in map(sources.find_root, sorted(roots)):
        files += sorted({*root.glob("*/documents*"), *root.glob("*/tasks/*/*")})
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
