"""Run the notebooks that make the requested figures and tables, one after another."""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NoReturn

from filelock import BaseFileLock, FileLock, Timeout

from lib.config import environment, manifest, paths, profiles
from lib.config.schema import Profile, ThesisBuild
from lib.config.terminal import escape_unprintable
from lib.runner import command_line, freshness
from lib.runner.freshness import Plan
from lib.runner.notebook import PARAMETERS
from lib.store import parallel, provenance
from lib.store.progress import duration

STOPPED = "stopped; results so far are kept, and the same command continues from there"


def main(words: list[str]) -> int:
    """Do what the command line asks for.

    Returns
    -------
    int
        0 if all is done, 1 if something failed, 2 if the request cannot be met.
    """
    escape_unprintable()
    try:
        options = command_line.read_arguments(words)
        profile = profiles.load(
            options.profile, overrides=options.overrides, seeds=options.seeds, only=options.only
        )
        notebooks = command_line.select_notebooks(profile, options.requests)
        plans = freshness.plan_all(notebooks, profile, force=options.force)
        if options.dry_run:
            if not isinstance(profile.build, ThesisBuild):  # whose data a check would download
                check_data(profile)
            print(freshness.describe_plans(plans))
            print_if_any(freshness.describe_stale(plans))
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        begin = time.monotonic()
        with lock_run(paths.run_folder(profile)):
            plans = freshness.plan_all(notebooks, profile, force=options.force)  # after waiting
            if any(plan.reasons for plan in plans):
                prepare(profile, options)
                print_if_any(freshness.describe_stale(plans))
            run(plans, options)
        return report(plans, time.monotonic() - begin)
    except (ValueError, parallel.WorkerError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run_all.sh: {error} (THESIS_ARTIFACTS sets the artifact root)", file=sys.stderr)
        return 1


def stop(number: int, frame: Any) -> NoReturn:
    """Handle Ctrl-C and similar signals: end everything at once."""
    from lib.runner import execution

    execution.end_children()
    print(f"\nrun_all.sh: {STOPPED}", file=sys.stderr, flush=True)
    os._exit(128 + number)


def print_if_any(text: str) -> None:
    """Print a text unless it is empty."""
    if text:
        print(text, flush=True)


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
    os.environ |= environment.process_variables(offline=profile.offline)
    os.environ |= {
        "THESIS_ARTIFACTS": str(paths.artifacts()),
        "THESIS_JOBS": str(options.jobs),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])
        ),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures always inline
        "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, not one in the home folder
    }
    if options.keep:
        os.environ["THESIS_KEEP"] = "1"
    if options.dask:
        os.environ["THESIS_DASK"] = options.dask
        parallel.connect(options.dask)  # fails now if no scheduler answers
    check_data(profile)


def check_data(profile: Profile) -> None:
    """Check every dataset folder and task once, before each notebook would report what is missing.

    Missing folders that a builder can write are built first.
    """
    if profile.name != manifest.PUBLISHED:
        from lib.data import sources, task_files

        roots = sources.find_roots(profile.build, profile.data_roots, paths.artifacts())
        task_files.check_data(roots, profile.corpus, profile.tasks)


def run(plans: list[Plan], options: argparse.Namespace) -> None:
    """Run the notebooks that must run, and record in each plan how it went."""
    with tempfile.TemporaryDirectory(prefix="thesis-ipython-") as folder:
        os.environ["IPYTHONDIR"] = folder  # without the user's start-up files
        for place, plan in enumerate(plans, 1):
            heading = f"[{place}/{len(plans)}] {plan.name}"
            if not plan.reasons:
                plan.result = "reused"
                print(f"{heading}  up to date", flush=True)
                continue
            print(f"{heading}  runs, because {'; '.join(plan.reasons)}", flush=True)
            run_one(plan, options, heading)
            print(f"{heading}  {plan.result} in {duration(plan.seconds)}", flush=True)


def run_one(plan: Plan, options: argparse.Namespace, heading: str) -> None:
    """Run one notebook, and note the run if it was complete."""
    from lib.runner import execution  # loads papermill

    if plan.name == freshness.REPORT:  # the other notebooks have saved figures since
        plan.inputs = freshness.fingerprint_inputs(plan.path, plan.profile)
    folder = paths.run_folder(plan.profile)
    target = folder / "executed" / f"{plan.name}.ipynb"
    log = folder / "logs" / f"{plan.name}.log"
    parameters = {name: getattr(options, name) for name in PARAMETERS}
    begin = time.monotonic()
    outcome = execution.execute(plan.path, parameters, target, log, heading)
    plan.seconds = time.monotonic() - begin
    if outcome.problem:
        jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
        executed = os.path.relpath(target if target.exists() else plan.path)
        plan.result = "failed"
        plan.problem = (
            f"{outcome.problem}\nto see where it failed: {jupyter} lab {executed}\n"
            f"log: {os.path.relpath(log)}"
        )
        return
    plan.result = "made"
    # With a filter on models, a figure may have nothing to show and no file.
    files = [path for entry in plan.makes for path in entry.paths(plan.profile) if path.is_file()]
    provenance.write_run(
        plan.name,
        plan.profile,
        files=files,
        inputs=plan.inputs,
        seconds=plan.seconds,
        products=outcome.products,
    )


def report(plans: list[Plan], seconds: float) -> int:
    """Print the result for each label and why notebooks failed; return the exit code."""
    line = "{:<12} {:<24} {:<8} {:>7}  {}".format
    print("\n" + line("label", "notebook", "result", "seconds", "file"))
    for plan in plans:
        for entry in plan.makes:
            file = os.path.relpath(entry.paths(plan.profile)[0])
            print(line(entry.label, plan.name, plan.result, f"{plan.seconds:.0f}", file))
    failed = [plan for plan in plans if plan.result == "failed"]
    for plan in failed:
        print(f"\n{plan.name} failed\n{textwrap.indent(plan.problem, '    ')}")
    done = len(plans) - len(failed)
    print(f"\n{done} of {len(plans)} notebooks done in {duration(seconds)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
