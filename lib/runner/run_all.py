"""Run the notebooks that make the requested figures and tables, one after another; `run_all.sh` starts this.

A notebook counts as done only if its process ended with 0, no cell is pending, every promised file is there, and its
last cell printed the marker of `nb.finish()`. One that failed does not stop the others; the exit code tells.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lib.config import environment, figure_models, paths, profiles
from lib.config.schema import Profile
from lib.runner import notebook, schedule
from lib.runner.run_notebook import adopt_orphans, end_children
from lib.runner.status import Status, shown
from lib.store import run_notes
from lib.store.progress import duration

POLL_SECONDS = 0.2


class Stopped(BaseException):
    """A signal asked the run to end."""


@contextlib.contextmanager
def only_run(profile: Profile, status: Status) -> Iterator[None]:
    """Wait until no other run works on the same results."""
    folder = paths.artifacts() / paths.run_name(profile)
    lock, holder = FileLock(folder / "run.lock"), folder / "run.pid"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        pid = holder.read_text(encoding="utf-8").strip() if holder.exists() else "unknown"
        status.say(f"another run is at work on {shown(folder)} (pid {pid}), waiting")
        lock.acquire()
    try:
        holder.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def check_writable(folder: Path) -> None:
    """Raise `OSError`, one line, unless files of some size can be written into `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(2**20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(
            f"cannot write into {folder}: {error.strerror}; free space, or name another folder in THESIS_ARTIFACTS"
        ) from None


def execute(plan: schedule.Plan, options: argparse.Namespace, profile: Profile, report: Callable[[str], None]) -> None:
    """Run one notebook in a process of its own and enter in the plan how it went."""
    tagged = sum("parameters" in cell["metadata"].get("tags", []) for cell in _code_cells(plan.path))
    if tagged != 1:  # papermill would run it with its own defaults, and end well
        plan.result = "failed"
        plan.problem = [f"expected exactly one cell tagged 'parameters', found {tagged}"]
        return
    executed = paths.executed(profile)
    log = paths.artifacts() / paths.run_name(profile) / "logs" / f"{plan.name}.log"
    for folder in (executed, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    target, failed = executed / f"{plan.name}.ipynb", executed / f"{plan.name}.failed.ipynb"
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="thesis-run-") as scratch:
        job = {
            "source": str(plan.path),
            "output": str(executed / f".{plan.name}.running.ipynb"),
            "parameters": {
                "profile": profile.name,
                "seeds": options.seeds,
                "only": options.only,
                "overrides": options.overrides or {},
            },
            "runner": os.getpid(),
            **{key: f"{scratch}/{key}" for key in ("result", "progress", "position")},
        }
        Path(scratch, "job").write_text(json.dumps(job), encoding="utf-8")
        with open(log, "w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lib.runner.run_notebook", f"{scratch}/job"],
                env=variables(plan, options, profile, job["progress"]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C reaches the runner alone, which then ends everything in order
            )
            try:
                while process.poll() is None:
                    report(_position(job))
                    time.sleep(POLL_SECONDS)
            except BaseException:
                end_children()
                Path(job["output"]).unlink(missing_ok=True)  # a stopped run leaves no half of a notebook
                raise
            end_children()
        plan.seconds = time.monotonic() - begin
        plan.problem = problems(plan, job, process.returncode, profile)
        output_file = Path(job["output"])
        if output_file.exists():
            output_file.replace(failed if plan.problem else target)
    if plan.problem:
        plan.result = "failed"
        jupyter = Path(sys.executable).parent / "jupyter"
        plan.problem.append(f"open it, as it ran, with its parameters: {shown(jupyter)} lab {shown(failed)}")
        plan.problem.append(f"log: {shown(log)}")
        return
    failed.unlink(missing_ok=True)
    plan.result = "made"
    complete = [entry for entry in plan.wanted if all(path.is_file() for path in entry.paths(profile))]
    files = [path for entry in complete for path in entry.paths(profile)]
    labels = [entry.label for entry in complete]  # with a filter on variants, a figure may have nothing to show
    run_notes.write(plan.name, profile, inputs=plan.inputs, labels=labels, files=files, seconds=plan.seconds)


def variables(plan: schedule.Plan, options: argparse.Namespace, profile: Profile, progress: str) -> dict[str, str]:
    """The environment of a notebook: one thread a process, repeatable hashes, and what the notebook is to make."""
    changed = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": "0",
        "THESIS_ARTIFACTS": str(paths.artifacts()),
        "THESIS_JOBS": str(options.jobs),
        "THESIS_LABELS": ",".join(entry.label for entry in plan.wanted) if plan.partial else "",
        "THESIS_PROGRESS": progress,
    }
    return os.environ | environment.process_variables(offline=profile.offline) | changed


def problems(plan: schedule.Plan, job: dict[str, Any], code: int, profile: Profile) -> list[str]:
    """Why a notebook that ended is not done; empty if it is."""
    result, output = Path(job["result"]), Path(job["output"])
    with contextlib.suppress(OSError, ValueError):
        failure = json.loads(result.read_text(encoding="utf-8"))
        if failure:
            where = f"cell {failure['cell']}" if failure["cell"] else "before its first cell"
            return [f"{where}: {failure['error']}"]
    if code or not result.exists():
        return [f"its process ended with code {code} at {_position(job) or 'the start'}"]
    cells = _code_cells(output)
    pending = sum(cell["execution_count"] is None for cell in cells)
    if pending:
        return [f"{pending} of its {len(cells)} code cells did not run"]
    printed = "".join("".join(part.get("text", "")) for part in (cells[-1]["outputs"] if cells else []))
    if f"{notebook.MARKER} {plan.name}" not in printed:
        return ["its last cell is not nb.finish(), or did not reach its end"]
    missing = [path.name for entry in plan.wanted for path in entry.paths(profile) if not path.is_file()]
    return [f"not made: {', '.join(missing)}"] if missing and not profile.only else []


def _code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]


def _position(job: dict[str, Any]) -> str:
    """`cell 7: training students 3/11`, as far as the notebook has said so."""
    parts = []
    with contextlib.suppress(OSError, ValueError):
        parts.append(f"cell {Path(job['position']).read_text(encoding='utf-8')}")
        step = json.loads(Path(job["progress"]).read_text(encoding="utf-8"))
        parts.append(f"{step['step']} {step['done']}" + (f"/{step['total']}" if step["total"] is not None else ""))
    return ": ".join(parts)


def run(plans: list[schedule.Plan], options: argparse.Namespace, profile: Profile, status: Status) -> None:
    """Run what has to run, one notebook after another, and show how far it is."""
    for number in range(1, len(plans) + 1):
        plan = plans[number - 1] = plans[number - 1].again()
        if not plan.reasons:
            plan.result = "reused"
            continue
        heading = f"[{number}/{len(plans)}] {plan.name}"
        status.say(f"{heading}: runs, because {plan.reasons[0]}")
        begin = time.monotonic()

        def report(position: str, plan=plan, number=number, heading=heading, begin=begin) -> None:
            elapsed = time.monotonic() - begin
            expected = [later.expected(profile) for later in plans[number:] if later.reasons]
            own = plan.expected(profile)
            rest = f"{duration(elapsed)} elapsed"
            if own is not None and None not in expected:
                rest += f", about {duration(max(own - elapsed, 0) + sum(expected))} left"
            status.show(f"{heading}  {position}", rest)

        execute(plan, options, profile, report)
        status.say(f"{heading}: {plan.result} in {duration(plan.seconds)}")
        if plan.problem:
            status.say(f"    {plan.problem[0]}")


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
            names = figure_models.names(entry.label for plan in plans for entry in plan.wanted)
            profiles.check_only(profile.only, names)
        if options.dry_run:
            print(schedule.dry_run(plans, profile))
            return 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        adopt_orphans()
        begin = time.monotonic()
        for place in (paths.artifacts() / paths.run_name(profile), paths.figures(profile)):
            check_writable(place)
        with only_run(profile, status):
            plans = schedule.plans(options, profile)  # another run may have made some
            run(plans, options, profile, status)
        print("\n" + schedule.summary(plans, profile))
        failed = [plan for plan in plans if plan.result == "failed"]
        for plan in failed:
            print("\n".join([f"\n{plan.name} failed", *(f"    {line}" for line in plan.problem)]))
        print(f"\n{len(plans) - len(failed)} of {len(plans)} notebooks done in {duration(time.monotonic() - begin)}")
        return 1 if failed else 0
    except ValueError as error:  # a ParameterError among them
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        end_children()
        print("\nrun_all.sh: stopped; what was computed is kept, the same command goes on from there", file=sys.stderr)
        return 128 + stopped.args[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
