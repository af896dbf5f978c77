"""Runs jobs, which keep what they compute, on processes of this machine or workers of Dask."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from functools import partial
from typing import Any

from tqdm import tqdm

from lib.config import environment, paths
from lib.messages import OneLine

Job = tuple[str, Callable[..., Any], tuple]  # label, function of a module, its arguments
GONE = (BrokenExecutor, CancelledError)
ALONE = threading.RLock()  # threads of a Dask worker would share torch's random numbers


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
        for label, result in tqdm(_start(jobs), what, len(jobs), leave=False):
            try:
                result()
            except GONE:
                raise
            except Exception as error:
                errors.append(error)
                warnings.warn(f"{what}: {label} failed: {error}", stacklevel=2)
    except GONE:
        told = "a worker was killed, perhaps for want of memory, or the Dask scheduler is gone"
        raise WorkerError(f"{told}; what was computed is kept") from None
    except KeyboardInterrupt:
        from joblib.externals import loky

        loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
        raise Interrupted("the workers have ended; what was computed is kept, run again") from None
    if errors:
        raise errors[0]


def _start(jobs: list[Job]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the label of each job when it ends, and a function that raises its error, if any."""
    from lib import store  # imports NumPy, which reads the environment

    kept = ("THESIS_DATA", "THESIS_KEEP", *environment.OFFLINE)
    own = environment.process_variables(offline=False) | {k: os.environ.get(k, "") for k in kept}
    own |= {"THESIS_ARTIFACTS": str(paths.artifacts()), "THESIS_JOBS": "1", "THESIS_DASK": ""}
    run = partial(_run, store.hash_value(store.read_sources()))
    if address := os.environ.get("THESIS_DASK"):
        # Once Dask gives up a job, joblib's own backend for it waits for ever (joblib 1.6.0).
        from distributed import Client, as_completed

        with Client(address, timeout=10, set_as_default=False) as client:
            if not client.scheduler_info(n_workers=1)["workers"]:
                told = f"no worker has joined the Dask scheduler {address}; waiting for one"
                warnings.warn(told, stacklevel=2)
            # Reading a job imports what computes, and only new imports see the environment.
            client.register_worker_callbacks(lambda: os.environ.update(own))
            futures = {client.submit(run, *job, pure=False): label for label, *job in jobs}
            for future in as_completed([*futures], loop=client.loop):
                yield futures[future], future.result
    elif (count := count_processes()) > 1:
        from joblib.externals import loky

        warnings.filterwarnings("ignore", "A worker stopped")  # and begins anew after 300 MB more
        first = {"initializer": _begin, "initargs": (os.getpid(),)}
        executor = loky.get_reusable_executor(count, timeout=300, env=own, **first)
        futures = {executor.submit(run, *job): label for label, *job in jobs}
        yield from ((futures[each], each.result) for each in loky.as_completed(futures))
    else:
        yield from ((label, partial(function, *given)) for label, function, given in jobs)


def _begin(parent: int) -> None:
    """Let this process ignore Ctrl-C, which its parent answers, and end with its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def _run(sources: str, function: Callable, arguments: tuple) -> None:
    from lib import store

    if sources != store.hash_value(store.read_sources()):
        raise WorkerError("the source of lib changed: restart the kernel, and workers of Dask")
    try:
        with ALONE:
            function(*arguments)
    except Exception as error:  # which may not survive the way to the process that waits
        raise WorkerError(f"{type(error).__name__}: {error}") from error


def count_processes(asked: int | None = None) -> int:
    """How many processes --jobs or THESIS_JOBS asks for; else one a core, at most 4, 1 on a GPU."""
    from joblib import cpu_count

    default = 1 if os.path.exists("/dev/nvidiactl") else min(4, cpu_count())
    return int(asked or os.environ.get("THESIS_JOBS") or default)
