"""Runs jobs, which keep what they compute, on processes of this machine or workers of Dask."""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from functools import partial
from typing import Any

from tqdm import tqdm

from lib.config import environment, paths
from lib.messages import OneLine

Job = tuple[str, Callable[..., Any], tuple]  # label, function of a module, its arguments
ALONE = threading.RLock()  # threads of a Dask worker would share torch's random numbers
duration = tqdm.format_interval  # formats seconds: `00:07`, `12:30`, `1:05:00`


class WorkerError(OneLine, RuntimeError):
    """A job failed in another process, or the process is gone."""


class Interrupted(OneLine, KeyboardInterrupt):
    """A person interrupted the jobs, and the workers have ended."""


def run_jobs(jobs: list[Job], what: str) -> None:
    """Run independent jobs in the order given, and wait for all; `what` names them at the bar.

    The error of a job becomes a warning when it happens, and the first one is raised after all
    jobs have ended. Raises `WorkerError` and, after Ctrl-C, `Interrupted` immediately.
    """
    errors = []
    try:
        with _start(jobs) as outcomes:
            for label, result in track(outcomes, what, len(jobs)):
                try:
                    result()
                except (BrokenExecutor, CancelledError):
                    raise
                except Exception as error:
                    errors.append(error)
                    warnings.warn(f"{what}: {label} failed: {error}", stacklevel=2)
    except (BrokenExecutor, CancelledError):
        told = "a worker was killed, perhaps for want of memory, or the Dask scheduler is gone"
        raise WorkerError(f"{told}; what was computed is kept") from None
    except KeyboardInterrupt:
        end_workers()
        raise Interrupted("the workers have ended; what was computed is kept, run again") from None
    if errors:
        raise errors[0]


@contextlib.contextmanager
def _start(jobs: list[Job]) -> Iterator[Iterable[tuple[str, Callable[[], Any]]]]:
    """Yield the label of each job when it ends, and a function that raises its error, if any."""
    from lib.store import hash_value, read_sources  # imports NumPy, which reads the environment

    kept = ("THESIS_DATA", "THESIS_KEEP", *environment.OFFLINE)
    own = environment.process_variables(offline=False) | {k: os.environ.get(k, "") for k in kept}
    own |= {"THESIS_ARTIFACTS": str(paths.artifacts()), "THESIS_JOBS": "1", "THESIS_DASK": ""}
    run = partial(_run, hash_value(read_sources()))
    if address := os.environ.get("THESIS_DASK"):
        # Once Dask gives up a job, joblib's own backend for it waits for ever (joblib 1.6.0).
        from distributed import Client, as_completed

        with Client(address, timeout=10, set_as_default=False) as client:
            # Reading a job imports what computes, and only new imports see the environment.
            client.register_worker_callbacks(partial(_set_variables, own))
            futures = {client.submit(run, *job, pure=False): label for label, *job in jobs}
            ended = as_completed([*futures], loop=client.loop)
            yield ((futures[future], future.result) for future in ended)
    elif (count := count_processes()) > 1:
        from joblib.externals import loky

        warnings.filterwarnings("ignore", "A worker stopped")  # and begins anew after 300 MB more
        first = {"initializer": _begin, "initargs": (os.getpid(),)}
        executor = loky.get_reusable_executor(count, timeout=300, env=own, **first)
        futures = {executor.submit(run, *job): label for label, *job in jobs}
        yield ((futures[future], future.result) for future in loky.as_completed(futures))
    else:
        yield ((label, partial(function, *given)) for label, function, given in jobs)


def _begin(parent: int) -> None:
    """Let this process ignore Ctrl-C, which its parent answers, and end with its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def _set_variables(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def _run(sources: str, function: Callable, arguments: tuple) -> None:
    from lib.store import hash_value, read_sources

    if sources != hash_value(read_sources()):
        raise WorkerError("the source of lib changed: restart the kernel, and workers of Dask")
    try:
        with ALONE:
            function(*arguments)
    except Exception as error:  # which may not survive the way to the process that waits
        raise WorkerError(f"{type(error).__name__}: {error}") from error


def end_workers() -> None:
    """End the worker processes of this machine at once; `run_jobs` then starts new ones."""
    from joblib.externals import loky

    loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def count_processes(asked: str | None = None) -> int:
    """How many processes --jobs or THESIS_JOBS asks for; else one a core, at most 4, 1 on a GPU."""
    if text := asked or os.environ.get("THESIS_JOBS"):
        return int(text)
    from joblib import cpu_count

    return 1 if os.path.exists("/dev/nvidiactl") else min(4, cpu_count())


def track(items: Iterable[Any], description: str, total: int) -> Iterator[Any]:
    """Yield items and show how many are done: as a bar, or in the file THESIS_PROGRESS."""
    file = os.environ.get("THESIS_PROGRESS")
    with open(file or os.devnull, "a", encoding="utf-8") as stream:
        options = {"file": stream, "bar_format": "{desc} {n_fmt}/{total_fmt}", "mininterval": 0}
        yield from tqdm(items, description, total, bool(file), **(options if file else {}))
