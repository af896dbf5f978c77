"""Run the notebooks that make the requested figures and tables, one after another; `run_all.sh` starts this."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout
from tqdm import tqdm

from lib.config import paths, profiles
from lib.config.environment import process_variables
from lib.config.schema import Profile
from lib.data import sources, task_files
from lib.published import figure_models
from lib.runner import schedule
from lib.runner.notebook import PARAMETERS
from lib.runner.run_notebook import adopt_orphans, end_children
from lib.store import executors, provenance
from lib.store.files import write_atomically
from lib.store.progress import duration

# How often the line that shows how far a notebook is changes; in a file each is a line of its own.
STATUS_SECONDS, STATUS_END = (0.2, "") if sys.stdout.isatty() else (5.0, "\n")


def only_run(folder: Path) -> contextlib.AbstractContextManager[BaseFileLock]:
    """Wait until no other run works on the results in `folder`, and hold their lock."""
    lock = FileLock(folder / "run.lock")
    with contextlib.suppress(Timeout):
        return lock.acquire(timeout=0)
    print(f"another run is at work on {os.path.relpath(folder)}, waiting", flush=True)
    return lock.acquire()


def execute(
    plan: schedule.Plan, options: argparse.Namespace, heading: str, spared: int | None = None
) -> None:
    """Run one notebook in a process of its own and enter in the plan how it went. spared: a process to leave alone."""
    target, log = (
        paths.run_folder(plan.profile) / kind / plan.name for kind in ("executed", "logs")
    )
    target, log = target.with_suffix(".ipynb"), log.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="thesis-run-") as folder,
        open(log, "w", encoding="utf-8") as log_file,
    ):
        scratch = Path(folder)
        parameters = {name: getattr(options, name) for name in PARAMETERS}
        job = {
            "notebook": str(plan.path),
            "parameters": parameters,
            "scratch": folder,
            "runner": os.getpid(),
        }
        command = [sys.executable, "-P", "-m", "lib.runner.run_notebook", json.dumps(job)]
        environment = variables(plan, options.jobs, str(scratch / "progress"))
        streams = {"stdin": subprocess.DEVNULL, "stdout": log_file, "stderr": subprocess.STDOUT}
        # in a session of its own: a Ctrl-C reaches the runner alone, which then ends everything in order
        process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        line = {
            "bar_format": f"{heading}  {{desc}}  {{elapsed}}{STATUS_END}",
            "leave": False,
            "dynamic_ncols": True,
        }
        try:
            with tqdm(file=sys.stdout, mininterval=STATUS_SECONDS, **line) as status:
                while process.poll() is None:
                    status.set_description_str(_position(scratch), refresh=False)
                    status.update()
                    time.sleep(0.2)
        finally:
            end_children(spared)
        plan.seconds = time.monotonic() - begin
        plan.problem = f"its process ended with code {process.returncode} at {_position(scratch) or 'the start'}"
        if (told := scratch / "result").exists():
            plan.problem = told.read_text(encoding="utf-8")
        plan.result = "failed" if plan.problem else "made"
        if (executed := scratch / "notebook.ipynb").exists():
            write_atomically(target, executed.read_bytes())
    if plan.problem:
        jupyter = os.path.relpath(Path(sys.executable).parent / "jupyter")
        ran = os.path.relpath(target if target.exists() else plan.path)
        plan.problem += f"\nopen it, as it ran, with its parameters: {jupyter} lab {ran}\nlog: {os.path.relpath(log)}"
        return
    # with a filter on variants, a figure may have nothing to show
    files = [path for entry in plan.wanted for path in entry.paths(plan.profile) if path.is_file()]
    provenance.note_run(
        plan.name, plan.profile, inputs=plan.inputs, files=files, seconds=plan.seconds
    )


def variables(plan: schedule.Plan, jobs: int, progress: str) -> dict[str, str]:
    """The environment of a notebook: one thread a process, repeatable hashes, and what the notebook is to make."""
    changed = {
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures inline, whatever the caller draws with
        "JUPYTER_PREFER_ENV_PATH": "1",  # this Python's kernel, whatever lies in the home
        "IPYTHONDIR": f"{progress}.ipython",  # without anybody's start-up files
        "THESIS_LABELS": ",".join(entry.label for entry in plan.wanted),
    }
    return _computing(plan.profile, jobs) | changed | {"THESIS_PROGRESS": progress}


def _computing(profile: Profile, jobs: int) -> dict[str, str]:
    """The environment of a process that computes for this run."""
    changed = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")]))
    }
    changed |= {
        "THESIS_ARTIFACTS": str(paths.artifacts()),
        "THESIS_JOBS": str(jobs),
        "PYTHONHASHSEED": "0",
    }
    return os.environ | process_variables(offline=profile.offline) | changed


def _position(scratch: Path) -> str:
    """`cell 7/12: training students 3/11`, as far as the notebook has said so."""
    files = [file for file in (scratch / "position", scratch / "progress") if file.exists()]
    with contextlib.suppress(OSError):  # the step of a cell that ended is gone
        return ": ".join(
            file.read_text(encoding="utf-8").strip().rpartition("\n")[2] for file in files
        )
    return ""


def train_ahead(
    plans: list[schedule.Plan], options: argparse.Namespace
) -> subprocess.Popen[bytes] | None:
    """Start a process that trains what all notebooks to run but the first will ask for (`ahead`).

    None if a person said how many processes may work, if a GPU may be at work, or if the texts are not those that come
    with the packages, and memory may be short.
    """
    profile, later = plans[0].profile, [plan for plan in plans if plan.reasons][1:]
    if (
        not (later and options.train_ahead and profile.build and profile.offline)
        or executors.DRIVER.exists()
    ):
        return None
    job = {
        "parameters": {name: getattr(options, name) for name in PARAMETERS},
        "runner": os.getpid(),
    }
    job["labels"] = [entry.label for plan in later for entry in plan.wanted]
    log = paths.run_folder(profile) / "logs" / "ahead.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as log_file:
        command = [sys.executable, "-P", "-m", "lib.runner.ahead", json.dumps(job)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": log_file, "stderr": subprocess.STDOUT}
        environment = _computing(
            profile, max(1, options.jobs - 1)
        )  # the notebook at work occupies one core at least
        return subprocess.Popen(command, env=environment, start_new_session=True, **streams)


def run(plans: list[schedule.Plan], options: argparse.Namespace) -> None:
    """Run what has to run, one notebook after another, also after one that failed, and show how far it is."""
    for plan in plans:
        plan.judge(options.force)  # anew: another run may have made what it shows
    ahead = train_ahead(plans, options)
    try:
        for number, plan in enumerate(plans, start=1):
            plan.judge(
                options.force
            )  # anew, as the notebooks before it may have made what it shows
            if not plan.reasons:
                plan.result = "reused"
                continue
            heading = f"[{number}/{len(plans)}] {plan.name}"
            print(f"{heading}: runs, because {plan.reasons[0]}", flush=True)
            execute(plan, options, heading, ahead and ahead.pid)
            print(f"{heading}: {plan.result} in {duration(plan.seconds)}", flush=True)
    finally:
        end_children()


def _stop(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough; ending everything takes a second
    raise SystemExit(128 + number)


def main(words: list[str]) -> int:
    """Run the notebooks; returns the exit code: 0 all done, 1 something failed, 2 a request that cannot be met."""
    try:
        options = schedule.arguments(words)
        profile = profiles.load(
            options.profile, overrides=options.overrides, seeds=options.seeds, only=options.only
        )
        plans = schedule.plans(options, profile)
        if profile.build is None:
            places = (
                task_files.folder(paths.data_root(profile), entry)
                for entry in profile.tasks.folders.values()
            )
            if "classification" not in set(map(task_files.kind, places)) and plans[-1].name > "02":
                raise ValueError(
                    "tasks.folders names no classification; notebooks from 02 on judge models by these"
                )
        if profile.only:
            wanted = [entry.label for plan in plans for entry in plan.wanted]
            profiles.check_only(profile.only, figure_models.names(wanted))
        if options.dry_run:
            print(schedule.dry_run(plans))
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        adopt_orphans()
        wanted = [entry.label for plan in plans if plan.reasons for entry in plan.wanted]
        if (
            wanted and profile.build and not profile.offline
        ):  # what is missing is told once, not by every notebook
            from lib.ledger import costs

            sources.root(profile)
            print(
                "\n".join(
                    line for line in costs.table(wanted, profile) if line.endswith("too little")
                )
            )
        if options.dask is not None:
            os.environ["THESIS_DASK"] = options.dask  # for the notebooks too
            executors.cluster(options.dask)  # if it cannot be worked with, nothing begins
        begin = time.monotonic()
        with only_run(paths.run_folder(profile)):
            run(plans, options)
        print("\n" + schedule.summary(plans))
        failed = [plan for plan in plans if plan.result == "failed"]
        for plan in failed:
            print(f"\n{plan.name} failed\n{textwrap.indent(plan.problem, '    ')}")
        print(
            f"\n{len(plans) - len(failed)} of {len(plans)} notebooks done in {duration(time.monotonic() - begin)}"
        )
        return 1 if failed else 0
    except (
        ValueError,
        OSError,
        executors.WorkerError,
    ) as error:  # a ParameterError is a ValueError
        hint = " (another artifact root: THESIS_ARTIFACTS)" if isinstance(error, OSError) else ""
        print(f"run_all.sh: {error}{hint}", file=sys.stderr)
        return 1 if hint else 2
    except SystemExit as stopped:
        end_children()
        print(
            "\nrun_all.sh: stopped; what was computed is kept, the same command goes on from there",
            file=sys.stderr,
        )
        return stopped.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
