"""`./run_all.sh`: run the notebooks that make what is asked for, one after another."""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil

from lib import jobs
from lib.config import environment, manifest, paths, profiles
from lib.config.profiles import ParameterError
from lib.config.schema import Profile
from lib.runner.notebook import PARAMETERS

STOPPED = "stopped; results so far are kept, and the same command continues from there"
REPORT = "09_report"  # it shows what the notebooks before it have made
SHOWN = ("figures/*/tab_claims.csv", "figures/*/tab_robust.csv")  # in it, of all profiles
READERS = 2  # notebooks that only read at once; each takes a core and more than a gigabyte
INPUTS = ("lib/**/*.py", "lib/**/*.j2", "params/**/*.*", "requirements.lock")


def main(words: list[str]) -> int:
    """Do what is asked for; return 0 if all is done, 1 if something failed, 2 if it cannot be."""
    try:
        options = read_arguments(words)
        profile = profiles.load(
            options.profile, overrides=options.overrides, seeds=options.seeds, only=options.only
        )
        os.environ |= environment.process_variables(offline=profile.offline)  # before NumPy loads
        runs = list_runs(profile, options.requests, force=options.force)
        if options.dry_run:
            print(*(run.describe() for run in runs), sep="\n")
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        begin = time.monotonic()
        if any(run.find_reason() for run in runs):
            prepare(profile, options)
        parameters = {name: getattr(options, name) for name in PARAMETERS}
        for run in read_again(runs, parameters, min(READERS, options.jobs)):
            print(run.describe(), flush=True)
            if run.find_reason():  # the report has one if figures before it changed
                run.execute(parameters)
        return report(runs, profile, time.monotonic() - begin)
    except (ValueError, OSError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the words of `run_all.sh` as options, `profile`, `requests` and `overrides`."""
    parser = argparse.ArgumentParser("run_all.sh", argparse.SUPPRESS, add_help=False)
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds")
    parser.add_argument("--jobs")
    parser.add_argument("--dask", default=os.environ.get("THESIS_DASK", ""))
    for option in ("--set", "--force", "--keep", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_intermixed_args(words)
    options.jobs = jobs.count_processes(options.jobs)
    options.overrides = [word for word in options.requests if "=" in word]
    named = {word for word in options.requests if word in profiles.list_profiles()}
    if len(named) > 1:
        raise ParameterError(f"two profiles at once: {' and '.join(sorted(named))}")
    options.profile = next(iter(named), "mini")
    options.requests = [word for word in options.requests if "=" not in word and word not in named]
    return options


@dataclass
class Run:
    """One notebook: what it makes, whether that is up to date, and how its run went."""

    path: Path
    profile: Profile
    makes: dict[str, manifest.Entry]
    force: bool = False
    heading: str = ""
    problem: str = ""  # why it failed

    def __post_init__(self) -> None:
        self.name, self.folder = self.path.stem, paths.run_folder(self.profile)
        self.names = {self.name, self.name.partition("_")[0], *self.makes}  # what asks for it
        self.files = [path for entry in self.makes.values() for path in entry.paths(self.profile)]
        self.target = self.folder / "executed" / self.path.name
        self.log = self.folder / "logs" / f"{self.name}.log"
        self.note = self.folder / "runs" / f"{self.name}.json"  # of its last whole run
        self.last = json.loads(self.note.read_text()) if self.note.is_file() else {}

    def find_reason(self) -> str:
        """Say why the notebook must run; empty if its last whole run would be repeated."""
        if self.force:
            return "--force"
        if self.last.get("hash") != self.hash_inputs():
            return "it has not run to its end with these cells, settings, data and lib"
        missing = [path.name for path in self.files if not path.is_file()]
        # With `only`, a figure may have nothing to show.
        return f"{missing[0]} is missing" if missing and not self.profile.only else ""

    def describe(self) -> str:
        """Say whether the notebook must run, why, and how long it took last time."""
        minutes = sum(entry.minutes for entry in self.makes.values())
        took = self.last.get("took", f"{minutes:.1f} minutes of mini")
        reason = self.find_reason()
        return f"{self.heading}  " + (f"to run ({took}): {reason}" if reason else "up to date")

    def hash_inputs(self) -> str:
        """Hash its cells, its settings and all files that results come from.

        A comment counts: what runs again mostly reads the store. Of a person's own data, which may
        be large, names, sizes and times are read.
        """
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells]
        roots = {os.environ.get("THESIS_DATA", ""), *self.profile.data_roots} - {""}
        data = sorted(path for root in roots for path in (paths.ROOT / root).rglob("*.*"))
        facts = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in data]
        files = {file for pattern in INPUTS for file in paths.ROOT.glob(pattern)}
        if self.name == REPORT:
            files.update(file for pattern in SHOWN for file in paths.ROOT.glob(pattern))
            earlier = [entry for entry in manifest.load().values() if entry.notebook < REPORT]
            files.update(file for entry in earlier for file in entry.paths(self.profile))
        text = repr([sources, self.profile.model_dump(mode="json"), facts])
        digest = hashlib.sha256(text.encode())
        for file in sorted(filter(Path.is_file, files.difference(self.files))):
            digest.update(str(file).encode() + file.read_bytes())
        return digest.hexdigest()

    def execute(self, parameters: dict[str, Any], *, reading: bool = False) -> None:
        """Run the notebook, print how it went, and note a whole run.

        If it only reads the store, it may stop at what has to be computed.
        """
        from lib.runner import execute  # loads papermill
        from lib.store import write_text  # imports NumPy

        hashed, begin = self.hash_inputs(), time.monotonic()
        heading = "" if reading else self.heading
        self.problem = execute.execute(self.path, parameters, self.target, self.log, heading)
        took = jobs.duration(time.monotonic() - begin)
        if not self.problem:
            self.force, self.last = False, {"hash": hashed, "took": f"took {took} last time"}
            write_text(self.note, json.dumps(self.last))
        told = "has something to compute" if reading else f"failed after {took}"
        print(f"{self.heading}  {told if self.problem else f'made in {took}'}", flush=True)


def read_again(runs: list[Run], parameters: dict[str, Any], readers: int) -> list[Run]:
    """Run notebooks that ran before, several at a time, on what the store has; return the others.

    Among these are those that lack something, which run afterwards with all workers, and the
    report, which shows what the others have made.
    """
    again = [run for run in runs if run.last and run.name != REPORT and run.find_reason()]
    os.environ["THESIS_READING"] = "1"
    with ThreadPoolExecutor(readers) as pool:
        [*pool.map(lambda run: run.execute(parameters, reading=True), again)]
    del os.environ["THESIS_READING"]
    return [run for run in runs if run not in again or run.problem]


def list_runs(profile: Profile, requests: list[str], *, force: bool = False) -> list[Run]:
    """List the notebooks to run, in order, each with what it makes; all if nothing is requested.

    Requests are labels, and names or numbers of notebooks. ParameterError if the profile does not
    make one of them, or has no model for a pattern of `--only`.
    """
    entries, runs = manifest.load(), []
    pattern = manifest.PUBLISHED if profile.name == manifest.PUBLISHED else "[0-9]*"
    for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb")):
        makes = manifest.promised(entries, path.stem, profile.labels)
        if makes or profile.labels is None:
            runs.append(Run(path, profile, makes, force))
    names = {name for run in runs for name in run.names}
    for request in requests:
        if request not in names:
            raise profiles.make_unknown_error(f"{profile.name} label or notebook", request, names)
    if requests:
        runs = [run for run in runs if not run.names.isdisjoint(requests)]
    if profile.only:
        from lib import published  # loads pandas

        labels = [label for run in runs for label in run.makes]
        profiles.check_only(profile.only, published.names(labels))
    for place, run in enumerate(runs, 1):
        run.heading = f"[{place}/{len(runs)}] {run.name}"
    return runs


def stop(number: int, frame: Any) -> NoReturn:
    """Handle Ctrl-C and similar signals: end everything at once. No file is half-written then."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()  # its own children notice that they have no parent
    print(f"\nrun_all.sh: {STOPPED}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def prepare(profile: Profile, options: argparse.Namespace) -> None:
    """Set the environment that kernels inherit, and check once what each notebook would."""
    os.environ |= {
        "THESIS_JOBS": str(options.jobs),
        "THESIS_DASK": options.dask,
        "THESIS_KEEP": "1" if options.keep else os.environ.get("THESIS_KEEP", ""),
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures always inline
        "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, not one in the home folder
        "IPYTHONDIR": str(paths.artifacts() / "ipython"),  # without the user's start-up files
    }
    if profile.name != manifest.PUBLISHED:
        from lib.data.dataset_folder import find_dataset, find_roots

        roots = find_roots(profile.build, profile.data_roots, paths.artifacts())
        for name in profile.corpus.names:
            find_dataset(roots, name)


def report(runs: list[Run], profile: Profile, seconds: float) -> int:
    """Print why notebooks failed, what is missing now and what to open; return the exit code."""
    failed = [run for run in runs if run.problem]
    jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
    for run in failed:
        print(f"\n{run.name} failed: {run.problem}")
        print(f"    to see where it failed: {jupyter} lab {os.path.relpath(run.target)}")
        print(f"    log: {os.path.relpath(run.log)}; without it: {' '.join(run.makes)}")
    print(f"\n{len(runs) - len(failed)} of {len(runs)} notebooks done in {jobs.duration(seconds)}")
    executed = os.path.relpath(paths.run_folder(profile) / "executed")
    figures = os.path.relpath(paths.figures(profile))
    print(f"to open: figures and tables in {figures}, notebooks as they ran in {executed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
