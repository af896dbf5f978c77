"""Where independent work runs: processes of this machine, workers of Dask, or any `concurrent.futures.Executor`."""

import contextlib
import ctypes
import functools
import logging
import multiprocessing
import os
import re
import signal
import socket
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    as_completed,
)
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lib.config import environment, paths
from lib.config.profiles import OneLine, ParameterError
from lib.store import progress, provenance
from lib.store.files import file_fingerprint, fingerprint

GO_ON = "the workers have ended; what was computed is kept, run the cell again to go on"
GPU_TOO_SMALL = (
    "the GPU has too little memory: give it one process (--jobs 1), set training.gradient_checkpointing=true, or lower "
    "training.batch_size (of students with plain CCA: training.cca_batch_size)"
)
DRIVER = Path(
    "/dev/nvidiactl"
)  # where it is, torch is asked for GPUs; elsewhere nobody waits for the import
KILLED = (
    "a worker process was killed, most likely for want of memory: close other programs, or run with --jobs 1 "
    "(in a notebook: THESIS_JOBS=1)"
)
_idle = False  # in a block of `nothing_computed`


class WorkerError(OneLine, BrokenExecutor):
    """A worker ended without an answer, the scheduler is gone, or a worker is not fit for the work."""


class NotComputed(OneLine, LookupError):
    """A value is not in the store, and nothing is to be computed."""


class Interrupted(OneLine, KeyboardInterrupt):
    """A person interrupted the work, and the workers have ended."""


def submit(
    tasks: list[tuple[Callable[..., Any], tuple]], executor: Executor | None, description: str
) -> None:
    """Run the tasks and wait for all; what they return is not brought back, the first error is raised at the end."""
    if _idle:
        raise NotComputed(f"{description}: {len(tasks)} are missing")
    address, given = os.environ.get("THESIS_DASK"), ()
    if executor is None:
        executor, given = cluster(address) if address else (processes(jobs()), ())
    errors = []
    try:
        futures = {executor.submit(_call, *task, *given): task for task in tasks}
        for future in progress.track(as_completed(futures), description, total=len(futures)):
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise error
            if error is not None:
                errors.append(error)
                warnings.warn(
                    f"{description}: {futures[future][1][0]} failed: {error}", stacklevel=2
                )
    except (BrokenExecutor, CancelledError) as error:
        end_workers()
        if isinstance(error, WorkerError):
            raise
        told = "the Dask scheduler is gone" if isinstance(error, CancelledError) else KILLED
        raise WorkerError(f"{told}; what was computed is kept") from None
    except KeyboardInterrupt:
        end_workers()
        executor.shutdown(wait=False)  # Dask drops what has not begun
        raise Interrupted(GO_ON) from None
    if errors:
        raise errors[0]


@contextlib.contextmanager
def nothing_computed() -> Iterator[None]:
    """In this block `submit` raises `NotComputed`: for what only reads results."""
    global _idle
    _idle = True
    try:
        yield
    finally:
        _idle = False


@functools.cache
def processes(count: int) -> Executor:
    """`count` worker processes, one torch thread each: the same bits as one process, and faster than threads."""
    environment.set_process_environment(
        offline=False
    )  # a worker inherits it before it imports anything
    return ProcessPoolExecutor(
        count, multiprocessing.get_context("spawn"), _start_worker, (os.getpid(),)
    )


@functools.cache
def cluster(address: str) -> tuple[Executor, tuple]:
    """The workers of a Dask scheduler, and what `_join` is to be given there with each task, as workers may come later.

    `ParameterError` if no scheduler answers, `WorkerError` if one of its workers is not fit.
    """
    try:
        from distributed import Client

        url = urlsplit(address)
        socket.create_connection(
            (url.hostname, url.port), timeout=10
        ).close()  # a Client fails with a traceback
        client = Client(address, timeout=10)
    except ModuleNotFoundError:
        raise ParameterError("--dask: Dask is not installed: pip install -e '.[dask]'") from None
    except (OSError, ValueError, TypeError):
        raise ParameterError(
            f"--dask: no scheduler answers at {address!r}, expected tcp://host:port"
        ) from None
    logging.getLogger("distributed.client").setLevel(
        logging.CRITICAL
    )  # `submit` says that it is gone
    executor, root = client.get_executor(pure=False), paths.artifacts()
    root.mkdir(parents=True, exist_ok=True)
    executor.beacon = tempfile.NamedTemporaryFile(
        dir=root, prefix=".dask-"
    )  # as long as the executor
    expected = identity() | {"threads": 1, f"sight of {root}": True}
    variables = {
        name: os.environ.get(name, "") for name in environment.OFFLINE
    }  # the others are the worker's own
    variables |= {"THESIS_ARTIFACTS": str(root), "THESIS_DATA": os.environ.get("THESIS_DATA", "")}
    given = (expected, executor.beacon.name, variables)
    for worker, error in client.run(_join, *given, on_error="return").items():
        if error:
            raise (
                error
                if isinstance(error, WorkerError)
                else WorkerError(f"worker {worker}: {error}")
            )
    return executor, given


