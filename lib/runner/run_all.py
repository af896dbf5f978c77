"""Run the notebooks that make the requested figures and tables, one after another."""

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psutil
from filelock import BaseFileLock, FileLock, Timeout

from lib import jobs
from lib.config import environment, manifest, paths, profiles
from lib.config.console import escape_unprintable
from lib.config.schema import Profile, ThesisBuild
from lib.runner import command_line
from lib.runner.notebook import PARAMETERS
from lib.runner.runs import Run

STOPPED = "stopped; results so far are kept, and the same command continues from there"


def main(words: list[str]) -> int:
    """Do what is asked for; return 0 if all is done, 1 if something failed, 2 if it cannot be."""
    escape_unprintable()
    try:
        options = command_line.read_arguments(words)
        profile = profiles.load(
            options.profile, overrides=options.overrides, seeds=options.seeds, only=options.only
        )
        notebooks = command_line.select_notebooks(profile, options.requests)
        runs = [Run(path, profile, makes, options.force) for path, makes in notebooks.items()]
        os.environ |= environment.process_variables(offline=profile.offline)  # before NumPy loads
        if options.dry_run:
            if not isinstance(profile.build, ThesisBuild):  # whose data a check would download
                check_data(profile)
            print(*(each.describe() for each in runs), sep="\n")
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        begin = time.monotonic()
        with lock_run(paths.run_folder(profile)):
            if any(each.find_reason() for each in runs):
                prepare(profile, options)
            run_notebooks(runs, options)
        return report(runs, time.monotonic() - begin)
    except (ValueError, jobs.WorkerError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run_all.sh: {error} (THESIS_ARTIFACTS sets the artifact root)", file=sys.stderr)
        return 1


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
    """Check what all notebooks need, and set the environment that their kernels inherit."""
    path = [str(paths.ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "THESIS_ARTIFACTS": str(paths.artifacts()),
        "THESIS_JOBS": str(options.jobs),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures always inline
        "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, not one in the home folder
    }
    if options.keep:
        os.environ["THESIS_KEEP"] = "1"
    if options.dask:
        os.environ["THESIS_DASK"] = options.dask
        url = urlsplit(options.dask)
        try:
            socket.create_connection((url.hostname, url.port), timeout=10).close()
        except (OSError, ValueError, TypeError):
            raise profiles.ParameterError(
                f"--dask: no scheduler answers at {options.dask!r}, expected tcp://host:port"
            ) from None
    check_data(profile)


def check_data(profile: Profile) -> None:
    """Check every dataset folder and task once, before each notebook would. May build some."""
    if profile.name != manifest.PUBLISHED:
        from lib.data import sources, task_files

        roots = sources.find_roots(profile.build, profile.data_roots, paths.artifacts())
        task_files.check_data(roots, profile.corpus, profile.tasks)


def run_notebooks(runs: list[Run], options: argparse.Namespace) -> None:
    """Run the notebooks that must run, and record how each went."""
    with tempfile.TemporaryDirectory(prefix="thesis-ipython-") as folder:
        os.environ["IPYTHONDIR"] = folder  # without the user's start-up files
        for place, run in enumerate(runs, 1):
            heading = f"[{place}/{len(runs)}] {run.name}"
            if reason := run.find_reason():  # the report has one if figures before it changed
                print(f"{heading}  runs, because {reason}", flush=True)
                run_one(run, options, heading)
            how = f"{run.result} in {jobs.duration(run.seconds)}" if reason else "up to date"
            print(f"{heading}  {how}", flush=True)


def run_one(run: Run, options: argparse.Namespace, heading: str) -> None:
    """Run one notebook, and note the run if it was complete."""
    from lib.runner import execution  # loads papermill

    folder = paths.run_folder(run.profile)
    target = folder / "executed" / run.path.name
    log = folder / "logs" / f"{run.name}.log"
    parameters = {name: getattr(options, name) for name in PARAMETERS}
    before, begin = run.hash_inputs(), time.monotonic()
    problem = execution.execute(run.path, parameters, target, log, heading)
    run.seconds, run.result = time.monotonic() - begin, "failed" if problem else "made"
    if not problem:
        return run.write_note(before)
    jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
    executed = os.path.relpath(target if target.exists() else run.path)
    run.problem = (
        f"{problem}\nto see where it failed: {jupyter} lab {executed}\nlog: {os.path.relpath(log)}"
    )


def report(runs: list[Run], seconds: float) -> int:
    """Print the result for each label and why notebooks failed; return the exit code."""
    line = "{:<12} {:<24} {:<8} {:>7}  {}".format
    print("\n" + line("label", "notebook", "result", "seconds", "file"))
    for run in runs:
        for entry in run.makes:
            file = os.path.relpath(entry.paths(run.profile)[0])
            print(line(entry.label, run.name, run.result, f"{run.seconds:.0f}", file))
    failed = [run for run in runs if run.problem]
    for run in failed:
        print(f"\n{run.name} failed\n{textwrap.indent(run.problem, '    ')}")
    print(f"\n{len(runs) - len(failed)} of {len(runs)} notebooks done in {jobs.duration(seconds)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
