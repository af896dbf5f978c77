"""Runs independent jobs in processes of this machine (joblib) or on workers of a Dask scheduler.

A job writes its results to the cache (`lib.store.cache`) and returns nothing. After an
interruption, unfinished jobs start again, and the results of finished ones are read.
"""

import contextlib
import ctypes
import functools
import logging
import os
import pickle
import re
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lib.config import environment, paths
from lib.config.profiles import OneLine, ParameterError
from lib.store import code, progress, provenance

SOURCES = "THESIS_SOURCES"  # hash of the source of lib in the process that submits the jobs
Job = tuple[Callable[..., Any], tuple]  # a function of a module, and its arguments

GO_ON = "the workers have ended; what was computed is kept, run the cell again to go on"
GPU_TOO_SMALL = (
    "the GPU has too little memory: give it one process (--jobs 1), set "
    "training.gradient_checkpointing=true, or lower training.batch_size (of students with plain "
    "CCA: training.cca_batch_size)"
)
KILLED = (
    "a worker process was killed, most likely because memory ran out: close other programs, or "
    "run with --jobs 1 (in a notebook: THESIS_JOBS=1); what was computed is kept"
)
SCHEDULER_GONE = "the Dask scheduler is gone; what was computed is kept"
GPU_DRIVER = Path("/dev/nvidiactl")  # without it there is no GPU, and no need to import torch


class WorkerError(OneLine, RuntimeError):
    """A worker was killed, the scheduler is gone, or a worker would compute something else."""


class Interrupted(OneLine, KeyboardInterrupt):
    """A person interrupted the jobs, and the workers have ended."""


def run_jobs(jobs: list[Job], description: str) -> None:
    """Run independent jobs and wait for all of them.

    Parameters
    ----------
    jobs : list of (function, arguments)
        Return values of the functions are ignored.
    description : str
        Text next to the progress bar, such as "training students".

    Raises
    ------
    Exception
        The first error of a job, raised after all other jobs have ended. Every error is also a
        warning when it happens.
    WorkerError
        Immediately, if a worker was killed or would compute something else (another version of the
        code, for example), or if the scheduler is gone.
    Interrupted
        Immediately, after Ctrl-C.
    """
    address = os.environ.get("THESIS_DASK")
    count = count_processes()
    if address:
        outcomes = _run_on_cluster(jobs, address)
    elif count == 1:
        outcomes = ((job, _attempt(*job)) for job in jobs)
    else:
        outcomes = _run_in_processes(jobs, count)
    errors = []
    try:
        for job, error in progress.track(outcomes, description, total=len(jobs)):
            if isinstance(error, WorkerError):
                raise error
            if error is not None:
                errors.append(error)
                warnings.warn(f"{description}: {_name_job(job)} failed: {error}", stacklevel=2)
    except BrokenExecutor:
        raise WorkerError(KILLED) from None
    except KeyboardInterrupt:
        end_workers()
        raise Interrupted(GO_ON) from None
    except WorkerError:
        end_workers()
        raise
    if errors:
        raise errors[0]


def _name_job(job: Job) -> str:
    """Name a job by the labels of its arguments, and of items in arguments that are lists."""
    function, arguments = job
    parts = [part for each in arguments for part in (each if isinstance(each, list) else [each])]
    labels = [label for part in parts if isinstance(label := getattr(part, "label", ""), str)]
    return "; ".join(dict.fromkeys(filter(None, labels))) or function.__name__


def count_processes(asked: str | None = None) -> int:
    """Return the number of processes to use.

    Parameters
    ----------
    asked : str, optional
        The value of --jobs. Without it, the environment variable THESIS_JOBS decides. The default
        is the number of usable cores, at most four, or one process if there is a GPU.

    Raises
    ------
    ParameterError
        For anything but a whole number from 1 to 9999.
    """
    name, text = "--jobs", asked
    if text is None:
        name, text = "THESIS_JOBS", os.environ.get("THESIS_JOBS") or str(_default_processes())
    if not re.fullmatch("[1-9][0-9]{0,3}", text):  # str.isdigit would take a superscript two
        raise ParameterError(f"{name}: expected a whole number from 1 to 9999, got {text!r}")
    return int(text)


def _default_processes() -> int:
    if GPU_DRIVER.exists():
        import torch

        if torch.cuda.is_available():
            return 1  # a training has the GPU to itself
    if hasattr(os, "sched_getaffinity"):
        return min(4, len(os.sched_getaffinity(0)))
    return min(4, os.cpu_count() or 1)


def end_workers() -> None:
    """End all workers of this process immediately. The next `run_jobs` starts new ones."""
    from joblib.externals.loky import reusable_executor

    executor = reusable_executor._executor  # `get_reusable_executor` would start one
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)
    if connect.cache_info().currsize:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            connect(os.environ["THESIS_DASK"]).close(timeout=2)
        connect.cache_clear()


