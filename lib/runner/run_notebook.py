"""Run one notebook through papermill and watch over its processes; `run_all` starts this in a process of its own.

`python -m lib.runner.run_notebook '<job as JSON>'`. A kernel puts itself into a session of its own and would outlive
whoever started it, and so would its workers. This process ends them all when it ends, and ends when the runner is gone.
"""

import contextlib
import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil

from lib.runner.notebook import MARKER
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
    names = ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    return dict.fromkeys(names, str(folder))


def run(notebook: Path, parameters: dict[str, Any], scratch: Path) -> str:
    """Execute a notebook as `scratch/notebook.ipynb`; why it is not done in one line, empty if it is.

    A failed cell is named by its number in the file, from 1. The cell at work stands in `scratch/position`.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    cells = nbformat.read(notebook, 4).cells
    tagged = sum("parameters" in cell.metadata.get("tags", []) for cell in cells)
    if tagged != 1:  # papermill would run it with its own defaults, and end well
        return f"expected exactly one cell tagged 'parameters', found {tagged}"
    number = injected = 0

    def cell_started(cell: Any, cell_index: int) -> None:
        nonlocal number, injected
        injected += "injected-parameters" in cell.metadata.get("tags", [])
        number = cell_index + 1 - injected
        (scratch / "progress").unlink(missing_ok=True)  # the steps of the cell before are over
        (scratch / "position").write_text(f"{number}/{len(cells)}", encoding="utf-8")

    try:
        executed = papermill.execute_notebook(
            notebook,
            scratch / "notebook.ipynb",
            parameters=parameters,
            kernel_name="python3",
            language="python",  # a stripped notebook need not say so
            cwd=notebook.parent,
            start_timeout=KERNEL_START_SECONDS,
            progress_bar=False,
            on_cell_start=cell_started,
        )
        return _incomplete(executed.cells, notebook.stem)
    except PapermillExecutionError as error:
        told = one_line(error.ename, error.evalue) or _printed(nbformat.read(scratch / "notebook.ipynb", 4).cells)
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


def _printed(cells: list[Any]) -> str:
    """What a failed cell printed as an error: a wrong magic command is shown so, and raises nothing."""
    failed = [cell for cell in cells if cell.metadata.get("papermill", {}).get("exception")]
    text = "".join(part.text for cell in failed for part in cell.outputs if part.get("name") == "stderr")
    return text.strip().split("\n")[-1].strip() or "the cell failed without a message"


def _incomplete(cells: list[Any], name: str) -> str:
    """What is wrong with a notebook that ended without an error: a cell may have ended the kernel with code 0."""
    cells = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    if pending := sum(cell.execution_count is None for cell in cells):
        return f"{pending} of its {len(cells)} code cells did not run"
    printed = "".join(part.get("text", "") for part in cells[-1].outputs)
    return "" if f"{MARKER} {name}" in printed else "its last cell is not nb.finish(), or did not reach its end"


def main() -> None:
    """Run the job named on the command line and write why it is not done, or nothing, as `scratch/result`."""
    adopt_orphans()
    job = json.loads(sys.argv[1])
    scratch = Path(job["scratch"])
    end_with(job["runner"], end_children)
    os.environ.update(private_jupyter(scratch / "jupyter"))
    try:
        problem = run(Path(job["notebook"]), job["parameters"], scratch)
    finally:
        end_children()
    (scratch / "result").write_text(problem, encoding="utf-8")


if __name__ == "__main__":
    main()
