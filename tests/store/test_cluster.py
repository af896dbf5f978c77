"""A real Dask scheduler and its workers on this machine's loopback: same records, and one line for what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Executor, Future
from types import SimpleNamespace

import pytest
import torch

from lib.config import environment, paths, profiles
from lib.store import executors, provenance

dask = pytest.mark.slow  # starts processes; tests/run.sh has a step for these, and installs Dask
LOOPBACK = ["--host", "127.0.0.1", "--no-dashboard"]
# What a worker of the tests does besides: it notes each task that it ends, and the first that has written a checkpoint
# of a training kills itself.
NOTING = """
import os, signal
from pathlib import Path
from lib.store import executors

notes = Path(os.environ["NOTES"])
if not hasattr(executors, "call"):  # Dask reads a preload twice
    executors.call = executors._call

def noting(function, arguments, *given):
    executors._join(*given)
    from lib.distillation import checkpoint

    if not hasattr(checkpoint, "write_one"):
        checkpoint.write_one = checkpoint.write
    checkpoint.write = write_and_die
    executors.call(function, arguments, *given)
    with open(notes / "done", "a") as file:
        file.write(f"{os.getpid()} {function.__qualname__} {[str(each)[:200] for each in arguments[:2]]}\\n")

def write_and_die(*arguments, **named):
    from lib.distillation import checkpoint

    checkpoint.write_one(*arguments, **named)
    try:
        with (notes / "killed").open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

