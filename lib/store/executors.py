"""Where independent work runs: processes of this machine by default, or any `concurrent.futures.Executor`."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from typing import Any

from lib.store import progress


def submit(tasks: list[tuple[Callable[..., Any], tuple]], executor: Executor | None, description: str) -> None:
    """Run the jobs and wait for all; the first error is raised when the others are done, so nothing else is lost."""
    if not tasks:
        return
    executor = executor or processes(jobs())
    futures = {executor.submit(function, *arguments): (function.__name__, arguments) for function, arguments in tasks}
    errors = []
    for future in progress.track(as_completed(futures), description, total=len(futures)):
        if future.exception() is not None:
            errors.append(future.exception())
            warnings.warn(
                f"{futures[future][0]} failed for {futures[future][1][0]}: {future.exception()}", stacklevel=2
            )
    if any(isinstance(error, BrokenExecutor) for error in errors):
        processes.cache_clear()  # a worker was killed, by lack of memory for example: the next call starts new ones
    if errors:
        raise errors[0]


@functools.cache
def processes(count: int) -> Executor:
    """`count` worker processes, one torch thread each: the same bits as one process, and faster than threads."""
    pool = ProcessPoolExecutor(
        count, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(os.getpid(),)
    )
    atexit.register(pool.shutdown, wait=False, cancel_futures=True)
    return pool


def jobs() -> int:
    """How many processes train variants at once: `THESIS_JOBS`, or the available cores, at most four."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(os.environ.get("THESIS_JOBS") or min(4, available))


def _start_worker(parent: int) -> None:
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Workers of a killed notebook must not go on: end as soon as the parent is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