@functools.cache  # when first asked: what a process has imported does not change with the files
def identity() -> dict[str, Any]:
    """What must be alike wherever the results of one run are computed: versions, sources of `lib`, a GPU or none, and
    the kernels that a worker of Dask has loaded before anybody can choose them for it."""
    import torch

    kernels = {name: os.environ.get(name, "") for name, _ in environment.KERNELS.values()}
    sources = {
        str(path.relative_to(paths.ROOT)): file_fingerprint(path)
        for path in paths.ROOT.glob("lib/**/*.py")
    }
    own = {"platform": "any", "lib": fingerprint(sources), "GPU": torch.cuda.is_available()}
    return provenance.versions() | kernels | own


def _join(
    expected: dict[str, Any], beacon: str, variables: dict[str, str], dask_worker: Any = None
) -> None:
    """On a worker of Dask: take over the variables of who has work for it, or raise `WorkerError` if it is not fit."""
    from distributed import get_worker

    worker = dask_worker or get_worker()  # the former outside a task
    here = identity() | {"threads": worker.state.nthreads}
    for name, value in expected.items():
        if (own := here.get(name, os.path.exists(beacon))) != value:
            told = f"worker {worker.address} has {name}: {own}, not {value}"
            raise WorkerError(f"{told}; mend it, start it anew and run again (docs/scale.md)")
    os.environ.update(variables)
    environment.set_process_environment(offline=False)


def end_workers() -> None:
    """End every worker at once, whatever it does; results are written atomically. The next call starts new ones."""
    cluster.cache_clear()
    processes.cache_clear()
    for worker in multiprocessing.active_children():
        worker.kill()


def jobs(asked: str | None = None) -> int:
    """How many processes work at once: as `--jobs` asked, as `THESIS_JOBS` says, or the cores, at most four; one if
    there is a GPU, as a training has it to itself."""
    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if asked is None and not os.environ.get("THESIS_JOBS") and DRIVER.exists():
        import torch

        usable = 1 if torch.cuda.is_available() else usable
    text = os.environ.get("THESIS_JOBS") or str(min(4, usable)) if asked is None else asked
    if not re.fullmatch("[1-9][0-9]{0,3}", text):  # str.isdigit would take a superscript two
        name = "THESIS_JOBS" if asked is None else "--jobs"
        raise ParameterError(f"{name}: expected a whole number from 1 to 9999, got {text!r}")
    return int(text)


def end_with(parent: int, at_last: Callable[[], None] = lambda: None) -> None:
    """End this process as soon as its parent is gone, after a call of `at_last`: what was killed must not go on."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        at_last()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(function: Callable[..., Any], arguments: tuple, *given: Any) -> None:
    if given:
        _join(*given)
    try:
        function(*arguments)
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's
            raise ParameterError(GPU_TOO_SMALL) from None
        if (
            given and len([*traceback.walk_tb(error.__traceback__)]) > 100
        ):  # Dask's client hangs on hundreds of frames
            raise error.with_traceback(None) from None
        raise
    with contextlib.suppress(
        AttributeError
    ):  # glibc keeps what a training has freed, a gigabyte after some jobs
        ctypes.CDLL(None).malloc_trim(0)


def _start_worker(parent: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a Ctrl-C reaches the whole process group; the parent answers it
    environment.set_process_environment(
        offline=False
    )  # tells a torch that unpickling has loaded already
    end_with(parent)
