"""Worker processes: what a person sees and what is left when one dies or the work is
interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from lib.config import paths, profiles
from lib.experiments.products import Encoder
from lib.store import parallel
from lib.store.cache import Cache, Product


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", "2")
    monkeypatch.delenv("THESIS_DASK", raising=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def workers_are_shared():
    """As by the notebooks of a person: a test that ends them leaves the next one new ones."""
    yield
    parallel.end_workers()


HOUR = 3600


def sleep_long(begun: Path) -> None:
    """A job that says which process does it, and lasts until it is killed."""
    (begun / str(os.getpid())).touch()
    time.sleep(HOUR)


def wait_for_files(folder: Path, count: int) -> list[Path]:
    while len(files := [*folder.iterdir()]) < count:
        time.sleep(0.02)
    return files


def check_ended(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(timeout=HOUR / 2)  # by then none has ended of its own accord


ENDS = {
    "a killed worker": (parallel.WorkerError, "memory ran out.*--jobs 1"),
    "an interrupt": (parallel.Interrupted, "workers have ended"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_is_one_line_leaves_no_worker_and_the_next_call_works(end, tmp_path):
    error, message = ENDS[end]
    workers = []

    def act():
        workers.extend(int(file.name) for file in wait_for_files(tmp_path, 2))
        if end == "a killed worker":
            os.kill(workers[0], signal.SIGKILL)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=act, daemon=True).start()
    with warnings.catch_warnings(action="error"), pytest.raises(error, match=message) as raised:
        parallel.run_jobs([(sleep_long, (tmp_path,))] * 4, "sleeping")
    (shown,) = raised.value._render_traceback_()  # what IPython shows
    assert "\n" not in shown
    check_ended(workers)
    assert len({file.name for file in tmp_path.iterdir()}) == 2
    parallel.run_jobs([(abs, (1,)), (os.mkdir, (tmp_path / "again",))], "again")
    assert (tmp_path / "again").is_dir()


def fail_on(_, *products) -> None:
    raise ValueError("no memory of it")


def test_a_warning_names_what_failed_by_its_label():
    """Not by the cache, nor by all that makes a model."""
    product = partial(Product, "student", {"variant": "x" * 900})
    encoder = Encoder(product(label="SBERT"), len)
    jobs = [(fail_on, (Cache(Path("store")), [product(label="MSE, seed 1"), encoder], product()))]
    with pytest.warns(UserWarning) as warned, pytest.raises(ValueError):
        parallel.run_jobs(jobs, "heads")
    (told,) = (str(each.message) for each in warned)
    assert "heads: MSE, seed 1; SBERT failed" in told and "no memory of it" in told
    assert "store" not in told and "xxx" not in told


@pytest.mark.parametrize("count", ["1", "2"])
def test_the_first_error_comes_after_the_others_are_done(count, tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", count)
    jobs = [(int, ("x",)), (os.mkdir, (tmp_path / "kept",))]
    with (
        pytest.warns(UserWarning, match="two jobs: int failed"),
        pytest.raises(ValueError, match="'x'"),
    ):
        parallel.run_jobs(jobs, "two jobs")
    assert (tmp_path / "kept").is_dir()


def raise_local_error() -> None:
    class Unpicklable(Exception):
        pass

    raise Unpicklable("shapes differ")


def test_an_error_that_cannot_be_pickled_still_says_what_it_is():
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="Unpicklable: shapes differ"):
        parallel.run_jobs([(raise_local_error, ()), (abs, (1,))], "two jobs")


def note_process(folder: Path) -> None:
    facts = [os.environ["THESIS_DATA"], str(torch.get_num_threads()), parallel.count_processes()]
    (folder / str(os.getpid())).write_text(" ".join(map(str, facts)))
    wait_for_files(folder, 2)  # so that no process does both jobs


def test_workers_have_one_thread_todays_variables_and_no_workers_of_their_own(
    tmp_path, monkeypatch
):
    for data in ("first", "second"):  # the same workers, another value
        monkeypatch.setenv("THESIS_DATA", data)
        folder = tmp_path / data
        folder.mkdir()
        parallel.run_jobs([(note_process, (folder,))] * 2, "noting")
        assert [file.read_text() for file in folder.iterdir()] == [f"{data} 1 1"] * 2
    assert {*os.listdir(tmp_path / "first")} == {*os.listdir(tmp_path / "second")}


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    program = (
        "from pathlib import Path\nfrom lib.store import parallel\n"
        "from tests.store.test_parallel import sleep_long\n"
        f"parallel.run_jobs([(sleep_long, (Path({str(tmp_path)!r}),))] * 2, 'sleeping')"
    )
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL
    )
    workers = [int(file.name) for file in wait_for_files(tmp_path, 2)]
    parent.kill()
    parent.wait()
    check_ended(workers)


@pytest.mark.parametrize("asked", ["0", "-1", "two", "²", "99999", "1.5"])
def test_a_count_that_is_none_is_refused_in_one_line(asked, monkeypatch):
    with pytest.raises(profiles.ParameterError, match="--jobs: expected a whole number"):
        parallel.count_processes(asked)
    monkeypatch.setenv("THESIS_JOBS", asked)
    with pytest.raises(profiles.ParameterError, match="THESIS_JOBS: expected a whole number"):
        parallel.count_processes()


def raise_out_of_memory() -> None:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_a_gpu_that_is_too_small_is_one_line_that_names_what_to_change(monkeypatch):
    monkeypatch.setenv("THESIS_JOBS", "1")
    message = "training.gradient_checkpointing=true, or lower training.batch_"
    with pytest.warns(UserWarning), pytest.raises(profiles.ParameterError, match=message):
        parallel.run_jobs([(raise_out_of_memory, ())], "training")
