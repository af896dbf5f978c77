"""`./run_all.sh`: run the notebooks that make what is asked for, one after another."""

import argparse
import contextlib
import glob
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import psutil
from tqdm import tqdm

from lib import jobs
from lib.config import environment, manifest, paths, profiles
from lib.config.schema import Profile
from lib.runner.notebook import PARAMETERS

STOPPED = "stopped; results so far are kept, and the same command continues from there"
REPORT = "09_report"  # it shows what the notebooks before it have made
SOURCES = ("lib/**/*.py", "lib/**/*.j2", "params/**/*.*", "requirements.lock")


def main(words: list[str]) -> int:
    """Do what is asked for; return 0 if all is done, 1 if something failed, 2 if it cannot be."""
    try:
        given, began, used = read_arguments(words), time.time(), read_core_minutes()
        parameters = {name: getattr(given, name) for name in PARAMETERS}
        profile = profiles.load(**parameters)
        os.environ["THESIS_KEEP"] = "1" if given.keep else os.environ.get("THESIS_KEEP", "")
        os.environ |= environment.process_variables(offline=profile.offline)  # before NumPy loads
        runs = list_runs(profile, given.requests)
        if not given.dry_run and (given.force or any(run.find_reason() for run in runs)):
            prepare(profile, given)
        for place, run in enumerate(runs, 1):
            heading = f"[{place}/{len(runs)}] {run.path.stem}"
            reason = "--force" if given.force else run.find_reason()
            told = f"to run ({run.took}): {reason}" if reason else "up to date"
            print(f"{heading}  {told}", flush=True)
            if reason and not given.dry_run:
                run.execute(parameters, heading)
        took = tqdm.format_interval(time.time() - began)
        took += f", {read_core_minutes() - used:.1f} core-minutes"
        return 0 if given.dry_run else report(runs, profile, took)
    except (ValueError, OSError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the words of `run_all.sh` as options, `profile`, `requests` and `overrides`."""
    parser = argparse.ArgumentParser("run_all.sh", argparse.SUPPRESS, add_help=False)
    parser.add_argument("words", nargs="*")
    for option in ("--only", "--seeds"):  # which may come twice
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--dask", default=os.environ.get("THESIS_DASK") or None)
    # `--set` only makes a command readable: every word with "=" is an override.
    for option in ("--set", "--force", "--keep", "--dry-run"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_intermixed_args(words)
    given.only, given.seeds = ",".join(given.only), ",".join(given.seeds) or None
    if given.dask == "":  # the value of a variable that is not set
        raise ValueError("--dask: expected the address of a scheduler, got none")
    given.profile = next((word for word in given.words if word in profiles.list_profiles()), "mini")
    given.overrides = [word for word in given.words if "=" in word]
    given.requests = [word for word in given.words if "=" not in word and word != given.profile]
    return given


class Run:
    """One notebook: what it makes, whether that is up to date, and how its run went."""

    def __init__(self, path: Path, profile: Profile, makes: dict[str, manifest.Entry]):
        self.path, self.profile, self.makes = path, profile, makes
        self.names = {path.stem, path.stem.partition("_")[0], *makes}  # what asks for it
        self.target = paths.run_folder(profile) / "executed" / path.name
        self.note = self.target.with_suffix(".json")  # of its last run, if that ended whole
        self.last = json.loads(self.note.read_text()) if self.note.is_file() else {}
        self.files = {file for entry in makes.values() for file in entry.paths(profile)}
        models = {profile.structural_teacher.model, profile.student.model}  # folders, perhaps
        self.data = {os.environ.get("THESIS_DATA", ""), *profile.data_roots, *models} - {""}
        kept = os.environ.get("THESIS_KEEP", "")  # a run with --keep may show older products
        self.settings = [sorted(self.data), profile.model_dump(mode="json"), kept]
        minutes = sum(each.minutes for each in makes.values() if each.notebook == path.stem)
        self.took = self.last.get("took", f"{max(minutes, 1):.0f} min of mini")
        self.problem = ""  # why it failed

    def find_reason(self) -> str:
        """Say why the notebook must run; empty if its last run would be repeated."""
        if self.last.get("settings") != self.settings:
            return "it has not run to its end with these settings"
        missing = sorted(file.name for file in {self.target, *self.files} if not file.is_file())
        if missing and not self.profile.only:  # with `only`, a figure may have nothing to show
            return f"{missing[0]} is missing"
        if any(f.is_file() and f.stat().st_mtime > self.note.stat().st_mtime for f in self.files):
            return "a figure or table was written by something else"
        changed = sorted(name for name, _ in self.last["sources"].items() ^ self.sources().items())
        return f"{changed[0]} has changed since its last run" if changed else ""

    def sources(self) -> dict[str, float]:
        """Path -> time of what it is made of, including a person's data and models."""
        files = {file for pattern in SOURCES for file in paths.ROOT.glob(pattern)} | {self.path}
        for root in (paths.ROOT / each for each in self.data):
            inside = glob.iglob(f"{glob.escape(str(root))}/**/*.*", recursive=True)
            files.update(map(Path, inside))  # also behind links, which `rglob` does not follow
        if self.path.stem == REPORT:
            for shown in ("tab_claims", "tab_robust"):  # in it, of all profiles
                files.update(paths.ROOT.glob(f"figures/*/{shown}.csv"))
            entries = [entry for entry in manifest.load().values() if entry.notebook < REPORT]
            files.update(file for entry in entries for file in entry.paths(self.profile))
        there = [file for file in files - self.files if file.exists()]
        return {os.path.relpath(file, paths.ROOT): os.path.getmtime(file) for file in there}

    def execute(self, parameters: dict[str, Any], heading: str) -> None:
        """Run the notebook, print how it went, and note a whole run."""
        from lib.runner.execute import execute  # loads papermill
        from lib.store import write_text  # imports NumPy

        self.note.unlink(missing_ok=True)
        began, sources = time.time(), self.sources()
        self.problem = execute(self.path, parameters, self.target, heading)
        took = tqdm.format_interval(time.time() - began)
        print(f"{heading}  {'failed after' if self.problem else 'made in'} {took}", flush=True)
        if not self.problem:
            note = {"settings": self.settings, "sources": sources, "took": f"took {took} last time"}
            write_text(self.note, json.dumps(note))


def list_runs(profile: Profile, requests: list[str]) -> list[Run]:
    """List the notebooks to run by labels, names or numbers, or all; ParameterError for others."""
    entries, runs = manifest.load(), []
    pattern = manifest.PUBLISHED if profile.name == manifest.PUBLISHED else "[0-9]*"
    for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb")):
        if makes := manifest.promised(entries, path.stem, profile.labels):
            runs.append(Run(path, profile, makes))
    names = {name for run in runs for name in run.names}
    for request in requests:
        if request not in names:
            kinds = f"{profile.name} label, notebook or profile"
            names |= {*profiles.list_profiles()} - {request}
            raise profiles.make_unknown_error(kinds, request, names)
    runs = [run for run in runs if not requests or not run.names.isdisjoint(requests)]
    if profile.only:
        from lib import published  # loads pandas

        names = published.names(label for run in runs for label in run.makes)
        for pattern in profile.only.split(","):
            if not any(profiles.matches(name, pattern) for name in names):
                raise profiles.make_unknown_error("model in only", pattern.strip(), names)
    return runs


def prepare(profile: Profile, given: argparse.Namespace) -> None:
    """Set what kernels inherit, answer Ctrl-C, and check once what each notebook would."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    os.environ |= {
        "THESIS_JOBS": str(jobs.count_processes(given.jobs)),
        "THESIS_DASK": given.dask or "",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures always inline
        "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, not one in the home folder
        "IPYTHONDIR": str(paths.artifacts() / "ipython"),  # without the user's start-up files
    }
    if profile.name != manifest.PUBLISHED:
        from lib.data.dataset_folder import find_dataset
        from lib.recipes import find_roots

        roots = find_roots(profile.build, profile.data_roots)
        for name in profile.corpus.names:
            find_dataset(roots, name)


def stop(number: int, frame: Any) -> NoReturn:
    """Handle Ctrl-C and similar signals: end everything at once. No file is half-written then."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()  # its own children notice that they have no parent
    print(f"\nrun_all.sh: {STOPPED}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def read_core_minutes() -> float:
    """Minutes of the processor by kernels and their workers that have ended."""
    used = os.times()
    return (used.children_user + used.children_system) / 60


def report(runs: list[Run], profile: Profile, took: str) -> int:
    """Print why notebooks failed, what is missing now and what to open; return the exit code."""
    failed = [run for run in runs if run.problem]
    jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
    for run in failed:
        executed = os.path.relpath(run.target)
        print(f"\n{run.path.stem} failed: {run.problem}")
        print(f"    to see where it failed: {jupyter} lab {executed}")
        print(f"    log: {executed[:-6]}.log; without it: {' '.join(run.makes)}")
    print(f"\n{len(runs) - len(failed)} of {len(runs)} notebooks done in {took}")
    places = (paths.figures(profile), paths.run_folder(profile) / "executed")
    figures, executed = map(os.path.relpath, places)
    print(f"to open: figures and tables in {figures}, notebooks as they ran in {executed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
