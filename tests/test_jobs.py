"""Jobs on real processes and a real Dask scheduler: what is left when something dies."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from lib import jobs, store
from lib.config import environment, paths

IMPORTED_WITH = os.environ.get("MKL_CBWR", "")


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", "2")
    monkeypatch.delenv("THESIS_DASK", raising=False)


def begin(folder, number):
    """Whatever the other worker does, at most one earlier job has been taken and not begun."""
    assert len({file.name for file in folder.iterdir()} & {*map(str, range(number))}) >= number - 1
    (folder / str(number)).touch()


def fail(name):
    raise type(name, (Exception,), {})("shapes differ")  # a class that only this process has


@pytest.mark.parametrize("count", ["1", "2"])
def test_jobs_begin_in_order_and_the_first_error_comes_when_all_ended(count, tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", count)
    queue = [(f"job {number}", begin, (tmp_path, number)) for number in range(20)]
    queue.insert(3, ("text", int, ("a text",)))
    queue.insert(9, ("MSE", fail, ("OwnError",)))
    with pytest.warns(UserWarning) as warned, pytest.raises((ValueError, RuntimeError)) as raised:
        jobs.run_jobs(queue, "heads")
    told = [str(warning.message) for warning in warned]
    assert told[0].endswith(str(raised.value)) and len(told) == 2 and "shapes differ" in str(told)
    assert len([*tmp_path.iterdir()]) == 20


def wait_for_two(folder):
    while len(names := os.listdir(folder)) < 2:
        time.sleep(0.02)
    return [*map(int, names)]


def note(folder, seconds=0):
    names = "THESIS_DATA THESIS_JOBS HF_HUB_OFFLINE MKL_CBWR OMP_NUM_THREADS".split()
    (folder / str(os.getpid())).write_text(" ".join(os.environ.get(name, "") for name in names))
    wait_for_two(folder)  # so that no process does two jobs
    time.sleep(seconds)


def test_workers_stay_with_one_thread_and_todays_variables(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for data, folder in (("/a", tmp_path / "1"), ("/a", tmp_path / "2"), ("/b", tmp_path / "3")):
        monkeypatch.setenv("THESIS_DATA", data)
        folder.mkdir()
        jobs.run_jobs([("noting", note, (folder,))] * 2, "noting")
        assert {file.read_text() for file in folder.iterdir()} == {f"{data} 1 1 AUTO 1"}
        seen.append({*os.listdir(folder)})
    assert seen[0] == seen[1] != seen[2]


PROGRAM = """
import pathlib, signal, sys; from lib import jobs; from tests.test_jobs import note
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
for folder in map(pathlib.Path, sys.argv[1:]):
    try:
        jobs.run_jobs([("sleep", note, (folder, 3600))] * 5, "sleeping")
    except (jobs.Interrupted, jobs.WorkerError) as error:
        print(*error._render_traceback_())
jobs.run_jobs([("again", abs, (1,))] * 2, "again")
print("again")
"""


def test_an_end_leaves_no_worker_says_one_line_and_the_next_call_works(tmp_path_factory):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    options["env"] = os.environ | {"PYTHONPATH": str(paths.ROOT), "TQDM_DISABLE": "1"}
    folders = {end: tmp_path_factory.mktemp("end") for end in ("^C", "killed")}
    command = [sys.executable, "-c", PROGRAM, *folders.values()]
    program = subprocess.Popen(command, text=True, **options)
    for end, folder in folders.items():
        workers = [psutil.Process(pid) for pid in wait_for_two(folder)]
        if end == "^C":
            os.killpg(program.pid, signal.SIGINT)
        else:
            os.kill(workers[0].pid, signal.SIGKILL)
        assert not psutil.wait_procs(workers, timeout=1800)[1]  # long before a job would end
        assert len([*folder.iterdir()]) == 2
    printed = program.communicate()[0]
    assert re.fullmatch("Interrupted: .*\nWorkerError: .* killed.*\nagain\n", printed), printed


def test_workers_with_another_source_are_refused(monkeypatch):
    monkeypatch.setattr(store, "read_sources", lambda: {"losses/mse.py": "as it was yesterday"})
    with pytest.raises(jobs.WorkerError, match="the source of lib changed"):
        jobs.run_jobs([("abs", abs, (1,))], "counting")


def start(stack, *words):
    """Start a process of Dask, without the variables that our own processes get."""
    unset = environment.process_variables(offline=True)
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    variables["PYTHONPATH"] = str(paths.ROOT)
    words = [sys.executable, "-m", *words, "--host", "127.0.0.1", "--no-dashboard"]
    process = subprocess.Popen(words, env=variables, stderr=subprocess.DEVNULL)
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def keep_square(folder, number):
    """Keep a square. The first process that comes to 3 is killed; two at once are an error."""
    if number == 3 and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"alone {os.getpid()}").mkdir()
    store.write_text(folder / f"{number}.txt", f"{number**2} {IMPORTED_WITH}")
    (folder / f"alone {os.getpid()}").rmdir()


def test_dask_loses_nothing_with_a_worker_and_stops_without_a_scheduler(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    with contextlib.ExitStack() as stack:
        words = ["--port", "0", "--scheduler-file", str(file := tmp_path / "scheduler.json")]
        scheduler = start(stack, "distributed.cli.dask_scheduler", *words)
        while not (file.exists() and file.read_text().endswith("}")):
            assert scheduler.poll() is None
            time.sleep(0.05)
        monkeypatch.setenv("THESIS_DASK", address := json.loads(file.read_text())["address"])
        with pytest.warns(UserWarning, match="no worker has joined"):
            jobs.run_jobs([], "waiting")
        for _ in range(2):
            start(stack, "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "2")
        jobs.run_jobs([(str(n), keep_square, (tmp_path, n)) for n in range(12)], "squares")
        kept = {file.stem: file.read_text() for file in tmp_path.glob("*.txt")}
        assert kept == {str(number): f"{number**2} AUTO" for number in range(12)}
        with pytest.raises(jobs.WorkerError, match="the Dask scheduler is gone"):
            jobs.run_jobs([("kill", os.kill, (scheduler.pid, signal.SIGKILL))], "killing")
