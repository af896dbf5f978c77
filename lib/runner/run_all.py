"""`./run_all.sh`: run the notebooks that make what is asked for, one after another."""

import argparse
import contextlib
import hashlib
import json
import os
import signal
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import psutil
from filelock import BaseFileLock, FileLock, Timeout

from lib import jobs
from lib.config import environment, manifest, paths, profiles
from lib.config.console import escape_unprintable
from lib.config.profiles import ParameterError
from lib.config.schema import Profile
from lib.runner.notebook import PARAMETERS

STOPPED = "stopped; results so far are kept, and the same command continues from there"
REPORT = "09_report"  # it shows what the notebooks before it have made
SHOWN = ("figures/*/tab_claims.csv", "figures/*/tab_robust.csv")  # of all profiles
INPUTS = ("lib/**/*.py", "lib/**/*.j2", "params/**/*.*", "requirements.lock")
OWN_DATA = ("*/documents*", "*/documents/*", "*/tasks/*/*")  # below a data root


def main(words: list[str]) -> int:
    """Do what is asked for; return 0 if all is done, 1 if something failed, 2 if it cannot be."""
    escape_unprintable()
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
        with lock_run(paths.run_folder(profile)):
            if any(run.find_reason() for run in runs):
                prepare(profile, options)
            run_notebooks(runs, {name: getattr(options, name) for name in PARAMETERS})
        return report(runs, time.monotonic() - begin)
    except (ValueError, OSError, jobs.WorkerError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the words of `run_all.sh` as options, `profile`, `requests` and `overrides`."""
    parser = argparse.ArgumentParser(
        prog="run_all.sh", usage=argparse.SUPPRESS, add_help=False, allow_abbrev=False
    )
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--set", dest="overrides", nargs="+", action="extend", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--jobs")  # processes on this machine
    workers.add_argument("--dask", default=os.environ.get("THESIS_DASK", ""))  # a scheduler's
    for option in ("--force", "--keep", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_intermixed_args(words)
    options.jobs = jobs.count_processes(options.jobs)
    # `--set a=1 b=2 fig4_2`: a word without "=" is a request
    asked = options.requests + [word for word in options.overrides if "=" not in word]
    options.overrides = [word for word in options.overrides if "=" in word]
    named = [word for word in dict.fromkeys(asked) if word in profiles.list_profiles()]
    if len(named) > 1:
        raise ParameterError(f"two profiles at once: {' and '.join(named)}; run one after another")
    options.requests = [word for word in asked if word not in named]
    options.profile = named[0] if named else "mini"
    return options


@dataclass
class Run:
    """One notebook: what it makes, whether that is up to date, and how its run went."""

    path: Path
    profile: Profile
    makes: dict[str, manifest.Entry]
    force: bool = False
    result: str = "up to date"
    seconds: float = 0.0
    problem: str = ""  # why it failed and, on further lines, what to do

    def __post_init__(self) -> None:
        self.name = self.path.stem
        self.names = {self.name, self.name.partition("_")[0], *self.makes}  # what asks for it
        self.files = [path for entry in self.makes.values() for path in entry.paths(self.profile)]
        self.note = paths.run_folder(self.profile) / "runs" / f"{self.name}.json"

    def read_note(self) -> dict[str, Any]:
        """Hash of the inputs of the last whole run, and its seconds; empty if there was none."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.note.read_text(encoding="utf-8"))
        return {}

    def find_reason(self) -> str:
        """Say why the notebook must run; empty if its last whole run would be repeated."""
        missing = [path.name for path in self.files if not path.is_file()]
        if self.force:
            return "--force"
        if self.read_note().get("hash") != self.hash_inputs():
            return "it has not run to its end with these cells, settings, data and lib"
        # With `only`, a figure may have nothing to show.
        return f"{missing[0]} is missing" if missing and not self.profile.only else ""

    def describe(self) -> str:
        """Say whether the notebook would run, why, and how long it took last time."""
        took = f"about {sum(entry.minutes for entry in self.makes.values()):.1f} min in mini"
        if note := self.read_note():
            took = f"took {jobs.duration(note['seconds'])} last time"
        reason = self.find_reason()
        return f"{self.name}: " + (f"would run ({took}): {reason}" if reason else self.result)

    def hash_inputs(self) -> str:
        """Hash all that results come from. A comment counts: what runs again mostly reads."""
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        files = {path for pattern in INPUTS for path in paths.ROOT.glob(pattern)}
        files -= {paths.PARAMS / f"{name}.yaml" for name in profiles.list_profiles()}
        if self.name == REPORT:
            earlier = [entry for entry in manifest.load().values() if entry.notebook < REPORT]
            files |= {path for entry in earlier for path in entry.paths(self.profile)}
            files |= {path for pattern in SHOWN for path in paths.ROOT.glob(pattern)}
            files -= {*self.files}
        sources = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
        settings = self.profile.model_dump(mode="json")
        digest = hashlib.sha256(repr([sources, settings, _list_own_data(self.profile)]).encode())
        for file in sorted(filter(Path.is_file, files)):
            digest.update(str(file).encode() + file.read_bytes())
        return digest.hexdigest()

    def execute(self, parameters: dict[str, Any], heading: str) -> None:
        """Run the notebook, and note its run if it was complete."""
        from lib.runner import execute  # loads papermill

        folder = paths.run_folder(self.profile)
        target, log = folder / "executed" / self.path.name, folder / "logs" / f"{self.name}.log"
        before, begin = self.hash_inputs(), time.monotonic()
        problem = execute.execute(self.path, parameters, target, log, heading)
        self.seconds = round(time.monotonic() - begin, 1)
        if problem:
            jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
            executed = os.path.relpath(target if target.exists() else self.path)
            opens = f"to see where it failed: {jupyter} lab {executed}"
            self.problem = f"{problem}\n{opens}\nlog: {os.path.relpath(log)}"
            self.result = "failed"
        else:
            self.result = "made"
            self.note.parent.mkdir(parents=True, exist_ok=True)
            self.note.write_text(json.dumps({"hash": before, "seconds": self.seconds}))


def _list_own_data(profile: Profile) -> list[list[Any]]:
    """Path, size and time of each file in a person's own data roots: reading all takes long."""
    from lib.data import sources  # imports NumPy

    roots = {os.environ.get("THESIS_DATA", ""), *profile.data_roots} - {"", sources.BUILT}
    places = [(sources.find_root(root), pattern) for root in roots for pattern in OWN_DATA]
    files = sorted({file for root, pattern in places for file in root.glob(pattern)})
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def list_runs(profile: Profile, requests: list[str], *, force: bool = False) -> list[Run]:
    """List the notebooks to run, in order, each with what it makes; all if nothing is requested.

    Requests are labels, and names or numbers of notebooks. ParameterError if the profile does not
    make one of them, or has no model for a pattern of `--only`.
    """
    entries, runs = manifest.load(), []
    pattern = manifest.PUBLISHED if profile.name == manifest.PUBLISHED else "[0-9]*"
    for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb")):
        makes = manifest.promised(entries, path.stem, profile.labels)
        runs.append(Run(path, profile, makes, force))
    names = {name for run in runs for name in run.names} | entries.keys()
    if profile.labels is not None:
        runs = [run for run in runs if run.makes]
    for request in requests:
        if request not in names:
            valid = [*names, *profiles.list_profiles()]
            raise profiles.make_unknown_error("label, notebook or profile", request, valid)
        if not any(request in run.names for run in runs):
            listed = ", ".join(label for run in runs for label in run.makes)
            raise ParameterError(f"{profile.name} does not make {request}; it makes {listed}")
    if requests:
        runs = [run for run in runs if not run.names.isdisjoint(requests)]
    if profile.only:
        from lib import published  # loads pandas

        labels = [label for run in runs for label in run.makes]
        profiles.check_only(profile.only, published.names(labels))
    return runs


def stop(number: int, frame: Any) -> NoReturn:
    """Handle Ctrl-C and similar signals: end everything at once. No file is half-written then."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()  # its own children notice that they have no parent
    print(f"\nrun_all.sh: {STOPPED}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def lock_run(folder: Path) -> contextlib.AbstractContextManager[BaseFileLock]:
    """Wait until no other run works on the results in `folder`, and hold their lock."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "run.lock")
    with contextlib.suppress(Timeout):
        return lock.acquire(timeout=0)
    print(f"waiting for another run that uses {os.path.relpath(folder)}", flush=True)
    return lock.acquire()


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
        from lib.data import sources, task_files

        roots = sources.find_roots(profile.build, profile.data_roots, paths.artifacts())
        task_files.check_data(roots, profile.corpus, profile.tasks)


def run_notebooks(runs: list[Run], parameters: dict[str, Any]) -> None:
    """Run the notebooks that must run, and print how each went."""
    for place, run in enumerate(runs, 1):
        heading = f"[{place}/{len(runs)}] {run.name}"
        if reason := run.find_reason():  # the report has one if figures before it changed
            print(f"{heading}  runs, because {reason}", flush=True)
            run.execute(parameters, heading)
        took = f" in {jobs.duration(run.seconds)}" if reason else ""
        print(f"{heading}  {run.result}{took}", flush=True)


def report(runs: list[Run], seconds: float) -> int:
    """Print the result for each label and why notebooks failed; return the exit code."""
    line = "{:<12} {:<24} {:<10} {:>7}  {}".format
    print("\n" + line("label", "notebook", "result", "seconds", "file"))
    for run in runs:
        for label, entry in run.makes.items():
            file = os.path.relpath(entry.paths(run.profile)[0])
            print(line(label, run.name, run.result, f"{run.seconds:.0f}", file))
    failed = [run for run in runs if run.problem]
    for run in failed:
        print(f"\n{run.name} failed\n{textwrap.indent(run.problem, '    ')}")
    print(f"\n{len(runs) - len(failed)} of {len(runs)} notebooks done in {jobs.duration(seconds)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
