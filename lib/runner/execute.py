"""Run one notebook through papermill, in a kernel of its own; say in one line what went wrong."""

import logging
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from lib.runner.notebook import MARKER

# Seconds that papermill waits for a kernel to start, and for the last output of a finished cell:
# by default 4, which fails finished cells on a busy machine.
PATIENCE = {"start_timeout": 600, "iopub_timeout": 600}


def execute(notebook: Path, parameters: dict[str, Any], target: Path, heading: str) -> str:
    """Run a notebook into `target`, with a log beside it; returns in a line why it is not done."""
    target.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    source = nbformat.read(notebook, 4)
    tagged = sum("parameters" in cell.metadata.get("tags", []) for cell in source.cells)
    if tagged != 1:  # papermill would run it with wrong parameters and report success
        return f"expected exactly one cell tagged 'parameters', found {tagged}"
    logging.getLogger("papermill").addHandler(logging.NullHandler())  # we report errors
    with open(target.with_suffix(".log"), "w") as file, ThreadPoolExecutor(1) as pool:

        class LoggedKernel(AsyncKernelManager):
            start_kernel = partialmethod(AsyncKernelManager.start_kernel, stdout=file, stderr=file)

        options = PATIENCE | {"kernel_manager_class": LoggedKernel, "cwd": notebook.parent}
        options |= {"kernel_name": "python3", "language": "python"}  # a stripped one names neither
        options |= {"progress_bar": {"desc": heading, "leave": False}, "stderr_file": sys.stderr}
        # In a thread, because nbclient would otherwise handle the signals that `run_all` handles.
        run = pool.submit(papermill.execute_notebook, source, target, parameters, **options)
    if error := run.exception():
        told = f"{type(error).__name__}: {error}"
        if isinstance(error, PapermillExecutionError):  # its message is the whole traceback
            told = f"cell {error.cell_index + 1}: {error.ename}: {error.evalue}"
        elif isinstance(error, DeadKernelError):
            told = "the kernel died, most likely because memory ran out; try it with --jobs 1"
        return textwrap.shorten(told, 300)
    # Papermill is also content with a notebook whose cell has called sys.exit(0).
    printed = "".join(part.get("text", "") for part in run.result().cells[-1].get("outputs", ()))
    complete = f"{MARKER} {notebook.stem}" in printed
    return "" if complete else "its last cell is not nb.finish(), or did not reach its end"
