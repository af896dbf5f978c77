"""Run one notebook through papermill and watch over its processes; `run_all` starts this in a process of its own.

`python -m lib.runner.run_notebook <job.json>`. A kernel puts itself into a session of its own and would outlive whoever
started it, and so would its workers. This process ends them all when it ends, and ends itself when the runner is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from lib.store.executors import end_with

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
KERNEL_START_SECONDS = 300  # papermill's 60 are short on a machine that is busy with something else
KERNEL_DIED = "the kernel died: killed, most likely for want of memory; close other programs, or run with --jobs 1"


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent dies, so that none is lost (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill every process below this one; what they write is written atomically, so nothing is left half done."""
    for _ in range(20):  # a process may start another between the listing and the kill
        children = psutil.Process().children(recursive=True)
        if not children:
            return
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=1)


def private_jupyter(folder: Path) -> dict[str, str]:
    """Environment variables that make Jupyter use this Python and `folder` alone.

    A kernel called python3 in somebody's home may belong to another Python, and start-up files of IPython may import
    anything.
    """
    kernel = folder / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    description = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(description), encoding="utf-8")
    places = {"JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_CONFIG_DIR": "config", "IPYTHONDIR": "ipython"}
    return {
        "JUPYTER_DATA_DIR": str(folder),
        "JUPYTER_PATH": str(folder),
        "JUPYTER_PREFER_ENV_PATH": "0",  # else the kernel of the environment's own share/ wins
        **{name: str(folder / place) for name, place in places.items()},
    }


def run(job: dict[str, Any]) -> str:
    """Execute the notebook of a job; returns how it failed in one line, empty if it did not: `cell 4: ...`, from 1."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    total = len(json.loads(Path(job["source"]).read_text(encoding="utf-8"))["cells"])
    number = injected = 0

    def cell_started(cell: Any, cell_index: int) -> None:
        nonlocal number, injected
        injected += "injected-parameters" in cell.metadata.get("tags", [])
        number = cell_index + 1 - injected
        Path(job["progress"]).unlink(missing_ok=True)  # the steps of the cell before are over
        Path(job["position"]).write_text(f"{number}/{total}", encoding="utf-8")

    try:
        papermill.execute_notebook(
            job["source"],
            job["output"],
            parameters=job["parameters"],
            kernel_name="python3",
            language="python",  # a stripped notebook need not say so
            cwd=str(Path(job["source"]).parent),
            start_timeout=KERNEL_START_SECONDS,
            progress_bar=False,
            on_cell_start=cell_started,
        )
        return ""
    except PapermillExecutionError as error:
        told = one_line(error.ename, error.evalue) or _printed(Path(job["output"]))
    except DeadKernelError:
        told = KERNEL_DIED
    except Exception as error:
        told = one_line(type(error).__name__, str(error))
    return f"cell {number}: {told}" if number else f"before its first cell: {told}"


def one_line(name: str, message: str) -> str:
    """An error in one line: its name and the first line of its message that says something. Empty if nothing does."""
    lines = [line.strip() for line in message.splitlines() if any(map(str.isalnum, line))]
    if lines:
        return f"{name}: {lines[0]}"
    return "" if name == "CellExecutionError" else f"{name}, without a message"  # papermill's own stand-in


def _printed(executed: Path) -> str:
    """What a failed cell printed as an error: a wrong magic command is shown so, and raises nothing."""
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    failed = [cell for cell in cells if cell["metadata"].get("papermill", {}).get("exception")]
    parts = [part for cell in failed for part in cell["outputs"] if part.get("name") == "stderr"]
    lines = "".join("".join(part["text"]) for part in parts).split("\n")
    return ([line.strip() for line in lines if line.strip()] or ["the cell failed without a message"])[-1]


def main() -> None:
    """Run the job named on the command line and write how it failed, or nothing, as its result."""
    adopt_orphans()
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    end_with(job["runner"], end_children)
    with tempfile.TemporaryDirectory(prefix="thesis-jupyter-") as folder:
        os.environ.update(private_jupyter(Path(folder)))
        try:
            failure = run(job)
        finally:
            end_children()
    Path(job["result"]).write_text(failure, encoding="utf-8")


if __name__ == "__main__":
    main()
