"""A real Dask scheduler and its workers on this machine's loopback: nothing is lost, one line for
what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lib.config import environment, paths, profiles
from lib.store import parallel
from lib.store.files import write_atomically

dask = pytest.mark.slow  # starts processes, and needs Dask, which tests/run.sh installs
LOOPBACK = ["--host", "127.0.0.1", "--no-dashboard"]


@pytest.fixture(autouse=True)
def no_cluster_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    yield
    parallel.end_workers()


@contextlib.contextmanager
def process(*words: str, **changed: str):
    """A process of Dask, without the variables that our own processes get."""
    unset = environment.process_variables(offline=True)
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    below = [str(paths.ROOT), os.environ.get("PYTHONPATH", "")]
    variables = kept | {"PYTHONPATH": os.pathsep.join(below)} | changed
    command = [sys.executable, "-P", "-m", *words]
    with subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    """(address, process) of a scheduler that `run_jobs` uses."""
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    file = tmp_path / "scheduler.json"
    words = [*LOOPBACK, "--port", "0", "--scheduler-file", str(file)]
    with process("distributed.cli.dask_scheduler", *words) as started:
        while not (file.exists() and file.read_text().endswith("}")):
            assert started.poll() is None, "the scheduler ended"
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        monkeypatch.setenv("THESIS_DASK", address)
        yield address, started


def worker(address: str, *words: str, **changed: str):
    """One more worker, in a context; it has no nanny, so that killing it ends it."""
    words = [*LOOPBACK, "--no-nanny", "--nthreads", "1", "--death-timeout", "600", *words]
    return process("distributed.cli.dask_worker", address, *words, **changed)


def keep_square(number: int) -> None:
    """Keep a number's square under the artifact root. The first process that comes to 3 is killed
    before."""
    folder = paths.artifacts()
    if number == 3:
        with contextlib.suppress(FileExistsError), open(folder / "killed", "x"):
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    write_atomically(folder / f"{number}.txt", str(number**2).encode())


@dask
def test_nothing_is_lost_with_a_worker_that_is_killed_in_a_job(scheduler):
    address, _ = scheduler
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(worker(address))
        parallel.connect(address).wait_for_workers(3, timeout=300)
        parallel.run_jobs([(keep_square, (number,)) for number in range(12)], "squares")
    assert (paths.artifacts() / "killed").exists()
    kept = {file.stem: file.read_text() for file in paths.artifacts().glob("*.txt")}
    assert kept == {str(number): str(number**2) for number in range(12)}


def refuse() -> str:
    """What `run_jobs` says in one line, long before its jobs would end."""
    with pytest.raises((parallel.WorkerError, profiles.ParameterError)) as error:
        parallel.run_jobs([(time.sleep, (600,))] * 4, "sleeping")
    (line,) = error.value._render_traceback_()
    assert "\n" not in line
    return line


@dask
def test_a_worker_with_other_code_or_threads_is_refused_in_one_line(scheduler, tmp_path):
    address, _ = scheduler
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(paths.ROOT / "lib", tmp_path / "other" / "lib", ignore=ignored)
    with open(tmp_path / "other" / "lib" / "losses" / "mse.py", "a") as file:
        file.write("# a change\n")
    below = [str(tmp_path / "other"), os.environ.get("PYTHONPATH", "")]
    with worker(address, PYTHONPATH=os.pathsep.join(below)):
        assert f"not {parallel.identify_process()['lib']}; fix that, restart the worker" in refuse()
    with worker(address, "--nthreads", "4"):
        assert "has threads: 4, not 1" in refuse()


@dask
def test_a_worker_with_another_package_is_refused_in_one_line(scheduler, monkeypatch):
    address, _ = scheduler
    others = parallel.identify_process() | {"torch": "1.0"}
    monkeypatch.setattr(parallel, "identify_process", lambda: others)
    with worker(address):
        assert "has torch: " in (line := refuse()) and "not 1.0; fix that" in line


@dask
def test_a_job_that_fails_tells_its_error_and_a_scheduler_that_dies_is_one_line(
    scheduler, tmp_path
):
    address, started = scheduler
    with worker(address):
        jobs = [(int, ("x",)), (os.mkdir, (tmp_path / "kept",))]
        with (
            pytest.warns(UserWarning, match="two jobs: int failed"),
            pytest.raises(ValueError, match="'x'"),
        ):
            parallel.run_jobs(jobs, "two jobs")
        assert (tmp_path / "kept").is_dir()

        def kill_scheduler():
            while not (tmp_path / "begun").exists():
                time.sleep(0.05)
            started.kill()

        threading.Thread(target=kill_scheduler, daemon=True).start()
        with pytest.raises(parallel.WorkerError, match="the Dask scheduler is gone"):
            parallel.run_jobs([(begin_and_sleep, (tmp_path / "begun",))], "sleeping")


def begin_and_sleep(file: Path) -> None:
    file.touch()
    time.sleep(600)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "here", "tcp://", "127.0.0.1:1"])
def test_where_no_scheduler_answers_it_is_one_line(address, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    monkeypatch.setenv("THESIS_DASK", address)
    assert f"--dask: no scheduler answers at '{address}', expected tcp://host:port" in refuse()


def test_without_dask_it_is_one_line(monkeypatch):
    monkeypatch.setenv("THESIS_DASK", "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "--dask: Dask is not installed: pip install -e '.[dask]'" in refuse()