executors._call = noting
"""


@pytest.fixture(autouse=True)
def no_cluster_is_kept():
    yield
    executors.end_workers()


@contextlib.contextmanager
def process(*words: str, **changed: str):
    """A process of Dask, without the variables that make numbers repeat, but for that which its caller has to set."""
    unset = (
        environment.process_variables(offline=True).keys()
        - dict(environment.KERNELS.values()).keys()
    )
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    variables = kept | {"PYTHONPATH": str(paths.ROOT)} | changed
    with subprocess.Popen(
        [sys.executable, "-P", "-m", *words], env=variables, stderr=subprocess.DEVNULL
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture
def scheduler(tmp_path):
    """(address, process) of a scheduler."""
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    file = tmp_path / "scheduler.json"
    words = [
        "distributed.cli.dask_scheduler",
        *LOOPBACK,
        "--port",
        "0",
        "--scheduler-file",
        str(file),
    ]
    with process(*words) as started:
        wait(
            lambda: (file.exists() and file.read_text().endswith("}")) or started.poll() is not None
        )
        yield json.loads(file.read_text())["address"], started


def worker(address: str, *words: str, **changed: str):
    """One more worker, in a context; it has no nanny, so that killing it ends it."""
    words = [*LOOPBACK, "--no-nanny", "--nthreads", "1", "--death-timeout", "600", *words]
    return process("distributed.cli.dask_worker", address, *words, **changed)


DEEP = "def deep(): deep()\ndeep()"


class Inline(Executor):
    """An executor that works at once, in this process."""

    def submit(self, function, /, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def wait(condition, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.05)


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=600)


@dask
def test_three_workers_of_which_one_is_killed_in_a_training_make_the_same_records(
    scheduler, tmp_path, monkeypatch
):
    """Nothing is lost, nothing is done twice, and every entry of the store has the bytes that one process makes."""
    from lib.experiments import runs

    address, _ = scheduler
    small = {
        "tasks.folders": {"OC": "passages/same_article"},
        "tasks.limit": 24,
        "corpus.train_documents": 30,
    }
    profile = profiles.load("smoke", overrides=small)
    asked = dict(models=["SBERT", "cosine", "MSE"], profile=profile, seeds=[0])
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "preload.py").write_text(NOTING)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(
                worker(address, "--preload", str(tmp_path / "preload.py"), NOTES=str(notes))
            )
        monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "here"))
        here = runs.run(**asked, executor=Inline()).drop(
            columns="seconds"
        )  # while the workers begin
        monkeypatch.setenv("THESIS_DASK", address)
        monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "cluster"))
        wait_for_workers(address, 3)
        there = runs.run(**asked).drop(columns="seconds")
        executors.end_workers()
    done = [line.partition(" ") for line in (notes / "done").read_text().splitlines()]
    killed = (notes / "killed").read_text()
    assert len({pid for pid, _, _ in done} - {killed}) == 2
    # What the killed one had ended may be called again, and is read.
    times = Counter(task for pid, _, task in done if pid != killed)
    assert (
        set(times.values()) == {1} and sum("cosine" in task or "MSE" in task for task in times) >= 2
    )
    assert there.to_json() == here.to_json()
    sums = {}
    for root in ("cluster", "here"):
        entries = (tmp_path / root / "store").rglob("*.note")
        written = {
            entry.relative_to(tmp_path / root): json.loads(entry.read_text()) for entry in entries
        }
        sums[root] = {
            entry: note.get("sha256") or note["arrays"] for entry, note in written.items()
        }
    assert sums["cluster"] == sums["here"] and not [*(tmp_path / "cluster").glob(".dask-*")]


def refused(task=(time.sleep, (600,))) -> str:
    """What `submit` says in one line, long before the tasks would end."""
    begin = time.monotonic()
    with pytest.raises((executors.WorkerError, profiles.ParameterError)) as error:
        executors.submit([task] * 4, None, "sleeping")
    (line,) = error.value._render_traceback_()
    assert "\n" not in line and time.monotonic() - begin < 500
    return line


@dask
def test_a_worker_that_cannot_take_part_is_refused_in_one_line_also_one_that_joins_later(
    scheduler, tmp_path, monkeypatch
):
    address, _ = scheduler
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("THESIS_DASK", address)
    shutil.copytree(
        paths.ROOT / "lib", tmp_path / "other" / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    with open(tmp_path / "other" / "lib" / "losses" / "mse.py", "a") as file:
        file.write("# a change\n")
    with worker(address, PYTHONPATH=str(tmp_path / "other")):
        wait_for_workers(address, 1)
        own = executors.identity()["lib"]
        assert re.search(rf"has lib: [0-9a-f]{{16}}, not {own}; mend it, start it anew", refused())
    with worker(address, "--nthreads", "4"):
        wait_for_workers(address, 1)
        assert "has threads: 4, not 1" in refused()
    executors.cluster(address)  # nobody is there, so nobody is unfit
    with worker(address, "--nthreads", "4"):
        assert "has threads: 4, not 1" in refused()


@dask
def test_a_worker_tells_versions_and_a_folder_that_it_does_not_see(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    one = SimpleNamespace(address="tcp://10.0.0.7:4711", state=SimpleNamespace(nthreads=1))
    expected = executors.identity() | {"threads": 1, "sight of /shared": True}
    (tmp_path / "beacon").touch()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    executors._join(expected, str(tmp_path / "beacon"), {"THESIS_DATA": "/texts"}, one)
    assert os.environ["THESIS_DATA"] == "/texts"
    with pytest.raises(
        executors.WorkerError, match="10.0.0.7:4711 has sight of /shared: False, not True; mend it"
    ):
        executors._join(expected, str(tmp_path / "nothing"), {}, one)
    with pytest.raises(
        executors.WorkerError, match="has GPU: (True, not False|False, not True); mend it"
    ):
        executors._join(expected | {"GPU": not expected["GPU"]}, str(tmp_path / "beacon"), {}, one)
    for name, _ in environment.KERNELS.values():
        with pytest.raises(executors.WorkerError, match=f"has {name}: .*, not others; mend it"):
            executors._join(expected | {name: "others"}, str(tmp_path / "beacon"), {}, one)
    ours = provenance.versions()["torch"]
    with pytest.raises(executors.WorkerError, match=f"has torch: {re.escape(ours)}, not 1.0"):
        executors._join(expected | {"torch": "1.0"}, str(tmp_path / "beacon"), {}, one)


@dask
def test_a_task_that_fails_tells_its_error_and_a_scheduler_that_dies_is_one_line(
    scheduler, tmp_path, monkeypatch
):
    address, started = scheduler
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("THESIS_DASK", address)
    with worker(address):
        wait_for_workers(address, 1)
        with (
            pytest.warns(UserWarning, match="two tasks: x failed"),
            pytest.raises(ValueError, match="'x'"),
        ):
            executors.submit([(int, ("x",)), (os.mkdir, (tmp_path / "kept",))], None, "two tasks")
        assert (tmp_path / "kept").is_dir()
        for raised in (DEEP, "def deep(n): return deep(n - 1) if n else int('y')\ndeep(450)"):
            with (
                pytest.warns(UserWarning),
                pytest.raises((RecursionError, ValueError), match="recursion depth|'y'"),
            ):
                executors.submit([(exec, (raised, {}))], None, "a traceback of hundreds of frames")

        def kill():
            wait((tmp_path / "begun").is_dir)
            started.kill()

        threading.Thread(target=kill).start()
        sleeping = f"import os, time; os.path.isdir(name := {str(tmp_path / 'begun')!r}) or os.mkdir(name); time.sleep(600)"
        assert "WorkerError: the Dask scheduler is gone; what was computed is kept" in refused(
            (exec, (sleeping, {}))
        )


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "here", "tcp://", "http://127.0.0.1:1", "127.0.0.1:1"]
)
def test_where_no_scheduler_answers_it_is_one_line(address, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed (pip install -e '.[dask]')")
    monkeypatch.setenv("THESIS_DASK", address)
    assert f"--dask: no scheduler answers at '{address}', expected tcp://host:port" in refused()


def test_without_dask_it_is_one_line(monkeypatch):
    monkeypatch.setenv("THESIS_DASK", "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "--dask: Dask is not installed: pip install -e '.[dask]'" in refused()


def test_run_all_begins_nothing_where_no_scheduler_answers(tmp_path):
    command = [
        sys.executable,
        "-P",
        "-m",
        "lib.runner.run_all",
        "smoke",
        "fig4_2",
        "--dask",
        "tcp://127.0.0.1:1",
    ]
    variables = {**os.environ, "THESIS_ARTIFACTS": str(tmp_path), "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "run_all.sh: --dask: " in done.stderr
    )
    assert not [*tmp_path.rglob("*.ipynb")]


def test_a_gpu_that_is_too_small_is_one_line_that_names_what_to_change():
    def fail() -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(
        profiles.ParameterError,
        match="training.gradient_checkpointing=true, or lower training.batch_",
    ):
        executors._call(fail, ())
    with pytest.raises(RuntimeError, match="shapes differ"):
        executors._call(exec, ("raise RuntimeError('shapes differ')",))


def test_the_guide_starts_every_worker_with_the_kernels_that_it_needs():
    lines = (paths.ROOT / "docs/scale.md").read_text(encoding="utf-8").splitlines()
    started = [
        line
        for line in lines
        if "distributed.cli.dask_worker" in line or "job_script_prologue" in line
    ]
    wanted = {f"{name}={value}" for name, value in environment.KERNELS.values()}
    assert len(started) == 2 and all(wanted <= {*re.findall(r"\w+=\w+", line)} for line in started)


@dask
def test_the_slurm_example_asks_for_workers_of_one_thread_and_one_gpu(monkeypatch, capsys):
    """The code of docs/scale.md, but for Slurm itself."""
    jobqueue = pytest.importorskip(
        "dask_jobqueue", reason="Dask is not installed (pip install -e '.[dask]')"
    )
    (code,) = re.findall(
        r"```python\n(.*?)```",
        (paths.ROOT / "docs/scale.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    monkeypatch.setattr(jobqueue.SLURMCluster, "scale", lambda self, jobs: None)
    monkeypatch.setattr("builtins.input", lambda _: "")
    variables = {"__name__": "__main__"}
    exec(code, variables)
    variables["cluster"].close()
    script, address = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    assert address.startswith("tcp://") and {"#SBATCH -p gpu", "#SBATCH --gres=gpu:1"} <= {
        *script.splitlines()
    }
    assert re.search(
        r"distributed.cli.dask_worker tcp://\S+ .*--nthreads 1 .*--memory-limit 0", script
    )
    assert "--nworkers" not in script
