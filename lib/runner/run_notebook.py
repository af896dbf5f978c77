"""Run one notebook through papermill, in a process of its own that `run_all` starts. A kernel and its workers would
outlive whoever started them: this process ends them, and ends when the runner is gone."""

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

SKIPPED = "skip-execution"  # nbclient's own tag


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent dies, so that none is lost (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


def end_children(spared: int | None = None) -> None:
    """Kill every process below this one, but for a spared child and those below it; what they write is written
    atomically, so nothing is left half done."""
    for _ in range(20):  # a process may start another between the listing and the kill
        children = list[psutil.Process]()
        for child in (child for child in psutil.Process().children() if child.pid != spared):
            with contextlib.suppress(psutil.Error):
                children += [*child.children(recursive=True), child]
        if not children:
            return
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=1)


def run(notebook: Path, parameters: dict[str, Any], scratch: Path) -> str:
    """Execute a notebook as `scratch/notebook.ipynb`; why it is not done in one line, empty if it is. The cell at work
    stands in `scratch/position`; a cell tagged with labels is left out where `THESIS_LABELS` asks for none of them."""
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    read, executed = nbformat.read(notebook, 4), scratch / "notebook.ipynb"
    cells, asked = read.cells, os.environ.get("THESIS_LABELS", "").split(",")
    for cell in cells:
        labels = {*cell.metadata.get("tags", [])} - {"parameters"}
        if asked != [""] and labels and labels.isdisjoint(asked):
            cell.metadata.tags.append(SKIPPED)
    tagged = [
        number for number, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", [])
    ]
    if len(tagged) != 1:  # papermill would run it with its own defaults, and end well
        return f"expected exactly one cell tagged 'parameters', found {len(tagged)}"
    position = "before its first cell"

    def cell_started(cell: Any, cell_index: int) -> None:
        nonlocal position
        position = f"cell {cell_index + (cell_index <= tagged[0])}/{len(cells)}"  # papermill adds one below the tagged
        (scratch / "progress").unlink(missing_ok=True)  # the steps of the cell before are over
        (scratch / "position").write_text(position, encoding="utf-8")

    # a stripped notebook need not name its language, and a busy machine may need more than 60 seconds for a kernel
    kernel = dict(
        kernel_name="python3",
        language="python",
        start_timeout=300,
        cwd=notebook.parent,
        progress_bar=False,
    )
    try:
        papermill.execute_notebook(read, executed, parameters, on_cell_start=cell_started, **kernel)
        return _incomplete(nbformat.read(executed, 4).cells, notebook.stem)
    except PapermillExecutionError as error:
        # a wrong magic command raises nothing: what it has to say is the last thing printed as an error
        outputs = [
            part for cell in nbformat.read(executed, 4).cells for part in cell.get("outputs", ())
        ]
        printed = "".join(part.text for part in outputs if part.get("name") == "stderr").strip()
        told = (
            one_line(error.ename, error.evalue)
            or printed.split("\n")[-1]
            or "the cell failed without a message"
        )
    except DeadKernelError:
        told = "the kernel died: killed, most likely for want of memory; close other programs, or run with --jobs 1"
    except Exception as error:
        told = one_line(type(error).__name__, str(error))
    return f"{position}: {told}"


def one_line(name: str, message: str) -> str:
    """An error in one line: its name and the first line of its message that says something. Empty if nothing does."""
    lines = [line.strip() for line in message.splitlines() if any(map(str.isalnum, line))]
    if lines:
        return f"{name}: {lines[0]}"
    return (
        "" if name == "CellExecutionError" else f"{name}, without a message"
    )  # papermill's own stand-in


def _incomplete(cells: list[Any], name: str) -> str:
    """What is wrong with a notebook that ended without an error: a cell may have ended the kernel with code 0."""
    cells = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    cells = [cell for cell in cells if SKIPPED not in cell.metadata.get("tags", [])]
    if pending := sum(cell.execution_count is None for cell in cells):
        return f"{pending} of its {len(cells)} code cells did not run"
    printed = "".join(part.get("text", "") for part in cells[-1].outputs)
    return (
        ""
        if f"{MARKER} {name}" in printed
        else "its last cell is not nb.finish(), or did not reach its end"
    )


def main() -> None:
    """Run the job named on the command line and write why it is not done, or nothing, as `scratch/result`."""
    adopt_orphans()
    job = json.loads(sys.argv[1])
    end_with(job["runner"], end_children)
    try:
        problem = run(Path(job["notebook"]), job["parameters"], Path(job["scratch"]))
    finally:
        end_children()
    Path(job["scratch"], "result").write_text(problem, encoding="utf-8")


if __name__ == "__main__":
    main()
