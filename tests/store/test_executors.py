"""Worker processes: what a person sees and what is left when one dies or the work is interrupted."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

from lib.config import paths
from lib.store import executors


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", "2")
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a job in a shell's background ignores it
    yield
    signal.signal(signal.SIGINT, before)
    executors.end_workers()


def run(program: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, start_new_session=True
    )


def sleeping(action) -> float:
    """Let the workers sleep, act on this process or on them, and return the seconds until `submit` has raised."""
    acted = []

    def act():
        while len(multiprocessing.active_children()) < 2:
            time.sleep(0.05)
        time.sleep(0.5)
        acted.append(time.monotonic())
        action(multiprocessing.active_children())

    threading.Thread(target=act).start()
    try:
        executors.submit([(time.sleep, (60,))] * 4, None, "sleeping")
    finally:
        elapsed = time.monotonic() - acted[0]
    return elapsed


ENDS = {
    "a killed worker": (
        lambda workers: workers[0].kill(),
        executors.WorkerError,
        "want of memory.*--jobs 1",
    ),
    "an interrupt": (
        lambda workers: os.kill(os.getpid(), signal.SIGINT),
        KeyboardInterrupt,
        "workers have ended",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_is_one_line_leaves_no_worker_and_the_next_call_works(end):
    action, error, message = ENDS[end]
    begin = time.monotonic()
    with warnings.catch_warnings(action="error"), pytest.raises(error, match=message) as raised:
        sleeping(action)
    assert time.monotonic() - begin < 30
    (shown,) = raised.value._render_traceback_()  # what IPython shows
    assert "\n" not in shown
    deadline = time.monotonic() + 3
    while multiprocessing.active_children():
        assert time.monotonic() < deadline, "a worker went on"
        time.sleep(0.05)
    executors.submit([(abs, (1,))], None, "again")


def test_the_first_error_comes_after_the_others_are_done(tmp_path):
    tasks = [(int, ("x",)), (os.mkdir, (tmp_path / "kept",))]
    with (
        pytest.warns(UserWarning, match="two tasks: x failed"),
        pytest.raises(ValueError, match="'x'"),
    ):
        executors.submit(tasks, None, "two tasks")
    assert (tmp_path / "kept").is_dir()


def test_where_nothing_is_computed_a_task_is_refused():
    with (
        pytest.raises(executors.NotComputed, match="two tasks: 2 are missing"),
        executors.nothing_computed(),
    ):
        executors.submit([(print, ())] * 2, None, "two tasks")
    executors.submit([(abs, (1,))], None, "afterwards")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_a_task_has_freed_goes_back_to_the_system():
    """Half a gigabyte of blocks too small for pages of their own, under one that stays."""
    program = (
        "import psutil\nfrom lib.store import executors\nkept = []\n"
        "def task():\n    blocks = [bytearray(b'x') * 65_536 for _ in range(8_000)]\n    kept.append(blocks.pop())\n"
        "executors._call(task, ())\nprint(psutil.Process().memory_info().rss >> 20)"
    )
    done = run(program)
    assert int(done.stdout) < 250, done.stderr


def test_idle_workers_say_nothing_when_a_kernel_is_shut_down():
    """Jupyter interrupts the whole process group before it asks the kernel to end."""
    program = (
        "import os, signal, time\nfrom lib.store import executors\n"
        "executors.processes(1).submit(os.getpid).result()\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "os.killpg(0, signal.SIGINT)\ntime.sleep(1)"
    )
    done = run(program)
    assert done.returncode == 0 and done.stderr == ""
