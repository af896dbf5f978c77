"""Run the notebooks that make the requested figures and tables, one after another; `run_all.sh` starts this.

A notebook counts as done only if its process ended with 0, no cell is pending, every promised file is there, and its
last cell printed the marker of `nb.finish()`. One that failed does not stop the others; the exit code tells.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from lib.config import environment, paths, profiles
from lib.config.schema import Profile
from lib.runner import schedule
from lib.runner.run_notebook import adopt_orphans, end_children
from lib.runner.schedule import shown
from lib.store import provenance
from lib.store.files import write_atomically
from lib.store.progress import duration

POLL_SECONDS = 0.2
QUIET_SECONDS = 15.0  # without a terminal, a line at least this often
STEP_SECONDS = 2.0  # and for a new step, but no oftener than this


class Status:
    """One line that is rewritten on a terminal, and printed now and then into a file."""

    def __init__(self) -> None:
        self._clear = "\r\x1b[K" if sys.stdout.isatty() else ""  # to the line's start, and erase it
        self._step, self._printed = "", 0.0

    def show(self, step: str, rest: str) -> None:
        """Show `step` (what is running) and `rest` (how far, how long); times alone make no new line."""
        text = f"{step}  {rest}"
        waited = time.monotonic() - self._printed
        if self._clear:
            print(self._clear + text[: shutil.get_terminal_size().columns - 1], end="", flush=True)
        elif waited >= QUIET_SECONDS or (step != self._step and waited >= STEP_SECONDS):
            self.say(text)
            self._step, self._printed = step, time.monotonic()

    def say(self, text: str) -> None:
        """Print a line that stays, in place of the one that is rewritten."""
        print(self._clear + text, flush=True)


class Stopped(BaseException):
    """A signal asked the run to end."""


def only_run(profile: Profile, status: Status) -> contextlib.AbstractContextManager[BaseFileLock]:
    """Wait until no other run works on the same results, and hold their lock."""
    folder = paths.run_folder(profile)
    lock, holder = FileLock(folder / "run.lock"), folder / "run.pid"
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        pid = holder.read_text(encoding="utf-8") if holder.exists() else "unknown"
        status.say(f"another run is at work on {shown(folder)} (pid {pid}), waiting")
        held = lock.acquire()
    holder.write_text(str(os.getpid()), encoding="utf-8")
    return held


def check_writable(folder: Path) -> None:
    """Raise `OSError`, one line, unless files of some size can be written into `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(2**20))
            os.fsync(file.fileno())
    except OSError as error:
        told = "free space, or name another folder in THESIS_ARTIFACTS"
        raise OSError(f"cannot write into {folder}: {error.strerror}; {told}") from None


def execute(plan: schedule.Plan, options: argparse.Namespace, later: list[float | None], status: Status) -> None:
    """Run one notebook in a process of its own and enter in the plan how it went.

    later: seconds that the notebooks after it will take, None for one of which nobody knows.
    """
    run = paths.run_folder(plan.profile)
    target, failed = (run / "executed" / f"{plan.name}{suffix}" for suffix in (".ipynb", ".failed.ipynb"))
    log = run / "logs" / f"{plan.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    expected = [plan.expected(), *later]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="thesis-run-") as folder, open(log, "w", encoding="utf-8") as log_file:
        scratch = Path(folder)
        parameters = {"profile": plan.profile.name, "seeds": options.seeds, "only": options.only}
        parameters |= {"overrides": options.overrides}
        job = {"notebook": str(plan.path), "parameters": parameters, "scratch": folder, "runner": os.getpid()}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lib.runner.run_notebook", json.dumps(job)],
            env=variables(plan, options.jobs, str(scratch / "progress")),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C reaches the runner alone, which then ends everything in order
        )
        try:
            while process.poll() is None:
                elapsed = time.monotonic() - begin
                rest = f"{duration(elapsed)} elapsed"
                if None not in expected:
                    rest += f", about {duration(max(expected[0] - elapsed, 0) + sum(expected[1:]))} left"
                status.show(f"{plan.heading}  {_position(scratch)}", rest)
                time.sleep(POLL_SECONDS)
        finally:
            end_children()
        plan.seconds = time.monotonic() - begin
        plan.problem = _problem(plan, scratch, process.returncode)
        plan.result = "failed" if plan.problem else "made"
        if (executed := scratch / "notebook.ipynb").exists():
            write_atomically(failed if plan.problem else target, executed.read_bytes())
            if plan.problem:
                jupyter = shown(Path(sys.executable).parent / "jupyter")
                plan.problem += f"\nopen it, as it ran, with its parameters: {jupyter} lab {shown(failed)}"
    if plan.problem:
        plan.problem += f"\nlog: {shown(log)}"
        return
    failed.unlink(missing_ok=True)
    files = {entry.label: entry.paths(plan.profile) for entry in plan.wanted}
    # with a filter on variants, a figure may have nothing to show
    files = {label: own for label, own in files.items() if all(path.is_file() for path in own)}
    provenance.note_run(plan.name, plan.profile, inputs=plan.inputs, files=files, seconds=plan.seconds)


def variables(plan: schedule.Plan, jobs: int, progress: str) -> dict[str, str]:
    """The environment of a notebook: one thread a process, repeatable hashes, and what the notebook is to make."""
    changed = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures inline, whatever the caller draws with
        "PYTHONHASHSEED": "0",
        "THESIS_ARTIFACTS": str(paths.artifacts()),
        "THESIS_JOBS": str(jobs),
        "THESIS_LABELS": ",".join(entry.label for entry in plan.wanted) if len(plan.wanted) < len(plan.own) else "",
        "THESIS_PROGRESS": progress,
    }
    return os.environ | environment.process_variables(offline=plan.profile.offline) | changed


def _problem(plan: schedule.Plan, scratch: Path, code: int) -> str:
    """Why a notebook that ended is not done; empty if it is."""
    if code or not (scratch / "result").exists():
        return f"its process ended with code {code} at {_position(scratch) or 'the start'}"
    if problem := (scratch / "result").read_text(encoding="utf-8"):
        return problem
    missing = [path.name for entry in plan.wanted for path in entry.paths(plan.profile) if not path.is_file()]
    return f"not made: {', '.join(missing)}" if missing and not plan.profile.only else ""


def _position(scratch: Path) -> str:
    """`cell 7: training students 3/11`, as far as the notebook has said so."""
    position = ""
    with contextlib.suppress(OSError, ValueError):
        position = f"cell {(scratch / 'position').read_text(encoding='utf-8')}"
        step = json.loads((scratch / "progress").read_text(encoding="utf-8"))
        position += f": {step['step']} {step['done']}" + (f"/{step['total']}" if step["total"] is not None else "")
    return position


def run(plans: list[schedule.Plan], options: argparse.Namespace, status: Status) -> None:
    """Run what has to run, one notebook after another, and show how far it is."""
    for number, plan in enumerate(plans, start=1):
        plan.judge()  # anew: a page shows what the notebooks before it have just made
        if not plan.reasons:
            plan.result = "reused"
            continue
        plan.heading = f"[{number}/{len(plans)}] {plan.name}"
        status.say(f"{plan.heading}: runs, because {plan.reasons[0]}")
        execute(plan, options, [later.expected() for later in plans[number:] if later.reasons], status)
        status.say(f"{plan.heading}: {plan.result} in {duration(plan.seconds)}")
        if plan.problem:
            status.say(f"    {plan.problem.splitlines()[0]}")


def _stop(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough; ending everything takes a second
    raise Stopped(number)


def main(words: list[str]) -> int:
    """Run the notebooks; returns the exit code: 0 all done, 1 something failed, 2 a request that cannot be met."""
    status = Status()
    try:
        options = schedule.arguments(words)
        profile = profiles.load(options.profile, overrides=options.overrides, seeds=options.seeds, only=options.only)
        plans = schedule.plans(options, profile)
        if profile.only:
            from lib.published import figure_models

            names = figure_models.names(entry.label for plan in plans for entry in plan.wanted)
            profiles.check_only(profile.only, names)
        if options.dry_run:
            print(schedule.dry_run(plans))
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        adopt_orphans()
        begin = time.monotonic()
        for place in (paths.run_folder(profile), paths.figures(profile)):
            check_writable(place)
        with only_run(profile, status):
            plans = schedule.plans(options, profile)  # another run may have made some
            run(plans, options, status)
        print("\n" + schedule.summary(plans))
        failed = [plan for plan in plans if plan.result == "failed"]
        for plan in failed:
            print(f"\n{plan.name} failed\n{textwrap.indent(plan.problem, '    ')}")
        print(f"\n{len(plans) - len(failed)} of {len(plans)} notebooks done in {duration(time.monotonic() - begin)}")
        return 1 if failed else 0
    except (ValueError, OSError) as error:  # a ParameterError is a ValueError
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 1 if isinstance(error, OSError) else 2
    except Stopped as stopped:
        end_children()
        print("\nrun_all.sh: stopped; what was computed is kept, the same command goes on from there", file=sys.stderr)
        return 128 + stopped.args[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
