"""Where independent work runs: processes of this machine by default, or any `concurrent.futures.Executor`."""

import contextlib
import ctypes
import functools
import multiprocessing
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from typing import Any

from lib.config import environment
from lib.config.profiles import OneLine, ParameterError
from lib.store import progress

GO_ON = "the workers have ended; what was computed is kept, run the cell again to go on"
_idle = False  # in a block of `nothing_computed`


class WorkerKilled(OneLine, BrokenExecutor):
    """A worker ended without an answer."""


class NotComputed(OneLine, LookupError):
    """A value is not in the store, and nothing is to be computed."""


class Interrupted(OneLine, KeyboardInterrupt):
    """A person interrupted the work, and the workers have ended."""


def submit(tasks: list[tuple[Callable[..., Any], tuple]], executor: Executor | None, description: str) -> None:
    """Run the tasks and wait for all; what they return is not brought back, the first error is raised at the end."""
    if _idle:
        raise NotComputed(f"{description}: {len(tasks)} are missing")
    executor = executor or processes(jobs())
    errors = []
    try:
        futures = {executor.submit(_call, *task): task for task in tasks}
        for future in progress.track(as_completed(futures), description, total=len(futures)):
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                raise error
            if error is not None:
                errors.append(error)
                warnings.warn(f"{description}: {futures[future][1][0]} failed: {error}", stacklevel=2)
    except BrokenExecutor:
        end_workers()
        told = "a worker process was killed, most likely for want of memory: close other programs, or run with --jobs 1"
        raise WorkerKilled(f"{told} (in a notebook: THESIS_JOBS=1); what was computed is kept") from None
    except KeyboardInterrupt:
        end_workers()
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
    environment.set_process_environment(offline=False)  # a worker inherits it before it imports anything
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _start_worker, (os.getpid(),))


def end_workers() -> None:
    """End every worker at once, whatever it does; results are written atomically. The next call starts new ones."""
    processes.cache_clear()
    for worker in multiprocessing.active_children():
        worker.kill()


def jobs(asked: str | None = None) -> int:
    """How many processes work at once: as `--jobs` asked, as `THESIS_JOBS` says, or the cores, at most four."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = os.environ.get("THESIS_JOBS") or str(min(4, usable)) if asked is None else asked
    if not re.fullmatch("[1-9][0-9]*", text):  # str.isdigit would take a superscript two
        name = "THESIS_JOBS" if asked is None else "--jobs"
        raise ParameterError(f"{name}: expected a whole number from 1, got {text!r}")
    return int(text)


def end_with(parent: int, at_last: Callable[[], None] = lambda: None) -> None:
    """End this process as soon as its parent is gone, after a call of `at_last`: what was killed must not go on."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        at_last()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(function: Callable[..., Any], arguments: tuple) -> None:
    function(*arguments)
    with contextlib.suppress(AttributeError):  # glibc keeps what a training has freed, a gigabyte after some jobs
        ctypes.CDLL(None).malloc_trim(0)


def _start_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C reaches the whole process group; the parent answers it
    environment.set_process_environment(offline=False)  # tells a torch that unpickling has loaded already
    end_with(parent)
