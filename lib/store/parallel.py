"""Independent jobs in several processes of this machine (joblib), or on the workers of a Dask
scheduler.

A job keeps what it computes (`lib.store.cache`); nothing is brought back. So a job that was cut off
is done again, and what had ended is read.
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

SOURCES = "THESIS_SOURCES"  # a hash of lib as the process has it that asks for jobs
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
GPU_DRIVER = Path("/dev/nvidiactl")  # only where it exists do we wait for the import of torch


class WorkerError(OneLine, RuntimeError):
    """A worker ended without an answer, the scheduler is gone, or a worker does not fit."""


class Interrupted(OneLine, KeyboardInterrupt):
    """A person interrupted the work, and the workers have ended."""


def run_jobs(jobs: list[Job], description: str) -> None:
    """Run independent jobs and wait for all of them.

    Parameters
    ----------
    jobs : list of (function, arguments)
        What the functions return is dropped.
    description : str
        What a person reads beside the bar, such as "training students".

    Raises
    ------
    Exception
        The first error of a job, after all others have ended; each is a warning when it happens.
    WorkerError
        At once, if a worker was killed or does not fit, or if the scheduler is gone.
    Interrupted
        At once, after Ctrl-C.
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
    """What a job makes, by the labels of its arguments, or of what is in a list among them."""
    function, arguments = job
    parts = [part for each in arguments for part in (each if isinstance(each, list) else [each])]
    labels = [label for part in parts if isinstance(label := getattr(part, "label", ""), str)]
    return "; ".join(dict.fromkeys(filter(None, labels))) or function.__name__


def count_processes(asked: str | None = None) -> int:
    """How many processes work at once.

    Parameters
    ----------
    asked : str, optional
        What a person gave as --jobs. Otherwise the variable THESIS_JOBS decides, and without it
        the number of usable cores, at most four, or one where there is a GPU.

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
    """End every worker of this process at once; the next call of `run_jobs` starts new ones."""
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
    environment.set_process_environment(offline=False)  # workers inherit it before they import
    import joblib  # loads NumPy, which must find the environment set

    _hide_manager_errors()
    workers = joblib.Parallel(
        count,
        backend="loky",
        batch_size=1,
        pre_dispatch="all",
        return_as="generator_unordered",
        max_nbytes=None,  # no array is shared through a file
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )
    variables = _list_variables()
    attempt = joblib.delayed(_attempt_remotely)
    for number, error in workers(attempt(*each, variables) for each in enumerate(jobs)):
        yield jobs[number], error


def _hide_manager_errors() -> None:
    """Print no traceback of loky's manager thread, which fails when its workers are killed."""
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

    # loky replaces a worker that has grown by 300 MB, as each does that has loaded a teacher.
    process_executor._MAX_MEMORY_LEAK_SIZE = float("inf")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; the parent answers it
    environment.set_process_environment(offline=False)
    end_with_parent(parent)


def _list_variables() -> dict[str, str]:
    """What jobs find in `os.environ`: this project's variables as they are now, and no workers
    below workers."""
    names = ("THESIS_DATA", "THESIS_KEEP", *environment.OFFLINE)
    variables = {name: os.environ.get(name, "") for name in names}
    own = {"THESIS_ARTIFACTS": str(paths.artifacts()), "THESIS_JOBS": "1", "THESIS_DASK": ""}
    return variables | own | {SOURCES: code.take_snapshot()}


def _attempt_remotely(
    number: int, job: Job, variables: dict[str, str]
) -> tuple[int, Exception | None]:
    """Run a job in another process than that of `run_jobs`; its number, and the error if there is
    one."""
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
    """Call a function; its error, if it raises one."""
    try:
        function(*arguments)
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's
            return ParameterError(GPU_TOO_SMALL)
        return error
    finally:
        # glibc keeps what a training has freed, a gigabyte after some jobs.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    return None


# ---- a cluster


def _run_on_cluster(jobs: list[Job], address: str) -> Iterator[tuple[Job, Exception | None]]:
    """Yield each job and its error as it ends on a worker. Dask repeats jobs of workers that die.

    joblib's Dask backend waits for ever once Dask gives a job up (joblib 1.6.0, distributed
    2026.8.0), and with a single worker it computes here. So the futures are Dask's own.
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
    """A client of the Dask scheduler at `tcp://host:port`; `ParameterError` if none answers
    there."""
    try:
        from distributed import Client

        url = urlsplit(address)
        socket.create_connection((url.hostname, url.port), timeout=10).close()
        client = Client(address, timeout=60, set_as_default=False)  # it answered: it may be busy
    except ModuleNotFoundError:
        raise ParameterError("--dask: Dask is not installed: pip install -e '.[dask]'") from None
    except (OSError, ValueError, TypeError):
        raise ParameterError(
            f"--dask: no scheduler answers at {address!r}, expected tcp://host:port"
        ) from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # we say that it is gone
    return client


def _attempt_on_worker(
    number: int, job: Job, variables: dict[str, str], expected: dict[str, Any]
) -> tuple[int, Exception | None]:
    """Run a job on a worker that computes as the caller would; a `WorkerError` if it does not."""
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


@functools.cache  # what a process has imported does not change with the files
def identify_process() -> dict[str, Any]:
    """What must be alike wherever one run computes: versions, the code of lib, GPU or none."""
    import torch

    own = {"platform": "any", "lib": code.take_snapshot(), "GPU": torch.cuda.is_available()}
    return provenance.versions() | own
