"""Run one notebook through papermill, in a kernel of its own; say in one line what went wrong."""

import io
import logging
import os
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partialmethod
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError
from tqdm import tqdm

from lib.runner.notebook import MARKER

# Seconds that papermill waits for a kernel to start, and for the last output of a finished cell.
# By default the latter is 4 seconds, which fails finished cells on a busy machine.
PATIENCE = {"start_timeout": 600, "iopub_timeout": 600}
PYTHON = {"kernel_name": "python3", "language": "python"}  # a stripped notebook need not name them


def execute(
    notebook: Path, parameters: dict[str, Any], target: Path, log: Path, heading: str
) -> str:
    """Run a notebook into `target`, also if it fails, and show which cell and step it has reached.

    Without a heading nothing is shown. What the kernel and its workers print outside of cells goes
    to `log`. Returns, in one line, why the notebook is not done; empty if it is done.
    """
    target.unlink(missing_ok=True)
    for path in (target, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    source = nbformat.read(notebook, 4)
    tagged = sum("parameters" in cell.metadata.get("tags", []) for cell in source.cells)
    if tagged != 1:  # papermill would run it with wrong parameters and report success
        return f"expected exactly one cell tagged 'parameters', found {tagged}"
    progress = log.with_suffix(".progress")  # where the jobs of a cell note how far they are
    os.environ["THESIS_PROGRESS"] = str(progress)  # the kernel inherits it
    logging.getLogger("papermill").addHandler(logging.NullHandler())  # we report errors
    # A terminal's line is written anew; in a file each change is a line of its own.
    interval, end = (0.2, "") if sys.stdout.isatty() else (5.0, "\n")
    shown = {"bar_format": f"{heading}  {{desc}}{{postfix}}  {{elapsed}}{end}", "leave": False}
    status = tqdm(file=sys.stdout if heading else io.StringIO(), mininterval=interval, **shown)

    def note_cell(cell: Any, cell_index: int) -> None:
        progress.write_text("")  # the steps were those of the previous cell
        cells = len(source.cells) + 1  # papermill inserts one
        status.set_description_str(f"cell {cell_index + 1}/{cells}", refresh=False)

    with open(log, "w", encoding="utf-8") as file, ThreadPoolExecutor(1) as pool, status:

        class LoggedKernel(AsyncKernelManager):
            start_kernel = partialmethod(AsyncKernelManager.start_kernel, stdout=file, stderr=file)

        options = {"kernel_manager_class": LoggedKernel, "on_cell_start": note_cell}
        options |= {"cwd": notebook.parent, "progress_bar": False, **PATIENCE, **PYTHON}
        # In a thread, because nbclient would otherwise handle the signals that `run_all` handles.
        run = pool.submit(papermill.execute_notebook, source, target, parameters, **options)
        while wait([run], timeout=0.2).not_done:
            steps = progress.read_text(encoding="utf-8") if progress.exists() else ""
            status.set_postfix_str(steps.strip().rpartition("\n")[2], refresh=False)
            status.update()
    if error := run.exception():
        told = f"{type(error).__name__}: {error}"
        if isinstance(error, PapermillExecutionError):  # its message is the whole traceback
            told = f"{error.ename}: {error.evalue}"
        elif isinstance(error, DeadKernelError):
            told = "the kernel died, most likely because memory ran out; try it with --jobs 1"
        return f"{status.desc}: {textwrap.shorten(told, 300)}"
    # Papermill is also content with a notebook whose cell has called sys.exit(0).
    printed = "".join(part.get("text", "") for part in run.result().cells[-1].get("outputs", ()))
    complete = f"{MARKER} {notebook.stem}" in printed
    return "" if complete else "its last cell is not nb.finish(), or did not reach its end"