def end_with_parent(parent: int) -> None:
    """End this process as soon as `parent` is no longer its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# ---- this machine


def _run_in_processes(jobs: list[Job], count: int) -> Iterator[tuple[Job, Exception | None]]:
    """Yield each job and its error as it ends, from `count` processes with one thread each."""
    # Before NumPy is imported, here with joblib and in the workers, which inherit the environment.
    environment.set_process_environment(offline=False)
    import joblib

    _hide_manager_errors()
    workers = joblib.Parallel(
        count,
        backend="loky",
        batch_size=1,
        pre_dispatch="all",
        return_as="generator_unordered",
        max_nbytes=None,  # share no arrays through files
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )
    variables = _list_variables()
    attempt = joblib.delayed(_attempt_remotely)
    for number, error in workers(attempt(*each, variables) for each in enumerate(jobs)):
        yield jobs[number], error


def _hide_manager_errors() -> None:
    """Silence the traceback of loky's manager thread, which fails when its workers are killed."""
    previous = threading.excepthook
    if getattr(previous, "hides_manager_errors", False):
        return

    def hook(arguments: Any) -> None:
        if arguments.thread is None or arguments.thread.name != "ExecutorManagerThread":
            previous(arguments)

    hook.hides_manager_errors = True  # type: ignore[attr-defined]
    threading.excepthook = hook


def _start_worker(parent: int) -> None:
    from joblib.externals.loky import process_executor

    # loky replaces a worker that has grown by 300 MB, and loading a teacher takes as much.
    process_executor._MAX_MEMORY_LEAK_SIZE = float("inf")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the parent answers it
    environment.set_process_environment(offline=False)
    end_with_parent(parent)


def _list_variables() -> dict[str, str]:
    """Environment variables for jobs: this project's present ones, and one process per job."""
    names = ("THESIS_DATA", "THESIS_KEEP", *environment.OFFLINE)
    variables = {name: os.environ.get(name, "") for name in names}
    own = {"THESIS_ARTIFACTS": str(paths.artifacts()), "THESIS_JOBS": "1", "THESIS_DASK": ""}
    return variables | own | {SOURCES: code.take_snapshot()}


def _attempt_remotely(
    number: int, job: Job, variables: dict[str, str]
) -> tuple[int, Exception | None]:
    """Run a job in a worker process; return its number, and its error if there was one."""
    os.environ.update(variables)
    if variables[SOURCES] != code.take_snapshot():
        return number, WorkerError("the source of lib changed since this run began: start it again")
    error = _attempt(*job)
    if error is None:
        return number, None
    if not isinstance(error, OneLine):
        error.add_note("".join(traceback.format_exception(error)))  # pickling drops the traceback
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return number, error.with_traceback(None)


def _attempt(function: Callable[..., Any], arguments: tuple) -> Exception | None:
    """Call a function; return the error that it raises, if any."""
    try:
        function(*arguments)
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's
            return ParameterError(GPU_TOO_SMALL)
        return error
    finally:
        # glibc does not return freed memory to the system by itself: a gigabyte after some jobs.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    return None


# ---- a cluster


def _run_on_cluster(jobs: list[Job], address: str) -> Iterator[tuple[Job, Exception | None]]:
    """Yield each job and its error as it ends on a worker. Dask repeats jobs of workers that die.

    This uses Dask's own futures. joblib's Dask backend waits forever once Dask gives up a job
    (joblib 1.6.0, distributed 2026.8.0), and with a single worker it computes in this process.
    """
    client = connect(address)
    from distributed import as_completed

    paths.artifacts().mkdir(parents=True, exist_ok=True)
    expected = identify_process() | {"threads": 1, str(paths.artifacts()): "visible"}
    variables = _list_variables()
    futures = [
        client.submit(_attempt_on_worker, number, job, variables, expected, pure=False)
        for number, job in enumerate(jobs)
    ]
    for future in as_completed(futures, loop=client.loop):
        if future.status == "finished":
            number, error = future.result()
            yield jobs[number], error
        elif future.status == "error":
            raise WorkerError(f"{type(future.exception()).__name__}: {future.exception()}")
        else:
            raise WorkerError(SCHEDULER_GONE)


@functools.cache
def connect(address: str) -> Any:
    """Connect to the Dask scheduler at `tcp://host:port`; ParameterError if none answers."""
    try:
        from distributed import Client

        url = urlsplit(address)
        socket.create_connection((url.hostname, url.port), timeout=10).close()
        client = Client(address, timeout=60, set_as_default=False)  # it answers, but may be busy
    except ModuleNotFoundError:
        raise ParameterError("--dask: Dask is not installed: pip install -e '.[dask]'") from None
    except (OSError, ValueError, TypeError):
        raise ParameterError(
            f"--dask: no scheduler answers at {address!r}, expected tcp://host:port"
        ) from None
    # `SCHEDULER_GONE` says it if the scheduler is gone.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    return client


def _attempt_on_worker(
    number: int, job: Job, variables: dict[str, str], expected: dict[str, Any]
) -> tuple[int, Exception | None]:
    """Run a job on a Dask worker; return a WorkerError if it would compute something else.

    expected: what `identify_process` and the worker's settings must be.
    """
    from distributed import get_worker

    worker, artifacts = get_worker(), variables["THESIS_ARTIFACTS"]
    here = identify_process() | {"threads": worker.state.nthreads}
    here[artifacts] = "visible" if os.path.isdir(artifacts) else "missing"
    for name, value in expected.items():
        if here.get(name) != value:
            problem = f"worker {worker.address} has {name}: {here.get(name)}, not {value}"
            remedy = "fix that, restart the worker and run again (docs/scale.md)"
            return number, WorkerError(f"{problem}; {remedy}")
    environment.set_process_environment(offline=False)
    return _attempt_remotely(number, job, variables)


@functools.cache  # a process keeps the code that it has imported, even if files change
def identify_process() -> dict[str, Any]:
    """Describe what must agree in all processes of a run: versions, the code of lib, a GPU."""
    import torch

    own = {"platform": "any", "lib": code.take_snapshot(), "GPU": torch.cuda.is_available()}
    return provenance.versions() | own
